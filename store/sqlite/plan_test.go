package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlans: the cost of a query grows with its result, not with the thread.
func TestPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &reads{}
	queries := r.queries()
	const ordered = "(namespace=? AND thread_id=? AND seq>? AND seq<?)"
	for stmt, want := range map[**sql.Stmt]string{
		&r.records:       ordered,
		&r.recordsOf:     ordered,
		&r.newest:        ordered,
		&r.newestOf:      ordered,
		&r.ofEvent:       "USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=? AND seq>? AND seq<?)",
		&r.newestOfEvent: "USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=? AND seq>? AND seq<?)",
		&r.recordsByID:   "(namespace=? AND thread_id=? AND id=?)",
		&r.thread:        "(namespace=? AND id=?)",
		&r.erased:        "(namespace=? AND id=?)",
		&r.tool:          "(namespace=? AND thread_id=? AND tool_call_id=?)",
		&r.tools:         "(namespace=? AND thread_id=?)",
		&r.pending:       "USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=?)",
	} {
		query := queries[stmt]
		plan := explain(t, s.reader, query)
		require.Contains(t, plan, want, query)
		require.NotContains(t, plan, "SCAN records", query)
		require.NotContains(t, plan, "SCAN threads", query)
		if stmt != &r.recordsByID && stmt != &r.tools {
			require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted by its index", query)
		}
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")
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

// TestThreadPlans: the cost of a page of threads grows with the threads that it passes over, and a page without a filter passes over
// none. Counts read an index alone, unless there is a filter. A preview reads the beginning of its thread.
func TestThreadPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &listReads{}
	queries := r.queries()
	const mark, row = "SEARCH thread_marks USING COVERING INDEX thread_marks_by_time (namespace=? AND kind=? AND (since,thread_id)>(?,?))", "SEARCH threads USING INDEX sqlite_autoindex_threads_1 (namespace=? AND id=?)"
	const first = "SEARCH e USING PRIMARY KEY (namespace=? AND thread_id=? AND kind=?)"
	for stmt, want := range map[**sql.Stmt][]string{
		&r.threads:       {"USING INDEX threads_by_update (namespace=? AND "},
		&r.threadsOf:     {"USING INDEX threads_by_update (namespace=? AND "},
		&r.threadsIn:     {"USING INDEX threads_by_activity (namespace=? AND status=? AND activity=? AND "},
		&r.filtered:      {"USING INDEX threads_by_update (namespace=? AND "},
		&r.waiting:       {mark, first, row},
		&r.failing:       {mark, first, row},
		&r.count:         {"USING COVERING INDEX threads_by_activity (namespace=?)"},
		&r.countFiltered: {"(namespace=?"},
		&r.waitingRecords: {
			"SEARCH m USING PRIMARY KEY (namespace=? AND thread_id=? AND kind=?)", "SEARCH r USING INDEX records_by_event (namespace=? AND thread_id=? AND event_id=?)",
			"SEARCH d USING COVERING INDEX sqlite_autoindex_records_2 (namespace=? AND thread_id=? AND id=?)",
		},
		&r.previews: {"(namespace=? AND thread_id=? AND seq<?)", "SEARCH h USING INDEX sqlite_autoindex_records_2 (namespace=? AND thread_id=? AND id=?)"},
	} {
		plan := explain(t, s.reader, queries[stmt])
		for _, step := range want {
			require.Contains(t, plan, step, queries[stmt])
		}
		for _, table := range []string{"records", "threads", "thread_marks", "r", "h", "e", "m"} {
			require.NotContains(t, plan+"\n", "SCAN "+table+"\n", queries[stmt])
		}
		if stmt != &r.countFiltered && stmt != &r.waitingRecords {
			require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted by its index", queries[stmt])
		}
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")
}

// TestAgentPlans: the cost of a query for agents grows with its result.
func TestAgentPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &agentReads{}
	queries := r.queries()
	for stmt, want := range map[**sql.Stmt]string{
		&r.newest:   "USING INDEX agent_versions_newest (namespace=? AND name_key=?)",
		&r.all:      "USING INDEX agent_versions_newest (namespace=? AND name_key>?)",
		&r.versions: "(namespace=? AND name_key=? AND version<?)",
		&r.changes:  "(namespace=? AND seq>?)",
	} {
		query := queries[stmt]
		plan := explain(t, s.reader, query)
		require.Contains(t, plan, want, query)
		require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted by its index", query)
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")
}

// TestKeyPlans: the cost of a query for API keys grows with its result.
func TestKeyPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &keyReads{}
	queries := r.queries()
	for stmt, want := range map[**sql.Stmt]string{
		&r.one: "(id=?)",
		&r.all: "USING INDEX api_keys_listed (namespace=?)",
		&r.any: "SCAN api_keys USING COVERING INDEX", // stops at the first row
	} {
		query := queries[stmt]
		plan := explain(t, s.reader, query)
		require.Contains(t, plan, want, query)
		require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted by its index", query)
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")
}

// TestKnowledgePlans: the cost of a query for knowledge does not grow with other namespaces, and full-text search sorts
// before it reads chunks.
func TestKnowledgePlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r := &knowledgeReads{}
	queries := r.queries()
	for stmt, want := range map[**sql.Stmt][]string{
		&r.document:    {"(namespace=? AND id=?)"},
		&r.collections: {"USING COVERING INDEX sqlite_autoindex_knowledge_documents_2 (namespace=?)"},
		&r.documents:   {"(namespace=? AND (collection,source)>(?,?))"},
		&r.content:     {"(namespace=? AND id=?)", "(document=? AND revision=?)"},
		&r.chunks:      {"(namespace=? AND id=?)", "(document=? AND revision=? AND idx>?)"},
		&r.without:     {"(namespace=? AND id=?)", "(document=? AND revision=?)", "(namespace=? AND name=?)", "SEARCH v USING INTEGER PRIMARY KEY (rowid=?)"},
		&r.visible:     {"SEARCH d USING INDEX sqlite_autoindex_knowledge_documents_2 (namespace=?)", "(document=? AND revision=?)"},
		&r.text:        {"(namespace=?)"},
		&r.embedder:    {"(namespace=? AND name=?)"},
	} {
		requirePlan(t, s, queries[stmt], want...)
		delete(queries, stmt)
	}
	sorted := map[**sql.Stmt][]string{
		&r.counts:     {"(namespace=?)"},
		&r.embedders:  {"(namespace=?)", "USING COVERING INDEX knowledge_vectors_by_revision (document=? AND revision=?)"},
		&r.namespaces: {"SCAN knowledge_documents"}, // of all namespaces
		&r.nearest:    {"SEARCH v USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"},
		&r.nearestIn:  {"(namespace=? AND collection=?)", "(document=? AND revision=? AND rowid>? AND rowid<?)"},
	}
	for stmt, want := range sorted {
		plan := explain(t, s.reader, queries[stmt])
		for _, step := range want {
			require.Contains(t, plan, step, queries[stmt])
		}
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")

	_, err = s.writer.ExecContext(t.Context(), textTable(1).create())
	require.NoError(t, err)
	requirePlan(t, s, textTable(1).search(), "SCAN f VIRTUAL TABLE INDEX", "SEARCH c USING INTEGER PRIMARY KEY", "SEARCH d USING INTEGER PRIMARY KEY")
}

// requirePlan checks the steps of a query that reads its rows in their order.
func requirePlan(t *testing.T, s *Store, query string, steps ...string) {
	t.Helper()
	plan := explain(t, s.reader, query)
	for _, step := range steps {
		require.Contains(t, plan, step, query)
	}
	require.NotContains(t, plan, "TEMP B-TREE", "%s is sorted by its index", query)
}

// TestEntityPlans: the cost of a query for entities does not grow with what it does not find, but for the vectors of a type.
func TestEntityPlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r, w := &entityReads{}, &entityWrites{}
	queries := r.queries()
	const root, id = "SEARCH entities USING COVERING INDEX entities_by_root (namespace=? AND root=?)", "(namespace=? AND id=?)"
	for stmt, want := range map[**sql.Stmt][]string{
		&r.extractions: {"USING INDEX entity_extractions_queued (namespace=?)"},
		&r.namespaces:  {"SCAN entity_extractions USING COVERING INDEX entity_extractions_queued"}, // what is queued
		&r.page:        {"USING INDEX entities_by_mentions (namespace=? AND total<?)"},
		&r.pageOf:      {"USING INDEX entities_by_type (namespace=? AND type=? AND total<?)"},
		&r.groups:      {"USING INDEX entities_by_root (namespace=? AND root=?)", "SEARCH e USING INDEX sqlite_autoindex_entities_1 " + id},
		&r.vectors:     {"USING INDEX entity_vectors_by_embedder (namespace=? AND embedder=? AND type=?)"},
		&r.in:          {"SEARCH entities USING COVERING INDEX", "(namespace>?)"},
		&r.without:     {"SEARCH e USING INDEX sqlite_autoindex_entities_1 (namespace=? AND id>?)", "SEARCH v USING COVERING INDEX sqlite_autoindex_entity_vectors_1 (namespace=? AND entity=? AND embedder=?)"},
		&r.merges:      {"USING INDEX entity_merges_by_time (namespace=?)"},
	} {
		requirePlan(t, s, queries[stmt], want...)
		delete(queries, stmt)
	}
	for stmt, want := range map[**sql.Stmt][]string{
		&r.named:     {"SEARCH entities USING INDEX sqlite_autoindex_entities_1 " + id, "USING INDEX entities_by_name (namespace=? AND name_key=?)"},
		&r.mentions:  {root, "USING COVERING INDEX entity_mentions_by_time (namespace=? AND entity=? AND at<?)", "SEARCH m USING INTEGER PRIMARY KEY"},
		&r.relations: {root, "(namespace=? AND from_entity=?)", "USING INDEX entity_relations_to (namespace=? AND to_entity=?)"},
		&r.mergesOf:  {root, "SEARCH g USING INDEX sqlite_autoindex_entity_merges_1 " + id, "USING INDEX entity_merges_into (namespace=? AND into_entity=?)"},
	} {
		plan := explain(t, s.reader, queries[stmt])
		for _, step := range want {
			require.Contains(t, plan, step, queries[stmt])
		}
		delete(queries, stmt)
	}
	require.Empty(t, queries, "a query without a plan")
	changes := w.queries()
	requirePlan(t, s, changes[&w.dropVectors], "USING INDEX entity_vectors_by_embedder (namespace=?)") // at the start of a worker
	delete(changes, &w.dropVectors)
	for _, query := range changes {
		plan := explain(t, s.reader, query)
		require.NotContains(t, plan, "SCAN entit", query)
		require.NotContains(t, plan, "(namespace=?)", query)
	}
}

// TestErasePlans: erasing a thread reads what belongs to it, and nothing else.
func TestErasePlans(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for _, query := range new(eraseQueries).queries() {
		plan := explain(t, s.writer, query)
		for _, table := range []string{"records", "tool_logs", "threads", "entity", "entities", "knowledge"} {
			require.NotContains(t, plan, "SCAN "+table, query)
		}
	}
}
