package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// tally records the arguments of callbacks.
type tally struct {
	mu       sync.Mutex
	tokens   []threadmill.TokenStream
	contents []threadmill.ContentStream
	calls    []threadmill.ToolCallStream
}

// callbacks record their arguments and change nothing.
func (c *tally) callbacks() threadmill.Callbacks {
	return threadmill.Callbacks{
		OnToken: func(_ context.Context, s threadmill.TokenStream) *threadmill.TokenStream {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.tokens = append(c.tokens, s)
			return nil
		},
		OnContent: func(_ context.Context, s threadmill.ContentStream) *threadmill.ContentStream {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.contents = append(c.contents, s)
			return nil
		},
		OnToolCall: func(_ context.Context, s threadmill.ToolCallStream) *threadmill.ToolCallStream {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls = append(c.calls, s)
			return nil
		},
	}
}

func TestRunCallbacks(t *testing.T) {
	t.Parallel()
	var hooked atomic.Int64
	all, own := &tally{}, &tally{}
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		c.Callbacks = all.callbacks()
		c.Hooks = []hook.Hook{hook.OnEvent("count", func(context.Context, event.Event) (hook.Result, error) {
			hooked.Add(1)
			return hook.Pass(), nil
		})}
	}})
	id := w.Open()
	r := begin(w, id, "use note {\"text\":\"x\"}\nthen\nthink hm so\ncount 50", threadmill.SendOptions{Stream: true, Callbacks: own.callbacks()})
	events := completes(t, r)
	out, err := r.Wait(w.Ctx())
	require.NoError(t, err)

	t.Run("S2-52 each token, and exactly one that completes the message", func(t *testing.T) {
		var said, thought strings.Builder
		complete := 0
		for i, s := range own.tokens {
			require.Equal(t, id, s.ThreadID)
			require.Equal(t, "assistant", s.AgentName)
			require.Equal(t, out.Message.ID, s.MessageID)
			switch {
			case s.IsComplete:
				complete++
				require.Len(t, own.tokens, i+1, "the last")
			case s.Thought:
				thought.WriteString(s.Token)
			default:
				said.WriteString(s.Token)
			}
		}
		require.Equal(t, 1, complete)
		require.Equal(t, out.Message.Content, said.String())
		require.Equal(t, "hm so", thought.String())
	})
	t.Run("S0-09 the content, piece by piece and whole", func(t *testing.T) {
		last := len(own.contents) - 1
		require.Equal(t, check.CountEvents(events, event.EventStream), last)
		require.Equal(t, threadmill.ContentStream{
			Content: out.Message.Content, IsComplete: true, ThreadID: id, AgentName: "assistant", MessageID: out.Message.ID,
		}, own.contents[last])
	})
	t.Run("S0-09 each tool call", func(t *testing.T) {
		call := check.Only(t, own.calls)
		require.Equal(t, "note", call.ToolName)
		require.Equal(t, `{"text":"x"}`, call.ToolArgs)
	})
	t.Run("S2-23 those of the configuration see all runs", func(t *testing.T) {
		require.Equal(t, own.tokens, all.tokens)
		require.Equal(t, own.contents, all.contents)
		require.Equal(t, own.calls, all.calls)
		again := begin(w, id, "hello", threadmill.SendOptions{Stream: true})
		completes(t, again)
		require.Greater(t, len(all.tokens), len(own.tokens))
	})
	t.Run("S0-39 hooks are called as often, however many tokens there are", func(t *testing.T) {
		count := func(n int) int64 {
			before := hooked.Load()
			completes(t, begin(w, id, fmt.Sprintf("count %d", n), threadmill.SendOptions{Stream: true}))
			return hooked.Load() - before
		}
		few := count(2)
		require.Positive(t, few)
		require.Equal(t, few, count(200))
	})
	t.Run("S2-10 no tokens where they are not asked for", func(t *testing.T) {
		quiet := &tally{}
		completes(t, begin(w, id, "count 3", threadmill.SendOptions{Callbacks: quiet.callbacks()}))
		require.Empty(t, quiet.tokens)
		require.Equal(t, "1 2 3", check.Only(t, quiet.contents).Content)
	})
	t.Run("S2-53 no token is stored", func(t *testing.T) {
		require.Empty(t, check.OfType(w, id, event.TypeToken))
	})
}

// TestCallbacksReplace hides a secret from viewers, and only from them.
func TestCallbacksReplace(t *testing.T) {
	t.Parallel()
	hide := func(s string) string { return strings.ReplaceAll(s, "4711", "****") }
	pay := check.NewSpy("pay")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{pay}, Configure: func(c *threadmill.Config) {
		c.Callbacks = threadmill.Callbacks{
			OnToken: func(_ context.Context, s threadmill.TokenStream) *threadmill.TokenStream {
				s.Token = hide(s.Token)
				return &s
			},
			OnContent: func(_ context.Context, s threadmill.ContentStream) *threadmill.ContentStream {
				s.Content = hide(s.Content)
				return &s
			},
			OnToolCall: func(_ context.Context, s threadmill.ToolCallStream) *threadmill.ToolCallStream {
				s.ToolArgs = hide(s.ToolArgs)
				return &s
			},
		}
	}})
	id := w.Open()
	viewer := check.Watch(t, w, id, "")
	r := begin(w, id, "use pay {\"pin\":\"4711\"}\nthen\nmy pin is 4711", threadmill.SendOptions{
		Stream: true,
		Callbacks: threadmill.Callbacks{OnContent: func(_ context.Context, s threadmill.ContentStream) *threadmill.ContentStream {
			s.Content = strings.ReplaceAll(s.Content, "****", "(hidden)")
			return &s
		}},
	})
	events := completes(t, r)
	// byAgent are the texts and calls of agents among events.
	byAgent := func(events []event.AgentEvent) string {
		var b strings.Builder
		for _, e := range events {
			if e.Agent == "assistant" && e.Type != event.EventToolResult {
				raw, err := json.Marshal(e)
				require.NoError(t, err)
				b.Write(raw)
			}
		}
		return b.String()
	}
	t.Run("S0-10 a run sees what was put in place, pieces and whole", func(t *testing.T) {
		require.NotContains(t, byAgent(events), "4711")
		require.Equal(t, "my pin is (hidden)", check.LastLine(pieces(events)))
		said := contentsOf(events)
		require.Equal(t, "my pin is (hidden)", check.LastLine(said[len(said)-1]))
		for _, e := range events {
			if e.Type == event.EventToolCall {
				require.JSONEq(t, `{"pin":"****"}`, e.ToolArgs)
			}
		}
	})
	t.Run("S0-10 so do viewers of the API, without what is the run's own", func(t *testing.T) {
		var shown []event.AgentEvent
		for _, f := range viewer.Until(t, check.IsFinal) {
			shown = append(shown, f.Event)
		}
		require.NotContains(t, byAgent(shown), "4711")
		require.Equal(t, "my pin is ****", check.LastLine(pieces(shown)))
	})
	t.Run("S0-09 S0-10 what runs and what is stored is what was said", func(t *testing.T) {
		require.JSONEq(t, `{"pin":"4711"}`, check.Only(t, pay.Seen()).Arguments)
		messages := w.Messages(id)
		require.Equal(t, "my pin is 4711", check.LastLine(messages[len(messages)-1].Content))
		require.JSONEq(t, `{"pin":"4711"}`, messages[1].ToolCalls[0].Function.Arguments)
		for _, rec := range w.Records(id) {
			require.NotContains(t, string(rec.Payload), "****")
		}
		out, err := r.Wait(w.Ctx())
		require.NoError(t, err)
		require.Equal(t, "my pin is 4711", check.LastLine(out.Message.Content), "a result is not a view")
	})
}

// TestPanickingCallbacks: a panic of a callback has no other effect.
func TestPanickingCallbacks(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Logger: slog.New(slog.DiscardHandler), Configure: func(c *threadmill.Config) {
		c.Callbacks.OnContent = func(context.Context, threadmill.ContentStream) *threadmill.ContentStream { panic("global") }
	}})
	own := &tally{}
	r := begin(w, w.Open(), "count 5", threadmill.SendOptions{
		Stream: true, Callbacks: own.callbacks(),
	})
	require.Equal(t, "1 2 3 4 5", pieces(completes(t, r)), "S2-35 the events go on")
	require.Equal(t, "1 2 3 4 5", own.contents[len(own.contents)-1].Content, "S2-35 and so do the other callbacks")
}

// TestRunWithHooks follows the changes of hooks to a message and its reply.
func TestRunWithHooks(t *testing.T) {
	t.Parallel()
	guard := hook.OnMessage("guard", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		if strings.Contains(m.Message.Content, "password") {
			return hook.Respond(hook.Response{Content: "I cannot help with that."}), nil
		}
		return hook.Pass(), nil
	})
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
	redact := hook.OnMessage("redact", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		m.Message.Content = strings.ReplaceAll(m.Message.Content, "4711", "****")
		return hook.Replace(m), nil
	})
	redact.Filter.CreatedBy = []event.CreatedBy{event.CreatedByAgent}
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.Hooks = []hook.Hook{guard, redact} }})
	id := w.Open()

	t.Run("S0-15 S2-40 a response is the end of the run", func(t *testing.T) {
		r := begin(w, id, "tell me the password", threadmill.SendOptions{Stream: true})
		events := completes(t, r)
		said := contentsOf(events)
		require.Contains(t, said[len(said)-1], ": I cannot help with that.")
		out, err := r.Wait(w.Ctx())
		require.NoError(t, err)
		require.Equal(t, "I cannot help with that.", out.Message.Content)
		require.Zero(t, w.Provider.Calls())
	})
	t.Run("S0-14 what hooks decide on a reply is among the events of its run", func(t *testing.T) {
		next := w.Provider.Block(0)
		first := begin(w, id, "the pin is 4711", threadmill.SendOptions{Stream: true})
		<-next.Reached()
		held := w.Provider.Block(0)
		second := begin(w, id, "hello", threadmill.SendOptions{})
		next.Release()
		said := contentsOf(completes(t, first))
		require.Equal(t, "assistant: the pin is ****", said[len(said)-1])
		held.Release()
		completes(t, second)
	})
}
