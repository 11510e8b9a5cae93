package llmtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/llmtest"
)

// TestProtocol: the server rejects conversations that providers reject.
func TestProtocol(t *testing.T) {
	s := start(t, llmtest.Config{})
	const (
		user   = `{"role":"user","content":"hi"}`
		calls  = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		answer = `{"role":"tool","tool_call_id":"a","content":"1"}`
		tool   = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}`
		other  = `{"role":"tool","tool_call_id":"b","content":""}`
	)
	call := func(id, name string) string {
		return `{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"{}"}}]}`
	}
	for fields, problem := range map[string]string{
		`"model":"m","messages":[]`: "messages: must not be empty",
		`"model":"m","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f"}}]`:                                                        "tools[0].",
		`"model":"m","messages":[` + user + `],"tools":[{"function":{"name":"f","parameters":{"type":"object"}}}]`:                                           "tools[0].",
		`"model":"m","messages":[` + user + `],"tool_choice":"required"`:                                                                                     "only allowed when 'tools' are specified",
		`"model":"m","messages":[` + user + `],"response_format":{"type":"json_object"}`:                                                                     "response_format.json_schema",
		`"model":"m","messages":[` + user + `],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}}`: "'additionalProperties'",
		`"model":"m","messages":[` + user + `],"tools":[` + tool + `],"tool_choice":{"type":"function","name":"f"}`:                                          "Invalid value for 'tool_choice'",
		`"model":"m","messages":[` + user + `],"top_k":1`:                                                                                                    "Unknown parameter",
		`"model":"gpt-5","messages":[` + user + `],"max_tokens":5`:                                                                                           "'max_tokens' is not supported",
		`"model":"gpt-5","messages":[` + user + `],"temperature":.5`:                                                                                         "'temperature' does not support",
	} {
		status, body := posted(t, s.URL+"/chat/completions", strings.Replace("{"+fields+"}", ":.5", ":0.5", 1), nil)
		requireProblem(t, problem, status, body)
	}
	for _, tt := range []struct {
		name, messages, problem string
	}{
		{"a round of tools", user + "," + calls + "," + answer + "," + other + "," + user, ""},
		{"answers in another order", user + "," + calls + "," + other + "," + answer, ""},
		{"parts", `{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"there"}]}`, ""},
		{"no answer", user + "," + calls + "," + answer + "," + user, `messages[3]: tool calls before it have no answer: ["b"]`},
		{"no answer at the end", user + "," + calls, `the end of messages: tool calls before it have no answer: ["a" "b"]`},
		{"an answer to nothing", user + "," + answer, `messages[1]: tool_call_id "a" answers no call`},
		{"an answer twice", user + "," + calls + "," + answer + "," + answer, `messages[3]: tool_call_id "a" answers no call`},
		{"a late answer", calls + "," + answer + "," + other + "," + user + "," + answer, `messages[4]: tool_call_id "a" answers no call`},
		{"a long id", call(strings.Repeat("x", 41), "f"), "messages[0].tool_calls[0].id: "},
		{"no id", call("", "f"), "messages[0].tool_calls[0].id: "},
		{"a name that is none", call("a", "f g"), "messages[0].tool_calls[0].function.name: "},
		{"calls of a user", strings.Replace(call("a", "f"), "assistant", "user", 1), "messages[0].tool_calls: "},
		{"no content", `{"role":"user"}`, "messages[0].content: is required"},
		{"null", `{"role":"assistant","content":null}`, "messages[0].content: is required"},
		{"content that is none", `{"role":"user","content":{}}`, "messages[0].content: is neither"},
		{"no parts", `{"role":"user","content":[]}`, "messages[0].content: is neither"},
		{"a part without text", `{"role":"user","content":[{"type":"text"}]}`, "messages[0].content[0]: "},
		{"a part of another type", `{"role":"user","content":[{"type":"image_url","text":"x"}]}`, "messages[0].content[0]: "},
		{"a name with a space", `{"role":"user","content":"x","name":"ann m"}`, "messages[0].name: "},
		{"a field that is none", `{"role":"user","content":"x","parts":[]}`, `Unknown parameter: "parts"`},
		{"calls without a type", strings.Replace(call("a", "f"), `"type":"function",`, "", 1), "messages[0].tool_calls[0].type: "},
		{"a role that is none", `{"role":"event","content":"x"}`, `messages[0].role: "event"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[`+tt.messages+`]}`))
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			if tt.problem == "" {
				require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
				return
			}
			require.Equal(t, http.StatusBadRequest, resp.StatusCode)
			require.Contains(t, strings.ReplaceAll(string(body), `\"`, `"`), tt.problem)
		})
	}
}
