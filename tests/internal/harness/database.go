package harness

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store/postgres"
)

// Database returns the URL of a PostgreSQL with a new schema, for processes.
func Database(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(testenv.Postgres(t))
	require.NoError(t, err)
	schema := testenv.Name("worker")
	s, err := postgres.Open(t.Context(), postgres.Config{URL: u.String(), Schema: schema})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}
