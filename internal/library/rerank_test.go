package library_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// rerankFunc is a program's own reranker.
type rerankFunc func(context.Context, llm.RerankRequest) (llm.Ranking, error)

func (f rerankFunc) Rerank(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
	return f(ctx, req)
}

// reversed ranks documents in the reverse order.
func reversed(_ context.Context, req llm.RerankRequest) (llm.Ranking, error) {
	out := llm.Ranking{Scored: true}
	for i := range req.Top() {
		out.Ranked = append(out.Ranked, llm.Ranked{Index: len(req.Documents) - 1 - i, Score: float64(-i)})
	}
	return out, nil
}

// newRanked is a library with n documents of one chunk, the shortest of which words alone find best.
func newRanked(t *testing.T, n int, rerank rerankFunc) *library.Library {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for i := range n {
		d, err := db.BeginKnowledge(t.Context(), namespace, store.KnowledgeDocument{Source: fmt.Sprintf("%d.md", i)}, store.KnowledgeBegin{})
		require.NoError(t, err)
		require.NoError(t, db.AddChunks(t.Context(), namespace, d.Newest(), []store.KnowledgeChunk{{Path: []string{"Mills"}, Text: "stones" + strings.Repeat(" and more", i)}}))
		_, err = db.FinishKnowledge(t.Context(), namespace, d.Newest(), store.KnowledgeFinish{Title: "Mills"})
		require.NoError(t, err)
	}
	return library.New(library.Config{Store: db, Reranker: rerank, RerankModel: "own/reranker"})
}

func sources(passages []event.Passage) string {
	var all []string
	for _, p := range passages {
		all = append(all, strings.TrimSuffix(p.Source, ".md"))
	}
	return strings.Join(all, " ")
}

func TestRerank(t *testing.T) {
	t.Parallel()
	var asked llm.RerankRequest
	l := newRanked(t, 4, func(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
		asked = req
		return reversed(ctx, req)
	})
	found, err := l.Search(t.Context(), namespace, library.Query{Text: " stones "})
	require.NoError(t, err)
	require.Empty(t, found.Warning)
	require.Equal(t, "3 2 1 0", sources(found.Passages))
	for i, p := range found.Passages {
		require.Equal(t, i+1, p.RerankRank)
		require.InDelta(t, float64(-i), *p.RerankScore, 0)
		require.Equal(t, 4-i, p.TextRank, "the other ranks stay")
	}
	require.Equal(t, llm.RerankRequest{
		Model: "reranker", Query: "stones", Limit: library.DefaultPassages,
		Documents: []string{"Mills\n\nstones", "Mills\n\nstones and more", "Mills\n\nstones and more and more", "Mills\n\nstones and more and more and more"},
	}, asked)
	found, err = l.Search(t.Context(), namespace, library.Query{Text: "stones", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, "3 2", sources(found.Passages), "of all candidates, not of those that words alone find best")
}

// TestRerankCandidates: at most 50 passages are reranked, and none if there is nothing to order.
func TestRerankCandidates(t *testing.T) {
	t.Parallel()
	calls, shown := 0, 0
	rerank := func(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
		calls, shown = calls+1, len(req.Documents)
		return reversed(ctx, req)
	}
	_, err := newRanked(t, 60, rerank).Search(t.Context(), namespace, library.Query{Text: "stones", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 50, shown)
	require.Equal(t, 1, calls)
	one := newRanked(t, 1, rerank)
	for _, text := range []string{"stones", "nothing", ""} {
		_, err := one.Search(t.Context(), namespace, library.Query{Text: text})
		require.NoError(t, err)
	}
	require.Equal(t, 1, calls)
}

// TestRerankedPassages: whatever a reranker returns, a search returns passages that it has found, each once.
func TestRerankedPassages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ranked  []int
		err     error
		want    string
		warning string
	}{
		"some of them":           {ranked: []int{2}, want: "2 0 1"},
		"all of them":            {ranked: []int{1, 2, 0}, want: "1 2 0"},
		"none":                   {want: "0 1 2", warning: "ranked 0 documents"},
		"one that is not there":  {ranked: []int{3, 1}, want: "0 1 2", warning: "ranked document 4 of 3"},
		"one twice":              {ranked: []int{1, 1}, want: "0 1 2", warning: "ranked document 2 twice"},
		"an error of its own":    {err: errors.New("out of ink"), want: "0 1 2", warning: "out of ink"},
		"an error of a provider": {err: &llm.Error{Message: "bad key"}, want: "0 1 2", warning: "bad key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRanked(t, 3, func(context.Context, llm.RerankRequest) (out llm.Ranking, err error) {
				for _, i := range c.ranked {
					out.Ranked = append(out.Ranked, llm.Ranked{Index: i})
				}
				return out, c.err
			})
			found, err := l.Search(t.Context(), namespace, library.Query{Text: "stones"})
			require.NoError(t, err)
			require.Equal(t, c.want, sources(found.Passages))
			require.Equal(t, c.warning == "", found.Warning == "")
			require.Contains(t, found.Warning, c.warning)
			for i, p := range found.Passages {
				require.Nil(t, p.RerankScore, "there are no scores")
				require.Equal(t, c.warning == "" && i < len(c.ranked), p.RerankRank == i+1)
			}
			if c.warning != "" {
				require.Contains(t, found.Warning, "the reranking model own/reranker failed: ")
			}
		})
	}
}

// TestRerankWaits: a reranker that does not answer delays a search by 5 seconds; a search that ends does not wait for it.
func TestRerankWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := func(ctx context.Context, _ llm.RerankRequest) (llm.Ranking, error) {
			<-ctx.Done()
			return llm.Ranking{}, ctx.Err()
		}
		l := newRanked(t, 2, waits)
		found, err := l.Search(t.Context(), namespace, library.Query{Text: "stones"})
		require.NoError(t, err)
		require.Equal(t, "0 1", sources(found.Passages))
		require.Equal(t, "the reranking model own/reranker did not answer within 5s", found.Warning)
		ctx, cancel := context.WithCancel(t.Context())
		l = newRanked(t, 2, func(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
			cancel()
			return waits(ctx, req)
		})
		_, err = l.Search(ctx, namespace, library.Query{Text: "stones"})
		require.ErrorIs(t, err, context.Canceled)
	})
}
