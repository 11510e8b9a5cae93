package openai_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

// TestDialects: a conversation with several people, agents and calls, and with a turn that failed, goes through servers of all dialects.
func TestDialects(t *testing.T) {
	// more are the requests besides those that are answered: a field is refused or required once.
	more := map[string]int{"Mistral, older": 1, "DeepSeek": 1, "Gemini, compatible endpoint": 1, "gateway": 2, "newer models": 1, "OpenAI's elsewhere": 1}
	const script = "think I ask the clock.\nuse clock\nuse clock {\"zone\":\"UTC\"}\nthen\nsaid it is late"
	for _, dialect := range llmtest.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				s, p := speaking(t, llmtest.Config{T: t, Dialect: dialect, People: []string{"ann", "bob"}}, dialect.Setting)
				messages := []llm.Message{
					{Role: event.RoleSystem, Content: "You help."},
					{Role: event.RoleUser, Name: "ann", Content: "one"},
					{Role: event.RoleUser, Name: "ann", Content: "two, after a failed turn"},
					{Role: event.RoleAssistant, Content: "an answer"},
					{Role: event.RoleAssistant, Content: "that of another agent", ToolCalls: []event.ToolCall{{ID: "call_550e8400", Function: event.Function{Name: "clock", Arguments: "{}"}}}},
					{Role: event.RoleTool, ToolCallID: "call_550e8400", Content: "noon"},
					{Role: event.RoleUser, Name: "bob", Content: script},
				}
				asked := 0
				for range 2 {
					req := llm.Request{Model: "m", Messages: messages, MaxOutputTokens: 100, Tools: []llm.Tool{{Name: "clock"}}}
					resp, err := p.Generate(t.Context(), req, onDelta)
					require.NoError(t, err)
					require.Len(t, resp.ToolCalls, 2)
					require.Equal(t, "I ask the clock.", resp.Thought)
					messages = append(messages, llm.Message{Role: event.RoleAssistant, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque})
					for _, call := range resp.ToolCalls {
						messages = append(messages, llm.Message{Role: event.RoleTool, ToolCallID: call.ID, Content: "midnight"})
					}
					req.Messages = messages
					resp, err = p.Generate(t.Context(), req, onDelta)
					require.NoError(t, err)
					require.Contains(t, resp.Content, "said it is late")
					messages = append(messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content}, llm.Message{Role: event.RoleUser, Name: "ann", Content: script})
					asked += 2
				}
				extra := more[dialect.Name]
				if onDelta == nil && slices.Contains(dialect.Refused, "stream_options") {
					extra-- // only streams have such options
				}
				require.Equal(t, asked+extra, s.Calls())
			})
		})
	}
}

// TestLearnedFields: only an error that names the field, and says that it is not taken or is missing, changes requests.
func TestLearnedFields(t *testing.T) {
	for _, tt := range []struct {
		said    string
		retried bool
		field   string // that calls of another model have then
	}{
		{"Unsupported parameter: stream_options", true, ""},
		{"stream_options must be an object", false, ""},
		{"the model is unsupported", false, ""},
		{"The `reasoning_content` in the thinking mode must be passed back to the API.", true, `"reasoning_content":"I call clock (call_1)."`},
		{"Missing `reasoning_content` field in the assistant message at message index 2.", true, `"reasoning_content":"I call clock (call_1)."`},
		{"reasoning_content is too long", false, ""},
		{"function call `clock` in the 3. content block is missing a `thought_signature`.", true, `"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}`},
	} {
		t.Run(tt.said, func(t *testing.T) {
			s, p := speaking(t, llmtest.Config{Dialect: llmtest.Dialect{Name: "any"}}, "")
			s.Fail(llmtest.Status(http.StatusBadRequest, "").WithError("", tt.said))
			req := request("hi")
			req.Messages = append(req.Messages,
				llm.Message{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{{ID: "call_1", Function: event.Function{Name: "clock", Arguments: "{}"}}}},
				llm.Message{Role: event.RoleTool, ToolCallID: "call_1", Content: "noon"})
			_, err := p.Generate(t.Context(), req, func(llm.Delta) {})
			require.Equal(t, tt.retried, err == nil, "%v", err)
			require.Equal(t, map[bool]int{true: 2, false: 1}[tt.retried], s.Calls())
			if tt.field != "" {
				require.NotContains(t, string(s.Requests()[0].Body), tt.field)
				require.Contains(t, string(s.Requests()[1].Body), tt.field)
			}
		})
	}
	_, err := openai.New(openai.Config{APIKey: key, Dialect: "latin"})
	require.EqualError(t, err, `openai: "latin" is no dialect: use compatible, mistral, openai`)
}

// TestThoughtParts: thoughts may be parts of the content.
func TestThoughtParts(t *testing.T) {
	_, p := speaking(t, llmtest.Config{Dialect: llmtest.Dialects()[0]}, openai.DialectMistral)
	both(t, func(t *testing.T, onDelta func(llm.Delta)) {
		resp, err := p.Generate(t.Context(), request("think so it is\nwell"), onDelta)
		require.NoError(t, err)
		require.Equal(t, "so it is", resp.Thought)
		require.Equal(t, "well", resp.Content)
	})
}
