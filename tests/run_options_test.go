package tests

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestRunOptions(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "other", Model: "openai/stand-in", Tools: []string{"note", "current_time"}},
	}})
	for name, run := range map[string]func(*testing.T, *harness.Harness){
		"S2-25 ack":       runAcks,
		"S2-25 interrupt": runInterrupted,
		"S2-25 ttl":       runExpires,
		"S2-25 overrides": runOverrides,
		"S2-25 namespace": runElsewhere,
		"S2-38 priority":  runByPriority,
		"onBusy":          runRejected,
		"unanswered":      runUnanswered,
		"mistakes":        runMistakes,
	} {
		t.Run(name, func(t *testing.T) { run(t, w) })
	}
}

// occupied opens a thread with a turn in progress, until free is called.
func occupied(t *testing.T, w *harness.Harness) (id string, free func() *threadmill.Turn) {
	t.Helper()
	gate := w.Provider.Block(0)
	id = w.Open("assistant")
	r := begin(w, id, "one", threadmill.SendOptions{})
	<-gate.Reached()
	return id, func() *threadmill.Turn {
		gate.Release()
		return r
	}
}

func runAcks(t *testing.T, w *harness.Harness) {
	t.Run("immediate comes while the turn runs", func(t *testing.T) {
		_, free := occupied(t, w) // it has returned
		completes(t, free())
	})
	t.Run("on complete comes after it", func(t *testing.T) {
		id := w.Open()
		r := begin(w, id, "hello", threadmill.SendOptions{Ack: threadmill.AckOnComplete})
		require.Len(t, w.Messages(id), 2)
		completes(t, r)
	})
}

func runInterrupted(t *testing.T, w *harness.Harness) {
	t.Run("ends the turn and keeps what was said", func(t *testing.T) {
		half := w.Provider.Block(3)
		id := w.Open()
		r := begin(w, id, "one two three four five", threadmill.SendOptions{Stream: true})
		heard := 0
		for e, err := range r.Events() {
			require.NoError(t, err)
			if e.Type == event.EventStream {
				heard++
			}
			if heard == 3 {
				break
			}
		}
		require.NoError(t, r.Interrupt(w.Ctx()))
		out, err := r.Wait(w.Ctx())
		half.Release()
		require.NoError(t, err, "an interrupt is no failure")
		require.Equal(t, signals.TurnInterrupted, out.Status)
		events := runEvents(t, r)
		require.Equal(t, event.EventFinal, events[len(events)-2].Type)
		events = events[:len(events)-1]
		for _, e := range events {
			if e.Type == event.EventStatus {
				require.Equal(t, event.StatusInterrupted, e.Status.Status)
				require.Equal(t, "ann", e.Status.By)
			}
		}
		require.Equal(t, 1, check.CountEvents(events, event.EventStatus))
		require.Equal(t, "one two three", w.Messages(id)[1].Content)
	})
	t.Run("takes the event out of the queue, and nothing else", func(t *testing.T) {
		id, free := occupied(t, w)
		calls := w.Provider.Calls()
		waiting := begin(w, id, "two", threadmill.SendOptions{})
		require.NoError(t, waiting.Interrupt(w.Ctx()))
		out, err := waiting.Wait(w.Ctx())
		require.NoError(t, err)
		require.Equal(t, signals.TurnInterrupted, out.Status)
		completes(t, free())
		require.Equal(t, calls, w.Provider.Calls(), "no model was asked")
	})
	t.Run("after the end changes nothing, and in a closed thread says so", func(t *testing.T) {
		id := w.Open()
		r := begin(w, id, "one", threadmill.SendOptions{})
		completes(t, r)
		require.NoError(t, r.Interrupt(w.Ctx()))
		completes(t, begin(w, id, "two", threadmill.SendOptions{}))
		require.Empty(t, check.OfType(w, id, event.TypeRejected), "a request for a turn that has ended would be rejected")

		id, free := occupied(t, w)
		ctx, leave := context.WithCancel(w.Ctx())
		gone, err := w.Runtime.Send(ctx, event.NewMessage{ThreadID: id, Content: "three"}, threadmill.SendOptions{})
		require.NoError(t, err)
		leave()
		_, err = gone.Wait(w.Ctx())
		require.ErrorIs(t, err, context.Canceled)
		completes(t, free())
		require.NoError(t, w.Runtime.CloseThread(w.Ctx(), id))
		require.ErrorIs(t, gone.Interrupt(w.Ctx()), signals.ErrThreadClosed)
	})
}

func runExpires(t *testing.T, w *harness.Harness) {
	id, free := occupied(t, w)
	r := begin(w, id, "two", threadmill.SendOptions{TTL: time.Nanosecond})
	require.Eventually(t, func() bool {
		queue, err := w.Threads.Queue(w.Ctx(), id)
		return err == nil && slices.ContainsFunc(queue.Ended, func(it event.Item) bool { return it.ID == r.EventID() })
	}, testenv.Patience, testenv.Tick, "it expires while it waits")
	first := free()
	out, err := r.Wait(w.Ctx())
	require.NoError(t, err, "S2-39")
	require.Equal(t, signals.TurnExpired, out.Status)
	events := runEvents(t, r)
	require.Equal(t, string(event.ItemExpired), events[len(events)-1].Status.Turn)
	completes(t, first)
}

func runOverrides(t *testing.T, w *harness.Harness) {
	id := w.Open("assistant")
	r := begin(w, id, "hello", threadmill.SendOptions{Agents: []string{"other"}})
	require.Equal(t, []string{"ann: hello", "other: hello"}, contentsOf(completes(t, r)), "agents")

	tools := []string{"current_time"}
	for name, c := range map[string]struct {
		tools []string
		want  []string
	}{
		"all": {nil, []string{"note", "current_time"}}, "some": {tools, tools}, "none": {[]string{}, nil},
	} {
		w.Provider.Reset()
		completes(t, begin(w, id, "hello", threadmill.SendOptions{Agents: []string{"other"}, Tools: c.tools}))
		var shown []string
		for _, tool := range check.Only(t, check.ModelCalls(w)).Tools {
			shown = append(shown, tool.Name)
		}
		require.ElementsMatch(t, c.want, shown, "tools: %s", name)
	}
}

func runElsewhere(t *testing.T, w *harness.Harness) {
	another := w.TaskQueue + "-another"
	r, err := w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: "elsewhere", Content: "hello"}, threadmill.SendOptions{Namespace: another})
	require.NoError(t, err)
	require.Equal(t, []string{"user: hello", "assistant: hello"}, contentsOf(completes(t, r)))
	_, err = w.Store.Thread(w.Ctx(), store.Key{Namespace: another, ThreadID: "elsewhere"})
	require.NoError(t, err)
	_, err = w.Threads.State(w.Ctx(), "elsewhere")
	require.ErrorIs(t, err, signals.ErrThreadNotFound, "S2-42 the runtime's own has no such thread")
}

func runByPriority(t *testing.T, w *harness.Harness) {
	id, free := occupied(t, w)
	low := begin(w, id, "low", threadmill.SendOptions{})
	high := begin(w, id, "high", threadmill.SendOptions{Priority: 5})
	completes(t, free())
	completes(t, low)
	completes(t, high)
	var said []string
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByUser {
			said = append(said, m.Content)
		}
	}
	require.Equal(t, []string{"one", "high", "low"}, said)
}

func runRejected(t *testing.T, w *harness.Harness) {
	id, free := occupied(t, w)
	_, err := w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: id, Content: "x"}, threadmill.SendOptions{OnBusy: event.OnBusyReject})
	require.ErrorIs(t, err, signals.ErrBusy)
	completes(t, free())
}

func runUnanswered(t *testing.T, w *harness.Harness) {
	id := w.Open()
	r, err := w.Runtime.Send(w.Ctx(), event.NewMessage{
		ThreadID: id, SenderID: "clock", SenderType: event.CreatedBySystem, Content: "noon",
	}, threadmill.SendOptions{})
	require.NoError(t, err)
	out, err := r.Wait(w.Ctx())
	require.NoError(t, err)
	require.Equal(t, signals.TurnUnanswered, out.Status)
	require.Equal(t, []string{"clock: noon"}, contentsOf(runEvents(t, r)))
}

func runMistakes(t *testing.T, w *harness.Harness) {
	hello := event.NewMessage{ThreadID: "never", Content: "hello"}
	for field, c := range map[string]struct {
		m event.NewMessage
		o threadmill.SendOptions
	}{
		"content":   {event.NewMessage{ThreadID: "never"}, threadmill.SendOptions{}},
		"threadId":  {event.NewMessage{ThreadID: "a/b", Content: "hello"}, threadmill.SendOptions{}},
		"namespace": {hello, threadmill.SendOptions{Namespace: "a/b"}},
		"Ack":       {hello, threadmill.SendOptions{Ack: "never"}},
		"TTL":       {hello, threadmill.SendOptions{TTL: -1}},
		"onBusy":    {hello, threadmill.SendOptions{OnBusy: "shout"}},
		"id":        {hello, threadmill.SendOptions{EventID: "a.b"}},
		"agents[0]": {hello, threadmill.SendOptions{Agents: []string{"a b"}}},
	} {
		_, err := w.Runtime.Send(w.Ctx(), c.m, c.o)
		var wrong *event.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	_, err := w.Threads.State(w.Ctx(), "never")
	require.ErrorIs(t, err, signals.ErrThreadNotFound, "S0-03 nothing is opened for a mistake")
}
