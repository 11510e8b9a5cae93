package openai

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Each test case is a list of tool_calls, one for each delta.
func TestToolCallsAreAssembled(t *testing.T) {
	call := func(id, name, args string) event.ToolCall {
		return event.ToolCall{ID: id, Function: event.Function{Name: name, Arguments: args}}
	}
	for _, tt := range []struct {
		name   string
		deltas []string
		want   []event.ToolCall
	}{
		{"by the protocol", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":""}}]`,
			`[{"index":0,"function":{"arguments":"{\"n\""}}]`,
			`[{"index":0,"function":{"arguments":":1}"}}]`,
			`[{"index":1,"id":"y","function":{"name":"b","arguments":"{}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`), call("y", "b", `{}`)}},
		{"interleaved", []string{
			`[{"index":0,"id":"x","function":{"name":"a"}},{"index":1,"id":"y","function":{"name":"b"}}]`,
			`[{"index":1,"function":{"arguments":"[1"}}]`, `[{"index":0,"function":{"arguments":"[2"}}]`,
			`[{"index":1,"function":{"arguments":"]"}},{"index":0,"function":{"arguments":"]"}}]`,
		}, []event.ToolCall{call("x", "a", `[2]`), call("y", "b", `[1]`)}},
		{"the id and the name in each piece", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"n\""}}]`,
			`[{"index":0,"id":"x","function":{"name":"a","arguments":":1}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`)}},
		{"always index 0, other ids", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]`,
			`[{"index":0,"id":"y","function":{"name":"a","arguments":"{}"}}]`,
		}, []event.ToolCall{call("x", "a", `{}`), call("y", "a", `{}`)}},
		{"always index 0, no ids", []string{
			`[{"index":0,"function":{"name":"a","arguments":"{}"}},{"index":0,"function":{"name":"a","arguments":"{}"}}]`,
			`[{"index":0,"function":{"name":"b","arguments":"{}"}}]`,
		}, []event.ToolCall{call("", "a", `{}`), call("", "a", `{}`), call("", "b", `{}`)}},
		{"ids only", []string{
			`[{"id":"x","function":{"name":"a","arguments":"{"}},{"id":"y","function":{"name":"b","arguments":"["}}]`,
			`[{"id":"x","function":{"arguments":"}"}}]`, `[{"id":"y","function":{"arguments":"]"}}]`,
		}, []event.ToolCall{call("x", "a", `{}`), call("y", "b", `[]`)}},
		{"the id late", []string{
			`[{"index":0,"function":{"name":"a","arguments":"{"}}]`, `[{"index":0,"id":"x","function":{"arguments":"}"}}]`,
		}, []event.ToolCall{call("x", "a", `{}`)}},
		{"neither index nor id, no arguments", []string{
			`[{"function":{"name":"a"}},{"function":{"name":"b"}}]`,
		}, []event.ToolCall{call("", "a", `{}`), call("", "b", `{}`)}},
		{"the name in pieces", []string{
			`[{"index":0,"id":"x","function":{"name":"read_"}}]`, `[{"index":0,"function":{"name":"file","arguments":"{}"}}]`,
		}, []event.ToolCall{call("x", "read_file", `{}`)}},
		{"another id with each piece", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":"{"}}]`, `[{"index":0,"id":"y","function":{"arguments":"\"n\""}}]`,
			`[{"index":0,"id":"z","function":{"name":"a","arguments":":1}"}}]`, `[{"index":0,"id":"u","function":{"name":"a","arguments":"{}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`), call("u", "a", `{}`)}},
		{"another index with each piece", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":""}}]`, `[{"index":1,"function":{"arguments":"{\"n\""}}]`,
			`[{"index":2,"function":{"arguments":":1}"}}]`, `[{"index":3,"id":"y","function":{"name":"b","arguments":"{}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`), call("y", "b", `{}`)}},
		{"another id, no index", []string{
			`[{"id":"x","function":{"name":"a","arguments":"{"}}]`, `[{"id":"y","function":{"arguments":"\"n\":1}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`)}},
		{"halves of a character", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"n\":\"\ud83d"}}]`, `[{"index":0,"function":{"arguments":"\ude00\"}"}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":"😀"}`)}},
		{"an index as a string, names twice", []string{
			`[{"index":"0","id":"x","function":{"name":"a","arguments":"{"}}]`, `[{"index":"0","function":{"name":"a","arguments":"}"}}]`,
		}, []event.ToolCall{call("x", "a", `{}`)}},
		{"arguments as an object", []string{
			`[{"index":0,"id":"x","function":{"name":"a","arguments":{"n":1}}}]`, `[{"index":1,"id":"y","function":{"name":"b","arguments":null}}]`,
		}, []event.ToolCall{call("x", "a", `{"n":1}`), call("y", "b", `{}`)}},
		{
			"no name",
			[]string{`[{"index":0,"id":"x","function":{"arguments":"{\"n\":1}"}}]`},
			[]event.ToolCall{call("x", llm.InvalidCall, `{"problem":"tool call 1 has no name","text":"{\"n\":1}"}`)},
		},
	} {
		t.Run("S0-40 "+tt.name, func(t *testing.T) {
			var c calls
			for _, d := range tt.deltas {
				var parts []callPart
				require.NoError(t, json.Unmarshal([]byte(d), &parts))
				for _, p := range parts {
					c.add(p)
				}
			}
			require.Equal(t, tt.want, c.finish())
		})
	}
}

// TestHalves: halves of a character that come in two pieces are one, however they are escaped; half a character is none.
func TestHalves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"one character", []string{`"a \ud83d"`, `"\ude00 b"`}, "a 😀 b"},
		{"capitals", []string{`"\uD83D"`, `"\uDE00"`}, "😀"},
		{"two in a row", []string{`"\ud83d"`, `"\ude00\ud83d"`, `"\udcbb!"`}, "😀💻!"},
		{"nothing between", []string{`"\ud83d"`, `""`, `"\ude00"`}, "😀"},
		{"the first without the second", []string{`"a\ud83d"`, `"b"`}, "a\ufffdb"},
		{"the first at the end", []string{`"a\ud83d"`}, "a\ufffd"},
		{"the second without the first", []string{`"a"`, `"\ude00b"`}, "a\ufffdb"},
		{"the first twice", []string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\ufffd😀"},
		{"an escaped backslash", []string{`"\\ud83d"`, `"x"`}, `\ud83dx`},
		{"in one piece", []string{`"\ud83d\ude00"`, `"é"`}, "😀é"},
		{"without escapes", []string{`"퟿"`, `"😀"`}, "퟿😀"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h halves
			got := ""
			for _, raw := range tt.pieces {
				var piece text
				require.NoError(t, json.Unmarshal([]byte(raw), &piece))
				got += h.add(string(piece))
			}
			require.Equal(t, tt.want, got+h.end())
		})
	}
}

var update = flag.Bool("update", false, "write the table of dialects to the documentation")

// TestDialectTable: docs/models.md has the table of what the dialects are.
func TestDialectTable(t *testing.T) {
	const file, begin, end = "../../docs/models.md", "-update -->\n", "<!-- end of dialects -->"
	var table strings.Builder
	table.WriteString("\n| `dialect` | names of people | system messages, neighbours of one role | thoughts that came with calls | limit of a reply | ids of calls |\n|---|---|---|---|---|---|\n")
	for _, name := range Dialects() {
		d, id := dialects[name], "call_550e8400"
		words := func(yes bool, a, b string) string {
			if yes {
				return a
			}
			return b
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s | %s |\n", name, words(d.names, "`name`", "in the text"), words(d.anyOrder, "as they are", "one at the beginning; joined"),
			words(d.thoughts, "go back", "do not"), words(d.completionTokens, "`max_completion_tokens`", "`max_tokens`, but for OpenAI's models with thoughts"), words(d.callID(id) == id, "up to 40 characters", "nine letters and digits"))
	}
	table.WriteString("\n")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), begin)
	require.True(t, found)
	now, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+table.String()+end+after), 0o600))
		return
	}
	require.Equal(t, table.String(), now, "run: go test ./llm/openai -run TestDialectTable -update")
}
