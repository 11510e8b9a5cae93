package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

func openSchema(t *testing.T, name string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: testenv.Postgres(t), Schema: name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	t.Cleanup(func() {
		_, err := s.pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+pgx.Identifier{name}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	return s
}

// TestScrubbedTables: a new table either has what is erased, and Scrub vacuums it, or is one of those that have not.
func TestScrubbedTables(t *testing.T) {
	name := testenv.Name("scrubbed")
	s := openSchema(t, name)
	// Only servers with pgvector have knowledge_vectors.
	rows, err := s.pool.Query(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_name <> 'knowledge_vectors'`, name)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	others := []string{
		"agent_versions", "api_keys", "compatibility", "documents", "erased_threads", "identity", "knowledge_indexes", "threadmill_migrations", "write_probe",
	}
	require.ElementsMatch(t, tables, append(others, scrubbed...))
}
