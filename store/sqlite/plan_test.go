package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
	"github.com/threadmill/threadmill/store/internal/sqlstoretest"
)

// recorder keeps the statements that a store runs.
type recorder struct{ queries []string }

func (r *recorder) of(s *Store) *sqlstore.Store {
	return sqlstore.New(sqlstoretest.Record(s.database(), func(q *sqlstore.Query, _ []any) {
		if q.SQLite != "" {
			r.queries = append(r.queries, numbered(q.SQLite))
		}
	}))
}

// scans returns the tables that a plan reads as a whole, without the intermediate results of queries.
func scans(plan string) (tables []string) {
	for _, m := range scan.FindAllStringSubmatch(plan, -1) {
		if !slices.Contains([]string{"found", "merged", "page", "wanted", "counted", "n", "p", "w", "x", "CONSTANT"}, m[1]) && !strings.Contains(m[2], "VIRTUAL") {
			tables = append(tables, m[1])
		}
	}
	return tables
}

var scan = regexp.MustCompile(`(?m)^SCAN (\w+)(.*)$`)

// TestPlans: the cost of a query grows with its result, not with the thread or the namespace. A page of threads with a filter grows
// with the threads that it passes over, and counts read an index alone, unless there is a filter.
func TestPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ctx, key := t.Context(), store.Key{Namespace: "n", ThreadID: "t"}
	const (
		bySeq, byEvent = "(namespace=? AND thread_id=? AND seq>? AND seq<?)", "USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=? AND seq>? AND seq<?)"

		roots, id = "SEARCH entities USING COVERING INDEX entities_by_root (namespace=? AND root=?)", "(namespace=? AND id=?)"

		mark, row = "SEARCH thread_marks USING COVERING INDEX thread_marks_by_time (namespace=? AND kind=? AND (since,thread_id)>(?,?))", "SEARCH threads USING INDEX sqlite_autoindex_threads_1 (namespace=? AND id=?)"
		first     = "SEARCH e USING PRIMARY KEY (namespace=? AND thread_id=? AND kind=?)"
	)
	records := func(q store.Query) func(*sqlstore.Store) (any, error) {
		return func(s *sqlstore.Store) (any, error) { return s.Records(ctx, key, q) }
	}
	threads := func(p store.ThreadPage) func(*sqlstore.Store) (any, error) {
		return func(s *sqlstore.Store) (any, error) { return s.Threads(ctx, "n", p) }
	}
	count := func(f store.ThreadFilter) func(*sqlstore.Store) (any, error) {
		return func(s *sqlstore.Store) (any, error) { return s.CountThreads(ctx, "n", f) }
	}
	learn(t, s, "d", "word")
	for name, test := range map[string]struct {
		call  func(*sqlstore.Store) (any, error)
		plans [][]string // of each query, in order

		// sorted are the queries whose rows are sorted, since no index has them in their order. scans is whether a table is read as a whole.
		sorted []int
		scans  bool
	}{
		"records":             {call: records(store.Query{}), plans: [][]string{{bySeq}}},
		"of types":            {call: records(store.Query{Types: []string{"x"}}), plans: [][]string{{bySeq}}},
		"newest":              {call: records(store.Query{Newest: true}), plans: [][]string{{bySeq}}},
		"newest of types":     {call: records(store.Query{Types: []string{"x"}, Newest: true}), plans: [][]string{{bySeq}}},
		"of an event":         {call: records(store.Query{EventID: "e"}), plans: [][]string{{byEvent}}},
		"of types and events": {call: records(store.Query{EventID: "e", Types: []string{"x"}, Newest: true}), plans: [][]string{{byEvent}}},
		"by id": {
			call:  func(s *sqlstore.Store) (any, error) { return s.RecordsByID(ctx, key, "r") },
			plans: [][]string{{"(namespace=? AND thread_id=? AND id=?)"}}, sorted: []int{0},
		},
		"thread": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Thread(ctx, key) },
			plans: [][]string{{"(namespace=? AND id=?)"}, {"(namespace=? AND id=?)"}},
		},
		"tool log": {
			call:  func(s *sqlstore.Store) (any, error) { return s.ToolLog(ctx, key, "c") },
			plans: [][]string{{"(namespace=? AND thread_id=? AND tool_call_id=?)"}},
		},
		"tool logs": {
			call:  func(s *sqlstore.Store) (any, error) { return s.ToolLogs(ctx, key) },
			plans: [][]string{{"(namespace=? AND thread_id=?)"}}, sorted: []int{0},
		},
		"pending": {
			call:  func(s *sqlstore.Store) (any, error) { return s.PendingApprovals(ctx, "n") },
			plans: [][]string{{"USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=?)"}},
		},

		"threads":         {call: threads(store.ThreadPage{}), plans: [][]string{{"USING INDEX threads_by_update (namespace=? AND "}}},
		"closed threads":  {call: threads(store.ThreadPage{Status: store.ThreadClosed}), plans: [][]string{{"USING INDEX threads_by_update (namespace=? AND "}}},
		"running threads": {call: threads(store.ThreadPage{Activity: store.ActivityRunning}), plans: [][]string{{"USING INDEX threads_by_activity (namespace=? AND status=? AND activity=? AND "}}},
		"filtered threads": {
			call: threads(store.ThreadPage{ThreadFilter: store.ThreadFilter{
				Search: "x", Agent: "a", Tool: "t", ExpiresBefore: time.Now(), MinTokens: 1, UpdatedBefore: time.Now(), UpdatedAfter: time.Now(),
			}}),
			plans: [][]string{{"(namespace=? AND "}},
		},
		"by attention": {
			call:  threads(store.ThreadPage{Order: store.OrderAttention}),
			plans: [][]string{{mark, first, row}, {mark, first, row}, {"USING INDEX threads_by_update (namespace=? AND "}},
		},
		"counts":          {call: count(store.ThreadFilter{}), plans: [][]string{{"USING COVERING INDEX threads_by_activity (namespace=?)"}}},
		"filtered counts": {call: count(store.ThreadFilter{Search: "x"}), plans: [][]string{{"(namespace=?"}}},
		"previews": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Previews(ctx, "n", "t") },
			plans: [][]string{{"(namespace=? AND thread_id=? AND seq<?)", "SEARCH h USING INDEX sqlite_autoindex_records_2 (namespace=? AND thread_id=? AND id=?)"}},
		},
		"waiting records": {
			call: func(s *sqlstore.Store) (any, error) { return s.WaitingRecords(ctx, "n", "t") },
			plans: [][]string{{
				"SEARCH m USING PRIMARY KEY (namespace=? AND thread_id=? AND kind=?)", "SEARCH r USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=?)",
				"SEARCH d USING COVERING INDEX sqlite_autoindex_records_2 (namespace=? AND thread_id=? AND id=?)",
			}},
			sorted: []int{0},
		},

		"agent": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Agent(ctx, "n", "a") },
			plans: [][]string{{"USING INDEX agent_versions_newest (namespace=? AND name_key=?)"}},
		},
		"agents": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Agents(ctx, "n", "", 0) },
			plans: [][]string{{"USING INDEX agent_versions_newest (namespace=? AND name_key>?)"}},
		},
		"versions of an agent": {
			call:  func(s *sqlstore.Store) (any, error) { return s.AgentVersions(ctx, "n", "a", 0, 0) },
			plans: [][]string{{"(namespace=? AND name_key=? AND version<?)"}},
		},
		"changes of agents": {
			call:  func(s *sqlstore.Store) (any, error) { return s.AgentChanges(ctx, "n", 0, 0) },
			plans: [][]string{{"(namespace=? AND seq>?)"}},
		},
		"key": {
			call:  func(s *sqlstore.Store) (any, error) { return s.APIKey(ctx, "k") },
			plans: [][]string{{"(id=?)"}},
		},
		"keys": {
			call:  func(s *sqlstore.Store) (any, error) { return s.APIKeys(ctx, "n") },
			plans: [][]string{{"USING INDEX api_keys_listed (namespace=?)"}},
		},
		"any key": { // stops at the first
			call:  func(s *sqlstore.Store) (any, error) { return s.HasAPIKeys(ctx) },
			plans: [][]string{{"SCAN api_keys USING COVERING INDEX"}}, scans: true,
		},
		"document": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Document(ctx, "n", "kind", "d") },
			plans: [][]string{{"(namespace=? AND kind=? AND name=?)"}},
		},
		"documents": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Documents(ctx, "n", "kind", "", 10) },
			plans: [][]string{{"(namespace=? AND kind=? AND name>?)"}},
		},

		"extractions": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Extractions(ctx, "n", 1) },
			plans: [][]string{{"USING INDEX entity_extractions_queued (namespace=?)"}},
		},
		"namespaces of extractions": { // of what is queued
			call:  func(s *sqlstore.Store) (any, error) { return s.ExtractionNamespaces(ctx) },
			plans: [][]string{{"SCAN entity_extractions USING COVERING INDEX entity_extractions_queued"}}, scans: true,
		},
		"entities": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Entities(ctx, "n", store.EntityPage{Search: "x"}) },
			plans: [][]string{{"USING INDEX entities_by_mentions (namespace=? AND total<?)"}, {"USING INDEX entities_by_root (namespace=? AND root=?)", "SEARCH e USING INDEX sqlite_autoindex_entities_1 " + id}},
		},
		"entities of a type": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Entities(ctx, "n", store.EntityPage{Type: "x"}) },
			plans: [][]string{{"USING INDEX entities_by_type (namespace=? AND type=? AND total<?)"}, nil},
		},
		"entities by name": {
			call:   func(s *sqlstore.Store) (any, error) { return s.EntitiesNamed(ctx, "n", []string{"x"}) },
			plans:  [][]string{{"SEARCH entities USING INDEX sqlite_autoindex_entities_1 " + id, "USING INDEX entities_by_name (namespace=? AND name_key=?)"}, nil},
			sorted: []int{0},
		},
		"similar entities": {
			call:  func(s *sqlstore.Store) (any, error) { return s.SimilarEntities(ctx, "n", "x", "e", []float32{1}, 1) },
			plans: [][]string{{"USING INDEX entity_vectors_by_embedder (namespace=? AND embedder=? AND type=?)"}, nil},
		},
		"namespaces of entities": {
			call:  func(s *sqlstore.Store) (any, error) { return s.EntityNamespaces(ctx) },
			plans: [][]string{{"SEARCH entities USING COVERING INDEX", "(namespace>?)"}},
		},
		"entities without vectors": {
			call:  func(s *sqlstore.Store) (any, error) { return s.EntitiesWithout(ctx, "n", "e", "", 1) },
			plans: [][]string{{"SEARCH e USING INDEX sqlite_autoindex_entities_1 (namespace=? AND id>?)", "SEARCH v USING COVERING INDEX sqlite_autoindex_entity_vectors_1 (namespace=? AND entity=? AND embedder=?)"}},
		},
		"mentions": {
			call:   func(s *sqlstore.Store) (any, error) { return s.Mentions(ctx, "n", "e", store.MentionPage{}) },
			plans:  [][]string{{roots, "USING COVERING INDEX entity_mentions_by_time (namespace=? AND entity=? AND at<?)", "SEARCH m USING INTEGER PRIMARY KEY"}},
			sorted: []int{0},
		},
		"relations": {
			call:   func(s *sqlstore.Store) (any, error) { return s.Relations(ctx, "n", "e") },
			plans:  [][]string{{roots, "(namespace=? AND from_entity=?)", "USING INDEX entity_relations_to (namespace=? AND to_entity=?)"}},
			sorted: []int{0},
		},
		"merges": {
			call:  func(s *sqlstore.Store) (any, error) { return s.Merges(ctx, "n", "") },
			plans: [][]string{{"USING INDEX entity_merges_by_time (namespace=?)"}},
		},
		"merges of an entity": {
			call:   func(s *sqlstore.Store) (any, error) { return s.Merges(ctx, "n", "e") },
			plans:  [][]string{{roots, "SEARCH g USING INDEX sqlite_autoindex_entity_merges_1 " + id, "USING INDEX entity_merges_into (namespace=? AND into_entity=?)"}},
			sorted: []int{0},
		},
		"knowledge document": {
			call:  func(s *sqlstore.Store) (any, error) { return s.KnowledgeDocument(ctx, "n", "d") },
			plans: [][]string{{"(namespace=? AND id=?)"}},
		},
		"collections": {
			call:  func(s *sqlstore.Store) (any, error) { return s.KnowledgeCollections(ctx, "n") },
			plans: [][]string{{"USING COVERING INDEX sqlite_autoindex_knowledge_documents_2 (namespace=?"}},
		},
		"knowledge documents": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.KnowledgeDocuments(ctx, "n", store.KnowledgePage{Search: "x", Status: store.KnowledgeIndexed})
			},
			plans: [][]string{{"(namespace=? AND (collection,source)>(?,?))"}},
		},
		"content": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.KnowledgeContent(ctx, "n", store.KnowledgeRevision{Document: "d", Number: 1})
			},
			plans: [][]string{{"(namespace=? AND id=?)", "(document=? AND revision=?)"}},
		},
		"chunks": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.Chunks(ctx, "n", store.KnowledgeRevision{Document: "d", Number: 1}, 0, 1)
			},
			plans: [][]string{{"(namespace=? AND id=?)", "(document=? AND revision=? AND idx>?)"}},
		},
		"chunks without vectors": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.ChunksWithout(ctx, "n", store.KnowledgeRevision{Document: "d", Number: 1}, "e", 1)
			},
			plans: [][]string{{"(namespace=? AND id=?)", "(document=? AND revision=?)", "(namespace=? AND name=?)", "SEARCH v USING INTEGER PRIMARY KEY (rowid=?)"}},
		},
		"visible chunks without vectors": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.ChunksWithout(ctx, "n", store.KnowledgeRevision{}, "e", 1)
			},
			plans: [][]string{{"SEARCH d USING INDEX sqlite_autoindex_knowledge_documents_2 (namespace=?)", "(document=? AND revision=?)"}},
		},
		"knowledge index": {
			call:   func(s *sqlstore.Store) (any, error) { return s.KnowledgeIndex(ctx, "n") },
			plans:  [][]string{{"(namespace=?)"}, {"(namespace=?)", "USING COVERING INDEX knowledge_vectors_by_revision (document=? AND revision=?)"}},
			sorted: []int{1},
		},
		"namespaces with documents": { // of all namespaces
			call:  func(s *sqlstore.Store) (any, error) { return s.KnowledgeNamespaces(ctx) },
			plans: [][]string{{"SCAN knowledge_documents"}}, scans: true,
		},
		"text": {
			call:  func(s *sqlstore.Store) (any, error) { return s.SearchText(ctx, "n", "word", store.KnowledgeScope{}) },
			plans: [][]string{{"(namespace=?)"}, {"SCAN f VIRTUAL TABLE INDEX", "SEARCH c USING INTEGER PRIMARY KEY", "SEARCH d USING INTEGER PRIMARY KEY"}},
		},
		"vectors": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.SearchVectors(ctx, "n", "e", []float32{1}, store.KnowledgeScope{})
			},
			plans:  [][]string{{"(namespace=? AND name=?)"}, {"SEARCH v USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"}},
			sorted: []int{1},
		},
		"vectors of collections": {
			call: func(s *sqlstore.Store) (any, error) {
				return s.SearchVectors(ctx, "n", "e", []float32{1}, store.KnowledgeScope{Collections: []string{"x"}})
			},
			plans:  [][]string{{"(namespace=? AND name=?)"}, {"(namespace=? AND collection=?)", "(document=? AND revision=? AND rowid>? AND rowid<?)"}},
			sorted: []int{1},
		},
		"dropped vectors": { // at the start of a worker
			call:  func(s *sqlstore.Store) (any, error) { return nil, s.DropEntityVectors(ctx, "n", "e") },
			plans: [][]string{{"USING INDEX entity_vectors_by_embedder (namespace=?)"}},
		},
	} {
		r := &recorder{}
		if _, err := test.call(r.of(s)); !errors.Is(err, store.ErrNotFound) {
			require.NoError(t, err, name)
		}
		require.Len(t, r.queries, len(test.plans), name)
		for i, query := range r.queries {
			plan := explain(t, s.reader, query)
			for _, step := range test.plans[i] {
				require.Contains(t, plan, step, name)
			}
			require.Equal(t, test.scans, len(scans(plan)) > 0, "%s: %s", name, plan)
			require.Equal(t, slices.Contains(test.sorted, i), strings.Contains(plan, "TEMP B-TREE"), "%s: %s", name, plan)
		}
	}
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	require.NoError(t, rows.Err())
	return strings.Join(plan, "\n")
}

// learn adds a document of the thread t with a chunk and a vector of it.
func learn(t *testing.T, s store.Knowledge, source, text string) store.KnowledgeRevision {
	t.Helper()
	return learnOf(t, s, "t", source, text)
}

func learnOf(t *testing.T, s store.Knowledge, thread, source, text string) store.KnowledgeRevision {
	t.Helper()
	d, err := s.BeginKnowledge(t.Context(), "n", store.KnowledgeDocument{Collection: "c", Source: source, ThreadID: thread}, store.KnowledgeBegin{Digest: "d", Force: true, Content: &store.KnowledgeContent{Name: source}})
	require.NoError(t, err)
	r := d.Newest()
	require.NoError(t, s.AddChunks(t.Context(), "n", r, []store.KnowledgeChunk{{Text: text}}))
	require.NoError(t, s.AddContexts(t.Context(), "n", r, []store.KnowledgeContext{{Context: "more"}}))
	require.NoError(t, s.AddVectors(t.Context(), "n", "e", []store.KnowledgeVector{{Document: r.Document, Revision: r.Number, Vector: []float32{1}}}))
	_, err = s.FinishKnowledge(t.Context(), "n", r, store.KnowledgeFinish{})
	require.NoError(t, err)
	return r
}

// TestChangePlans: what changes entities or erases reads what it changes, and nothing else.
func TestChangePlans(t *testing.T) {
	opened, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	r := &recorder{}
	s, ctx, key, now := r.of(opened), t.Context(), store.Key{Namespace: "n", ThreadID: "t"}, time.Now()
	start := store.ToolLog{ToolCallID: "c"}
	_, err = opened.Append(ctx, key, store.Batch{Records: []event.Record{event.NewRecord("r", event.TypeMessage, "", "", now, "x")}, ToolStart: &start})
	require.NoError(t, err)
	for _, id := range []string{"one", "two"} {
		require.NoError(t, s.QueueExtraction(ctx, "n", store.Extraction{ID: id, ThreadID: "t", EventID: "r", SourceType: "message", SourceID: id}))
		_, err := s.EndExtraction(ctx, "n", id, store.EntitiesFound{
			New:       []store.NewEntity{{ID: "ann", Name: "Ann", Type: "person"}, {ID: "bob", Name: "Bob", Type: "person", Embedder: "e", Vector: []float32{1}}},
			Mentions:  []store.Mention{{EntityID: "ann", Name: "Ann", ThreadID: "t", SourceType: "message", SourceID: id, At: now}},
			Relations: []store.Relation{{From: "ann", To: "bob", Type: "knows", At: now}},
			Described: map[string]string{"ann": id},
		})
		require.NoError(t, err)
	}
	require.NoError(t, s.AddEntityVectors(ctx, "n", "e", []store.EntityVector{{ID: "ann", Vector: []float32{1}}}))
	_, err = s.MergeEntities(ctx, "n", store.EntityMerge{ID: "m", From: "ann", Into: "bob", By: "me"})
	require.NoError(t, err)
	_, err = s.UndoMerge(ctx, "n", "m", "me")
	require.NoError(t, err)
	require.NoError(t, s.ForgetMessages(ctx, key, "one"))
	require.NoError(t, s.DeleteEntity(ctx, "n", "bob"))
	require.NoError(t, s.ReplaceRecords(ctx, key, event.NewRecord("r", event.TypeMessage, "", "", now, "y")))
	require.NoError(t, s.ReplaceToolLogs(ctx, key, start))
	_, err = s.PruneToolLogs(ctx, "n", now)
	require.NoError(t, err)
	_, err = s.ForgetEntities(ctx, "n", func(string) bool { return true })
	require.NoError(t, err)
	require.NoError(t, s.DeleteKnowledge(ctx, "n", learn(t, s, "deleted", "word").Document))
	learn(t, s, "erased", "word")
	require.NoError(t, s.EraseThread(ctx, key))
	require.Greater(t, len(r.queries), 100)
	for _, query := range r.queries {
		if strings.Contains(query, "knowledge_text_") {
			continue // the table has gone
		}
		plan := explain(t, opened.writer, query)
		require.Empty(t, scans(plan), "%s\n%s", query, plan)
	}
}
