package google_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/google"
)

// answering returns a driver whose server always sends the same chunks, and the body of its last
// request.
func answering(t *testing.T, chunks ...string) (*google.Provider, *map[string]any) {
	t.Helper()
	body := map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		clear(body)
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		_ = d.Decode(&body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			_, _ = io.WriteString(w, "data: "+c+"\r\n\r\n")
		}
	}))
	t.Cleanup(s.Close)
	p, err := google.New(google.Config{BaseURL: s.URL, APIKey: "not-a-real-key"})
	require.NoError(t, err)
	return p, &body
}

func parts(parts, finish string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"finishReason":"` + finish + `"}],"modelVersion":"gemini-x"}`
}

func request() llm.Request {
	return llm.Request{Model: "gemini-3-pro", Messages: []llm.Message{{Role: event.RoleUser, Name: "ann", Content: "hello"}}}
}

func TestUsage(t *testing.T) {
	p, _ := answering(t, parts(`{"text":"hi"}`, ""), `{"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":130,`+
		`"cachedContentTokenCount":100,"toolUsePromptTokenCount":5,"candidatesTokenCount":18,"thoughtsTokenCount":12,"trafficType":"ON_DEMAND_FLEX"}}`)
	resp, err := p.Generate(t.Context(), request(), nil)
	require.NoError(t, err)
	require.Equal(t, "hi", resp.Content)
	require.Equal(t, event.Usage{InputTokens: 135, CachedTokens: 100, OutputTokens: 30, ReasoningTokens: 12}, resp.Usage, "output with thoughts")
	require.Equal(t, llm.FinishLength, resp.FinishReason)
	require.Equal(t, "gemini-x", resp.Model)
	require.Equal(t, "ON_DEMAND_FLEX", resp.Tier)
}

func TestRefusal(t *testing.T) {
	for message, chunks := range map[string][]string{
		"google: the model refuses to answer (SAFETY)":             {parts(`{"text":"hi"}`, ""), `{"candidates":[{"finishReason":"SAFETY"}]}`},
		"google: the model refuses to answer (PROHIBITED_CONTENT)": {`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`},
	} {
		p, _ := answering(t, chunks...)
		_, err := p.Generate(t.Context(), request(), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, llm.CodeRefusal, e.Code)
		require.False(t, e.Retryable)
		require.EqualError(t, err, message)
	}
}

func TestErrorsInTheStream(t *testing.T) {
	for name, tt := range map[string]struct {
		chunk     string
		status    int
		retryable bool
		message   string
	}{
		"overloaded":      {`{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`, 503, true, "Overloaded"},
		"invalid":         {`{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT"}}`, 400, false, "No."},
		"an invalid call": {parts("", "MALFORMED_FUNCTION_CALL"), 0, true, "the model wrote an invalid tool call"},
		"another form":    {`{"candidates":"none"}`, 0, true, "the reply could not be read: a chunk does not have the form of the protocol"},
		"no end":          {parts(`{"text":"."}`, ""), 0, true, "the reply broke off before its end"},
	} {
		p, _ := answering(t, parts(`{"text":"hi"}`, ""), tt.chunk)
		_, err := p.Generate(t.Context(), request(), func(llm.Delta) {})
		var e *llm.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, tt.status, e.StatusCode, name)
		require.Equal(t, tt.retryable, e.Retryable, name)
		require.Equal(t, tt.message, e.Message, name)
	}
}

// TestNoAnswer: a reply that stops with nothing is no answer.
func TestNoAnswer(t *testing.T) {
	for name, chunks := range map[string][]string{
		"no parts":   {`{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}`},
		"no content": {`{"candidates":[{"finishReason":"STOP"}]}`},
		"no text":    {parts(`{"text":""}`, "STOP")},
		"blank":      {parts(`{"text":" \n"}`, "STOP")},
		"a thought":  {parts(`{"text":"hm","thought":true}`, ""), parts(`{"text":"","thoughtSignature":"c2ln"}`, "STOP")},
		"other":      {parts("", "OTHER")},
	} {
		p, _ := answering(t, chunks...)
		_, err := p.Generate(t.Context(), request(), nil)
		var e *llm.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, "the model ended its reply without an answer", e.Message, name)
		require.True(t, e.Retryable, name)
	}
	p, _ := answering(t, parts(`{"text":""}`, "STOP"))
	after := request()
	after.Messages = append(after.Messages,
		llm.Message{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "note", Arguments: "{}"}}}},
		llm.Message{Role: event.RoleTool, ToolCallID: "c1", Content: "noted"})
	_, err := p.Generate(t.Context(), after, nil)
	require.NoError(t, err, "after results, a model may have nothing to add")
	p, _ = answering(t, parts(`{"text":"hm","thought":true}`, "MAX_TOKENS"))
	resp, err := p.Generate(t.Context(), request(), nil)
	require.NoError(t, err, "a further attempt has the same limit")
	require.Equal(t, llm.FinishLength, resp.FinishReason)
}

// TestNumbers: integers above 2^53 have all of their digits, both in replies and in the requests after them.
func TestNumbers(t *testing.T) {
	const (
		refund = `{"order":1915883588174806058,"list":[{"cents":10000000000000001}],"price":0.10}`
		other  = `{"n":-9007199254740993}`
		schema = `{"type":"object","properties":{"order":{"type":"integer","maximum":9223372036854775807}}}`
	)
	call := func(arguments string) string { return `{"functionCall":{"name":"refund","args":` + arguments + `}}` }
	for name, chunks := range map[string][]string{
		"one chunk":   {parts(call(refund)+","+call(other), "STOP")},
		"chunks":      {parts(`{"text":"a functionCall"}`, ""), parts(call(refund), ""), parts(call(other), ""), parts("", "STOP")},
		"with spaces": {parts(call("{\n \"order\": 1915883588174806058,\n \"list\": [{\"cents\": 10000000000000001}], \"price\": 0.10}")+","+call(other), "STOP")},
		"candidates": {`{"candidates":[{"content":{"parts":[` + call(refund) + `,` + call(other) + `]},"finishReason":"STOP"},` +
			`{"content":{"parts":[` + call(`{"order":1}`) + `]},"finishReason":"STOP"}]}`},
	} {
		p, body := answering(t, chunks...)
		req := request()
		req.Tools = []llm.Tool{{Name: "refund", Parameters: json.RawMessage(schema)}}
		resp, err := p.Generate(t.Context(), req, nil)
		require.NoError(t, err, name)
		require.Len(t, resp.ToolCalls, 2, name)
		require.Equal(t, refund, resp.ToolCalls[0].Function.Arguments, name)
		require.Equal(t, other, resp.ToolCalls[1].Function.Arguments, name)

		req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque})
		for _, c := range resp.ToolCalls {
			req.Messages = append(req.Messages, llm.Message{Role: event.RoleTool, ToolCallID: c.ID, Content: "done"})
		}
		_, err = p.Generate(t.Context(), req, nil)
		require.NoError(t, err, name)
		sent := encode(t, *body)
		for _, number := range []string{"1915883588174806058", "10000000000000001", "0.10", "-9007199254740993", "9223372036854775807"} {
			require.Contains(t, sent, ":"+number, name)
		}
	}
}

// TestThoughts: signatures are sent back with the parts that had them, within the turn.
func TestThoughts(t *testing.T) {
	p, body := answering(t, parts(`{"text":"hm","thought":true}`, ""), parts(`{"text":"I look"},{"text":"","thoughtSignature":"dGV4dA=="}`, ""),
		parts(`{"functionCall":{"name":"read","args":{"n":1.5}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c2","name":"now"}}`, "STOP"))
	req := request()
	req.Tools = []llm.Tool{{Name: "read"}, {Name: "now"}}
	var thought string
	resp, err := p.Generate(t.Context(), req, func(d llm.Delta) { thought += d.Thought })
	require.NoError(t, err)
	require.Equal(t, "hm", thought)
	require.Equal(t, "I look", resp.Content)
	require.Equal(t, llm.FinishToolCalls, resp.FinishReason)
	require.Equal(t, `{"n":1.5}`, resp.ToolCalls[0].Function.Arguments)
	require.Equal(t, "{}", resp.ToolCalls[1].Function.Arguments)
	require.NotEmpty(t, resp.ToolCalls[0].ID)

	resp.ToolCalls[0].ID = "c1"
	reply := llm.Message{Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque}
	results := []llm.Message{{Role: event.RoleTool, ToolCallID: "c1", Content: "x"}, {Role: event.RoleTool, ToolCallID: "c2", Content: "gone", IsError: true}}
	req.Messages = append(append(req.Messages, reply), results...)
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	contents := (*body)["contents"].([]any)
	require.JSONEq(t, `{"role": "model", "parts": [
		{"text": "I look", "thoughtSignature": "dGV4dA=="},
		{"functionCall": {"id": "c1", "name": "read", "args": {"n": 1.5}}, "thoughtSignature": "c2ln"},
		{"functionCall": {"id": "c2", "name": "now"}}
	]}`, encode(t, contents[1]))
	require.JSONEq(t, `{"role": "user", "parts": [
		{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "x"}}},
		{"functionResponse": {"id": "c2", "name": "now", "response": {"error": "gone"}}}
	]}`, encode(t, contents[2]))

	req.Messages = append(req.Messages, llm.Message{Role: event.RoleAssistant, Content: "done"}, llm.Message{Role: event.RoleUser, Content: "and now?"})
	_, err = p.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.NotContains(t, encode(t, *body), "thoughtSignature", "in the next turn, they are not needed")
}

func TestRequest(t *testing.T) {
	p, body := answering(t, parts(`{"text":"hi"}`, "STOP"))
	zero := 0.0
	_, err := p.Generate(t.Context(), llm.Request{
		Model: "gemini-2.0-flash", Temperature: &zero, MaxOutputTokens: 100, ReasoningEffort: "low",
		Tools: []llm.Tool{{Name: "3d.render", Description: "Draws.", Parameters: json.RawMessage(`{"type":"object","additionalProperties":false}`)}},
		Messages: []llm.Message{
			{Role: event.RoleSystem, Content: "Be brief."},
			{Role: event.RoleUser, Name: "ann", Content: "hello"},
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "a", Function: event.Function{Name: "3d.render", Arguments: "[1]"}}}},
			{Role: event.RoleTool, ToolCallID: "a", Content: ""},
		},
	}, nil)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
		"generationConfig": {"temperature": 0, "maxOutputTokens": 100},
		"tools": [{"functionDeclarations": [{"name": "_3d_render", "description": "Draws.", "parametersJsonSchema": {"type": "object", "properties": {}, "additionalProperties": false}}]}],
		"contents": [
			{"role": "user", "parts": [{"text": "hello"}]},
			{"role": "model", "parts": [{"functionCall": {"id": "a", "name": "_3d_render", "args": {"invalidJson": "[1]"}}}]},
			{"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "_3d_render", "response": {"output": ""}}}]}
		]
	}`, encode(t, *body))
}

// TestThinking: what an effort means for each model.
func TestThinking(t *testing.T) {
	p, body := answering(t, parts(`{"text":"hi"}`, "STOP"))
	for _, tt := range []struct{ model, effort, thinking string }{
		{"gemini-3-pro", "", `{"includeThoughts":true}`},
		{"gemini-3.8-flash", "low", `{"includeThoughts":true,"thinkingLevel":"LOW"}`},
		{"gemini-3-pro", "2000", `{"includeThoughts":true,"thinkingBudget":2000}`},
		{"gemini-2.5-flash", "medium", `{"includeThoughts":true,"thinkingBudget":8192}`},
		{"gemini-2.0-flash", "high", `null`},
	} {
		req := request()
		req.Model, req.ReasoningEffort = tt.model, tt.effort
		_, err := p.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		config, _ := (*body)["generationConfig"].(map[string]any)
		require.JSONEq(t, tt.thinking, encode(t, config["thinkingConfig"]), tt.model)
	}
}

func TestNew(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "of-another")
	t.Setenv("GOOGLE_API_KEY", "of-another")
	for field, config := range map[string]google.Config{
		"APIKey":        {},
		"BaseURL":       {BaseURL: "localhost:1"},
		"Timeouts.Idle": {APIKey: "k", Timeouts: llm.Timeouts{Idle: -1}},
	} {
		_, err := google.New(config)
		require.ErrorContains(t, err, "google: "+field+": ")
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestRetryInfo(t *testing.T) {
	for details, want := range map[string]time.Duration{
		`[{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]`: 34500 * time.Millisecond,
		`[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"9000000s"}]`:                                              24 * time.Hour,
		`[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"soon"}]`:                                                  0,
		`[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":7}]`:                                                       0,
		`[{"@type":"type.googleapis.com/google.rpc.Help","retryDelay":"34.5s"}]`:                                                      0,
	} {
		body := `{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":` + details + `}}`
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		refused, err := google.New(google.Config{BaseURL: s.URL, APIKey: "not-a-real-key"})
		require.NoError(t, err)
		streaming, _ := answering(t, parts(`{"text":"hi"}`, ""), body)
		for _, p := range []*google.Provider{refused, streaming} {
			_, err = p.Generate(t.Context(), request(), nil)
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 429, e.StatusCode)
			require.True(t, e.Retryable)
			require.Equal(t, want, e.RetryAfter, details)
		}
	}
}
