package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// TestErasureStopped: an erasure that is stopped after any of its transactions leaves no word in the file once it is repeated, although
// the full-text index keeps the words of deleted documents until it is compacted.
func TestErasureStopped(t *testing.T) {
	const word = "zqxorbitu"
	stopped := errors.New("stopped")
	for most := range 20 {
		dir := t.TempDir()
		s, err := Open(t.Context(), Config{Path: filepath.Join(dir, "store.db")})
		require.NoError(t, err)
		key := store.Key{Namespace: "n", ThreadID: "t"}
		for _, source := range []string{"one", "two"} {
			learn(t, s, source, word+" "+source)
		}
		for range 20 {
			learnOf(t, s, "elsewhere", "other", "apple")
		}
		d := s.database()
		change, done := d.Transaction, 0
		d.Transaction = func(ctx context.Context, lock string, do func(sqlstore.Querier) error) error {
			if done++; done > most {
				return stopped
			}
			return change(ctx, lock, do)
		}
		first := sqlstore.New(d).EraseThread(t.Context(), key)
		require.NoError(t, s.EraseThread(t.Context(), key), "repeated")
		require.NoError(t, s.Scrub(t.Context()))
		require.NoError(t, s.Close())
		content, err := os.ReadFile(filepath.Join(dir, "store.db"))
		require.NoError(t, err)
		require.Zero(t, bytes.Count(content, []byte(word)), "stopped after %d transactions", most)
		if first == nil {
			require.Greater(t, most, 3)
			return
		}
		require.ErrorIs(t, first, stopped)
	}
	t.Fatal("the erasure does not end")
}
