//go:build resources

package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// TestScrubWithAutoVacuum: a file with pages that only look like those of a B-tree stays sound, and its write-ahead log is emptied.
func TestScrubWithAutoVacuum(t *testing.T) {
	for _, mode := range []string{"FULL", "INCREMENTAL"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "store.db")
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "PRAGMA auto_vacuum="+mode+"; CREATE TABLE first(a); DROP TABLE first;")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		s := open(t, path)
		// The pages change between B-trees, overflow and the free list.
		const rounds, threads, each, erased = 4, 6, 250, 4
		for round := range rounds {
			keyOf := func(i int) store.Key { return store.Key{Namespace: "n", ThreadID: fmt.Sprint("t", round, "-", i)} }
			for i := range threads * each {
				r := event.NewRecord(fmt.Sprint("r", round, "-", i), event.TypeMessage, "", "", time.Unix(0, 0), map[string]string{"content": strings.Repeat("word and more, ", 1+i%each)})
				_, err := s.Append(t.Context(), keyOf(i/each), store.Batch{Records: []event.Record{r}})
				require.NoError(t, err)
			}
			for i := range erased {
				require.NoError(t, s.EraseThread(t.Context(), keyOf(i)))
				require.NoError(t, s.Scrub(t.Context()))
			}
		}
		log, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		require.Zero(t, log.Size(), mode)
		pages, sound := inspect(t, path)
		require.Greater(t, pages, 1000, mode)
		require.Equal(t, "ok", sound, mode)
	}
}
