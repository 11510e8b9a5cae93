package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// rows is the number of rows that the plan has handled.
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
		"agent_versions", "api_keys", "compatibility", "documents", "erased_threads", "knowledge_indexes", "threadmill_migrations", "write_probe",
	}
	require.ElementsMatch(t, tables, append(others, scrubbed...))
}
