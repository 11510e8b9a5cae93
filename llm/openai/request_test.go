package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

// sent returns the messages of the last request as they were sent.
func sent(t *testing.T, s *llmtest.Server) []map[string]any {
	t.Helper()
	requests := s.Requests()
	var body struct {
		Messages []map[string]any `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(requests[len(requests)-1].Body, &body))
	return body.Messages
}

func TestParts(t *testing.T) {
	s, p := speaking(t, llmtest.Config{}, openai.DialectOpenAI)
	req := llm.Request{Model: "stand-in", Messages: []llm.Message{
		{Role: event.RoleUser, Name: "environment", Content: "Observed event: a\nEvent ID: b", Parts: []string{"Observed event: a", "", "Event ID: b"}},
		{Role: event.RoleAssistant, Content: "text", Parts: []string{"not of a user"}},
		{Role: event.RoleUser, Content: "as it is", Parts: []string{""}},
		{Role: event.RoleUser, Content: "one\ntwo", Parts: []string{"one", "two"}},
	}}
	both(t, func(t *testing.T, onDelta func(llm.Delta)) {
		resp, err := p.Generate(t.Context(), req, onDelta)
		require.NoError(t, err)
		require.Equal(t, "one\ntwo", resp.Content, "the stand-in reads parts")
		require.JSONEq(t, `[
			{"role": "user", "name": "environment", "content": [{"type": "text", "text": "Observed event: a"}, {"type": "text", "text": "Event ID: b"}]},
			{"role": "assistant", "content": "text"},
			{"role": "user", "content": "as it is"},
			{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
		]`, encode(t, sent(t, s)), "S3-38")
	})
}

// TestCallIDs: OpenAI rejects ids of more than 40 characters; "call_" followed by a UUID has 41.
func TestCallIDs(t *testing.T) {
	s, p := start(t, llmtest.Config{})
	for name, tt := range map[string]struct {
		id   string
		kept bool
	}{
		"of the thread's own form": {"call_0123456789abcdef01234567", true},
		"of 40 characters":         {strings.Repeat("x", 40), true},
		"X6 of an event":           {"call_550e8400-e29b-41d4-a716-446655440000", false},
		"of a long event id":       {"call_" + strings.Repeat("x", 128), false},
		"with other characters":    {"call_push:main@2", false},
	} {
		t.Run(name, func(t *testing.T) {
			req := request("hello")
			req.Messages = append([]llm.Message{
				{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: tt.id, Function: event.Function{Name: "get_event_info", Arguments: "{}"}}}},
				{Role: event.RoleTool, ToolCallID: tt.id, Content: "{}"},
			}, req.Messages...)
			_, err := p.Generate(t.Context(), req, nil)
			require.NoError(t, err, "the stand-in refuses what OpenAI refuses")
			messages := sent(t, s)
			calls, _ := messages[0]["tool_calls"].([]any)
			require.Len(t, calls, 1)
			call, _ := calls[0].(map[string]any)
			require.Equal(t, call["id"], messages[1]["tool_call_id"], "the pair stays together")
			require.Equal(t, tt.kept, call["id"] == tt.id)
			require.Regexp(t, `^[a-zA-Z0-9_-]{1,40}$`, call["id"])
		})
	}
}
