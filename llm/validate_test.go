package llm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

func system(s string) llm.Message { return llm.Message{Role: event.RoleSystem, Content: s} }
func user(s string) llm.Message   { return llm.Message{Role: event.RoleUser, Content: s} }
func result(id, s string) llm.Message {
	return llm.Message{Role: event.RoleTool, ToolCallID: id, Content: s}
}

func missing(id string) llm.Message {
	return llm.Message{Role: event.RoleTool, ToolCallID: id, Name: "tool-" + id, Content: llm.NoResult, IsError: true}
}

func assistant(s string, ids ...string) llm.Message {
	m := llm.Message{Role: event.RoleAssistant, Content: s}
	for _, id := range ids {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "tool-" + id, Arguments: "{}"}})
	}
	return m
}

func TestRepair(t *testing.T) {
	type list = []llm.Message
	for _, tt := range []struct {
		name     string
		in, want list
	}{
		{"nothing", nil, list{}},
		{
			"a valid transcript stays",
			list{system("s"), user("u"), assistant("", "a", "b"), result("a", "1"), result("b", "2"), assistant("done")},
			list{system("s"), user("u"), assistant("", "a", "b"), result("a", "1"), result("b", "2"), assistant("done")},
		},
		{
			"a missing result",
			list{user("u"), assistant("x", "a", "b"), result("b", "2"), user("v")},
			list{user("u"), assistant("x", "a", "b"), missing("a"), result("b", "2"), user("v")},
		},
		{"no results at the end", list{assistant("", "a")}, list{assistant("", "a"), missing("a")}},
		{
			"results in another order",
			list{assistant("", "a", "b", "c"), result("c", "3"), result("a", "1"), result("b", "2")},
			list{assistant("", "a", "b", "c"), result("a", "1"), result("b", "2"), result("c", "3")},
		},
		{
			"a message came between",
			list{assistant("", "a"), user("wait"), result("a", "1"), assistant("done")},
			list{assistant("", "a"), result("a", "1"), user("wait"), assistant("done")},
		},
		{
			"orphans and doubles",
			list{result("a", "early"), assistant("", "a"), result("a", "1"), result("a", "2"), result("z", "?"), user("u")},
			list{assistant("", "a"), result("a", "1"), user("u")},
		},
		{
			"an id used again",
			list{assistant("", "a"), assistant("", "a"), result("a", "second")},
			list{assistant("", "a"), missing("a"), assistant("", "a"), result("a", "second")},
		},
		{
			"an id used twice in a message",
			list{assistant("", "a", "a"), result("a", "1"), result("a", "2")},
			list{assistant("", "a", "a"), result("a", "1"), result("a", "2")},
		},
		{
			"empty assistant messages",
			list{user("u"), assistant(""), assistant(" \n"), assistant("x")},
			list{user("u"), assistant("x")},
		},
		{
			"system messages stay where they are",
			list{system("r"), user("u"), system("s"), assistant("x"), system("t")},
			list{system("r"), user("u"), system("s"), assistant("x"), system("t")},
		},
		{
			"but not between calls and results",
			list{user("u"), assistant("", "a"), system("s"), result("a", "1")},
			list{user("u"), assistant("", "a"), result("a", "1"), system("s")},
		},
	} {
		t.Run("S4-71 "+tt.name, func(t *testing.T) {
			before := slices.Clone(tt.in)
			got := llm.Repair(tt.in)
			require.Equal(t, tt.want, got)
			require.Equal(t, before, tt.in, "the input is unchanged")
			require.Equal(t, tt.want, llm.Repair(got), "repairing twice changes nothing")
		})
	}
}

func TestSystemFirst(t *testing.T) {
	type list = []llm.Message
	note := func(s string) llm.Message { return user("[System message]\n" + s) }
	for _, tt := range []struct {
		name     string
		in, want list
	}{
		{"nothing", nil, list{}},
		{"instructions", list{system("s"), user("u")}, list{system("s"), user("u")}},
		{"several before the conversation", list{system("s\n"), system("t"), user("u")}, list{system("s\n\nt"), user("u")}},
		{"later ones", list{system("s"), user("u"), system("t"), assistant("x"), system("v")}, list{system("s"), user("u"), note("t"), assistant("x"), note("v")}},
		{"none before the conversation", list{user("u"), system("t")}, list{user("u"), note("t")}},
		{"behind results", list{user("u"), assistant("", "a"), result("a", "1"), system("t")}, list{user("u"), assistant("", "a"), result("a", "1"), note("t")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.in)
			require.Equal(t, tt.want, llm.SystemFirst(tt.in))
			require.Equal(t, before, tt.in, "the input is unchanged")
		})
	}
}
