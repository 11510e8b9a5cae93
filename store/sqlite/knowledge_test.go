package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// learn stores a document whose chunks have vectors.
func learn(t *testing.T, s *sqlite.Store, namespace, source string, texts ...string) store.KnowledgeDocument {
	t.Helper()
	content := []byte(strings.Join(texts, "\n"))
	d, err := s.BeginKnowledge(t.Context(), namespace, store.KnowledgeDocument{Source: source},
		store.KnowledgeBegin{Digest: store.KnowledgeDigest(content), Content: &store.KnowledgeContent{Bytes: content}})
	require.NoError(t, err)
	chunks := make([]store.KnowledgeChunk, len(texts))
	vectors := make([]store.KnowledgeVector, len(texts))
	for i, text := range texts {
		chunks[i] = store.KnowledgeChunk{Index: i, Text: text}
		vectors[i] = store.KnowledgeVector{Document: d.ID, Revision: d.Revision, Index: i, Vector: []float32{1, float32(i)}}
	}
	require.NoError(t, s.AddChunks(t.Context(), namespace, d.Newest(), chunks))
	require.NoError(t, s.AddVectors(t.Context(), namespace, "model", vectors))
	d, err = s.FinishKnowledge(t.Context(), namespace, d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)
	return d
}

func find(t *testing.T, s *sqlite.Store, namespace, query string) []store.KnowledgeHit {
	t.Helper()
	hits, err := s.SearchText(t.Context(), namespace, query, store.KnowledgeScope{})
	require.NoError(t, err)
	near, err := s.SearchVectors(t.Context(), namespace, "model", []float32{1, 0}, store.KnowledgeScope{})
	require.NoError(t, err)
	require.NotEmpty(t, near)
	return hits
}

// TestDeletedKnowledgeLeavesNothing: but the number of its revision.
func TestDeletedKnowledgeLeavesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	empty, err := sqlite.TableRows(t.Context(), s, "knowledge")
	require.NoError(t, err)
	require.Len(t, empty, 7)
	var all []store.KnowledgeDocument
	for i := range 3 {
		source := fmt.Sprint("s", i)
		learn(t, s, "n", source, "apple", "pear")
		all = append(all, learn(t, s, "n", source, "plum"))
		next, err := s.BeginKnowledge(t.Context(), "n", store.KnowledgeDocument{Source: source}, store.KnowledgeBegin{})
		require.NoError(t, err)
		require.NoError(t, s.AddChunks(t.Context(), "n", next.Newest(), []store.KnowledgeChunk{{Text: "cherry"}}))
	}
	rows, err := sqlite.TableRows(t.Context(), s, "knowledge")
	require.NoError(t, err)
	require.Equal(t, 6, rows["knowledge_chunks"])
	require.Equal(t, 6, rows["knowledge_text_1_docsize"])
	require.Equal(t, 3, rows["knowledge_vectors"])
	require.Equal(t, 3, rows["knowledge_contents"])
	for _, d := range all {
		require.NoError(t, s.DeleteKnowledge(t.Context(), "n", d.ID))
	}
	rows, err = sqlite.TableRows(t.Context(), s, "knowledge")
	require.NoError(t, err)
	empty["knowledge_deleted"] = len(all)
	require.Equal(t, empty, rows)
	learn(t, s, "n", "s0", "apple")
	require.Len(t, find(t, s, "n", "apple"), 1)
}

// TestKnowledgeScoresOfANamespace: what another namespace has changes no score.
func TestKnowledgeScoresOfANamespace(t *testing.T) {
	s := open(t, "")
	learn(t, s, "n", "a", "the apple", "the pear and the plum", "the cherry", "the long text about an apple and nothing else")
	before := find(t, s, "n", "the apple")
	for i := range 20 {
		learn(t, s, "other", fmt.Sprint(i), "apple apple", "apple pear", "apple "+strings.Repeat("tree ", 500))
	}
	require.Equal(t, before, find(t, s, "n", "the apple"))
}

// TestKnowledgeOfAnotherProcess: connections that were opened before find what another store adds, which makes tables, and
// bear that it deletes them.
func TestKnowledgeOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	one, other := open(t, path), open(t, path)
	for range 3 {
		d := learn(t, one, "n", "a", "apple")
		require.Len(t, find(t, other, "n", "apple"), 1)
		require.NoError(t, other.DeleteKnowledge(t.Context(), "n", d.ID))
		hits, err := one.SearchText(t.Context(), "n", "apple", store.KnowledgeScope{})
		require.NoError(t, err)
		require.Empty(t, hits)
	}
}

// TestKnowledgeFunctionWords: words that are everywhere are searched only if a query has no other.
func TestKnowledgeFunctionWords(t *testing.T) {
	s := open(t, "")
	learn(t, s, "n", "a", "to be, or not to be", "the apple", "the pear")
	require.Len(t, find(t, s, "n", "What is the apple?"), 1)
	require.Len(t, find(t, s, "n", "the"), 2)
	require.Equal(t, "to be, or not to be", find(t, s, "n", "Be it or not?")[0].Text)
}

// TestKnowledgeTablesComeAndGo: who searches a namespace while its first document is added and its last one is deleted
// finds all of it or nothing.
func TestKnowledgeTablesComeAndGo(t *testing.T) {
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), "store.db"), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			s := open(t, path)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			errs := make(chan error, 3)
			for range cap(errs) {
				go func() {
					var err error
					for err == nil && ctx.Err() == nil {
						var hits []store.KnowledgeHit
						hits, err = s.SearchText(t.Context(), "n", "apple", store.KnowledgeScope{})
						if len(hits) == 1 {
							err = errors.New("a half was found")
						}
					}
					errs <- err
				}()
			}
			for range 10 {
				d := learn(t, s, "n", "a", "apple", "apple")
				require.NoError(t, s.DeleteKnowledge(t.Context(), "n", d.ID))
			}
			cancel()
			for range cap(errs) {
				require.NoError(t, <-errs)
			}
		})
	}
}

// TestKnowledgeReopened: everything is found again.
func TestKnowledgeReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := open(t, path)
	learn(t, first, "n", "a", "apple", "pear")
	before := find(t, first, "n", "apple")
	require.NoError(t, first.Close())
	require.Equal(t, before, find(t, open(t, path), "n", "apple"))
}

// TestKnowledgeDiskFull: a step that found no room has stored nothing, and is repeated when there is room.
func TestKnowledgeDiskFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"))
	d, err := s.BeginKnowledge(t.Context(), "n", store.KnowledgeDocument{Source: "a"}, store.KnowledgeBegin{})
	require.NoError(t, err)
	chunks := make([]store.KnowledgeChunk, store.MaxKnowledgeBatch)
	for i := range chunks {
		chunks[i] = store.KnowledgeChunk{Index: i, Text: strings.Repeat("apple ", 1000)}
	}
	require.NoError(t, sqlite.LimitPages(t.Context(), s, 0))
	require.ErrorIs(t, s.AddChunks(t.Context(), "n", d.Newest(), chunks), store.ErrUnavailable)
	got, err := s.Chunks(t.Context(), "n", d.Newest(), 0, 0)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, sqlite.LimitPages(t.Context(), s, 1_000_000))
	require.NoError(t, s.AddChunks(t.Context(), "n", d.Newest(), chunks))
	_, err = s.FinishKnowledge(t.Context(), "n", d.Newest(), store.KnowledgeFinish{})
	require.NoError(t, err)
	hits, err := s.SearchText(t.Context(), "n", "apple", store.KnowledgeScope{})
	require.NoError(t, err)
	require.Len(t, hits, store.DefaultKnowledgeHits)
}
