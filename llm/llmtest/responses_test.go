package llmtest_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/llmtest"
)

// posted returns the status and the body of the response to a request.
func posted(t *testing.T, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.ReplaceAll(string(got), `\"`, `"`)
}

// TestResponsesProtocol: the server rejects what OpenAI's Responses API rejects.
func TestResponsesProtocol(t *testing.T) {
	s := start(t, llmtest.Config{})
	const (
		user     = `{"role":"user","content":"hi"}`
		call     = `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
		result   = `{"type":"function_call_output","call_id":"a","output":"1"}`
		include  = `"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"},`
		function = `{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}`
	)
	send := func(t *testing.T, fields, input string) (int, string) {
		t.Helper()
		return posted(t, s.URL+"/responses", `{"model":"gpt-5","stream":true,`+fields+`"input":[`+input+`]}`, http.Header{"Authorization": {"Bearer k"}})
	}
	status, stream := send(t, include, `{"role":"user","content":"think well\nuse f {}"}`)
	require.Equal(t, http.StatusOK, status, stream)
	reasoning := regexp.MustCompile(`\{"encrypted_content".*?"type":"reasoning"\}`).FindString(stream)
	require.NotEmpty(t, reasoning)

	for _, tt := range []struct{ name, fields, input, problem string }{
		{"a round of tools", `"store":false,"tools":[` + function + `],`, user + "," + call + "," + result + "," + user, ""},
		{"reasoning", include, user + "," + reasoning + "," + call + "," + result, ""},
		{"no input", "", "", `One of "input"`},
		{"a field that is none", `"messages":[],`, user, `Unknown parameter: "messages"`},
		{"a field of an item that is none", "", `{"role":"user","content":"hi","name":"ann"}`, `input[0]: Unknown parameter: "name"`},
		{"an item that is none", "", `{"type":"note"}`, "input[0].type: Invalid value: 'note'"},
		{"an orphan result", "", user + "," + result, "No tool call found for function call output with call_id a."},
		{"a result twice", "", user + "," + call + "," + result + "," + result, "No tool call found"},
		{"no result", "", user + "," + call, "No tool output found for function call a."},
		{"reasoning at the end", include, user + "," + reasoning, "without its required following item"},
		{"reasoning before a user", include, user + "," + reasoning + "," + user, "without its required following item"},
		{"reasoning of another", include, user + "," + strings.Replace(reasoning, `"reasoning_`, `"reasoning_9`, 1) + "," + call + "," + result, "could not be verified"},
		{"reasoning that is stored", include, user + `,{"type":"reasoning","id":"rs_1","summary":[]},` + call + "," + result, "Items are not persisted"},
		{"an id that is stored", "", user + "," + strings.Replace(call, `"call_id"`, `"id":"fc_1","call_id"`, 1) + "," + result, "Items are not persisted"},
		{"a long id", "", user + "," + strings.ReplaceAll(call+","+result, `"a"`, `"`+strings.Repeat("x", 65)+`"`), "input[1].call_id: "},
		{"a name that is none", "", user + "," + strings.Replace(call, `"f"`, `"f g"`, 1) + "," + result, "input[1].name: "},
		{"a role that is none", "", `{"role":"tool","content":"x"}`, "input[0].role: Invalid value: 'tool'"},
		{"no content", "", `{"role":"user"}`, "input[0].content: "},
		{"no parts", "", `{"role":"user","content":[]}`, "input[0].content: "},
		{"a part without text", "", `{"role":"user","content":[{"type":"input_text","text":""}]}`, "input[0].content[0]: "},
		{"a part of the other side", "", user + `,{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`, "input[1].content[0]: "},
		{"few tokens", `"max_output_tokens":5,`, user, "Invalid 'max_output_tokens'"},
		{"an effort that is none", `"reasoning":{"effort":"lots"},`, user, "Invalid value: 'lots'"},
		{"a temperature of a model with thoughts", `"temperature":0.5,`, user, "'temperature' is not supported"},
		{"thoughts of a model without", `"model":"gpt-4.1","reasoning":{"effort":"low"},`, user, "'reasoning.effort' is not supported"},
		{"encrypted thoughts of a model without", `"model":"gpt-4.1","include":["reasoning.encrypted_content"],`, user, "Encrypted content is not supported"},
		{"a choice of tools", `"tools":[` + function + `],"tool_choice":{"type":"function","name":"f"},`, user, ""},
		{"a choice in another form", `"tools":[` + function + `],"tool_choice":{"type":"function","function":{"name":"f"}},`, user, "Invalid value for 'tool_choice'"},
		{"a choice that is none", `"tools":[` + function + `],"tool_choice":"any",`, user, "Invalid value for 'tool_choice'"},
		{"a choice without tools", `"tool_choice":"required",`, user, "only allowed when 'tools' are specified"},
		{"a choice of an unknown tool", `"tools":[` + function + `],"tool_choice":{"type":"function","name":"g"},`, user, "'g' not found"},
		{"a format", `"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":` + closed + `}},`, user, ""},
		{"a format that is none", `"text":{"format":{"type":"json","name":"x","strict":true,"schema":` + closed + `}},`, user, "Invalid value: 'json'"},
		{"a format without a name", `"text":{"format":{"type":"json_schema","strict":true,"schema":` + closed + `}},`, user, "Invalid 'text.format.name'"},
		{"a format that is a wish", `"text":{"format":{"type":"json_schema","name":"x","schema":` + closed + `}},`, user, "strict"},
		{"a format with optional properties", `"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":` + strings.Replace(closed, `"yes","because"`, `"yes"`, 1) + `}},`, user, "Missing 'because'"},
		{"a schema that is none", `"tools":[` + strings.Replace(function, `"object"`, `"string"`, 1) + `],`, user, "tools[0].parameters: "},
		{"a strict schema", `"tools":[` + strings.Replace(function, `,"strict":false`, "", 1) + `],`, user, "tools[0].parameters: a strict schema"},
		{"a tool in another form", `"tools":[{"type":"function","function":{"name":"f"}}],`, user, `Unknown parameter: "function"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := send(t, tt.fields, tt.input)
			requireProblem(t, tt.problem, status, body)
		})
	}
}
