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
	f := faults{build: build, dialect: traits.Dialect}
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
		{"a reply that only calls a tool", f.begins},
		{"a redirect", f.redirect},
		{"a reply that is too large", f.tooLarge},
		{"an error that is too large", f.largeError},
		{"arguments that nest too deeply", f.deepArguments},
	} {
		t.Run(tt.name, tt.test)
	}
}

// key is the API key of the suite. Errors must not contain it.
const key = "sk-not-a-real-key"

type faults struct {
	build   Build
	dialect Dialect
}

func (f faults) start(t *testing.T, config Config) (*Server, llm.Provider) {
	t.Helper()
	config.Dialect = f.dialect
	s := NewServer(config)
	t.Cleanup(s.Close)
	p := f.build(t, s, key)
	if len(f.dialect.Refused) > 0 { // the provider learns what the server refuses: tests count requests
		_, _ = p.Generate(t.Context(), request("hello"), func(llm.Delta) {})
		s.Reset()
	}
	return s, p
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
		{"too many, in words", Status(429, "").WithError("", "Limit reached. Please try again in 1m2.5s."), 429, true, 62500 * time.Millisecond},
		{"too many, in other words", Status(429, "").WithError("", "Please retry after 6 seconds."), 429, true, 6 * time.Second},
		{"too many, the header counts", Status(429, "7").WithError("", "Please try again in 20s."), 429, true, 7 * time.Second},
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
		"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
		"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.",
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
		"Invalid request: Your request exceeded model token limit: 262144",
		"Range of input length should be [1, 30720]",
		"'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
		"The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
		"max_tokens must be at least 1, got -300.",
		"request (10000 tokens) exceeds the available context size (4096 tokens), try increasing it",
		"prompt too long; exceeded max context length by 12 tokens",
		"The number of tokens to keep from the initial prompt is greater than the context length.",
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
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
	for _, fault := range []Fault{
		Status(413, ""), Status(422, "").WithError("", "prompt is too long"), Status(500, "").WithError("", "Context size has been exceeded."),
		Status(429, "1").WithError("", "Request too large for gpt-4o in organization org on tokens per min (TPM): Limit 30000, Requested 40000."),
		StreamError(1, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
	} {
		s.Fail(fault)
		_, err := p.Generate(t.Context(), request("hello"), func(llm.Delta) {})
		e := failure(t, err)
		require.True(t, e.ContextOverflow, e.Message)
		require.False(t, e.Retryable)
	}
	for _, fault := range []Fault{
		Status(400, "").WithError("", "temperature: must be at most 2"),
		Status(400, "").WithError("", "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for this model"),
		Status(429, "1").WithError("", "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000. Please try again in 6s."),
		Status(503, "").WithError("", "too many tokens in the queue"),
	} {
		s.Fail(fault)
		_, err := p.Generate(t.Context(), request("hello"), nil)
		require.False(t, failure(t, err).ContextOverflow)
	}
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

// begins: the caller learns that a reply has begun, although it has no text.
func (f faults) begins(t *testing.T) {
	_, p := f.start(t, Config{})
	req := request(`use now {}`)
	req.Tools = []llm.Tool{{Name: "now", Description: "Tells the time.", Parameters: []byte(`{"type":"object","properties":{}}`)}}
	var got []llm.Delta
	resp, err := p.Generate(t.Context(), req, func(d llm.Delta) { got = append(got, d) })
	require.NoError(t, err)
	require.Len(t, resp.ToolCalls, 1)
	require.NotEmpty(t, got)
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
