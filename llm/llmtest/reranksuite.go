package llmtest

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
)

// RunReranker is the conformance suite of drivers for reranking. build returns a driver that calls the server s with an API key.
func RunReranker(t *testing.T, build func(t *testing.T, s *Server, key string) llm.Reranker) {
	t.Helper()
	start := func(t *testing.T, config Config) (*Server, llm.Reranker) {
		t.Helper()
		s := NewServer(config)
		t.Cleanup(s.Close)
		return s, build(t, s, key)
	}
	mills := llm.RerankRequest{Model: "reranker", Query: "how many stones has the mill", Documents: []string{
		"our office opens at nine", "the mill has two stones", "the mill is old",
	}}
	t.Run("the documents that fit best, with their scores", func(t *testing.T) {
		s, r := start(t, Config{})
		for limit, want := range map[int][]int{0: {1, 2, 0}, 2: {1, 2}, 1: {1}, 9: {1, 2, 0}} {
			req := mills
			req.Limit = limit
			got, err := r.Rerank(t.Context(), req)
			require.NoError(t, err)
			require.True(t, got.Scored)
			require.Len(t, got.Ranked, len(want))
			for i, d := range got.Ranked {
				require.Equal(t, want[i], d.Index)
				require.InDelta(t, similarity(req.Query, req.Documents[d.Index]), d.Score, 1e-9)
			}
		}
		require.Equal(t, 4, s.Calls())
	})
	t.Run("scores of any sign, in any order", func(t *testing.T) {
		s, r := start(t, Config{Relevance: func(_, document string) float64 { return -float64(len(document)) }})
		s.Fail(Order(0, 1, 2))
		got, err := r.Rerank(t.Context(), mills)
		require.NoError(t, err)
		require.Equal(t, []llm.Ranked{{Index: 2, Score: -15}, {Index: 1, Score: -23}, {Index: 0, Score: -24}}, got.Ranked)
	})
	t.Run("a request that is not valid is not sent", func(t *testing.T) {
		s, r := start(t, Config{})
		for _, req := range []llm.RerankRequest{
			{Query: "q"},
			{Query: " ", Documents: []string{"a"}},
			{Query: "q", Documents: []string{"a", " "}},
			{Query: "q", Documents: slices.Repeat([]string{"a"}, llm.MaxRerankDocuments+1)},
		} {
			_, err := r.Rerank(t.Context(), req)
			require.Contains(t, failure(t, err).Message, "the request is not valid: ")
		}
		require.Zero(t, s.Calls())
	})
	t.Run("a ranking that does not fit", func(t *testing.T) {
		s, r := start(t, Config{})
		for _, wrong := range [][]int{{}, {3}, {-1}, {1, 1}, {0, 1, 2, 0}} {
			s.Fail(Order(wrong...))
			_, err := r.Rerank(t.Context(), mills)
			got := failure(t, err)
			require.Equal(t, llm.CodeBadRanking, got.Code, "%v", wrong)
			require.False(t, got.Retryable)
		}
	})
	t.Run("failures", func(t *testing.T) {
		s, r := start(t, Config{})
		for _, c := range []struct {
			fault     Fault
			retryable bool
		}{
			{Status(http.StatusBadRequest, ""), false},
			{Status(http.StatusUnauthorized, "").WithError("", "wrong: "+key), false},
			{Status(http.StatusTooManyRequests, "3"), true},
			{Status(http.StatusServiceUnavailable, ""), true},
			{Drop(0), true},
			{Malformed(0), true},
		} {
			s.Fail(c.fault)
			_, err := r.Rerank(t.Context(), mills)
			require.Equal(t, c.retryable, failure(t, err).Retryable, "%+v", c.fault)
		}
		_, err := r.Rerank(t.Context(), mills)
		require.NoError(t, err)
	})
	t.Run("a wrong key", func(t *testing.T) {
		_, r := start(t, Config{APIKey: "another"})
		_, err := r.Rerank(t.Context(), mills)
		require.Equal(t, http.StatusUnauthorized, failure(t, err).StatusCode)
	})
	t.Run("a call that ends while it waits", func(t *testing.T) {
		s, r := start(t, Config{})
		s.Fail(Hang(0))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := r.Rerank(ctx, mills)
			ended <- err
		}()
		require.Eventually(t, func() bool { return s.Calls() == 1 }, testenv.Patience, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
