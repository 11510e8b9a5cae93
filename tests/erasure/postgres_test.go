package erasure

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestErasedPostgres looks for the words of an erased thread in every row of every table.
func TestErasedPostgres(t *testing.T) {
	t.Parallel()
	url, schema := testenv.Postgres(t), testenv.Name("erased")
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w := harness.New(t, harness.Options{Agents: check.Team(), Configure: func(c *threadmill.Config) { c.Store = s }})
	w.Store = s
	gone, kept := w.Open(), w.Open()
	for _, id := range []string{gone, kept} {
		w.Say(id, `use note {"text":"`+word(id)+`"}`)
		w.Say(id, `use call_agent {"agent":"HELPER","message":"tell `+word(id)+`","title":"About `+word(id)+`"}`)
		check.Sub(w, id, 1)
	}
	rows := dump(t, url, schema)
	require.Contains(t, rows, word(gone))
	receipt, err := w.Runtime.Erase(w.Ctx(), gone, "ann")
	require.NoError(t, err)
	require.Len(t, receipt.Threads, 2)
	rows = dump(t, url, schema)
	require.NotContains(t, rows, word(gone))
	require.Contains(t, rows, word(kept))
	requireGone(t, w, gone)
}

// TestErasedPersonPostgres looks for a person in every row of every table.
func TestErasedPersonPostgres(t *testing.T) {
	t.Parallel()
	url, schema := testenv.Postgres(t), testenv.Name("person")
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w := harness.New(t, harness.Options{Agents: check.Team(), Configure: func(c *threadmill.Config) { c.Store = s }})
	w.Store, w.Rewritten = s, true
	alone, shared := w.Open(), w.Open()
	say(w, alone, "annabelle", "zephyralone")
	say(w, shared, "bob", "hello, this is zephyrbob")
	say(w, shared, "annabelle", `use note {"text":"zephyrnote"}`)
	receipt, err := w.Runtime.ErasePerson(w.Ctx(), "annabelle", nil, "carol")
	require.NoError(t, err)
	require.Equal(t, []string{alone}, receipt.Erased)
	require.Equal(t, []string{shared}, receipt.Forgot)
	rows := dump(t, url, schema)
	for _, word := range []string{"annabelle", "zephyralone", "zephyrnote"} {
		require.NotContains(t, rows, word)
	}
	require.Contains(t, rows, "zephyrbob")
}

// dump returns all rows of a schema as text.
func dump(t *testing.T, url, schema string) string {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	texts := func(query string, args ...any) (all []string) {
		rows, err := db.QueryContext(t.Context(), query, args...)
		require.NoError(t, err, query)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var one string
			require.NoError(t, rows.Scan(&one))
			all = append(all, one)
		}
		require.NoError(t, rows.Err())
		return all
	}
	var out strings.Builder
	for _, table := range texts(`SELECT table_name FROM information_schema.tables WHERE table_schema = $1`, schema) {
		for _, row := range texts(fmt.Sprintf(`SELECT t::text FROM %q.%q t`, schema, table)) {
			out.WriteString(row + "\n")
		}
	}
	return out.String()
}
