//go:build resources

package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
	"github.com/threadmill/threadmill/store/internal/sqlstoretest"
)

// plan is a node of a plan that has run.
type plan struct {
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Rejoined float64 `json:"Rows Removed by Join Filter"`
	Plans    []plan
}

func (p plan) rows() int {
	n := int(p.Loops * (p.Rows + p.Filtered + p.Rejoined))
	for _, part := range p.Plans {
		n += part.rows()
	}
	return n
}

// TestEntityPlans: a query goes through the entities of a namespace a bounded number of times, even before the server has statistics
// of the tables. Without statistics, joins go through all of them again for each one.
func TestEntityPlans(t *testing.T) {
	ctx := t.Context()
	s := openSchema(t, testenv.Name("plans"))
	for _, table := range []string{"entities", "entity_mentions", "entity_relations", "entity_merges", "entity_vectors"} {
		_, err := s.pool.Exec(ctx, "ALTER TABLE "+table+" SET (autovacuum_enabled = false)")
		require.NoError(t, err)
	}
	end := func(id string, found store.EntitiesFound) {
		require.NoError(t, s.QueueExtraction(ctx, "ns", store.Extraction{ID: id, ThreadID: "t", EventID: "e", SourceType: "mail", SourceID: id}))
		_, err := s.EndExtraction(ctx, "ns", id, found)
		require.NoError(t, err)
	}
	person := func(id, name string) store.NewEntity { return store.NewEntity{ID: id, Name: name, Type: "person"} }
	const crowds, passes = 5, 20
	for i := range crowds {
		var crowd store.EntitiesFound
		for n := range store.MaxFound {
			crowd.New = append(crowd.New, person(fmt.Sprintf("crowd-%d-%d", i, n), fmt.Sprintf("Crowd %d %d", i, n)))
		}
		end(fmt.Sprint("crowd", i), crowd)
	}
	now := time.Now()
	end("few", store.EntitiesFound{
		New:       []store.NewEntity{person("ann", "Ann"), person("anna", "Anna"), person("bob", "Bob")},
		Mentions:  []store.Mention{{EntityID: "anna", Name: "Anna", ThreadID: "t", SourceType: "mail", SourceID: "few", At: now}},
		Relations: []store.Relation{{From: "anna", To: "bob", Type: "knows", At: now}},
		Merges:    []store.EntityMerge{{ID: "m", From: "anna", Into: "ann", By: "threshold"}},
	})
	r := &recorder{}
	for name, call := range map[string]func(*sqlstore.Store) (any, error){
		"names": func(s *sqlstore.Store) (any, error) {
			return s.ForgetEntities(ctx, "ns", func(string) bool { return false })
		},
		"entity":    func(s *sqlstore.Store) (any, error) { return s.Entity(ctx, "ns", "ann") },
		"named":     func(s *sqlstore.Store) (any, error) { return s.EntitiesNamed(ctx, "ns", []string{"Ann"}) },
		"mentions":  func(s *sqlstore.Store) (any, error) { return s.Mentions(ctx, "ns", "ann", store.MentionPage{}) },
		"relations": func(s *sqlstore.Store) (any, error) { return s.Relations(ctx, "ns", "ann") },
		"merges":    func(s *sqlstore.Store) (any, error) { return s.Merges(ctx, "ns", "ann") },
		"merge":     func(s *sqlstore.Store) (any, error) { return s.UndoMerge(ctx, "ns", "m", "me") },
		"search":    func(s *sqlstore.Store) (any, error) { return s.Entities(ctx, "ns", store.EntityPage{Search: "ann"}) },
	} {
		r.statements = nil
		_, err := call(r.of(s))
		require.NoError(t, err, name)
		require.NotEmpty(t, r.statements, name)
		for _, q := range r.statements {
			var raw []byte
			require.NoError(t, s.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+q.text, q.args...).Scan(&raw), q.text)
			var explained []struct{ Plan plan }
			require.NoError(t, json.Unmarshal(raw, &explained), string(raw))
			require.Positive(t, explained[0].Plan.rows(), q.text)
			require.Less(t, explained[0].Plan.rows(), passes*crowds*store.MaxFound, "%s\n%s", q.text, raw)
		}
	}
}

// recorder keeps the statements with which a store reads.
type recorder struct{ statements []statement }

type statement struct {
	text string
	args []any
}

func (r *recorder) of(s *Store) *sqlstore.Store {
	return sqlstore.New(sqlstoretest.Record(s.database(), func(q *sqlstore.Query, args []any) {
		if strings.HasPrefix(q.Postgres, "SELECT") || strings.HasPrefix(q.Postgres, "WITH page") { // what reads
			r.statements = append(r.statements, statement{q.Postgres, args})
		}
	}))
}

// TestThreadPlans: with 10,000 threads, a page handles few rows more than it has, and counts and previews read what they have to once.
// Before the server has statistics of the tables, no query goes through the threads again for each one.
func TestThreadPlans(t *testing.T) {
	ctx := t.Context()
	s := openSchema(t, testenv.Name("threadplans"))
	const threads, waiting, failing, limit = 10_000, 1000, 500, 50
	now := time.Now()
	for _, table := range []string{"threads", "thread_marks", "records"} {
		_, err := s.pool.Exec(ctx, "ALTER TABLE "+table+" SET (autovacuum_enabled = false)")
		require.NoError(t, err)
	}
	for _, fill := range []string{
		`INSERT INTO threads (namespace, id, status, activity, agents, head, created_at, updated_at)
			SELECT 'n', 't' || i, CASE WHEN i %% 2 = 0 OR i <= %[2]d + %[3]d THEN 'open' ELSE 'closed' END,
				CASE WHEN i <= %[2]d THEN 'waiting' WHEN i <= %[2]d + %[3]d THEN 'failing' ELSE 'idle' END, '{clerk}', 200, now(), now() - i * interval '1 s'
			FROM generate_series(1, %[1]d) i`,
		`INSERT INTO thread_marks (namespace, thread_id, kind, id, event_id, since)
			SELECT 'n', 't' || i, CASE WHEN i <= %[2]d THEN 'waiting' ELSE 'failing' END, 'c', 'e', now() - i * interval '1 s' FROM generate_series(1, %[2]d + %[3]d) i`,
		`INSERT INTO records (namespace, thread_id, seq, id, type, trace_id, parent_event_id, created_at, event_id, payload)
			SELECT 'n', 't' || i, n, CASE n WHEN 1 THEN 'e' ELSE 'r' || n END, CASE n WHEN 1 THEN 'message' WHEN 200 THEN 'approval_request' ELSE 'status' END,
				'', '', now(), 'e', '{"senderType":"user","content":"hello","toolCallId":"c","toolName":"shell","expiresAt":"2030-01-01T00:00:00Z"}'
			FROM generate_series(1, %[2]d) i, generate_series(1, 200) n`,
	} {
		_, err := s.pool.Exec(ctx, fmt.Sprintf(fill, threads, waiting, failing))
		require.NoError(t, err)
	}
	r := &recorder{}
	recorded := func(call func(*sqlstore.Store) error) []statement {
		r.statements = nil
		require.NoError(t, call(r.of(s)))
		return r.statements
	}
	page := func(p store.ThreadPage) []statement {
		p.Limit = limit
		return recorded(func(s *sqlstore.Store) error {
			_, err := s.Threads(ctx, "n", p)
			return err
		})
	}
	// The groups of a page are read until it is full.
	none := func(p store.ThreadPage) []statement {
		p.CursorActivity, p.CursorUpdatedAt, p.CursorID = store.ActivityFailing, now.Add(time.Hour), "z"
		return page(p)[1:]
	}
	var ids []string
	for i := range limit {
		ids = append(ids, fmt.Sprint("t", i+1))
	}
	const perThread = 20 // rows that joins and the levels of a plan handle for each thread of a page
	attention := store.ThreadPage{Order: store.OrderAttention}
	tests := map[string]struct {
		queries []statement
		most    int
	}{
		"active":             {page(store.ThreadPage{}), perThread * limit},
		"closed":             {page(store.ThreadPage{Status: store.ThreadClosed}), 2 * threads},
		"waiting":            {page(store.ThreadPage{Activity: store.ActivityWaiting}), perThread * limit},
		"attention":          {page(attention), perThread * limit},
		"attention, failing": {page(store.ThreadPage{Order: store.OrderAttention, Activity: store.ActivityFailing}), perThread * limit},
		"attention, agent":   {page(store.ThreadPage{Order: store.OrderAttention, ThreadFilter: store.ThreadFilter{Agent: "clerk"}}), perThread * limit},
		"attention, tool": {page(store.ThreadPage{
			Order: store.OrderAttention, Activity: store.ActivityWaiting, ThreadFilter: store.ThreadFilter{Tool: "shell"},
		}), perThread * limit},
		"attention, others": {none(attention), 2*(waiting+failing) + perThread*limit},
		"counts": {recorded(func(s *sqlstore.Store) error {
			_, err := s.CountThreads(ctx, "n", store.ThreadFilter{})
			return err
		}), 4 * threads},
		"previews": {recorded(func(s *sqlstore.Store) error {
			_, err := s.Previews(ctx, "n", ids...)
			return err
		}), perThread * limit},
		"waiting calls": {recorded(func(s *sqlstore.Store) error {
			_, err := s.WaitingRecords(ctx, "n", ids...)
			return err
		}), (perThread + 200) * limit},
	}
	check := func(least int) {
		for name, test := range tests {
			require.NotEmpty(t, test.queries, name)
			for _, q := range test.queries {
				var raw []byte
				require.NoError(t, s.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+q.text, q.args...).Scan(&raw), q.text)
				var explained []struct {
					Plan plan
					Time float64 `json:"Execution Time"`
				}
				require.NoError(t, json.Unmarshal(raw, &explained), string(raw))
				rows := explained[0].Plan.rows()
				require.Positive(t, rows, name)
				require.LessOrEqual(t, rows, max(test.most, least), "%s: %s\n%s", name, q.text, raw)
				t.Logf("%s: %d rows, %.1f ms", name, rows, explained[0].Time)
			}
		}
	}
	check(3 * threads)
	_, err := s.pool.Exec(ctx, "ANALYZE threads, thread_marks, records")
	require.NoError(t, err)
	check(0)
}
