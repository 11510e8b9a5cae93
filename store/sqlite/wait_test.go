package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
)

// TestAppendOfNothingWaits: an append that has nothing returns what an append in progress has stored.
func TestAppendOfNothingWaits(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	key := store.Key{Namespace: "n", ThreadID: "t"}
	_, err = s.Append(t.Context(), key, store.Batch{})
	require.NoError(t, err)
	tx, err := s.writer.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	heads := make(chan int64, 1)
	go func() {
		done, _ := s.Append(t.Context(), key, store.Batch{})
		heads <- done.Head
	}()
	require.Eventually(t, func() bool { return s.writer.Stats().WaitCount > 0 || len(heads) > 0 }, testenv.Patience, time.Millisecond)
	_, err = tx.ExecContext(t.Context(), `UPDATE threads SET head = 7`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.EqualValues(t, 7, <-heads)
}
