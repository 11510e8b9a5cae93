package erasures_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

// TestSaveAgain: the receipt of a repeated erasure names all threads that were ever erased.
func TestSaveAgain(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	first := signals.Erasure{Namespace: "ns", ThreadID: "t1", Threads: []string{"t1", "t1.s1"}, By: "ann", Run: "r1", Erased: signals.ErasedCounts{Records: 3}}
	_, err = erasures.Save(t.Context(), db, first, false)
	require.NoError(t, err)
	again := first
	again.Run, again.By, again.Threads = "r2", "bob", []string{"t1", "t1.s2"}
	for range 2 { // a retry changes nothing
		got, err := erasures.Save(t.Context(), db, again, false)
		require.NoError(t, err)
		require.Equal(t, []string{"t1", "t1.s1", "t1.s2"}, got.Threads)
		require.Equal(t, 6, got.Erased.Records)
		require.Equal(t, "ann", got.By)
	}
}
