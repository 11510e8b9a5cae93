package openai_test

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
	"github.com/threadmill/threadmill/llm/openai"
)

// responding returns a driver whose server always sends the same events, and the body of its last
// request.
func responding(t *testing.T, config openai.Config, events ...string) (*openai.Responses, *map[string]any) {
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
	config.BaseURL, config.APIKey = s.URL, key
	p, err := openai.NewResponses(config)
	require.NoError(t, err)
	return p, &body
}

const (
	created = `{"type":"response.created","response":{"id":"resp_1","model":"gpt-x","status":"in_progress","output":[]}}`
	says    = `{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}`
	hello   = `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"hi"}`
)

func ended(status, fields string) string {
	return `{"type":"response.` + status + `","response":{"id":"resp_1","model":"gpt-x","status":"` + status + `",` + fields +
		`"service_tier":"priority","usage":{"input_tokens":130,"input_tokens_details":{"cached_tokens":100,"cache_write_tokens":20.0},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":12},"total_tokens":160}}}`
}

func TestResponsesUsage(t *testing.T) {
	for last, reason := range map[string]string{
		ended("completed", ""): llm.FinishStop,
		ended("incomplete", `"incomplete_details":{"reason":"max_output_tokens"},`): llm.FinishLength,
	} {
		p, _ := responding(t, openai.Config{}, created, says, hello, last)
		resp, err := p.Generate(t.Context(), request("hello"), nil)
		require.NoError(t, err)
		require.Equal(t, event.Usage{InputTokens: 130, CachedTokens: 100, CacheWriteTokens: 20, OutputTokens: 30, ReasoningTokens: 12}, resp.Usage)
		require.Equal(t, reason, resp.FinishReason)
		require.Equal(t, "gpt-x", resp.Model)
		require.Equal(t, "priority", resp.Tier)
		require.Equal(t, "hi", resp.Content)
		require.Nil(t, resp.Opaque)
	}
}

func TestResponsesRefusal(t *testing.T) {
	for message, events := range map[string][]string{
		"openai: the model refuses to answer (refusal): I can't help.": {
			created, says, `{"type":"response.refusal.delta","delta":"I can't "}`, `{"type":"response.refusal.delta","delta":"help."}`, ended("completed", ""),
		},
		"openai: the model refuses to answer (content_filter)": {created, says, hello, ended("incomplete", `"incomplete_details":{"reason":"content_filter"},`)},
	} {
		p, _ := responding(t, openai.Config{}, events...)
		_, err := p.Generate(t.Context(), request("hello"), nil)
		require.EqualError(t, err, message)
		e := failure(t, err)
		require.Equal(t, llm.CodeRefusal, e.Code)
		require.False(t, e.Retryable)
	}
}

func TestResponsesErrorsInTheStream(t *testing.T) {
	for name, tt := range map[string]struct {
		event     string
		status    int
		retryable bool
		class     string
	}{
		"failed":           {ended("failed", `"error":{"code":"server_error","message":"Sorry."},`), 500, true, llm.ClassServerError},
		"a rate limit":     {ended("failed", `"error":{"code":"rate_limit_exceeded","message":"Sorry. Please try again in 2s."},`), 429, true, llm.ClassRateLimit},
		"a context":        {`{"type":"error","code":"context_length_exceeded","message":"Sorry.","param":"input"}`, 400, false, llm.ClassContextOverflow},
		"an error":         {`{"type":"error","code":null,"message":"Sorry."}`, 0, true, llm.ClassUnreachable},
		"an error inside":  {`{"type":"error","error":{"type":"server_error","message":"Sorry."}}`, 500, true, llm.ClassServerError},
		"an invalid input": {ended("failed", `"error":{"code":"invalid_prompt","message":"Sorry."},`), 400, false, llm.ClassRefused},
		"without a type":   {`{"error":{"code":"slow_down","message":"Sorry."}}`, 503, true, llm.ClassServerError},
		"no end":           {says, 0, true, llm.ClassUnreachable},
		"no reason":        {ended("failed", ""), 0, true, llm.ClassUnreachable},
		"another form":     {`{"type":"response.completed","response":7}`, 0, true, llm.ClassUnreachable},
		"an item":          {`{"type":"response.output_item.done","item":7}`, 0, true, llm.ClassUnreachable},
	} {
		t.Run("S1-24 "+name, func(t *testing.T) {
			p, _ := responding(t, openai.Config{}, created, says, hello, tt.event)
			resp, err := p.Generate(t.Context(), request("hello"), func(llm.Delta) {})
			e := failure(t, err)
			require.Equal(t, tt.status, e.StatusCode)
			require.Equal(t, tt.retryable, e.Retryable)
			require.Equal(t, tt.class, e.Class())
			require.True(t, strings.HasPrefix(resp.Content, "hi"), "what had arrived is kept")
		})
	}
}

// TestResponsesReasoning: encrypted reasoning is sent back as it was, in its order among text and
// calls, within the turn.
func TestResponsesReasoning(t *testing.T) {
	const reasoning = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"c2VjcmV0","new_field":1}`
	call := func(id, name, arguments string) string {
		return `{"type":"response.output_item.done","item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"` + id + `","name":"` + name + `","arguments":"` + arguments + `"}}`
	}
	p, body := responding(t, openai.Config{}, created,
		`{"type":"response.reasoning_summary_part.added","summary_index":0}`,
		`{"type":"response.reasoning_summary_text.delta","summary_index":0,"delta":"hm"}`,
		`{"type":"response.reasoning_summary_part.added","summary_index":1}`,
		`{"type":"response.reasoning_summary_text.delta","summary_index":1,"delta":"more"}`,
		`{"type":"response.output_item.done","item":`+reasoning+`}`,
		`{"type":"response.output_item.done","item":{"id":"rs_2","type":"reasoning","summary":[]}}`,
		says, hello, strings.ReplaceAll(says, "msg_1", "msg_2"), hello,
		call("call_1", "read", `{\"n\":12345678901234567890}`), call("call_2", "now", ""),
		ended("completed", ""))
	req := request("hello")
	req.Model, req.ReasoningEffort, req.Tools = "gpt-5", "high", []llm.Tool{{Name: "read"}, {Name: "now"}}
	resp, err := p.Generate(t.Context(), req, func(llm.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "hm\n\nmore", resp.Thought)
	require.Equal(t, "hi\n\nhi", resp.Content)
	require.Equal(t, llm.FinishToolCalls, resp.FinishReason)
	require.Equal(t, event.Function{Name: "read", Arguments: `{"n":12345678901234567890}`}, resp.ToolCalls[0].Function)
	require.Equal(t, event.Function{Name: "now", Arguments: `{}`}, resp.ToolCalls[1].Function)

	req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque},
		llm.Message{Role: event.RoleTool, ToolCallID: "call_1", Content: "x"}, llm.Message{Role: event.RoleTool, ToolCallID: "call_2", IsError: true})
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"effort": "high", "summary": "auto"}, (*body)["reasoning"])
	require.JSONEq(t, `[
		{"type": "message", "role": "user", "content": "hello"},
		`+reasoning+`,
		{"type": "message", "role": "assistant", "content": "hi\n\nhi"},
		{"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{\"n\":12345678901234567890}"},
		{"type": "function_call", "call_id": "call_2", "name": "now", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "call_1", "output": "x"},
		{"type": "function_call_output", "call_id": "call_2", "output": "(no output)"}
	]`, encode(t, (*body)["input"]))

	other := req
	other.Model = "gpt-6"
	_, err = p.Generate(t.Context(), other, nil)
	require.NoError(t, err)
	require.NotContains(t, encode(t, *body), "c2VjcmV0", "another model cannot read it")
	req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, Content: "done"}, llm.Message{Role: event.RoleUser, Content: "and now?"})
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.NotContains(t, encode(t, *body), "c2VjcmV0", "in the next turn, it is not needed")
}

func TestResponsesRequest(t *testing.T) {
	p, body := responding(t, openai.Config{}, created, says, hello, ended("completed", ""))
	zero := 0.0
	_, err := p.Generate(t.Context(), llm.Request{
		Model: "gpt-4.1", Temperature: &zero, MaxOutputTokens: 5,
		Tools: []llm.Tool{{Name: "files.read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object","additionalProperties":false}`)}},
		Messages: []llm.Message{
			{Role: event.RoleSystem, Content: "Be brief."},
			{Role: event.RoleUser, Name: "ann", Content: "hello\nthere", Parts: []string{"hello", "", "there"}},
			{Role: event.RoleSystem, Content: "noted"},
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "a b", Function: event.Function{Name: "files.read", Arguments: "[1"}}}},
			{Role: event.RoleTool, ToolCallID: "a b", Content: "x"},
			{Role: event.RoleUser, Name: "ann", Content: ""},
		},
	}, nil)
	require.NoError(t, err)
	id := (*body)["input"].([]any)[3].(map[string]any)["call_id"].(string)
	require.Regexp(t, `^[a-zA-Z0-9_-]+$`, id)
	require.JSONEq(t, `{
		"model": "gpt-4.1", "store": false, "stream": true, "temperature": 0, "max_output_tokens": 16,
		"tools": [{"type": "function", "name": "files_read", "description": "Reads.", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}, "strict": false}],
		"input": [
			{"type": "message", "role": "system", "content": "Be brief."},
			{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}, {"type": "input_text", "text": "there"}]},
			{"type": "message", "role": "user", "content": "[System message]\nnoted"},
			{"type": "function_call", "call_id": "`+id+`", "name": "files_read", "arguments": "{\"invalidJson\":\"[1\"}"},
			{"type": "function_call_output", "call_id": "`+id+`", "output": "x"}
		]
	}`, encode(t, *body))
}

// TestResponsesThinking: only models with thoughts are asked for them.
func TestResponsesThinking(t *testing.T) {
	p, body := responding(t, openai.Config{}, created, says, hello, ended("completed", ""))
	quiet, quietBody := responding(t, openai.Config{Summary: openai.SummaryOff}, created, says, hello, ended("completed", ""))
	for _, tt := range []struct{ model, effort, reasoning, quiet string }{
		{"gpt-5", "low", `{"effort":"low","summary":"auto"}`, `{"effort":"low"}`},
		{"gpt-5.1", "", `{"summary":"auto"}`, `{}`},
		{"o4-mini", "", `{"summary":"auto"}`, `{}`},
		{"gpt-4.1", "", "null", "null"},
		{"gpt-5-chat-latest", "", "null", "null"},
		{"my-deployment", "high", `{"effort":"high","summary":"auto"}`, `{"effort":"high"}`},
	} {
		req := request("hello")
		req.Model, req.ReasoningEffort = tt.model, tt.effort
		_, err := p.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.JSONEq(t, tt.reasoning, encode(t, (*body)["reasoning"]), tt.model)
		require.Equal(t, tt.reasoning != "null", (*body)["include"] != nil, tt.model)
		_, err = quiet.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		require.JSONEq(t, tt.quiet, encode(t, (*quietBody)["reasoning"]), tt.model)
	}
	_, err := openai.NewResponses(openai.Config{APIKey: key, Summary: "long"})
	require.ErrorContains(t, err, "Summary: ")
}
