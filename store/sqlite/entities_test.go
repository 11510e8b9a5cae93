package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// TestDeletedEntityLeavesNothing: but the ids of extractions, without their texts.
func TestDeletedEntityLeavesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	x := store.Extraction{ID: "x", ThreadID: "t", EventID: "e", Content: "secret", SourceType: "message", SourceID: "m"}
	require.NoError(t, s.QueueExtraction(t.Context(), "n", x))
	mention := func(id string) store.Mention {
		return store.Mention{EntityID: id, Name: id, SourceType: "message", SourceID: "m", At: time.Unix(1, 0)}
	}
	ended, err := s.EndExtraction(t.Context(), "n", "x", store.EntitiesFound{
		New: []store.NewEntity{
			{ID: "a", Name: "A", Type: "t", Embedder: "model", Vector: []float32{1}}, {ID: "b", Name: "B", Type: "t"}, {ID: "c", Name: "C", Type: "t"},
		},
		Mentions:  []store.Mention{mention("a"), mention("b"), mention("c")},
		Relations: []store.Relation{{From: "a", To: "c", Type: "knows"}, {From: "c", To: "b", Type: "knows"}},
		Merges:    []store.EntityMerge{{ID: "ab", From: "a", Into: "b"}, {ID: "cb", From: "c", Into: "b"}},
	})
	require.NoError(t, err)
	require.True(t, ended)
	_, err = s.UndoMerge(t.Context(), "n", "cb", "ann")
	require.NoError(t, err)
	rows, err := sqlite.TableRows(t.Context(), s, "entit")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"entities": 3, "entity_mentions": 3, "entity_relations": 2, "entity_merges": 2, "entity_vectors": 1, "entity_extractions": 1}, rows)

	require.NoError(t, s.DeleteEntity(t.Context(), "n", "b"))
	rows, err = sqlite.TableRows(t.Context(), s, "entit")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"entities": 1, "entity_mentions": 1, "entity_relations": 0, "entity_merges": 0, "entity_vectors": 0, "entity_extractions": 1}, rows)
	require.NoError(t, s.DeleteEntity(t.Context(), "n", "c"))
	rows, err = sqlite.TableRows(t.Context(), s, "entit")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"entities": 0, "entity_mentions": 0, "entity_relations": 0, "entity_merges": 0, "entity_vectors": 0, "entity_extractions": 1}, rows)
}

// TestEntityVectorsMoved: vectors from before there were several of a name are still compared.
func TestEntityVectorsMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	before := open(t, path)
	require.NoError(t, sqlite.Downgrade(t.Context(), before, 5))
	require.NoError(t, before.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO entities
			(namespace, id, root, name, name_key, type, descriptions, mentions, total, created_at, embedder, vector)
		VALUES ('n', 'a', 'a', 'A', 'a', 'person', '[]', 0, 0, 0, 'model', x'0000803f'), ('n', 'b', 'b', 'B', 'b', 'person', '[]', 0, 0, 0, '', NULL)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	s := open(t, path)
	found, err := s.SimilarEntities(t.Context(), "n", "person", "model", []float32{2}, 0)
	require.NoError(t, err)
	require.Equal(t, []store.SimilarEntity{{ID: "a", Name: "A", Root: "a", RootName: "A", Descriptions: []string{}, Similarity: 1}}, found)
	without, err := s.EntitiesWithout(t.Context(), "n", "model", "", 0)
	require.NoError(t, err)
	require.Equal(t, []store.EntityVector{{ID: "b", Name: "B"}}, without)
}
