package llmtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
)

// Build returns a driver that calls the server s with an API key.
type Build func(t *testing.T, s *Server, key string) llm.Provider

// RunHTTP is the conformance suite of drivers that call the server: [Run], and what drivers make of
// its faults.
func RunHTTP(t *testing.T, traits Traits, build Build) {
	t.Helper()
	Run(t, traits, func(t *testing.T, s *Server) llm.Provider { return build(t, s, "test") })
	f := faults{build: build}
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"an error status", f.statuses},
		{"a wrong key", f.wrongKey},
		{"a request that does not fit into the model's context", f.overflow},
		{"a stream that breaks", f.broken},
		{"nobody answers", f.unreachable},
		{"a call that ends while it waits", f.waiting},
		{"a redirect", f.redirect},
		{"a reply that is too large", f.tooLarge},
		{"an error that is too large", f.largeError},
	} {
		t.Run(tt.name, tt.test)
	}
}

// key is the API key of the suite. Errors must not contain it.
const key = "sk-not-a-real-key"

type faults struct{ build Build }

func (f faults) start(t *testing.T, config Config) (*Server, llm.Provider) {
	t.Helper()
	s := NewServer(config)
	t.Cleanup(s.Close)
	return s, f.build(t, s, key)
}

// both calls the test with and without streaming.
func both(t *testing.T, test func(t *testing.T, onDelta func(llm.Delta))) {
	t.Helper()
	t.Run("streamed", func(t *testing.T) { test(t, func(llm.Delta) {}) })
	t.Run("whole", func(t *testing.T) { test(t, nil) })
}

func failure(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, err.Error(), key)
	require.NotContains(t, fmt.Sprintf("%+v", e.Cause), key)
	return e
}

func (f faults) statuses(t *testing.T) {
	s, p := f.start(t, Config{})
	for _, tt := range []struct {
		name      string
		fault     Fault
		status    int
		retryable bool
		after     time.Duration
	}{
		{"bad request", Status(400, ""), 400, false, 0},
		{"unauthorized, saying the key", Status(401, "").WithError("invalid_api_key", "Incorrect API key: "+key), 401, false, 0},
		{"not found", Status(404, ""), 404, false, 0},
		{"too many", Status(429, "7"), 429, true, 7 * time.Second},
		{"too many, in milliseconds", Status(429, "7").WithHeader("Retry-After-Ms", "1500"), 429, true, 1500 * time.Millisecond},
		{"server error", Status(500, ""), 500, true, 0},
		{"unavailable", Status(503, "2"), 503, true, 2 * time.Second},
		{"overloaded", Status(529, ""), 529, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				s.Reset()
				s.Fail(tt.fault)
				_, err := p.Generate(t.Context(), request("hello"), onDelta)
				e := failure(t, err)
				require.Equal(t, tt.status, e.StatusCode)
				require.Equal(t, tt.retryable, e.Retryable)
				require.Equal(t, tt.after, e.RetryAfter)
				require.NotEmpty(t, e.Message)
				require.Equal(t, 1, s.Calls(), "the driver does not retry")
			})
		})
	}
}

func (f faults) wrongKey(t *testing.T) {
	_, p := f.start(t, Config{APIKey: "another"})
	_, err := p.Generate(t.Context(), request("hello"), nil)
	e := failure(t, err)
	require.Equal(t, http.StatusUnauthorized, e.StatusCode)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "Incorrect API key")
}

func (f faults) overflow(t *testing.T) {
	s, p := f.start(t, Config{})
	for _, message := range []string{
		"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
		"prompt is too long: 210000 tokens > 200000 maximum",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
	} {
		s.Fail(Status(400, "").WithError("", message))
		_, err := p.Generate(t.Context(), request("hello"), nil)
		e := failure(t, err)
		require.True(t, e.ContextOverflow, message)
		require.False(t, e.Retryable)
		require.Equal(t, "context_overflow", e.Class())
	}
	s.Fail(Status(400, "").WithError("", "temperature: must be at most 2"))
	_, err := p.Generate(t.Context(), request("hello"), nil)
	require.False(t, failure(t, err).ContextOverflow)
}

func (f faults) broken(t *testing.T) {
	for _, tt := range []struct {
		name      string
		fault     Fault
		retryable bool
		message   string
	}{
		{"the connection drops", Drop(3), true, "the connection failed"},
		{"the stream ends early", EndEarly(3), true, "broke off"},
		{"a chunk is not JSON", Malformed(3), true, "could not be read"},
		{"an error comes", StreamError(3, "", "the engine stopped"), true, "the engine stopped"},
	} {
		t.Run("S1-24 "+tt.name, func(t *testing.T) {
			s, p := f.start(t, Config{})
			var got strings.Builder
			s.Fail(tt.fault)
			resp, err := p.Generate(t.Context(), request("count 10\nuse now"), func(d llm.Delta) { got.WriteString(d.Text) })
			e := failure(t, err)
			require.Equal(t, tt.retryable, e.Retryable)
			require.Contains(t, err.Error(), tt.message)
			require.Equal(t, "1 2 3", resp.Content, "what had arrived is kept")
			require.Equal(t, got.String(), resp.Content)
			require.Empty(t, resp.ToolCalls, "a reply that was cut off asks for nothing")
			require.Equal(t, 1, s.Calls())
		})
	}
}

func (f faults) unreachable(t *testing.T) {
	s, p := f.start(t, Config{})
	s.Close()
	both(t, func(t *testing.T, onDelta func(llm.Delta)) {
		_, err := p.Generate(t.Context(), request("hello"), onDelta)
		e := failure(t, err)
		require.True(t, e.Retryable)
		require.Equal(t, "unreachable", e.Class())
	})
}

func (f faults) waiting(t *testing.T) {
	s, p := f.start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := s.Block(0)
	go func() {
		<-gate.Reached()
		cancel()
	}()
	_, err := p.Generate(ctx, request("hello"), func(llm.Delta) {})
	requireCanceled(t, err)
}
