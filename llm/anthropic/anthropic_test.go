package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
)

// answering returns a driver whose server always sends the same events, and the body of its last
// request.
func answering(t *testing.T, config anthropic.Config, events ...string) (*anthropic.Provider, *map[string]any) {
	t.Helper()
	body := map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		clear(body)
		_ = json.Unmarshal(raw, &body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			var head struct{ Type string }
			_ = json.Unmarshal([]byte(e), &head)
			_, _ = io.WriteString(w, "event: "+head.Type+"\ndata: "+e+"\n\n")
		}
	}))
	t.Cleanup(s.Close)
	config.BaseURL, config.APIKey = s.URL, "sk-not-a-real-key"
	p, err := anthropic.New(config)
	require.NoError(t, err)
	return p, &body
}

const (
	start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-x","content":[],` +
		`"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,` +
		`"cache_creation":{"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":5},"service_tier":"priority","output_tokens":1}}}`
	text = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	hi   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
	stop = `{"type":"message_stop"}`
)

func ended(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},` +
		`"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}}`
}

func request() llm.Request {
	return llm.Request{Model: "claude-opus-4-8", Messages: []llm.Message{{Role: event.RoleUser, Name: "ann", Content: "hello"}}}
}

func TestUsage(t *testing.T) {
	p, body := answering(t, anthropic.Config{}, start, text, hi, ended("max_tokens"), stop)
	resp, err := p.Generate(t.Context(), request(), nil)
	require.NoError(t, err)
	require.Contains(t, encode(t, *body), `"cache_control":{"ttl":"5m","type":"ephemeral"}`, "by default")
	require.Equal(t, event.Usage{
		InputTokens: 130, CachedTokens: 100, CacheWriteTokens: 20, CacheWriteHourTokens: 5, OutputTokens: 30, ReasoningTokens: 12,
	}, resp.Usage, "input with what was cached")
	require.Equal(t, llm.FinishLength, resp.FinishReason)
	require.Equal(t, "claude-x", resp.Model)
	require.Equal(t, "priority", resp.Tier)
}

// TestUsageOfGateways: numbers in another form count, and nothing else fails a reply.
func TestUsageOfGateways(t *testing.T) {
	for usage, want := range map[string]event.Usage{
		`{"input_tokens":10,"cache_creation_input_tokens":4.0,"cache_creation":{"ephemeral_1h_input_tokens":3.0}}`: {InputTokens: 14, CacheWriteTokens: 4, CacheWriteHourTokens: 3},
		`{"input_tokens":10,"cache_creation_input_tokens":4,"cache_creation":null,"service_tier":null}`:            {InputTokens: 14, CacheWriteTokens: 4},
		`{"input_tokens":10,"cache_creation":"none","service_tier":5}`:                                             {InputTokens: 10},
	} {
		p, _ := answering(t, anthropic.Config{}, `{"type":"message_start","message":{"content":[],"usage":`+usage+`}}`, text, hi, ended("end_turn"), stop)
		resp, err := p.Generate(t.Context(), request(), nil)
		require.NoError(t, err, usage)
		want.OutputTokens, want.ReasoningTokens = 30, 12
		require.Equal(t, want, resp.Usage, usage)
		require.Empty(t, resp.Model, "the server names none")
	}
}

// TestShared: what further requests share is cached up to its end, beside the whole conversation.
func TestShared(t *testing.T) {
	for cache, want := range map[string]int{"": 2, "off": 0} {
		p, body := answering(t, anthropic.Config{Cache: cache}, start, text, hi, ended("end_turn"), stop)
		_, err := p.Generate(t.Context(), llm.Request{Model: "claude-opus-4-8", Messages: []llm.Message{
			{Role: event.RoleUser, Content: "the document", Shared: true}, {Role: event.RoleUser, Content: "a chunk"},
		}}, nil)
		require.NoError(t, err)
		require.Equal(t, want, strings.Count(encode(t, *body), `"cache_control"`))
		require.Equal(t, want > 0, strings.Contains(encode(t, *body), `{"cache_control":{"ttl":"5m","type":"ephemeral"},"text":"the document"`), encode(t, *body))
	}
}

func TestRefusal(t *testing.T) {
	refused := `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"No exploits."}},"usage":{"output_tokens":3}}`
	p, _ := answering(t, anthropic.Config{}, start, text, hi, refused, stop)
	_, err := p.Generate(t.Context(), request(), nil)
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, llm.CodeRefusal, e.Code)
	require.False(t, e.Retryable)
	require.EqualError(t, err, "anthropic: the model refuses to answer (cyber): No exploits.")
}

func TestErrorsInTheStream(t *testing.T) {
	for kind, want := range map[string]struct {
		status    int
		retryable bool
	}{
		"overloaded_error": {529, true}, "rate_limit_error": {429, true}, "api_error": {500, true}, "invalid_request_error": {400, false}, "new_error": {0, true},
	} {
		p, _ := answering(t, anthropic.Config{}, start, text, hi, `{"type":"error","error":{"type":"`+kind+`","message":"Overloaded"}}`)
		resp, err := p.Generate(t.Context(), request(), func(llm.Delta) {})
		var e *llm.Error
		require.ErrorAs(t, err, &e, kind)
		require.Equal(t, want.status, e.StatusCode, kind)
		require.Equal(t, want.retryable, e.Retryable, kind)
		require.Equal(t, "Overloaded", e.Message)
		require.Equal(t, "hi", resp.Content, "what had arrived is kept")
	}
	for name, events := range map[string][]string{
		"no block":  {start, hi},
		"no end":    {start, text, hi, ended("end_turn")},
		"no events": nil,
	} {
		p, _ := answering(t, anthropic.Config{}, events...)
		_, err := p.Generate(t.Context(), request(), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e, name)
		require.True(t, e.Retryable, name)
	}
}

// gateway returns a driver whose server always sends the same body.
func gateway(t *testing.T, media, body string) *anthropic.Provider {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	p, err := anthropic.New(anthropic.Config{BaseURL: s.URL, APIKey: "sk-not-a-real-key"})
	require.NoError(t, err)
	return p
}

// TestGateways: gateways leave out what the data of the events says too, and end streams as OpenAI does.
func TestGateways(t *testing.T) {
	const (
		zero  = `{"type":"message_start","message":{"model":"glm","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`
		blank = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`
		end   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":14,"output_tokens":7,"cache_read_input_tokens":5}}`
	)
	events := []string{zero, `{"type":"ping"}`, text, blank, hi, end, stop}
	whole := "data: " + strings.Join(events, "\n\ndata: ")
	for name, tt := range map[string]struct{ media, body string }{
		"no names":               {"text/event-stream", whole + "\n\n"},
		"no last line":           {"text/event-stream", whole},
		"Windows":                {"text/event-stream", strings.ReplaceAll(whole+"\n\n", "\n", "\r\n")},
		"comments and [DONE]":    {"text/event-stream", ": hello\n\n" + whole + "\n\ndata: [DONE]\n\n"},
		"one name for all":       {"text/event-stream", "event: message\n" + strings.ReplaceAll(whole, "\n\n", "\n\nevent: message\n") + "\n\n"},
		"no space":               {"text/event-stream", strings.ReplaceAll(whole, "data: ", "data:") + "\n\n"},
		"labelled JSON":          {"application/json", whole + "\n\n"},
		"data in several pieces": {"text/event-stream", strings.ReplaceAll(whole, `,"`, ",\ndata: \"") + "\n\n"},
	} {
		resp, err := gateway(t, tt.media, tt.body).Generate(t.Context(), request(), nil)
		require.NoError(t, err, name)
		require.Equal(t, "hi", resp.Content, name)
		require.Equal(t, event.Usage{InputTokens: 19, CachedTokens: 5, OutputTokens: 7}, resp.Usage, name)
	}
}

// TestErrorsOfGateways: an error is none the less for its status, its name or its form.
func TestErrorsOfGateways(t *testing.T) {
	begun := "data: " + start + "\n\ndata: " + text + "\n\ndata: " + hi + "\n\n"
	end := "data: " + ended("end_turn") + "\n\ndata: " + stop + "\n\n"
	for name, tt := range map[string]struct {
		media, body, message string
		status               int
		retryable            bool
	}{
		"without a name":  {"text/event-stream", begun + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n" + end, "Overloaded", 529, true},
		"another name":    {"text/event-stream", begun + `event: message` + "\n" + `data: {"type":"error","error":{"type":"api_error","message":"Oh"}}` + "\n\n" + end, "Oh", 500, true},
		"without a type":  {"text/event-stream", begun + `data: {"error":{"message":"upstream failed"}}` + "\n\n" + end, "upstream failed", 0, true},
		"as text":         {"text/event-stream", begun + `data: {"error":"upstream failed"}` + "\n\n" + end, `{"error":"upstream failed"}`, 0, true},
		"a body":          {"application/json", "{\n  \"type\": \"error\",\n\n  \"error\": {\"type\": \"authentication_error\", \"message\": \"invalid key\"}\n}\n", "invalid key", 401, false},
		"another body":    {"application/json", `{"code":500,"msg":"404 NOT_FOUND","success":false}`, `{"code":500,"msg":"404 NOT_FOUND","success":false}`, 0, true},
		"not streamed":    {"application/json", `{"type":"message","content":[]}`, `{"type":"message","content":[]}`, 0, true},
		"half an object":  {"application/json", `{"type":"mess`, "the reply broke off before its end", 0, true},
		"half of the end": {"text/event-stream", begun + strings.TrimSuffix(end, "}\n\n"), "the reply broke off before its end", 0, true},
	} {
		_, err := gateway(t, tt.media, tt.body).Generate(t.Context(), request(), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, tt.message, e.Message, name)
		require.Equal(t, tt.status, e.StatusCode, name)
		require.Equal(t, tt.retryable, e.Retryable, name)
	}
}

// TestNoAnswer: a reply that stops with nothing is no answer, unless the turn has said what it has to say.
func TestNoAnswer(t *testing.T) {
	thought := `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm","signature":"c2ln"}}`
	blank := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":" \n"}}`
	for name, events := range map[string][]string{
		"nothing": {start, ended("end_turn"), stop}, "no text": {start, text, ended("end_turn"), stop},
		"blank": {start, blank, ended("end_turn"), stop}, "a thought": {start, thought, ended("end_turn"), stop},
	} {
		p, _ := answering(t, anthropic.Config{}, events...)
		_, err := p.Generate(t.Context(), request(), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, "the model ended its reply without an answer", e.Message)
		require.True(t, e.Retryable, name)

		req := request()
		req.Messages = append(req.Messages,
			llm.Message{Role: event.RoleAssistant, Content: "I look", ToolCalls: []event.ToolCall{{ID: "a", Function: event.Function{Name: "read", Arguments: "{}"}}}},
			llm.Message{Role: event.RoleTool, ToolCallID: "a", Content: "x"})
		_, err = p.Generate(t.Context(), req, nil)
		require.NoError(t, err, name)
	}
	p, _ := answering(t, anthropic.Config{}, start, ended("max_tokens"), stop)
	resp, err := p.Generate(t.Context(), request(), nil)
	require.NoError(t, err, "a further attempt has the same limit")
	require.Equal(t, llm.FinishLength, resp.FinishReason)
}

// TestThoughts: thoughts are sent back as they were, in their order among text and calls, within the
// turn.
func TestThoughts(t *testing.T) {
	p, body := answering(t, anthropic.Config{}, start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"c2VjcmV0"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"I "}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"look"}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"n\":12345678901234567890}"}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"thinking","thinking":"more","signature":"c2lnMg=="}}`,
		`{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}`,
		ended("tool_use"), stop)
	req := request()
	req.ReasoningEffort, req.Tools = "high", []llm.Tool{{Name: "read"}, {Name: "now"}}
	var thought strings.Builder
	resp, err := p.Generate(t.Context(), req, func(d llm.Delta) { thought.WriteString(d.Thought) })
	require.NoError(t, err)
	require.Equal(t, "hmmore", thought.String())
	require.Equal(t, "I look", resp.Content)
	require.Equal(t, `{"n":12345678901234567890}`, resp.ToolCalls[0].Function.Arguments, "to the letter")
	require.Equal(t, "{}", resp.ToolCalls[1].Function.Arguments)

	req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque},
		llm.Message{Role: event.RoleTool, ToolCallID: "toolu_1", Content: "x"}, llm.Message{Role: event.RoleTool, ToolCallID: "toolu_2", IsError: true})
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "adaptive", "display": "summarized"}, (*body)["thinking"])
	require.Equal(t, map[string]any{"effort": "high"}, (*body)["output_config"])
	reply := (*body)["messages"].([]any)[1].(map[string]any)["content"]
	require.JSONEq(t, `[
		{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
		{"type": "redacted_thinking", "data": "c2VjcmV0"},
		{"type": "text", "text": "I look"},
		{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"n": 12345678901234567890}},
		{"type": "thinking", "thinking": "more", "signature": "c2lnMg=="},
		{"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}
	]`, encode(t, reply))

	req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, Content: "done"}, llm.Message{Role: event.RoleUser, Content: "and now?"})
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.NotContains(t, encode(t, *body), "c2ln", "in the next turn, they are not needed")
}

func TestRequest(t *testing.T) {
	p, body := answering(t, anthropic.Config{Cache: "1h"}, start, text, hi, ended("end_turn"), stop)
	warm := 0.5
	_, err := p.Generate(t.Context(), llm.Request{
		Model: "claude-opus-4-8", Temperature: &warm, MaxOutputTokens: 100,
		Tools: []llm.Tool{{Name: "files.read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object","additionalProperties":false}`)}},
		Messages: []llm.Message{
			{Role: event.RoleSystem, Content: "Be brief."},
			{Role: event.RoleUser, Name: "ann", Content: "hello"},
			{Role: event.RoleUser, Name: "bob", Content: "bob: me too"},
			{Role: event.RoleSystem, Content: "noted"},
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "a b", Function: event.Function{Name: "files.read", Arguments: "[1]"}}}},
			{Role: event.RoleTool, ToolCallID: "a b", Content: " ", IsError: true},
			{Role: event.RoleUser, Name: "ann", Content: "  "},
		},
	}, nil)
	require.NoError(t, err)
	id := (*body)["messages"].([]any)[1].(map[string]any)["content"].([]any)[0].(map[string]any)["id"].(string)
	require.Regexp(t, `^[a-zA-Z0-9_-]+$`, id)
	require.JSONEq(t, `{
		"model": "claude-opus-4-8", "max_tokens": 100, "temperature": 0.5, "stream": true,
		"system": [{"type": "text", "text": "Be brief."}],
		"tools": [{"name": "files_read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}, "additionalProperties": false}}],
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "ann: hello"}, {"type": "text", "text": "bob: me too"}, {"type": "text", "text": "[System message]\nnoted"}]},
			{"role": "assistant", "content": [{"type": "tool_use", "id": "`+id+`", "name": "files_read", "input": {"invalidJson": "[1]"}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "`+id+`", "is_error": true, "content": [{"type": "text", "text": "(no output)"}], "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}
		]
	}`, encode(t, *body))
}

// TestThinking: what an effort means for each model.
func TestThinking(t *testing.T) {
	p, body := answering(t, anthropic.Config{Cache: "off"}, start, text, hi, ended("end_turn"), stop)
	warm := 0.5
	for _, tt := range []struct{ model, effort, thinking, effortSent string }{
		{"claude-opus-4-8", "", "null", ""},
		{"claude-opus-4-8", "max", `{"type":"adaptive","display":"summarized"}`, "max"},
		{"claude-sonnet-5", "low", `{"type":"adaptive","display":"summarized"}`, "low"},
		{"claude-sonnet-4-6", "low", `{"type":"adaptive","display":"summarized"}`, "low"},
		{"claude-sonnet-4-6", "4096", `{"type":"enabled","budget_tokens":4096}`, ""},
		{"claude-sonnet-4-5-20250929", "medium", `{"type":"enabled","budget_tokens":8192}`, ""},
		{"claude-opus-4-20250514", "high", `{"type":"enabled","budget_tokens":24576}`, ""},
		{"claude-haiku-4-5", "5", `{"type":"enabled","budget_tokens":1024}`, ""},
		{"claude-3-7-sonnet-latest", "low", `{"type":"enabled","budget_tokens":2048}`, ""},
	} {
		_, err := p.Generate(t.Context(), llm.Request{Model: tt.model, ReasoningEffort: tt.effort, Temperature: &warm, Messages: request().Messages}, nil)
		require.NoError(t, err)
		require.JSONEq(t, tt.thinking, encode(t, (*body)["thinking"]), tt.model)
		require.Equal(t, tt.effort == "", (*body)["temperature"] != nil, "a model that thinks takes none")
		if tt.effortSent != "" {
			require.Equal(t, map[string]any{"effort": tt.effortSent}, (*body)["output_config"])
		}
		require.NotContains(t, encode(t, *body), "cache_control")
	}
	req := llm.Request{Model: "claude-sonnet-4-5", ReasoningEffort: "high", MaxOutputTokens: 1000, Messages: request().Messages}
	_, err := p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.InDelta(t, 25576, (*body)["max_tokens"], 0, "the budget is beside the reply's own limit")
}

func TestTokenLimit(t *testing.T) {
	for model, limit := range map[string]float64{"claude-opus-4-8": 32000, "claude-3-5-haiku-latest": 8192, "claude-3-haiku-20240307": 4096} {
		p, body := answering(t, anthropic.Config{}, start, text, hi, ended("end_turn"), stop)
		_, err := p.Generate(t.Context(), llm.Request{Model: model, Messages: request().Messages}, nil)
		require.NoError(t, err)
		require.InDelta(t, limit, (*body)["max_tokens"], 0, model)
	}
	p, body := answering(t, anthropic.Config{MaxOutputTokens: 77}, start, text, hi, ended("end_turn"), stop)
	_, err := p.Generate(t.Context(), request(), nil)
	require.NoError(t, err)
	require.InDelta(t, 77, (*body)["max_tokens"], 0)
}

func TestNew(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-of-another")
	for field, config := range map[string]anthropic.Config{
		"APIKey":          {},
		"BaseURL":         {BaseURL: "localhost:1"},
		"MaxOutputTokens": {APIKey: "k", MaxOutputTokens: -1},
		"Cache":           {APIKey: "k", Cache: "2h"},
		"Timeouts.Idle":   {APIKey: "k", Timeouts: llm.Timeouts{Idle: -1}},
	} {
		_, err := anthropic.New(config)
		require.ErrorContains(t, err, "anthropic: "+field+": ")
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
