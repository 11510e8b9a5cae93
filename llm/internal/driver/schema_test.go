package driver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
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
		{"tuples", `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`, `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":{}}}}`},
		{
			"tuples of older drafts", `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"array"}]},"b":{"items":[{}],"additionalItems":false}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"array","items":{}}],"items":{}},"b":{"prefixItems":[{}],"items":false}}}`,
		},
		{"what is no object at the top", `{"type":"object","properties":{},"enum":[{}],"not":{"required":["a"]}}`, none},
		{
			"a reference at the top", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}}}`,
			`{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"$defs":{"a":{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}}}`,
		},
		{
			"references as alternatives", `{"type":"object","anyOf":[{"$ref":"#/definitions/a~1b"},{"$ref":"#/lost"},{"$ref":"other.json"}],"definitions":{"a/b":{"properties":{"b":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"b":{"type":"string"}},"definitions":{"a/b":{"properties":{"b":{"type":"string"}}}}}`,
		},
		{
			"names of properties", `{"type":"object","properties":{"$top":{"type":"integer"},"_top":{},"filter[id]":{"properties":{"$in":{}}}},"required":["$top","_top"]}`,
			`{"type":"object","properties":{"_top_2":{"type":"integer"},"_top":{},"filter_id_":{"properties":{"$in":{}}}},"required":["_top_2","_top"]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := Parameters(json.RawMessage(tt.schema))
			require.JSONEq(t, tt.want, string(got))
			again, keys := Parameters(got)
			require.Equal(t, string(got), string(again), "once is enough")
			require.Empty(t, keys)
		})
	}
	same := json.RawMessage(`{ "type" :"object","properties":{}}`)
	got, _ := Parameters(same)
	require.Equal(t, string(same), string(got))
	deep := strings.Repeat(`{"properties":{"a":`, 10_000) + "{}" + strings.Repeat("}}", 10_000)
	got, _ = Parameters(json.RawMessage(deep))
	require.NotEmpty(t, got)
}

// TestInlined: what references refer to stands in their place, and nothing grows without end.
func TestInlined(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"none", `{ "type":"object" }`, `{ "type":"object" }`},
		{
			"a definition", `{"properties":{"a":{"$ref":"#/$defs/x","description":"mine"},"b":{"items":{"$ref":"#/$defs/x"}}},"$defs":{"x":{"type":"string","description":"its"}}}`,
			`{"properties":{"a":{"type":"string","description":"mine"},"b":{"items":{"type":"string","description":"its"}}}}`,
		},
		{
			"within another", `{"properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"anyOf":[{"$ref":"#/definitions/y"}]},"y":{"type":"null"}}}`,
			`{"properties":{"a":{"anyOf":[{"type":"null"}]}}}`,
		},
		{"a property", `{"properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`},
		{"nowhere", `{"properties":{"a":{"$ref":"#/$defs/x","title":"A"}}}`, `{"properties":{"a":{"title":"A"}}}`},
		{
			"a tree", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"object","properties":{"next":{"$ref":"#/$defs/x"}}}}}`,
			`{"properties":{"a":{"type":"object","properties":{"next":{}}}}}`,
		},
		{"what is no reference", `{"properties":{"$ref":{"type":"string"},"a":{"default":{"$ref":"#/x"}}}}`, `{"properties":{"$ref":{"type":"string"},"a":{"default":{"$ref":"#/x"}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { require.JSONEq(t, tt.want, string(Inlined(json.RawMessage(tt.schema)))) })
	}
	var defs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&defs, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	require.Less(t, len(Inlined(json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`+defs.String()+`"d40":{}}}`))), 1<<20)
}

// TestRestore: calls have the names that the tool knows.
func TestRestore(t *testing.T) {
	n := NewToolNames([]llm.Tool{{Name: "a.b", Parameters: json.RawMessage(`{"type":"object","properties":{"$top":{},"filter[id]":{}}}`)}})
	require.JSONEq(t, `{"type":"object","properties":{"_top":{},"filter_id_":{}}}`, string(n.Parameters("a.b")))
	for arguments, want := range map[string]string{
		`{"_top":12345678901234567890,"filter_id_":{"_top":1}}`: `{"$top":12345678901234567890,"filter[id]":{"_top":1}}`,
		`{"$top":1}`: `{"$top":1}`, `{"$top":1,"_top":2}`: `{"$top":1,"_top":2}`, `{"_top":1,"_top":2}`: `{"_top":1,"_top":2}`, `{"_top`: `{"_top`, `[]`: `[]`,
	} {
		calls := []event.ToolCall{{Function: event.Function{Name: "a_b", Arguments: arguments}}}
		n.Restore(calls)
		require.Equal(t, event.Function{Name: "a.b", Arguments: want}, calls[0].Function)
	}
}

func TestDescription(t *testing.T) {
	require.Equal(t, "Reads.", Description("Reads."))
	long := Description(strings.Repeat("ä", 2000))
	require.LessOrEqual(t, len(long), 1024)
	require.Greater(t, len(long), 1000)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "…"))
}
