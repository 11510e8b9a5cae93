package demo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
)

var quiet = demo.New(demo.Config{Quiet: true})

func user(content string) llm.Message {
	return llm.Message{Role: event.RoleUser, Content: content}
}

func ask(t *testing.T, p llm.Provider, messages ...llm.Message) (llm.Response, []llm.Delta) {
	t.Helper()
	var deltas []llm.Delta
	resp, err := p.Generate(t.Context(), llm.Request{Model: "demo", Messages: messages}, func(d llm.Delta) {
		deltas = append(deltas, d)
	})
	require.NoError(t, err)
	return resp, deltas
}

func texts(deltas []llm.Delta) (out []string) {
	for _, d := range deltas {
		if d.Text != "" {
			out = append(out, d.Text)
		}
	}
	return out
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name, script, content string
	}{
		{"repeats, spaces kept", "hello  big world ", "hello  big world "},
		{"repeats lines", "one\n\ntwo\r\nthree\n", "one\n\ntwo\nthree"},
		{"counts", "count 3", "1 2 3"},
		{"counts slowly", "count 2 every 1ms", "1 2"},
		{"several lines", "hi\ncount 2\nbye", "hi\n1 2\nbye"},
		{"blank lines around commands vanish", "\nthink hm\n\nyes\n\nthink again", "yes"},
		{"count out of bounds", "count 100001", "count takes a number from 1 to 100000."},
		{"count with a bad pause", "count 2 every day", "count … every takes a duration like 50ms or 2s."},
		{"count of something else", "count me in", "count me in"},
		{"leading mentions vanish", "@demo @other, hello @friend", "hello @friend"},
		{"a step without tools runs on", "one\nthen\ntwo", "one\ntwo"},
		{"nothing to say", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, deltas := ask(t, quiet, user(tt.script))
			require.Equal(t, tt.content, resp.Content)
			require.Equal(t, resp.Content, strings.Join(texts(deltas), ""))
			require.Equal(t, llm.TypeText, resp.Type)
			require.Equal(t, "stop", resp.FinishReason)
		})
	}
}

func TestOneTokenPerWord(t *testing.T) {
	_, deltas := ask(t, quiet, user("count 4"))
	require.Equal(t, []string{"1", " 2", " 3", " 4"}, texts(deltas))
	_, deltas = ask(t, quiet, user("to be  or\nnot"))
	require.Equal(t, []string{"to", " be", "  or", "\nnot"}, texts(deltas))
	_, deltas = ask(t, quiet, user("count 100000"))
	require.Len(t, deltas, 100_000)
}

func TestThinkComesFirst(t *testing.T) {
	resp, deltas := ask(t, quiet, user("yes\nthink let me see\nthink again"))
	require.Equal(t, []llm.Delta{
		{Thought: "let"}, {Thought: " me"}, {Thought: " see"}, {Thought: "\nagain"}, {Text: "yes"},
	}, deltas)
	require.Equal(t, "let me see\nagain", resp.Thought)
	require.Equal(t, "yes", resp.Content)
	require.Equal(t, event.Usage{InputTokens: 7, OutputTokens: 5, ReasoningTokens: 4}, resp.Usage)
}

func TestGreeting(t *testing.T) {
	resp, _ := ask(t, demo.New(demo.Config{}), user("hello"))
	require.Contains(t, resp.Content, "OPENAI_API_KEY")
	require.True(t, strings.HasSuffix(resp.Content, ".\n\nhello"), resp.Content)

	again, _ := ask(t, demo.New(demo.Config{}), user("hello"), llm.Message{Role: event.RoleAssistant, Content: "hello"}, user("bye"))
	require.Equal(t, "bye", again.Content)
}

func TestTitle(t *testing.T) {
	for _, tt := range []struct{ name, conversation, title string }{
		{"the first words of what was said first", "ann: Plan a trip to Lisbon for four\n\nplanner: Gladly: when?", "Plan a trip to Lisbon for"},
		{"mentions say nothing", "ann: @planner @critic, plan a trip", "plan a trip"},
		{"what looks like a script is text", "ann: use now {}\nthen\ndone", "use now {}"},
		{"only the first colon is the speaker's", "ann: three words: these", "three words: these"},
	} {
		t.Run("S4-102 "+tt.name, func(t *testing.T) {
			resp, _ := ask(t, demo.New(demo.Config{}), llm.Message{Role: event.RoleSystem, Content: llm.TitleInstructions}, user(tt.conversation))
			require.Equal(t, tt.title, resp.Content)
			require.Equal(t, llm.TypeText, resp.Type)
		})
	}
}

// converse runs a script to its end. The result of every tool call is its arguments.
func converse(t *testing.T, script string) (replies []llm.Response) {
	t.Helper()
	messages := []llm.Message{user("earlier"), {Role: event.RoleAssistant, Content: "earlier"}, user(script)}
	for {
		resp, _ := ask(t, quiet, messages...)
		replies = append(replies, resp)
		require.Less(t, len(replies), 10)
		if resp.Type == llm.TypeText {
			return replies
		}
		messages = append(messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls})
		for _, c := range resp.ToolCalls {
			messages = append(messages, llm.Message{
				Role: event.RoleTool, ToolCallID: c.ID, Content: c.Function.Arguments, IsError: c.Function.Name == "broken",
			})
		}
	}
}

func TestSteps(t *testing.T) {
	replies := converse(t, "looking\nuse read {\"path\": \"a b\"}\nuse broken\nthen\nnow what\nthen\nuse write not json\nthen\nall done")
	require.Len(t, replies, 3)

	first := replies[0]
	require.Equal(t, "looking", first.Content)
	require.Equal(t, "tool_calls", first.FinishReason)
	require.Len(t, first.ToolCalls, 2)
	require.Equal(t, event.Function{Name: "read", Arguments: `{"path": "a b"}`}, first.ToolCalls[0].Function)
	require.Equal(t, event.Function{Name: "broken", Arguments: `{}`}, first.ToolCalls[1].Function)

	require.Equal(t, "read returned: {\"path\": \"a b\"}\nbroken failed: {}\nnow what", replies[1].Content)
	require.Equal(t, event.Function{Name: "write", Arguments: "not json"}, replies[1].ToolCalls[0].Function)
	require.Equal(t, "write returned: not json\nall done", replies[2].Content)

	ids := map[string]bool{}
	for _, r := range replies {
		for _, c := range r.ToolCalls {
			require.NotEmpty(t, c.ID)
			require.False(t, ids[c.ID], "id %s is used twice", c.ID)
			ids[c.ID] = true
		}
	}
	require.Equal(t, replies, converse(t, "looking\nuse read {\"path\": \"a b\"}\nuse broken\nthen\nnow what\nthen\nuse write not json\nthen\nall done"),
		"the same request gets the same reply")
}

func TestMarkupBecomesCalls(t *testing.T) {
	resp, deltas := ask(t, quiet, user(`look <function_calls>{"name": "now"}</function_calls> there`))
	require.Equal(t, "look there", resp.Content)
	require.Equal(t, resp.Content, strings.Join(texts(deltas), ""))
	require.Equal(t, llm.TypeToolCalls, resp.Type)
	require.Equal(t, "now", resp.ToolCalls[0].Function.Name)
	require.NotEmpty(t, resp.ToolCalls[0].ID)
}

func TestStopsWithContext(t *testing.T) {
	for _, script := range []string{"count 100000", "count 5 every 1h\nuse late"} {
		ctx, cancel := context.WithCancel(t.Context())
		var got strings.Builder
		if strings.Contains(script, "every") {
			cancel()
		}
		resp, err := quiet.Generate(ctx, llm.Request{Messages: []llm.Message{user(script)}}, func(d llm.Delta) {
			got.WriteString(d.Text)
			if got.String() == "1 2 3" {
				cancel()
			}
		})
		cancel()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, got.String(), resp.Content)
		require.Less(t, len(resp.Content), 10)
		require.Empty(t, resp.ToolCalls)
	}
}
