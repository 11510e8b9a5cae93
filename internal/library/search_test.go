package library_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

const namespace = "n"

// embedFunc is a program's own embedder.
type embedFunc func(llm.EmbedRequest) (llm.Embeddings, error)

func (f embedFunc) Embed(_ context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	return f(req)
}

// alike embeds all texts alike, so that all are found.
func alike(req llm.EmbedRequest) (out llm.Embeddings, err error) {
	for range req.Texts {
		out.Vectors = append(out.Vectors, []float32{1, 1})
	}
	return out, nil
}

// shelf is a library whose embedder can be replaced.
type shelf struct {
	*library.Library
	t     *testing.T
	embed embedFunc
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "library.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	out := &shelf{t: t, embed: alike}
	out.Library = library.New(library.Config{
		Store: s, Reader: formats.Reader(), Model: "own/model", Embedder: embedFunc(func(req llm.EmbedRequest) (llm.Embeddings, error) { return out.embed(req) }),
		Start: func(context.Context, string, store.KnowledgeDocument, bool) error { return nil },
	})
	return out
}

// add begins a revision of a document.
func (s *shelf) add(source, text string) store.KnowledgeRevision {
	s.t.Helper()
	d, err := s.Add(s.t.Context(), namespace, library.Addition{Source: source, Content: &store.KnowledgeContent{Name: "a.md", Bytes: []byte(text)}})
	require.NoError(s.t, err)
	_, err = s.Split(s.t.Context(), namespace, d.Newest())
	require.NoError(s.t, err)
	return d.Newest()
}

// finish embeds and shows a revision.
func (s *shelf) finish(r store.KnowledgeRevision) {
	s.t.Helper()
	_, err := s.Embed(s.t.Context(), namespace, r)
	require.NoError(s.t, err)
	_, err = s.Finish(s.t.Context(), namespace, r, job.IngestResult{Status: job.IngestIndexed})
	require.NoError(s.t, err)
}

// TestSearchWhileADocumentChanges: between the search for words and that for vectors, a document gets another revision. What
// is found is of one of them.
func TestSearchWhileADocumentChanges(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.finish(s.add("a.md", "# One\n\nThe first edition says one."))
	s.finish(s.add("b.md", "# Two\n\nAnother edition, which stays."))
	second := s.add("a.md", "# One\n\nThe second edition says two.")
	s.embed = func(req llm.EmbedRequest) (llm.Embeddings, error) {
		if req.Purpose == llm.EmbedQuery {
			s.embed = alike
			s.finish(second)
		}
		return alike(req)
	}
	found, err := s.Search(t.Context(), namespace, library.Query{Text: "edition"})
	require.NoError(t, err)
	var texts []string
	for _, p := range found.Passages {
		texts = append(texts, p.Text)
	}
	require.ElementsMatch(t, []string{"The second edition says two.", "Another edition, which stays."}, texts)
}

// TestEmbedderOfAProgram: whatever a program's own embedder returns, a search finds by words and says why, and an ingestion
// has a reason.
func TestEmbedderOfAProgram(t *testing.T) {
	t.Parallel()
	nan := float32(0)
	nan /= nan
	for name, c := range map[string]struct {
		out llm.Embeddings
		err error

		// query and document are the warning of a search and the reason of an ingestion; later means that it is retried.
		query, document string
		later           bool
	}{
		"too few vectors":       {query: "returned 0 vectors for 1 texts", document: "returned 0 vectors for 1 texts"},
		"no numbers":            {out: llm.Embeddings{Vectors: [][]float32{{nan, 1}}}, query: "has no direction", document: "has no direction"},
		"another dimension":     {out: llm.Embeddings{Vectors: [][]float32{{1, 2, 3}}}, query: "of dimension 3, and those of the documents have 2", document: "cannot be kept"},
		"an error of its own":   {err: errors.New("out of ink"), query: "out of ink", document: "out of ink", later: true},
		"an error of a request": {err: &llm.Error{Message: "bad key"}, query: "bad key", document: "bad key"},
		"an outage":             {err: &llm.Error{Message: "busy", Retryable: true}, query: "busy", document: "busy", later: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.finish(s.add("a.md", "The first edition."))
			next := s.add("b.md", "The second edition.")
			s.embed = func(llm.EmbedRequest) (llm.Embeddings, error) { return c.out, c.err }
			found, err := s.Search(t.Context(), namespace, library.Query{Text: "edition"})
			require.NoError(t, err)
			require.Len(t, found.Passages, 1)
			require.Contains(t, found.Warning, c.query)
			require.Contains(t, found.Warning, "own/model")
			_, err = s.Embed(t.Context(), namespace, next)
			require.ErrorContains(t, err, c.document)
			require.ErrorContains(t, err, "own/model")
			var unavailable *library.Unavailable
			require.Equal(t, c.later, errors.As(err, &unavailable))
		})
	}
}
