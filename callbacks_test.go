package threadmill

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

func through(c Callbacks, log *slog.Logger) feed.View {
	return c.views(log)(store.Key{Namespace: "acme", ThreadID: "t1"})
}

func text(content string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStream, Content: content, Agent: "bot", MessageID: "m1", Attempt: 1}
}

func reply(content string, calls ...event.ToolCall) event.AgentEvent {
	return event.AgentEvent{Type: event.EventMessage, Agent: "bot", MessageID: "m1", Message: &event.Message{
		ID: "m1", SenderID: "bot", SenderType: event.CreatedByAgent, AgentID: "bot", Content: content, ToolCalls: calls,
	}}
}

func thought(content string) event.AgentEvent {
	e := text(content)
	e.Type = event.EventThought
	return e
}

func final(agent string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventFinal, Agent: agent}
}

func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		events []event.AgentEvent
		want   string
	}{
		"S2-52 one completes, the last": {
			[]event.AgentEvent{thought("hm"), text("a"), text("b"), reply("ab"), final("bot")}, "hm? a b |",
		},
		"S2-52 once, also when hooks put another message in its place": {
			[]event.AgentEvent{text("a"), reply("a"), reply("b")}, "a |",
		},
		"S2-52 a reply that never becomes a message completes with its agent's part": {
			[]event.AgentEvent{thought("hm"), final("other"), final("bot"), final("bot")}, "hm? |",
		},
		"S2-52 so does one that fails": {
			[]event.AgentEvent{text("a"), {Type: event.EventError, Agent: "bot"}}, "a |",
		},
		"S2-10 no tokens where none are streamed": {
			[]event.AgentEvent{reply("ab"), final("bot")}, "",
		},
		"people and tools have none": {
			[]event.AgentEvent{
				{Type: event.EventMessage, MessageID: "u", Message: &event.Message{ID: "u", SenderType: event.CreatedByUser, Content: "hello"}},
				{Type: event.EventToolResult, Output: "42"},
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			view := through(Callbacks{OnToken: func(_ context.Context, s TokenStream) *TokenStream {
				require.Equal(t, "t1", s.ThreadID)
				require.Equal(t, "bot", s.AgentName)
				require.Equal(t, "m1", s.MessageID)
				shown := s.Token
				if s.Thought {
					shown += "?"
				}
				if s.IsComplete {
					require.Empty(t, s.Token)
					shown = "|"
				}
				got = append(got, shown)
				return nil
			}}, slog.Default())
			for _, e := range c.events {
				require.Equal(t, e, view(context.Background(), e), "nil changes nothing")
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestContent(t *testing.T) {
	var got []string
	upper := Callbacks{
		OnToken: func(_ context.Context, s TokenStream) *TokenStream {
			s.Token += "!"
			return &s
		},
		OnContent: func(_ context.Context, c ContentStream) *ContentStream {
			got = append(got, fmt.Sprintf("%s %t %d", c.Content, c.IsComplete, c.Attempt))
			c.Content = strings.ToUpper(c.Content)
			return &c
		},
	}
	view := through(upper, slog.Default())
	see := func(e event.AgentEvent) event.AgentEvent { return view(context.Background(), e) }
	t.Run("S0-10 pieces and the whole are replaced", func(t *testing.T) {
		require.Equal(t, "hm!", see(thought("hm")).Content, "a thought is no content")
		require.Equal(t, "A!", see(text("a")).Content)
		e := reply("ab")
		require.Equal(t, "AB", see(e).Message.Content)
		require.Equal(t, "ab", e.Message.Content, "what others share stays as it is")
		require.Equal(t, []string{"a! false 1", "ab true 0"}, got)
	})
	t.Run("a reply that only calls tools has no content", func(t *testing.T) {
		got = nil
		see(reply("", event.ToolCall{ID: "c1"}))
		require.Empty(t, got)
	})
}

func TestToolCallCallback(t *testing.T) {
	asked := 0
	hide := Callbacks{OnToolCall: func(_ context.Context, c ToolCallStream) *ToolCallStream {
		asked++
		require.Equal(t, "bot", c.AgentName)
		require.Equal(t, "t1", c.ThreadID)
		return &ToolCallStream{ToolName: c.ToolName, ToolArgs: strings.ReplaceAll(c.ToolArgs, "4711", "****")}
	}}
	view := through(hide, slog.Default())
	see := func(e event.AgentEvent) event.AgentEvent { return view(context.Background(), e) }
	call := event.ToolCall{ID: "c1", Function: event.Function{Name: "pay", Arguments: `{"pin":"4711"}`}}
	alone := event.AgentEvent{Type: event.EventToolCall, Agent: "bot", ToolCallID: "c1", ToolName: "pay", ToolArgs: `{"pin":"4711"}`}

	e := reply("I pay.", call)
	require.Equal(t, `{"pin":"****"}`, see(e).Message.ToolCalls[0].Function.Arguments, "S0-10 in the message")
	require.Equal(t, call, e.Message.ToolCalls[0], "what others share stays as it is")
	shown := see(alone)
	require.Equal(t, `{"pin":"****"}`, shown.ToolArgs, "S0-10 on its own")
	require.Equal(t, "c1", shown.ToolCallID)
	require.Equal(t, 1, asked, "once for each call")

	edited := alone
	edited.ToolArgs = `{"pin":"4711","sum":5}`
	require.Equal(t, `{"pin":"****","sum":5}`, see(edited).ToolArgs, "as a hook has changed it")
	require.Equal(t, 2, asked)

	see(reply("I pay.", call))
	see(final("bot"))
	require.Equal(t, `{"pin":"****"}`, see(alone).ToolArgs)
	require.Equal(t, 4, asked, "nothing is kept beyond the agent's part")
}

func TestPanickingCallback(t *testing.T) {
	var logged bytes.Buffer
	var said []string
	view := through(Callbacks{
		OnToken:    func(context.Context, TokenStream) *TokenStream { panic("secret") },
		OnToolCall: func(context.Context, ToolCallStream) *ToolCallStream { panic("secret") },
		OnContent: func(_ context.Context, c ContentStream) *ContentStream {
			said = append(said, c.Content)
			return nil
		},
	}, slog.New(slog.NewJSONHandler(&logged, nil)))
	for _, e := range []event.AgentEvent{text("a"), {Type: event.EventToolCall, ToolName: "pay", ToolArgs: "{}"}, reply("a")} {
		require.Equal(t, e, view(context.Background(), e), "S2-35 the event goes on unchanged")
	}
	require.Equal(t, []string{"a", "a"}, said, "S2-35 the next callback still runs")
	require.Equal(t, 3, strings.Count(logged.String(), `"msg":"callback panicked"`), logged.String())
	require.Contains(t, logged.String(), `"callback":"OnToolCall"`)
	require.NotContains(t, logged.String(), "secret")
}
