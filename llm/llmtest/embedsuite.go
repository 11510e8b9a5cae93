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

// RunEmbedder is the conformance suite of drivers for embeddings. build returns a driver that calls the server s with an
// API key.
func RunEmbedder(t *testing.T, build func(t *testing.T, s *Server, key string) llm.Embedder) {
	t.Helper()
	start := func(t *testing.T, config Config) (*Server, llm.Embedder) {
		t.Helper()
		s := NewServer(config)
		t.Cleanup(s.Close)
		return s, build(t, s, key)
	}
	embed := func(t *testing.T, e llm.Embedder, texts ...string) (llm.Embeddings, error) {
		t.Helper()
		return e.Embed(t.Context(), llm.EmbedRequest{Model: "embedder", Texts: texts})
	}
	t.Run("a vector for each text, in their order", func(t *testing.T) {
		s, e := start(t, Config{})
		texts := slices.Repeat([]string{"one", "two words", "three"}, 33)
		got, err := embed(t, e, texts...)
		require.NoError(t, err)
		require.Len(t, got.Vectors, len(texts))
		for i, text := range texts {
			require.InDeltaSlice(t, Embedding(text, EmbeddingDimension), got.Vectors[i], 1e-6)
		}
		require.Equal(t, 1, s.Calls())
	})
	t.Run("the dimension is passed on, for each purpose", func(t *testing.T) {
		_, e := start(t, Config{})
		for _, purpose := range []llm.EmbedPurpose{"", llm.EmbedDocument, llm.EmbedQuery} {
			got, err := e.Embed(t.Context(), llm.EmbedRequest{Model: "embedder", Texts: []string{"one"}, Dimension: 8, Purpose: purpose})
			require.NoError(t, err)
			require.Len(t, got.Vectors[0], 8)
		}
	})
	t.Run("a request that is not valid is not sent", func(t *testing.T) {
		s, e := start(t, Config{})
		for _, texts := range [][]string{nil, {"a", " "}, slices.Repeat([]string{"a"}, llm.MaxEmbedTexts+1)} {
			_, err := embed(t, e, texts...)
			require.Contains(t, failure(t, err).Message, "the request is not valid: ")
		}
		require.Zero(t, s.Calls())
	})
	t.Run("another dimension", func(t *testing.T) {
		s, e := start(t, Config{})
		s.Fail(Dimension(7))
		_, err := e.Embed(t.Context(), llm.EmbedRequest{Model: "embedder", Texts: []string{"one"}, Dimension: 8})
		got := failure(t, err)
		require.Equal(t, llm.CodeBadEmbeddings, got.Code)
		require.False(t, got.Retryable)
		require.Contains(t, got.Message, "has the dimension 7 instead of 8")
	})
	t.Run("failures", func(t *testing.T) {
		s, e := start(t, Config{})
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
			_, err := embed(t, e, "one")
			require.Equal(t, c.retryable, failure(t, err).Retryable, "%+v", c.fault)
		}
		_, err := embed(t, e, "one")
		require.NoError(t, err)
	})
	t.Run("a wrong key", func(t *testing.T) {
		_, e := start(t, Config{APIKey: "another"})
		_, err := embed(t, e, "one")
		require.Equal(t, http.StatusUnauthorized, failure(t, err).StatusCode)
	})
	t.Run("a call that ends while it waits", func(t *testing.T) {
		s, e := start(t, Config{})
		s.Fail(Hang(0))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := e.Embed(ctx, llm.EmbedRequest{Model: "embedder", Texts: []string{"one"}})
			ended <- err
		}()
		require.Eventually(t, func() bool { return s.Calls() == 1 }, testenv.Patience, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
