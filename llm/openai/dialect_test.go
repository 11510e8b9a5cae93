package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
)

// wireMessage is a message of a request, with all fields that a server may see.
type wireMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Name             *string         `json:"name"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []struct {
		ID    string          `json:"id"`
		Extra json.RawMessage `json:"extra_content"`
	} `json:"tool_calls"`
}

type wireRequest struct {
	Messages      []wireMessage   `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options"`
	MaxTokens     *int            `json:"max_tokens"`
}

// rule returns what a server says of a request that it refuses, or "".
type rule func(r wireRequest) string

func noNames(r wireRequest) string {
	for i, m := range r.Messages {
		if m.Name != nil {
			return fmt.Sprintf(`'messages.%d' : for 'role:%s' the following must be satisfied[('messages.%d' : property 'name' is unsupported)]`, i, m.Role, i)
		}
	}
	return ""
}

func noStreamOptions(r wireRequest) string {
	if r.StreamOptions != nil {
		return `[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]`
	}
	return ""
}

func noMaxTokens(r wireRequest) string {
	if r.MaxTokens != nil {
		return "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
	}
	return ""
}

// alternating is the rule of many templates: user and assistant in turn, with results after calls.
func alternating(r wireRequest) string {
	messages := r.Messages
	if len(messages) > 0 && messages[0].Role == event.RoleSystem {
		messages = messages[1:]
	}
	before := event.RoleAssistant
	for _, m := range messages {
		fits := map[string][]string{
			event.RoleUser: {event.RoleAssistant}, event.RoleAssistant: {event.RoleUser, event.RoleTool}, event.RoleTool: {event.RoleAssistant, event.RoleTool},
		}
		if !slices.Contains(fits[m.Role], before) {
			return "Unexpected role '" + m.Role + "' after role '" + before + "'"
		}
		before = m.Role
	}
	return ""
}

var nine = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortIDs(r wireRequest) string {
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			if !nine.MatchString(c.ID) {
				return "Tool call id was " + c.ID + " but must be a-z, A-Z, 0-9, with a length of 9."
			}
		}
		if m.ToolCallID != "" && !nine.MatchString(m.ToolCallID) {
			return "Tool call id was " + m.ToolCallID + " but must be a-z, A-Z, 0-9, with a length of 9."
		}
	}
	return ""
}

// sinceUser are the messages after the newest one of a user.
func sinceUser(r wireRequest) []wireMessage {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == event.RoleUser {
			return r.Messages[i+1:]
		}
	}
	return nil
}

func thoughtsBack(r wireRequest) string {
	for _, m := range sinceUser(r) {
		if len(m.ToolCalls) > 0 && m.ReasoningContent != "I ask the clock." {
			return "The reasoning_content in the thinking mode must be passed back to the API."
		}
	}
	return ""
}

func noThoughts(r wireRequest) string {
	for _, m := range r.Messages {
		if m.ReasoningContent != "" {
			return "property 'reasoning_content' is unsupported"
		}
	}
	return ""
}

func signaturesBack(r wireRequest) string {
	for _, m := range sinceUser(r) {
		for i, c := range m.ToolCalls {
			if (string(c.Extra) == `{"google":{"thought_signature":"signed"}}`) != (i == 0) {
				return "Function call is missing a thought_signature in functionCall parts."
			}
		}
	}
	return ""
}

// strict returns a server that refuses what breaks its rules, calls two tools once in each turn, and then replies.
func strict(t *testing.T, rules ...rule) (url string, calls *int) {
	t.Helper()
	calls = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*calls++
		raw, _ := io.ReadAll(r.Body)
		var req wireRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, refuses := range rules {
			if said := refuses(req); said != "" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnprocessableEntity)
				_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": said, "type": "invalid_request_error"}})
				return
			}
		}
		message := `{"reasoning_content":"I ask the clock.","tool_calls":[
			{"index":0,"id":"call_00_a","type":"function","extra_content":{"google":{"thought_signature":"signed"}},"function":{"name":"clock","arguments":"{}"}},
			{"index":1,"id":"call_01_b","type":"function","function":{"name":"clock","arguments":"{\"zone\":\"UTC\"}"}}]}`
		if len(sinceUser(req)) > 0 {
			message = `{"content":"it is late"}`
		}
		if req.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":%s}]}\n\ndata: [DONE]\n\n", strings.ReplaceAll(message, "\n", ""))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":%s}]}`, message)
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// TestDialects: a conversation with several people, agents and calls, and with a turn that failed, goes through servers of all dialects.
func TestDialects(t *testing.T) {
	for name, tt := range map[string]struct {
		dialect string
		rules   []rule

		// more are the requests besides those that are answered: refused fields are left out once.
		more int
	}{
		"Mistral":                     {openai.DialectMistral, []rule{noNames, alternating, shortIDs, noThoughts}, 0},
		"Mistral, older":              {openai.DialectMistral, []rule{noNames, alternating, shortIDs, noStreamOptions}, 1},
		"Groq":                        {"", []rule{noNames, noThoughts}, 1},
		"DeepSeek":                    {"", []rule{thoughtsBack}, 0},
		"vLLM":                        {"", []rule{alternating}, 0},
		"Gemini, compatible endpoint": {"", []rule{signaturesBack, noNames}, 0},
		"gateway":                     {"", []rule{noStreamOptions}, 1},
		"newer models":                {"", []rule{noMaxTokens}, 1},
		"OpenAI's elsewhere":          {openai.DialectOpenAI, []rule{noNames}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, onDelta func(llm.Delta)) {
				url, calls := strict(t, tt.rules...)
				p := provider(t, openai.Config{BaseURL: url, Dialect: tt.dialect})
				messages := []llm.Message{
					{Role: event.RoleSystem, Content: "You help."},
					{Role: event.RoleUser, Name: "ann", Content: "one"},
					{Role: event.RoleUser, Name: "ann", Content: "two, after a failed turn"},
					{Role: event.RoleAssistant, Content: "an answer"},
					{Role: event.RoleAssistant, Content: "that of another agent", ToolCalls: []event.ToolCall{{ID: "call_550e8400", Function: event.Function{Name: "clock", Arguments: "{}"}}}},
					{Role: event.RoleTool, ToolCallID: "call_550e8400", Content: "noon"},
					{Role: event.RoleUser, Name: "bob", Content: "three, after a turn that ended there"},
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
					require.Equal(t, "it is late", resp.Content)
					messages = append(messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content}, llm.Message{Role: event.RoleUser, Name: "ann", Content: "and now?"})
					asked += 2
				}
				more := tt.more
				if onDelta == nil && slices.ContainsFunc(tt.rules, func(r rule) bool { return r(wireRequest{StreamOptions: json.RawMessage("{}")}) != "" }) {
					more-- // only streams have such options
				}
				require.Equal(t, asked+more, *calls)
			})
		})
	}
}

// TestRefusedFields: only an error that names the field and says that it is not taken leaves a field out.
func TestRefusedFields(t *testing.T) {
	for said, retried := range map[string]bool{
		"Unsupported parameter: stream_options": true,
		"stream_options must be an object":      false,
		"the model is unsupported":              false,
	} {
		url, calls := strict(t, func(r wireRequest) string {
			if r.StreamOptions != nil {
				return said
			}
			return ""
		})
		_, err := provider(t, openai.Config{BaseURL: url}).Generate(t.Context(), request("hi"), func(llm.Delta) {})
		require.Equal(t, retried, err == nil, said)
		require.Equal(t, map[bool]int{true: 2, false: 1}[retried], *calls)
	}
	_, err := openai.New(openai.Config{APIKey: key, Dialect: "latin"})
	require.EqualError(t, err, `openai: "latin" is no dialect: use compatible, mistral, openai`)
}
