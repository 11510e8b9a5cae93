package llm_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

func call(name, args string) event.ToolCall {
	return event.ToolCall{Function: event.Function{Name: name, Arguments: args}}
}

var markupCases = []struct {
	name, in, content string
	calls             []event.ToolCall
}{
	{"plain text", "Hello, <b>world</b> & <function", "Hello, <b>world</b> & <function", nil},
	{"white space is kept", " \n a \n\n b \n ", " \n a \n\n b \n ", nil},
	{"only white space", " \n ", " \n ", nil},
	{"not ASCII", "für \u00a0 <funktion> 日本", "für \u00a0 <funktion> 日本", nil},
	{
		"one object", `<function_calls>{"name": "now", "arguments": {"zone": "UTC"}}</function_calls>`,
		"",
		[]event.ToolCall{call("now", `{"zone": "UTC"}`)},
	},
	{
		"opening white space goes with the block", " \n\n<function_calls>{\"name\": \"now\"}</function_calls>\n\nDone.\n",
		"Done.\n",
		[]event.ToolCall{call("now", `{}`)},
	},
	{
		"arguments as a string", `ok <function_calls>{"name": "now", "arguments": "{\"a\": 1}"}</function_calls>`,
		"ok ",
		[]event.ToolCall{call("now", `{"a": 1}`)},
	},
	{
		"empty arguments", `<function_calls>[{"name": "a", "arguments": ""}, {"name": "b", "arguments": null}]</function_calls>`,
		"",
		[]event.ToolCall{call("a", `{}`), call("b", `{}`)},
	},
	{
		"an array, with ids", `<function_calls>[{"id": "x", "name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]</function_calls>`,
		"",
		[]event.ToolCall{{ID: "x", Function: event.Function{Name: "a", Arguments: "{}"}}, call("b", "{}")},
	},
	{
		"one object per line", "<function_calls>\n{\"name\": \"a\", \"arguments\": {\"n\": 1}}\n{\"name\": \"b\"}\n</function_calls>",
		"",
		[]event.ToolCall{call("a", `{"n": 1}`), call("b", `{}`)},
	},
	{
		"in OpenAI's form", `<function_calls>{"id": "x", "type": "function", "function": {"name": "a", "arguments": "{}"}}</function_calls>`,
		"",
		[]event.ToolCall{{ID: "x", Function: event.Function{Name: "a", Arguments: "{}"}}},
	},
	{
		"in a fence", "<function_calls>\n```json\n{\"name\": \"a\"}\n```\n</function_calls>",
		"",
		[]event.ToolCall{call("a", `{}`)},
	},
	{
		"invoke", "Let me see.\n<function_calls>\n<invoke name=\"read\">\n<parameter name=\"path\">a \"b\".txt</parameter>\n" +
			"<parameter name=\"lines\"> 10 </parameter>\n<parameter name=\"deep\">{\"x\": [1]}</parameter>\n</invoke>\n" +
			"<invoke name=\"now\"></invoke>\n</function_calls>\nThere.",
		"Let me see.\nThere.",
		[]event.ToolCall{call("read", `{"path":"a \"b\".txt","lines":10,"deep":{"x": [1]}}`), call("now", `{}`)},
	},
	{
		"two blocks", `a<function_calls>{"name": "x"}</function_calls>b <function_calls>{"name": "y"}</function_calls> c`,
		"a\nb c",
		[]event.ToolCall{call("x", "{}"), call("y", "{}")},
	},
	{
		"neighbours do not make a tag", `<function<function_calls>{"name": "x"}</function_calls>_calls>`,
		"<function\n_calls>",
		[]event.ToolCall{call("x", "{}")},
	},
	{"a false start before the tag", `<<function<function_calls>{"name": "x"}</function_calls>`, "<<function", []event.ToolCall{call("x", "{}")}},
	{"a closing tag alone is text", "</function_calls>", "</function_calls>", nil},
	{"an empty block", "a <function_calls> </function_calls> b", "a b", nil},
	{"a stop sequence took the end", `ok <function_calls>{"name": "now"}`, "ok ", []event.ToolCall{call("now", "{}")}},
}

// TestCleaner: the outcome is the same wherever the input is split.
func TestCleaner(t *testing.T) {
	for _, tt := range markupCases {
		t.Run("S0-37 "+tt.name, func(t *testing.T) {
			content, calls := llm.Clean(tt.in)
			require.Equal(t, tt.content, content)
			require.Equal(t, tt.calls, calls)
			require.NotContains(t, content, "<function_calls>")
			check := func(pieces []string) {
				var c llm.Cleaner
				var got strings.Builder
				for _, p := range pieces {
					got.WriteString(c.Feed(p))
				}
				rest, calls := c.Close()
				require.Equal(t, tt.content, got.String()+rest, "%q", pieces)
				require.Equal(t, tt.calls, calls, "%q", pieces)
			}
			check(strings.Split(tt.in, ""))
			for i := range len(tt.in) + 1 {
				check([]string{tt.in[:i], tt.in[i:]})
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				check(splitAtRandom(rng, tt.in))
			}
		})
	}
}

func splitAtRandom(rng *rand.Rand, s string) (pieces []string) {
	for s != "" {
		n := 1 + rng.IntN(min(len(s), 12))
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

func TestCleanerInvalidBlocks(t *testing.T) {
	for _, tt := range []struct{ name, block, problem string }{
		{"broken JSON", `{"name": "rm", "arguments": {`, "neither JSON"},
		{"prose", "please list the files", "neither JSON"},
		{"no name", `{"arguments": {}}`, `no "name"`},
		{"not an object", `"now"`, "a call must be"},
		{"second call cut off", "{\"name\": \"a\"}\n{\"name\": ", "neither JSON"},
		{"invoke without end", `<invoke name="a"><parameter name="x">1</parameter>`, "</invoke>"},
		{"parameter without end", `<invoke name="a"><parameter name="x">1</invoke>`, "has no end"},
		{"another element", `<call name="a"/>`, "<invoke name="},
	} {
		for _, end := range []string{"</function_calls>", ""} {
			t.Run("S0-37 "+tt.name+end, func(t *testing.T) {
				content, calls := llm.Clean("so <function_calls>" + tt.block + end)
				require.Equal(t, "so ", content)
				require.Len(t, calls, 1, "never executed in part")
				require.Equal(t, llm.InvalidCall, calls[0].Function.Name)
				var args struct{ Problem, Text string }
				require.NoError(t, json.Unmarshal([]byte(calls[0].Function.Arguments), &args))
				require.Equal(t, tt.block, args.Text, "nothing is lost")
				require.Contains(t, args.Problem, tt.problem)
			})
		}
	}
}

func TestCleanerHoldsBackNoMoreThanATag(t *testing.T) {
	var c llm.Cleaner
	for _, step := range []struct{ feed, want string }{
		{"\n", ""},
		{"a", "\na"},
		{" ", " "},
		{"\n", "\n"},
		{"1 < 2", "1 < 2"},
		{"<", ""},
		{"b>", "<b>"},
		{"x<func", "x"},
		{"tion_", ""},
		{"s", "<function_s"},
		{"<function_calls>{", ""},
		{"}", ""},
	} {
		require.Equal(t, step.want, c.Feed(step.feed), "%q", step.feed)
	}
}

func TestAssignIDs(t *testing.T) {
	seen := []llm.Message{{Role: "assistant", ToolCalls: []event.ToolCall{{ID: "old"}}}}
	calls := []event.ToolCall{{ID: "new"}, {}, {ID: "old"}, {ID: "new"}, {}}
	llm.AssignIDs(calls, seen)
	require.Equal(t, "new", calls[0].ID)
	ids := map[string]bool{"old": true}
	for _, c := range calls {
		require.NotEmpty(t, c.ID)
		require.False(t, ids[c.ID], "%s is used twice", c.ID)
		ids[c.ID] = true
	}
}
