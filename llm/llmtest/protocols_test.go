package llmtest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/llmtest"
)

// closed is a schema that all providers take for a reply.
const closed = `{"type":"object","properties":{"yes":{"type":"boolean"},"because":{"type":"string"}},"required":["yes","because"],"additionalProperties":false}`

// TestMessagesProtocol: the server rejects what Anthropic rejects.
func TestMessagesProtocol(t *testing.T) {
	s := start(t, llmtest.Config{})
	const (
		user  = `{"role":"user","content":"hi"}`
		calls = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
		a     = `{"type":"tool_result","tool_use_id":"a","content":"1"}`
		b     = `{"type":"tool_result","tool_use_id":"b"}`
		text  = `{"type":"text","text":"x"}`
		tool  = `{"name":"f","input_schema":{"type":"object"}}`
	)
	results := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	cached := func(block string) string {
		return strings.TrimSuffix(block, "}") + `,"cache_control":{"type":"ephemeral"}}`
	}
	for _, tt := range []struct{ name, fields, messages, problem string }{
		{"a round of tools", `"tools":[` + tool + `],`, user + "," + calls + "," + results(b, a, text), ""},
		{"results in two messages", "", user + "," + calls + "," + results(a) + "," + results(b), ""},
		{"a field that is none", `"max_token":5,`, user, `Unknown parameter: "max_token"`},
		{"a field of a block that is none", "", results(`{"type":"text","text":"x","name_":"ann"}`), `Unknown parameter: "name_"`},
		{"an orphan result", "", user + "," + results(a), "messages.1.content.0: unexpected `tool_use_id`"},
		{"a result twice", "", user + "," + calls + "," + results(a, b, a), "messages.2.content.2: unexpected `tool_use_id`"},
		{"a late result", "", user + "," + calls + "," + results(a, text, b), "messages.2.content.2: unexpected `tool_use_id`"},
		{"no result", "", user + "," + calls + "," + results(a), "`tool_use` ids were found without `tool_result` blocks"},
		{"no result before a reply", "", user + "," + calls + "," + user + `,{"role":"assistant","content":"x"},` + user, "messages.3: `tool_use` ids were found without"},
		{"ids twice", "", user + "," + calls + "," + results(a, b) + "," + calls + "," + results(a, b), "`tool_use` ids must be unique"},
		{"an empty error", "", user + "," + calls + "," + results(a, `{"type":"tool_result","tool_use_id":"b","is_error":true}`), "content cannot be empty"},
		{"a role that is none", "", user + `,{"role":"system","content":"x"},` + user, "messages.1.role: "},
		{"the model first", "", `{"role":"assistant","content":"x"},` + user, "first message must use"},
		{"the model last", "", user + `,{"role":"assistant","content":"x"}`, "must end with a user message"},
		{"no content", "", `{"role":"user","content":[]}`, "messages.0.content: must not be empty"},
		{"a blank text", "", `{"role":"user","content":" "}`, "non-whitespace text"},
		{"a foreign thought", "", user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]},` + user, "Invalid `signature`"},
		{"no thought", `"thinking":{"type":"enabled","budget_tokens":1024},`, user + "," + calls + "," + results(a, b), "Expected `thinking`"},
		{"tools of one name", `"tools":[` + tool + "," + tool + `],`, user, "Tool names must be unique"},
		{"a schema that is none", `"tools":[{"name":"f","input_schema":{}}],`, user, "tools.0.custom.input_schema: "},
		{"five breakpoints", "", results(cached(text), cached(text), cached(text), cached(text), cached(text)), "A maximum of 4 blocks"},
		{"a choice of tools", `"tools":[` + tool + `],"tool_choice":{"type":"tool","name":"f"},`, user, ""},
		{"a choice that is none", `"tools":[` + tool + `],"tool_choice":{"type":"required"},`, user, "tool_choice: Input tag 'required'"},
		{"a choice without tools", `"tool_choice":{"type":"any"},`, user, "while providing tools"},
		{"a choice of an unknown tool", `"tools":[` + tool + `],"tool_choice":{"type":"tool","name":"g"},`, user, "Tool 'g' not found"},
		{"a name of any tool", `"tools":[` + tool + `],"tool_choice":{"type":"any","name":"f"},`, user, "tool_choice.any.name: "},
		{"thoughts before a forced call", `"thinking":{"type":"adaptive"},"tools":[` + tool + `],"tool_choice":{"type":"any"},`, user, "Thinking may not be enabled"},
		{"a format", `"output_config":{"format":{"type":"json_schema","schema":` + closed + `}},`, user, ""},
		{"a format that is none", `"output_config":{"format":{"type":"json","schema":` + closed + `}},`, user, "output_config.format.type: "},
		{"a format with other properties", `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},`, user, "'additionalProperties' is required"},
		{"a cache for a day", "", results(strings.Replace(cached(text), `"ephemeral"`, `"ephemeral","ttl":"1d"`, 1)), "cache_control: must be"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := posted(t, s.Root+"/v1/messages", `{"model":"m","stream":true,"max_tokens":2000,`+tt.fields+`"messages":[`+tt.messages+`]}`, http.Header{"X-Api-Key": {"k"}})
			requireProblem(t, tt.problem, status, body)
		})
	}
}

// TestContentProtocol: the server rejects what Google rejects.
func TestContentProtocol(t *testing.T) {
	s := start(t, llmtest.Config{})
	const (
		user   = `{"role":"user","parts":[{"text":"hi"}]}`
		signed = `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}`
		plain  = `{"functionCall":{"name":"g","args":{}}}`
		f      = `{"functionResponse":{"name":"f","response":{"output":"1"}}}`
		g      = `{"functionResponse":{"name":"g","response":{"output":"1"}}}`
	)
	model := func(parts ...string) string { return `{"role":"model","parts":[` + strings.Join(parts, ",") + `]}` }
	results := func(parts ...string) string { return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}` }
	tools := func(functions string) string { return `"tools":[{"functionDeclarations":[` + functions + `]}],` }
	thinking := func(fields string) string { return `"generationConfig":{"thinkingConfig":{` + fields + `}},` }
	choice := func(fields string) string { return `"toolConfig":{"functionCallingConfig":{` + fields + `}},` }
	const declared = `{"name":"f","parametersJsonSchema":{"type":"object"}}`
	for _, tt := range []struct{ name, model, fields, contents, problem string }{
		{"a round of tools", "gemini-3-pro", tools(declared), user + "," + model(signed, plain) + "," + results(f, g), ""},
		{"old calls need no signature", "gemini-3-pro", "", user + "," + model(plain) + "," + results(g, `{"text":"hi"}`), ""},
		{"old models need none", "gemini-2.5-flash", "", user + "," + model(plain) + "," + results(g), ""},
		{"a field that is none", "gemini-3-pro", `"safety":1,`, user, `Unknown parameter: "safety"`},
		{"a field of a part that is none", "gemini-3-pro", "", results(`{"text":"x","name":"ann"}`), `Unknown parameter: "name"`},
		{"no signature", "gemini-3-pro", "", user + "," + model(plain) + "," + results(g), "missing a thought_signature"},
		{"a foreign signature", "gemini-2.5-flash", "", user + "," + model(`{"functionCall":{"name":"g"},"thoughtSignature":"eHh4"}`) + "," + results(g), "Invalid thought signature"},
		{"an orphan result", "gemini-3-pro", "", user + "," + model(`{"text":"x"}`) + "," + results(f), "function response parts"},
		{"no result", "gemini-3-pro", "", user + "," + model(signed, plain) + "," + results(f), "function response parts"},
		{"two users", "gemini-3-pro", "", user + "," + user, "alternating user and model roles"},
		{"the model first", "gemini-3-pro", "", model(`{"text":"x"}`) + "," + user, "alternating user and model roles"},
		{"the model last", "gemini-3-pro", "", user + "," + model(`{"text":"x"}`), "must be of the user"},
		{"no parts", "gemini-3-pro", "", `{"role":"user","parts":[]}`, "parts: must not be empty"},
		{"an empty part", "gemini-3-pro", "", results(`{"text":""}`), "must have one initialized field"},
		{"a call of a user", "gemini-3-pro", "", results(signed), "function calls are of the model"},
		{"an empty instruction", "gemini-3-pro", `"systemInstruction":{"parts":[{"text":""}]},`, user, "system_instruction"},
		{"functions of one name", "gemini-3-pro", tools(declared + "," + declared), user, "Duplicate function declaration"},
		{"a name that is none", "gemini-3-pro", tools(`{"name":"1 f"}`), user, "invalid function name"},
		{"a schema that is none", "gemini-3-pro", tools(`{"name":"f","parametersJsonSchema":{"type":"string"}}`), user, "parameters_json_schema"},
		{"thoughts of a model without", "gemini-2.0-flash", thinking(`"includeThoughts":true`), user, "not supported for this model"},
		{"a level of a model with budgets", "gemini-2.5-flash", thinking(`"thinkingLevel":"LOW"`), user, "Thinking level is not supported"},
		{"a level and a budget", "gemini-3-pro", thinking(`"thinkingLevel":"LOW","thinkingBudget":5`), user, "only set only one"},
		{"a choice of tools", "gemini-3-pro", tools(declared) + choice(`"mode":"ANY","allowedFunctionNames":["f"]`), user, ""},
		{"a choice that is none", "gemini-3-pro", tools(declared) + choice(`"mode":"SOME"`), user, "function_calling_config.mode"},
		{"a choice without tools", "gemini-3-pro", choice(`"mode":"ANY"`), user, "without function_declarations"},
		{"a choice of an unknown tool", "gemini-3-pro", tools(declared) + choice(`"mode":"ANY","allowedFunctionNames":["g"]`), user, `"g" is not in`},
		{"a name of no tool", "gemini-3-pro", tools(declared) + choice(`"mode":"NONE","allowedFunctionNames":["f"]`), user, "only be set when the mode is ANY"},
		{"a format", "gemini-3-pro", `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":` + closed + `},`, user, ""},
		{"a format of no type", "gemini-3-pro", `"generationConfig":{"responseJsonSchema":` + closed + `},`, user, "response_mime_type"},
		{"a format that is none", "gemini-3-pro", `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{}},`, user, "response_json_schema: "},
		{"a level that is none", "gemini-3-pro", thinking(`"thinkingLevel":"LOTS"`), user, "thinking_level"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := posted(t, s.Root+"/v1beta/models/"+tt.model+":streamGenerateContent", `{`+tt.fields+`"contents":[`+tt.contents+`]}`, http.Header{"X-Goog-Api-Key": {"k"}})
			requireProblem(t, tt.problem, status, body)
		})
	}
}

func requireProblem(t *testing.T, problem string, status int, body string) {
	t.Helper()
	if problem == "" {
		require.Equal(t, http.StatusOK, status, body)
		return
	}
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Contains(t, body, problem)
}
