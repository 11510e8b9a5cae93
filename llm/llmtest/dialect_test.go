package llmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/llmtest"
)

// TestDialectRules: a server rejects what the server of its dialect rejects.
func TestDialectRules(t *testing.T) {
	const (
		user   = `{"role":"user","content":"hi"}`
		said   = `{"role":"assistant","content":"x"}`
		call   = `{"role":"assistant","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"abcdefghi","content":"1"}`

		thought  = `{"role":"assistant","reasoning_content":"x","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		signed   = `{"role":"assistant","tool_calls":[{"id":"abcdefghi","type":"function","extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}},"function":{"name":"f","arguments":"{}"}}]}`
		unsigned = `{"role":"assistant","tool_calls":[{"id":"abcdefghi","type":"function","extra_content":{"google":{"thought_signature":"another"}},"function":{"name":"f","arguments":"{}"}}]}`
		long     = `{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		answer   = `{"role":"tool","tool_call_id":"call_1","content":"1"}`
	)
	servers := map[string]string{}
	for _, dialect := range llmtest.Dialects() {
		servers[dialect.Name] = start(t, llmtest.Config{Dialect: dialect}).URL
	}
	servers["OpenAI"] = start(t, llmtest.Config{}).URL
	for _, tt := range []struct{ dialect, fields, messages, problem string }{
		{"Mistral", "", user + "," + call + "," + result, ""},
		{"Mistral", "", user + "," + user, "Unexpected role 'user' after role 'user'"},
		{"Mistral", "", said, "Unexpected role 'assistant' after role 'assistant'"},
		{"Mistral", "", user + "," + call + "," + result + "," + user, "Unexpected role 'user' after role 'tool'"},
		{"Mistral", "", user + "," + long + "," + answer, "Tool call id was call_1"},
		{"Mistral", "", `{"role":"user","content":"hi","name":"ann"}`, "extra_forbidden"},
		{"Mistral, older", `"stream_options":{"include_usage":true},`, user, "stream_options"},
		{"Groq", "", user + "," + thought + "," + result, "property 'reasoning_content' is unsupported"},
		{"DeepSeek", "", user + "," + thought + "," + result, ""},
		{"DeepSeek", "", user + "," + call + "," + result, "must be passed back"},
		{"DeepSeek", "", user + "," + call + "," + result + "," + said + "," + user, "must be passed back"},
		{"vLLM", "", said + "," + said, "Unexpected role"},
		{"Gemini, compatible endpoint", "", user + "," + signed + "," + result, ""},
		{"Gemini, compatible endpoint", "", user + "," + call + "," + result, "missing a thought_signature"},
		{"Gemini, compatible endpoint", "", user + "," + unsigned + "," + result, "Invalid thought signature"},
		{"Gemini, compatible endpoint", "", user + "," + call + "," + result + "," + user, ""},
		{"newer models", `"max_tokens":5,`, user, "max_tokens"},
		{"OpenAI", "", user + "," + thought + "," + result, `Unknown parameter: "reasoning_content"`},
		{"OpenAI", "", user + "," + signed + "," + result, `Unknown parameter: "extra_content"`},
	} {
		t.Run(tt.dialect+" "+tt.problem, func(t *testing.T) {
			require.NotEmpty(t, servers[tt.dialect])
			status, body := posted(t, servers[tt.dialect]+"/chat/completions", `{"model":"m",`+tt.fields+`"messages":[`+tt.messages+`]}`, nil)
			requireProblem(t, tt.problem, status, body)
		})
	}
}
