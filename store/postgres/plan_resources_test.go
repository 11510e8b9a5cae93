//go:build resources

package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
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
	ids := []string{"ann"}
	for query, args := range map[string][]any{
		entityNames:  {"ns", "", store.MaxEntityPage},
		entityGroups: {"ns", ids}, entitiesNamed: {"ns", store.EntityKeys("Ann"), store.MaxEntityPage},
		entityMentions:  {"ns", "ann", now.Add(time.Hour), "", "", "", "", store.MaxEntityPage},
		entityRelations: {"ns", "ann", store.MaxEntityPage}, mergesOf: {"ns", "ann", store.MaxEntityPage}, oneMerge: {"ns", "m"},
		entitiesAfter + fmt.Sprintf(entitiesHaving, 4) + fmt.Sprintf(byMentions, 5): {"ns", math.MaxInt64, "", store.Pattern("ann"), store.MaxEntityPage},
	} {
		var raw []byte
		require.NoError(t, s.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+query, args...).Scan(&raw), query)
		var explained []struct{ Plan plan }
		require.NoError(t, json.Unmarshal(raw, &explained), string(raw))
		require.Positive(t, explained[0].Plan.rows(), query)
		require.Less(t, explained[0].Plan.rows(), passes*crowds*store.MaxFound, "%s\n%s", query, raw)
	}
}

// TestThreadPlans: with 10,000 threads, a page handles few rows more than it has, and counts and previews read what they have to once.
// Before the server has statistics of the tables, no query goes through the threads again for each one.
func TestThreadPlans(t *testing.T) {
	ctx := t.Context()
	s := openSchema(t, testenv.Name("threadplans"))
	const threads, waiting, failing, limit = 10_000, 1000, 500, 50
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
	group := func(change func(*store.ThreadPage)) (queries []*listQuery) {
		page := store.ThreadPage{Limit: limit}
		change(&page)
		for _, g := range page.Groups() {
			q := groupQuery("n", g)
			q.args = append(q.args, limit)
			fmt.Fprintf(&q.sql, " LIMIT $%d", len(q.args))
			queries = append(queries, q)
		}
		return queries
	}
	counts := &listQuery{args: []any{"n"}}
	counts.sql.WriteString(counted + ` GROUP BY status, activity`)
	var ids []string
	for i := range limit {
		ids = append(ids, fmt.Sprint("t", i+1))
	}
	first := &listQuery{args: []any{"n", ids}}
	fmt.Fprintf(&first.sql, firstMessages, store.PreviewJSON, store.PreviewRecords)
	calls := &listQuery{args: []any{"n", ids}}
	calls.sql.WriteString(waitingCalls)
	const perThread = 20 // rows that joins and the levels of a plan handle for each thread of a page
	tests := map[string]struct {
		queries []*listQuery
		most    int
	}{
		"active":           {group(func(*store.ThreadPage) {}), perThread * limit},
		"closed":           {group(func(p *store.ThreadPage) { p.Status = store.ThreadClosed }), 2 * threads},
		"waiting":          {group(func(p *store.ThreadPage) { p.Activity = store.ActivityWaiting }), perThread * limit},
		"attention":        {group(func(p *store.ThreadPage) { p.Order = store.OrderAttention })[:2], perThread * limit},
		"attention, agent": {group(func(p *store.ThreadPage) { p.Order, p.Agent = store.OrderAttention, "clerk" })[:2], perThread * limit},
		"attention, tool": {group(func(p *store.ThreadPage) {
			p.Order, p.Activity, p.Tool = store.OrderAttention, store.ActivityWaiting, "shell"
		}), perThread * limit},
		"attention, others": {group(func(p *store.ThreadPage) { p.Order = store.OrderAttention })[2:], 2*(waiting+failing) + perThread*limit},
		"counts":            {[]*listQuery{counts}, 4 * threads},
		"previews":          {[]*listQuery{first}, perThread * limit},
		"waiting calls":     {[]*listQuery{calls}, (perThread + 200) * limit},
	}
	check := func(least int) {
		for name, test := range tests {
			for _, q := range test.queries {
				var raw []byte
				require.NoError(t, s.pool.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+q.sql.String(), q.args...).Scan(&raw), q.sql.String())
				var explained []struct {
					Plan plan
					Time float64 `json:"Execution Time"`
				}
				require.NoError(t, json.Unmarshal(raw, &explained), string(raw))
				rows := explained[0].Plan.rows()
				require.Positive(t, rows, name)
				require.LessOrEqual(t, rows, max(test.most, least), "%s: %s\n%s", name, q.sql.String(), raw)
				t.Logf("%s: %d rows, %.1f ms", name, rows, explained[0].Time)
			}
		}
	}
	check(3 * threads)
	_, err := s.pool.Exec(ctx, "ANALYZE threads, thread_marks, records")
	require.NoError(t, err)
	check(0)
}
