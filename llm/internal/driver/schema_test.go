package driver

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestParameters: each schema is one that all providers take, and one that they take stays as it is.
func TestParameters(t *testing.T) {
	const none = `{"type":"object","properties":{}}`
	for _, tt := range []struct{ name, schema, want string }{
		{"none", "", none},
		{"null", "null", none},
		{"no schema", `true`, none},
		{"as it is", `{ "properties": {"n": {"type": "integer", "maximum": 1915883588174806058}}, "type": "object" }`, `{ "properties": {"n": {"type": "integer", "maximum": 1915883588174806058}}, "type": "object" }`},
		{"no properties", `{"type":"object","additionalProperties":false}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{"properties null", `{"type":"object","properties":null}`, `{"properties":{},"type":"object"}`},
		{"no type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"another type", `{"type":["object","null"],"properties":{}}`, none},
		{
			"alternatives", `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[
				{"properties":{"b":{"type":"integer"},"c":{}},"required":["b","c"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{}},"required":["b"]}`,
		},
		{"one of none", `{"oneOf":[]}`, none},
		{
			"all of", `{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}],"required":["a"]}`,
			`{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`,
		},
		{"alternatives below", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}`},
		{
			"lists without items", `{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},"c":{"items":{"type":"array"},"type":"array"}},"$defs":{"d":{"type":"array"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}},"c":{"items":{"type":"array","items":{}},"type":"array"}},"$defs":{"d":{"type":"array","items":{}}}}`,
		},
		{
			"what is no schema", `{"type":"object","properties":{"type":{"type":"string"},"items":{"type":"string"},"default":{"type":"array"},"e":{"enum":[{"type":"array"}],"default":{"type":"array"}}}}`,
			`{"type":"object","properties":{"type":{"type":"string"},"items":{"type":"string"},"default":{"type":"array","items":{}},"e":{"enum":[{"type":"array"}],"default":{"type":"array"}}}}`,
		},
		{"tuples", `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`, `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Parameters(json.RawMessage(tt.schema))
			require.JSONEq(t, tt.want, string(got))
			require.Equal(t, string(got), string(Parameters(got)), "once is enough")
		})
	}
	same := json.RawMessage(`{ "type" :"object","properties":{}}`)
	require.Equal(t, string(same), string(Parameters(same)))
	deep := strings.Repeat(`{"properties":{"a":`, 10_000) + "{}" + strings.Repeat("}}", 10_000)
	require.NotEmpty(t, Parameters(json.RawMessage(deep)))
}

func TestDescription(t *testing.T) {
	require.Equal(t, "Reads.", Description("Reads."))
	long := Description(strings.Repeat("ä", 2000))
	require.LessOrEqual(t, len(long), 1024)
	require.Greater(t, len(long), 1000)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "…"))
}
