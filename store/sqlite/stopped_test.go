package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// TestSavedAgain: a transaction that runs again, as PostgreSQL's do after a deadlock, saves the agent that was given.
func TestSavedAgain(t *testing.T) {
	s, err := Open(t.Context(), Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	d := s.database()
	change := d.Transaction
	d.Transaction = func(ctx context.Context, lock string, do func(sqlstore.Querier) error) error {
		require.Error(t, change(ctx, lock, func(tx sqlstore.Querier) error { return do(failing{tx}) }))
		return change(ctx, lock, do)
	}
	given := store.AgentVersion{Name: "Clerk", Definition: []byte(`{"model":"m"}`), By: "ann"}
	saved, err := sqlstore.New(d).SaveAgent(t.Context(), "n", given, 0)
	require.NoError(t, err)
	require.Equal(t, given.Name, saved.Name)
	require.JSONEq(t, string(given.Definition), string(saved.Definition))
	require.Equal(t, 1, saved.Version)
}

// failing fails when something is added.
type failing struct{ sqlstore.Querier }

func (f failing) Query(ctx context.Context, q *sqlstore.Query, args ...any) (sqlstore.Rows, error) {
	if strings.HasPrefix(q.SQLite, "INSERT") {
		return nil, errors.New("deadlock")
	}
	return f.Querier.Query(ctx, q, args...)
}
