package rule_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
)

func ptr[T any](v T) *T { return &v }

var push = event.EnvEvent{
	ID: "e1", Type: "github.push", Timestamp: 1700000000000,
	Metadata: event.EnvMetadata{
		Source: event.SourceEnv, TriggerAgentName: "reviewer",
		Extra: map[string]json.RawMessage{"retries": json.RawMessage(`2`), "from": json.RawMessage(`{"ip":"::1"}`)},
	},
	Payload: json.RawMessage(`{
		"branch": "main", "draft": false, "size": 1.0, "huge": 1e400, "none": null, "empty": "", "zero": 0,
		"commits": [{"author": "ann", "files": ["a.go", "b.go"]}, {"author": "ben", "n": 10}],
		"tags": ["v1", 2, null, {"a": 1}], "0": "zero", "object": {"b": [1, 2.50], "a": true}
	}`),
}

func TestConditions(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	for _, tc := range []struct {
		name  string
		where rule.Condition
		want  bool
	}{
		{"equals: text", rule.Condition{Field: "payload.branch", Equals: "main"}, true},
		{"equals: other text", rule.Condition{Field: "payload.branch", Equals: "Main"}, false},
		{"equals: false", rule.Condition{Field: "payload.draft", Equals: false}, true},
		{"equals: true", rule.Condition{Field: "payload.draft", Equals: true}, false},
		{"equals: empty text", rule.Condition{Field: "payload.empty", Equals: ""}, true},
		{"equals: zero", rule.Condition{Field: "payload.zero", Equals: 0}, true},
		{"equals: minus zero", rule.Condition{Field: "payload.zero", Equals: json.Number("-0.0")}, true},
		{"equals: 1 is 1.0", rule.Condition{Field: "payload.size", Equals: 1}, true},
		{"equals: 1 is 1.0 as float64", rule.Condition{Field: "payload.size", Equals: 1.0}, true},
		{"equals: 10e-1 is 1.0", rule.Condition{Field: "payload.size", Equals: json.Number("10e-1")}, true},
		{"equals: -1 is not 1.0", rule.Condition{Field: "payload.size", Equals: -1}, false},
		{"equals: 10 is not 1.0", rule.Condition{Field: "payload.size", Equals: 10}, false},
		{"equals: a number is no text", rule.Condition{Field: "payload.size", Equals: "1.0"}, false},
		{"equals: 0.1e401 is 1e400", rule.Condition{Field: "payload.huge", Equals: json.Number("0.1e401")}, true},
		{"equals: 1e401 is not 1e400", rule.Condition{Field: "payload.huge", Equals: json.Number("1e401")}, false},
		{"equals: an exponent beyond all bounds", rule.Condition{Field: "payload.huge", Equals: json.Number("1e99999999999999999999")}, false},
		{"equals: null is nothing", rule.Condition{Field: "payload.none", Equals: "null"}, false},
		{"equals: false is not null", rule.Condition{Field: "payload.none", Equals: false}, false},
		{"equals: a list", rule.Condition{Field: "payload.commits.0.files", Equals: []string{"a.go", "b.go"}}, true},
		{"equals: a shorter list", rule.Condition{Field: "payload.commits.0.files", Equals: []string{"a.go"}}, false},
		{"equals: an object", rule.Condition{Field: "payload.object", Equals: map[string]any{"a": true, "b": []float64{1, 2.5}}}, true},
		{"equals: a smaller object", rule.Condition{Field: "payload.object", Equals: map[string]any{"a": true}}, false},
		{"equals: an object of other keys", rule.Condition{Field: "payload.object", Equals: map[string]any{"a": true, "c": nil}}, false},
		{"equals: text is no object", rule.Condition{Field: "payload.branch", Equals: map[string]any{}}, false},
		{"equals: an object is no text", rule.Condition{Field: "payload.object", Equals: "main"}, false},
		{"equals: missing", rule.Condition{Field: "payload.brunch", Equals: "main"}, false},

		{"field: id", rule.Condition{Field: "id", Equals: "e1"}, true},
		{"field: type", rule.Condition{Field: "type", Prefix: "github."}, true},
		{"field: timestamp", rule.Condition{Field: "timestamp", Above: ptr(1.6e12)}, true},
		{"field: metadata", rule.Condition{Field: "metadata.source", Equals: "env"}, true},
		{"field: metadata has its JSON keys", rule.Condition{Field: "metadata.trigger_agent_name", Equals: "reviewer"}, true},
		{"field: metadata, further keys", rule.Condition{Field: "metadata.retries", Below: ptr(3.0)}, true},
		{"field: metadata, deeper", rule.Condition{Field: "metadata.from.ip", Equals: "::1"}, true},
		{"field: metadata that is not set", rule.Condition{Field: "metadata.env_name", Exists: yes}, false},
		{"field: payload as a whole", rule.Condition{Field: "payload", Exists: yes}, true},
		{"field: index", rule.Condition{Field: "payload.commits.1.author", Equals: "ben"}, true},
		{"field: index of an index", rule.Condition{Field: "payload.commits.0.files.1", Equals: "b.go"}, true},
		{"field: index behind the end", rule.Condition{Field: "payload.commits.2.author", Equals: "ben"}, false},
		{"field: negative index", rule.Condition{Field: "payload.commits.-1.author", Equals: "ben"}, false},
		{"field: index beyond all bounds", rule.Condition{Field: "payload.commits.99999999999999999999", Exists: yes}, false},
		{"field: a word in a list", rule.Condition{Field: "payload.commits.author", Exists: yes}, false},
		{"field: a number in an object", rule.Condition{Field: "payload.0", Equals: "zero"}, true},
		{"field: inside text", rule.Condition{Field: "payload.branch.0", Exists: yes}, false},
		{"field: inside null", rule.Condition{Field: "payload.none.x", Exists: yes}, false},
		{"field: elsewhere", rule.Condition{Field: "headers.x", Exists: yes}, false},

		{"not: another", rule.Condition{Field: "payload.branch", Not: "dev"}, true},
		{"not: the same", rule.Condition{Field: "payload.branch", Not: "main"}, false},
		{"not: the same number", rule.Condition{Field: "payload.size", Not: 1}, false},
		{"not: null", rule.Condition{Field: "payload.none", Not: "main"}, true},
		{"not: missing", rule.Condition{Field: "payload.brunch", Not: "main"}, true},

		{"in: one of them", rule.Condition{Field: "payload.branch", In: []any{"dev", "main"}}, true},
		{"in: a number", rule.Condition{Field: "payload.size", In: []any{"1", 1}}, true},
		{"in: none of them", rule.Condition{Field: "payload.branch", In: []any{"dev"}}, false},
		{"in: null", rule.Condition{Field: "payload.none", In: []any{nil}}, true},
		{"in: missing", rule.Condition{Field: "payload.brunch", In: []any{nil, "main"}}, false},

		{"above", rule.Condition{Field: "payload.commits.1.n", Above: ptr(9.9)}, true},
		{"above: equal", rule.Condition{Field: "payload.commits.1.n", Above: ptr(10.0)}, false},
		{"above: infinitely", rule.Condition{Field: "payload.huge", Above: ptr(1e300)}, true},
		{"above: text", rule.Condition{Field: "payload.branch", Above: ptr(-1.0)}, false},
		{"above: missing", rule.Condition{Field: "payload.brunch", Above: ptr(-1.0)}, false},
		{"below", rule.Condition{Field: "payload.commits.1.n", Below: ptr(10.5)}, true},
		{"below: equal", rule.Condition{Field: "payload.commits.1.n", Below: ptr(10.0)}, false},
		{"below: null", rule.Condition{Field: "payload.none", Below: ptr(10.0)}, false},
		{"below: missing", rule.Condition{Field: "payload.brunch", Below: ptr(10.0)}, false},

		{"prefix", rule.Condition{Field: "payload.branch", Prefix: "ma"}, true},
		{"prefix: in the middle", rule.Condition{Field: "payload.branch", Prefix: "ai"}, false},
		{"prefix: a number", rule.Condition{Field: "payload.size", Prefix: "1"}, false},
		{"prefix: missing", rule.Condition{Field: "payload.brunch", Prefix: "ma"}, false},

		{"contains: text", rule.Condition{Field: "payload.branch", Contains: "ai"}, true},
		{"contains: no number in text", rule.Condition{Field: "payload.branch", Contains: 1}, false},
		{"contains: an element", rule.Condition{Field: "payload.tags", Contains: "v1"}, true},
		{"contains: not a part of an element", rule.Condition{Field: "payload.tags", Contains: "v"}, false},
		{"contains: a number", rule.Condition{Field: "payload.tags", Contains: 2.0}, true},
		{"contains: an object", rule.Condition{Field: "payload.tags", Contains: map[string]int{"a": 1}}, true},
		{"contains: no key of an object", rule.Condition{Field: "payload.object", Contains: "a"}, false},
		{"contains: missing", rule.Condition{Field: "payload.brunch", Contains: ""}, false},

		{"exists", rule.Condition{Field: "payload.draft", Exists: yes}, true},
		{"exists: empty text", rule.Condition{Field: "payload.empty", Exists: yes}, true},
		{"exists: null", rule.Condition{Field: "payload.none", Exists: yes}, false},
		{"exists: missing", rule.Condition{Field: "payload.brunch", Exists: yes}, false},
		{"exists: false", rule.Condition{Field: "payload.draft", Exists: no}, false},
		{"exists: false, null", rule.Condition{Field: "payload.none", Exists: no}, true},
		{"exists: false, missing", rule.Condition{Field: "payload.brunch", Exists: no}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rule.Rule{Events: []string{"*"}, Where: []rule.Condition{tc.where}}
			if tc.where.Field != "headers.x" {
				require.NoError(t, r.Validate())
			}
			_, ok := rule.Match([]rule.Spec{r.Spec()}, push)
			require.Equal(t, tc.want, ok)
			_, ok = rule.Match([]rule.Spec{{Events: r.Events, Where: r.Where}}, push)
			require.Equal(t, tc.want, ok, "with values as they are written in Go")
		})
	}
}

func TestConditionsMustAllHold(t *testing.T) {
	main, ann, ben := rule.Condition{Field: "payload.branch", Equals: "main"},
		rule.Condition{Field: "payload.commits.0.author", Equals: "ann"},
		rule.Condition{Field: "payload.commits.0.author", Equals: "ben"}
	for _, tc := range []struct {
		where []rule.Condition
		want  bool
	}{
		{nil, true},
		{[]rule.Condition{main, ann}, true},
		{[]rule.Condition{main, ben}, false},
		{[]rule.Condition{ben, main}, false},
		{[]rule.Condition{{Field: "payload.branch"}}, false}, // has no test, so it is invalid
	} {
		_, ok := rule.Match([]rule.Spec{{Events: []string{"*"}, Where: tc.where}}, push)
		require.Equal(t, tc.want, ok, "%v", tc.where)
	}
}

func TestConditionsOfAnEventWithoutPayload(t *testing.T) {
	for _, payload := range []string{"", "null", "{broken"} {
		e := event.EnvEvent{Type: "x", Payload: json.RawMessage(payload)}
		for _, tc := range []struct {
			where rule.Condition
			want  bool
		}{
			{rule.Condition{Field: "payload", Exists: ptr(false)}, true},
			{rule.Condition{Field: "payload.a", Exists: ptr(true)}, false},
			{rule.Condition{Field: "payload.a", Not: 1}, true},
			{rule.Condition{Field: "metadata.a", Exists: ptr(false)}, true},
		} {
			_, ok := rule.Match([]rule.Spec{{Events: []string{"*"}, Where: []rule.Condition{tc.where}}}, e)
			require.Equal(t, tc.want, ok, "%q %v", payload, tc.where)
		}
	}
}

// FuzzEquals: values that reflect.DeepEqual distinguishes with numbers as float64 are never equal,
// and every value equals its own JSON.
func FuzzEquals(f *testing.F) {
	for _, pair := range [][2]string{
		{`1`, `1.0`},
		{`{"a":[1,"x"]}`, `{"a":[1e0,"x"]}`},
		{`[1]`, `{}`},
		{`"a"`, `"A"`},
		{`-0`, `0.0`},
		{`9007199254740993`, `9007199254740992`},
		{`null`, `false`},
		{`0.001`, `1e-3`},
		{`120e-1`, `12`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y any
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
			t.Skip()
		}
		equal := func(payload string, want any) bool {
			_, ok := rule.Match([]rule.Spec{{
				Events: []string{"*"}, Where: []rule.Condition{{Field: "payload", In: []any{want}}},
			}}, event.EnvEvent{Type: "x", Payload: json.RawMessage(payload)})
			return ok
		}
		raw := json.RawMessage(b)
		if equal(a, raw) {
			require.True(t, reflect.DeepEqual(x, y), "%s and %s are not the same", a, b)
		}
		require.Equal(t, equal(a, raw), equal(b, json.RawMessage(a)), "either way")
		require.True(t, equal(a, json.RawMessage(a)))
		if again, err := json.Marshal(x); err == nil && string(again) == a {
			require.True(t, equal(a, x), "as Go has it")
		}
	})
}
