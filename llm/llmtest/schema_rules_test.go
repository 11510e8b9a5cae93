package llmtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/threadmill/threadmill/llm/llmtest"
)

// TestSchemaRules: each server rejects the schemas that its provider rejects.
func TestSchemaRules(t *testing.T) {
	s := start(t, llmtest.Config{})
	send := map[string]func(name, description, schema string) (int, string){
		"chat": func(name, description, schema string) (int, string) {
			return posted(t, s.URL+"/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":%q,"description":%q,"parameters":%s}}]}`, name, description, schema), nil)
		},
		"responses": func(name, description, schema string) (int, string) {
			return posted(t, s.URL+"/responses", fmt.Sprintf(`{"model":"m","store":false,"input":[{"type":"message","role":"user","content":"hi"}],"tools":[{"type":"function","name":%q,"description":%q,"parameters":%s,"strict":false}]}`, name, description, schema), nil)
		},
		"messages": func(name, description, schema string) (int, string) {
			return posted(t, s.Root+"/v1/messages", fmt.Sprintf(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":%q,"description":%q,"input_schema":%s}]}`, name, description, schema), http.Header{"X-Api-Key": {"k"}})
		},
		"google": func(name, description, schema string) (int, string) {
			return posted(t, s.Root+"/v1beta/models/gemini-3-pro:generateContent", fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":%q,"description":%q,"parametersJsonSchema":%s}]}]}`, name, description, schema), http.Header{"X-Goog-Api-Key": {"k"}})
		},
	}
	const all = "chat responses messages google"
	of := func(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }
	for _, tt := range []struct{ name, schema, by, problem string }{
		{"one of all words", `{"type":"object","properties":{"a":{"type":["array","null"],"prefixItems":[true],"items":{"anyOf":[{"enum":[1]}]}},"b":{"$ref":"#/$defs/c","description":"d"}},"required":["a"],"$defs":{"c":{"type":"string","minLength":1}},"additionalProperties":false}`, "", ""},
		{"no type", `{"properties":{}}`, all, "object"},
		{"no properties", `{"type":"object"}`, "chat responses", "object schema missing properties"},
		{"alternatives at the top", `{"type":"object","properties":{},"anyOf":[{}]}`, "chat responses messages", "top level"},
		{"a choice at the top", `{"type":"object","properties":{},"enum":[{}]}`, "chat responses", "top level"},
		{"a list without items", of(`{"type":"array"}`), "chat responses google", "missing items"},
		{"a tuple without items", of(`{"type":"array","prefixItems":[{}]}`), "chat responses google", "missing items"},
		{"a tuple of older drafts", of(`{"type":"array","items":[{}]}`), all, "is not of type"},
		{"a limit of older drafts", of(`{"type":"number","minimum":1,"exclusiveMinimum":true}`), all, "is not of type 'number'"},
		{"a type that is none", of(`{"type":"any"}`), all, "is not valid"},
		{"a property that is no schema", of(`"string"`), all, "is not of type"},
		{"a required property", of(`{"type":"string","required":true}`), all, "is no"},
		{"no alternatives", of(`{"oneOf":[]}`), all, "should be non-empty"},
		{"a name with other characters", `{"type":"object","properties":{"$top":{}}}`, "messages", "Property keys should match"},
		{"a reference that leads nowhere", of(`{"$ref":"#/$defs/x"}`), all, "reference to"},
		{"a reference elsewhere", `{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{}}}`, "google", "undefined schema"},
		{"words beside a reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/x","title":"y"}},"$defs":{"x":{}}}`, "google", "alongside"},
	} {
		for protocol, post := range send {
			t.Run(tt.name+" "+protocol, func(t *testing.T) {
				problem := tt.problem
				if !strings.Contains(tt.by, protocol) {
					problem = ""
				}
				status, body := post("f", "d", tt.schema)
				requireProblem(t, problem, status, body)
			})
		}
	}
	for protocol, problem := range map[string]string{"chat": "string too long", "responses": "string too long", "messages": "", "google": ""} {
		t.Run("a long description "+protocol, func(t *testing.T) {
			status, body := send[protocol]("f", strings.Repeat("x", 1025), `{"type":"object","properties":{}}`)
			requireProblem(t, problem, status, body)
		})
	}
}
