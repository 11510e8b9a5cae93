package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

const key = "sk-not-a-real-key"

func start(t *testing.T, config llmtest.Config) (*llmtest.Server, *openai.Provider) {
	t.Helper()
	return speaking(t, config, "")
}

// speaking is start with a dialect.
func speaking(t *testing.T, config llmtest.Config, dialect string) (*llmtest.Server, *openai.Provider) {
	t.Helper()
	s := llmtest.NewServer(config)
	t.Cleanup(s.Close)
	return s, provider(t, openai.Config{BaseURL: s.URL, Dialect: dialect})
}

func provider(t *testing.T, config openai.Config) *openai.Provider {
	t.Helper()
	if config.APIKey == "" {
		config.APIKey = key
	}
	p, err := openai.New(config)
	require.NoError(t, err)
	return p
}

func request(script string) llm.Request {
	return llm.Request{Model: "stand-in", Messages: []llm.Message{{Role: event.RoleUser, Content: script}}}
}

// both calls f with and without streaming.
func both(t *testing.T, f func(t *testing.T, onDelta func(llm.Delta))) {
	t.Helper()
	t.Run("streamed", func(t *testing.T) { f(t, func(llm.Delta) {}) })
	t.Run("whole", func(t *testing.T) { f(t, nil) })
}

func failure(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, err.Error(), key)
	require.NotContains(t, fmt.Sprintf("%+v", e.Cause), key)
	return e
}

func TestStatus(t *testing.T) {
	s, p := start(t, llmtest.Config{})
	begun := time.Now()
	soon := begun.Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, tt := range []struct {
		name      string
		fault     llmtest.Fault
		status    int
		retryable bool
		after     time.Duration
	}{
		{"bad request", llmtest.Status(400, ""), 400, false, 0},
		{"unauthorized, saying the key", llmtest.Status(401, "").WithError("invalid_api_key", "Incorrect API key: "+key), 401, false, 0},
		{"not found", llmtest.Status(404, ""), 404, false, 0},
		{"timeout", llmtest.Status(408, ""), 408, true, 0},
		{"conflict", llmtest.Status(409, ""), 409, true, 0},
		{"too many, in seconds", llmtest.Status(429, "7"), 429, true, 7 * time.Second},
		{"too many, as a date", llmtest.Status(429, soon), 429, true, time.Hour},
		{"too many, in milliseconds", llmtest.Status(429, "7").WithHeader("Retry-After-Ms", "1500"), 429, true, 1500 * time.Millisecond},
		{"too many, nonsense", llmtest.Status(429, "soon"), 429, true, 0},
		{"too many, too long", llmtest.Status(429, "1e30"), 429, true, 24 * time.Hour},
		{"no money left", llmtest.Status(429, "7").WithError("insufficient_quota", "You exceeded your quota"), 429, false, 0},
		{"server error", llmtest.Status(500, ""), 500, true, 0},
		{"unavailable", llmtest.Status(503, "2"), 503, true, 2 * time.Second},
		{"overloaded", llmtest.Status(529, ""), 529, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				s.Reset()
				s.Fail(tt.fault)
				_, err := p.Generate(t.Context(), request("hello"), onDelta)
				e := failure(t, err)
				require.Equal(t, "openai", e.Provider)
				require.Equal(t, tt.status, e.StatusCode)
				require.Equal(t, tt.retryable, e.Retryable)
				// A date is in whole seconds, and its distance shrinks during the test.
				require.InDelta(t, tt.after, e.RetryAfter, float64(time.Second+time.Since(begun)))
				if tt.after == 0 {
					require.Zero(t, e.RetryAfter)
				}
				if tt.after < time.Minute {
					require.Equal(t, tt.after, e.RetryAfter)
				}
				require.Equal(t, 1, s.Calls(), "the driver does not retry")
			})
		})
	}
}

func TestErrorSaysWhatTheProviderSaid(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{})
	t.Cleanup(s.Close)
	p := provider(t, openai.Config{BaseURL: s.URL, Name: "local"})
	s.Fail(llmtest.Status(404, "").WithError("model_not_found", "no such model, "+key))
	_, err := p.Generate(t.Context(), request("hello"), nil)
	require.EqualError(t, err, "local answered 404: no such model, [key]")
	require.Equal(t, "model_not_found", failure(t, err).Code)
}

func TestBrokenStreams(t *testing.T) {
	for _, tt := range []struct {
		name      string
		fault     llmtest.Fault
		retryable bool
		message   string
	}{
		{"the connection drops", llmtest.Drop(3), true, "the connection failed"},
		{"the stream ends early", llmtest.EndEarly(3), true, "broke off"},
		{"a chunk is not JSON", llmtest.Malformed(3), true, "could not be read"},
		{"an error comes", llmtest.StreamError(3, "server_error", "the engine stopped"), true, "the engine stopped"},
		{"an error with a status comes", llmtest.StreamError(3, "502", "bad gateway"), true, "openai answered 502: bad gateway"},
		{"an error that stays comes", llmtest.StreamError(3, "context_length_exceeded", "too long"), false, "too long"},
	} {
		t.Run("S1-24 "+tt.name, func(t *testing.T) {
			s, p := start(t, llmtest.Config{})
			var got strings.Builder
			s.Fail(tt.fault)
			resp, err := p.Generate(t.Context(), request("count 10\nuse now"), func(d llm.Delta) { got.WriteString(d.Text) })
			e := failure(t, err)
			require.Equal(t, tt.retryable, e.Retryable)
			require.Contains(t, err.Error(), tt.message)
			require.Equal(t, "1 2 3", resp.Content, "what had arrived is kept")
			require.Equal(t, got.String(), resp.Content)
			require.Empty(t, resp.ToolCalls)

			s.Fail(tt.fault)
			_, err = p.Generate(t.Context(), request("hello every one"), nil)
			require.Equal(t, tt.retryable, failure(t, err).Retryable, "whole")
			require.Equal(t, 2, s.Calls())
		})
	}
}

func TestUnreachable(t *testing.T) {
	p := provider(t, openai.Config{BaseURL: "http://127.0.0.1:1/v1"})
	both(t, func(t *testing.T, onDelta func(llm.Delta)) {
		_, err := p.Generate(t.Context(), request("hello"), onDelta)
		e := failure(t, err)
		require.True(t, e.Retryable)
		require.Zero(t, e.StatusCode)
	})
}

func TestContext(t *testing.T) {
	s, p := start(t, llmtest.Config{})
	gate := s.Block(3)
	ctx, cancel := context.WithCancel(t.Context())
	var got strings.Builder
	arrived := make(chan struct{})
	go func() {
		<-gate.Reached()
		<-arrived
		cancel()
	}()
	resp, err := p.Generate(ctx, request("count 9\nuse now"), func(d llm.Delta) {
		if got.WriteString(d.Text); got.String() == "1 2 3" {
			close(arrived)
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "1 2 3", resp.Content)

	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s.Fail(llmtest.Hang(0))
	_, err = p.Generate(ctx, request("hello"), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestServersThatDiffer(t *testing.T) {
	script := "think so it is\nwell\nuse read {\"path\": \"ä\"}\nuse read {\"path\": \"ä\"}\nuse now"
	for name, config := range map[string]llmtest.Config{
		"tool calls without index and id": {Sloppy: true},
		"another field for reasoning":     {ReasoningField: "reasoning"},
		"no streaming":                    {NoStream: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := start(t, config)
			resp, err := p.Generate(t.Context(), request(script), func(llm.Delta) {})
			require.NoError(t, err)
			require.Equal(t, "well", resp.Content)
			require.Equal(t, "so it is", resp.Thought)
			require.Len(t, resp.ToolCalls, 3)
			ids := map[string]bool{}
			for i, want := range []event.Function{
				{Name: "read", Arguments: `{"path": "ä"}`}, {Name: "read", Arguments: `{"path": "ä"}`}, {Name: "now", Arguments: "{}"},
			} {
				require.Equal(t, want, resp.ToolCalls[i].Function)
				ids[resp.ToolCalls[i].ID] = true
			}
			require.Len(t, ids, 3)
			require.NotContains(t, ids, "")
			require.NotZero(t, resp.Usage.InputTokens)
		})
	}
}

func TestRequest(t *testing.T) {
	s, p := speaking(t, llmtest.Config{APIKey: key}, openai.DialectOpenAI)
	zero := 0.0
	req := llm.Request{
		Model: "stand-in", Temperature: &zero, MaxOutputTokens: 100, ReasoningEffort: "low",
		Messages: []llm.Message{
			{Role: event.RoleSystem, Content: "s"},
			{Role: event.RoleUser, Content: "hi", Name: "Ann Mary / ä"},
			{Role: event.RoleAssistant},
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{
				{ID: "a", Function: event.Function{Name: "mcp.read", Arguments: `{"x":1}`}},
				{ID: "b", Function: event.Function{Name: "gone/tool", Arguments: `{oops`}},
			}},
			{Role: event.RoleTool, ToolCallID: "a", Content: "", Name: "mcp.read"},
			{Role: event.RoleTool, ToolCallID: "b", Content: "no such tool", IsError: true},
			{Role: event.RoleUser, Content: "use mcp_read"},
		},
		Tools: []llm.Tool{
			{Name: "mcp.read", Description: "reads", Parameters: json.RawMessage(`{"type":"object","x-kept":true}`)},
			{Name: "mcp_read"},
		},
	}
	resp, err := p.Generate(t.Context(), req, func(llm.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "mcp_read", resp.ToolCalls[0].Function.Name)
	got := s.Requests()[0]
	require.Equal(t, "Bearer "+key, got.Header.Get("Authorization"))
	body := map[string]any{}
	require.NoError(t, json.Unmarshal(got.Body, &body))
	require.Less(t, body["temperature"], 1e-30, "zero is sent, as nearly as the SDK can")
	require.Contains(t, body, "temperature")
	require.JSONEq(t, `{"include_usage": true}`, encode(t, body["stream_options"]))
	require.InDelta(t, 100, body["max_completion_tokens"], 0)
	require.Equal(t, "low", body["reasoning_effort"])
	require.JSONEq(t, `[
		{"role": "system", "content": "s"},
		{"role": "user", "content": "hi", "name": "Ann_Mary____"},
		{"role": "assistant", "tool_calls": [
			{"id": "a", "type": "function", "function": {"name": "mcp_read_2", "arguments": "{\"x\":1}"}},
			{"id": "b", "type": "function", "function": {"name": "gone_tool", "arguments": "{\"invalidJson\":\"{oops\"}"}}
		]},
		{"role": "tool", "tool_call_id": "a", "content": "(no output)"},
		{"role": "tool", "tool_call_id": "b", "content": "no such tool"},
		{"role": "user", "content": "use mcp_read"}
	]`, encode(t, body["messages"]))
	require.JSONEq(t, `[
		{"type": "function", "function": {"name": "mcp_read_2", "description": "reads", "parameters": {"type": "object", "properties": {}, "x-kept": true}}},
		{"type": "function", "function": {"name": "mcp_read", "parameters": {"type": "object", "properties": {}}}}
	]`, encode(t, body["tools"]))
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestTokenLimit(t *testing.T) {
	s, p := start(t, llmtest.Config{})
	for model, field := range map[string]string{
		"llama3": "max_tokens", "gpt-4o": "max_tokens", "o3-mini": "max_completion_tokens", "gpt-5.1": "max_completion_tokens",
		"openai/o4-mini": "max_completion_tokens", "olmo": "max_tokens",
	} {
		s.Reset()
		req := request("hello")
		req.Model, req.MaxOutputTokens = model, 50
		_, err := p.Generate(t.Context(), req, nil)
		require.NoError(t, err, model)
		var body map[string]any
		require.NoError(t, json.Unmarshal(s.Requests()[0].Body, &body))
		for _, f := range []string{"max_tokens", "max_completion_tokens"} {
			if f == field {
				require.InDelta(t, 50, body[f], 0, model)
			} else {
				require.NotContains(t, body, f, model)
			}
		}
	}
}

func TestRequestThatTheSDKRefuses(t *testing.T) {
	s, p := start(t, llmtest.Config{})
	req, warm := request("hello"), 0.7
	req.Model, req.Temperature = "o3-mini", &warm
	_, err := p.Generate(t.Context(), req, nil)
	e := failure(t, err)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "temperature")
	require.Zero(t, s.Calls())
}

// answering returns a server that always sends the same response.
func answering(t *testing.T, contentType, body string) *openai.Provider {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return provider(t, openai.Config{BaseURL: s.URL})
}

func TestStreamsInTheWild(t *testing.T) {
	text := func(s string) string { return `data: {"choices":[{"delta":{"content":"` + s + `"}}]}` + "\n\n" }
	stop := `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, tt := range []struct{ name, stream, content, problem string }{
		{"comments and other fields", ": hello\n\nevent: x\nid: 1\n" + text("a") + ": waiting\n\n" + text("b") + stop + "data: [DONE]\n\n", "ab", ""},
		{"no [DONE]", text("a") + stop, "a", ""},
		{"no finish reason", text("a") + "data: [DONE]\n\n", "a", ""},
		{"no space, CRLF, no last newline", "data:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata:[DONE]", "a", ""},
		{"content in parts", `data: {"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[]}]}}]}` + "\n" + stop, "a", ""},
		{"a refusal", `data: {"choices":[{"delta":{"refusal":"no"}}]}` + "\n" + stop, "no", ""},
		{"error null", `data: {"error":null,"choices":[{"delta":{"content":"a"}}]}` + "\n" + stop, "a", ""},
		{"a second choice", text("a") + `data: {"choices":[{"index":1,"delta":{"content":"b"}}]}` + "\n" + stop, "a", ""},
		{"neither end", text("a"), "a", "broke off"},
		{"broken off after a tool call", `data: {"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"id":"x","function":{"name":"rm","arguments":"{}"}}]}}]}` + "\n\n", "a", "broke off"},
		{"nothing at all", "", "", "broke off"},
		{"only [DONE]", "data: [DONE]\n\n", "", "broke off"},
		{"[DONE] within the text", text("data: [DONE]"), "data: [DONE]", "broke off"},
		{"an error as a string", text("a") + `data: {"error":"out of memory"}` + "\n\n", "a", "out of memory"},
		{"an error without a message", text("a") + `data: {"error":{"oops":1}}` + "\n\n", "a", `{"oops":1}`},
		{"an error after other fields", `data: {"id":"1","error":{"code":502,"message":"gateway"},"choices":[]}` + "\n\n", "", "answered 502: gateway"},
		{"an event error", text("a") + "event: error\ndata: {\"message\":\"the engine died\"}\n\n", "a", "the engine died"},
		{"an event error with an error", "event: error\ndata: {\"error\":{\"message\":\"it died\"}}\n\n", "", "it died"},
		{"an event error in plain text", "event: error\ndata: it died\n\n", "", "it died"},
		{"an end that is none", text("a") + `data: {"choices":[{"delta":{},"finish_reason":"abort"}]}` + "\n\ndata: [DONE]\n\n", "a", "ended the reply with abort"},
		{"a first chunk without choices", `data: {"choices":[],"code":0,"msg":"","message":"success"}` + "\n" + text("a") + stop, "a", ""},
		{"a first chunk with an empty message", `data: {"choices":[],"message":"","msg":""}` + "\n" + text("a") + stop, "a", ""},
		{"an error that is none", `data: {"error":{},"choices":[{"delta":{"content":"a"}}]}` + "\n" + stop, "a", ""},
		{"an error without text", `data: {"error":"","choices":[{"delta":{"content":"a"}}]}` + "\n" + stop, "a", ""},
		{"numbers of tokens with fractions", `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":12.0,"completion_tokens":"3"}}` + "\n" + stop, "a", ""},
		{"usage as text", `data: {"choices":[{"delta":{"content":"a"}}],"usage":"none"}` + "\n" + stop, "a", ""},
		{"details as a list", `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":12,"prompt_tokens_details":[]}}` + "\n" + stop, "a", ""},
		{"calls as an object", `data: {"choices":[{"index":"0","delta":{"content":"a","tool_calls":{}}}]}` + "\n" + stop, "a", ""},
		{"halves of a character", text(`\ud83d`) + text(`\ude00`) + stop, "😀", ""},
		{"an error in a choice", `data: {"choices":[{"delta":{},"error":{"message":"upstream"},"finish_reason":"error"}]}` + "\n\n", "", "upstream"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := answering(t, "text/event-stream", tt.stream).Generate(t.Context(), request("hello"), func(llm.Delta) {})
			require.Equal(t, tt.content, resp.Content)
			require.Empty(t, resp.ToolCalls, "a reply that was cut off asks for nothing")
			if tt.problem == "" {
				require.NoError(t, err)
				return
			}
			e := failure(t, err)
			require.Contains(t, err.Error(), tt.problem)
			require.True(t, e.Retryable)
		})
	}
}

// TestErrorsWithStatus200: what servers say of an error in a way of their own is told, and retried only if it may pass.
func TestErrorsWithStatus200(t *testing.T) {
	for _, tt := range []struct {
		body, says string
		retryable  bool
	}{
		{`{"base_resp":{"status_code":2049,"status_msg":"invalid api key"}}`, "invalid api key", false},
		{`{"id":"x","choices":null,"usage":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, "insufficient balance", false},
		{`{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, "rate limit", true},
		{`{"code":401,"msg":"token expired or incorrect","success":false}`, "answered 401: token expired", false},
		{`{"code":"429","message":"slow down"}`, "answered 429: slow down", true},
		{`{"detail":"the model is overloaded"}`, "overloaded", true},
		{`{"msg":"cannot generate with this key"}`, "cannot generate", false},
		{`{"success":false}`, `{"success":false}`, false},
	} {
		for media, body := range map[string]string{"application/json": tt.body, "text/event-stream": "data: " + tt.body + "\n\ndata: [DONE]\n\n"} {
			p := answering(t, media, body)
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				if media == "text/event-stream" && onDelta == nil {
					return
				}
				_, err := p.Generate(t.Context(), request("hello"), onDelta)
				e := failure(t, err)
				require.Contains(t, err.Error(), tt.says)
				require.Equal(t, tt.retryable, e.Retryable, tt.body)
			})
		}
	}
	_, err := answering(t, "application/json", `{"id":"x"}`).Generate(t.Context(), request("hello"), nil)
	require.Contains(t, failure(t, err).Message, `it has no choices: {"id":"x"}`)
}

// TestStreamsThatAreLabelledAsJSON: the first bytes tell what a body is.
func TestStreamsThatAreLabelledAsJSON(t *testing.T) {
	chunk := `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n"
	for _, body := range []string{chunk + "data: [DONE]\n\n", ": hello\n" + chunk, "event: x\n" + chunk, `{"choices":[{"message":{"content":"a"}}]}`} {
		resp, err := answering(t, "application/json", body).Generate(t.Context(), request("hello"), func(llm.Delta) {})
		require.NoError(t, err)
		require.Equal(t, "a", resp.Content)
	}
}

func TestWebPage(t *testing.T) {
	p := answering(t, "text/html; charset=utf-8", "<html>welcome</html>")
	_, err := p.Generate(t.Context(), request("hello"), func(llm.Delta) {})
	e := failure(t, err)
	require.Contains(t, e.Message, "BaseURL")
	require.False(t, e.Retryable)
	_, err = p.Generate(t.Context(), request("hello"), nil)
	require.Contains(t, failure(t, err).Message, "BaseURL")
}

func TestUsage(t *testing.T) {
	want := event.Usage{InputTokens: 10, OutputTokens: 7, ReasoningTokens: 3, CachedTokens: 8, CacheWriteTokens: 2}
	for _, u := range []string{
		`{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}`,
		`{"prompt_tokens":10,"completion_tokens":7,"prompt_cache_hit_tokens":8,"prompt_tokens_details":{"cached_tokens":null,"cache_write_tokens":2.0},"completion_tokens_details":{"reasoning_tokens":3}}`,
	} {
		p := answering(t, "application/json", `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"service_tier":"flex","usage":`+u+`}`)
		both(t, func(t *testing.T, onDelta func(llm.Delta)) {
			resp, err := p.Generate(t.Context(), request("hello"), onDelta)
			require.NoError(t, err)
			require.Equal(t, want, resp.Usage)
			require.Empty(t, resp.Model, "the server names none")
			require.Equal(t, "flex", resp.Tier)
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	_, p := start(t, llmtest.Config{})
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
	})
	for range 5 {
		_, err := p.Generate(ctx, request("hello world"), func(llm.Delta) {})
		require.NoError(t, err)
	}
	require.Len(t, reused, 5)
	require.Contains(t, reused, true)
}

func TestNew(t *testing.T) {
	for field, config := range map[string]openai.Config{
		"APIKey":         {},
		"BaseURL":        {BaseURL: "localhost:11434"},
		"Timeouts.Start": {APIKey: key, Timeouts: llm.Timeouts{Start: -1}},
		"Timeouts.Idle":  {APIKey: key, Timeouts: llm.Timeouts{Idle: -1}},
	} {
		_, err := openai.New(config)
		require.ErrorContains(t, err, field+": ")
	}
	_, err := openai.New(openai.Config{BaseURL: "http://localhost:11434/v1/"})
	require.NoError(t, err, "other servers need no key")
}
