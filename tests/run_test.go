package tests

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// begin sends a person's message.
func begin(w *harness.Harness, thread, content string, o threadmill.SendOptions) *threadmill.Turn {
	w.T.Helper()
	r, err := w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: thread, SenderID: "ann", Content: content}, o)
	require.NoError(w.T, err)
	return r
}

// runEvents reads all events of a turn.
func runEvents(t *testing.T, r *threadmill.Turn) []event.AgentEvent {
	t.Helper()
	var out []event.AgentEvent
	for e, err := range r.Events() {
		require.NoError(t, err)
		out = append(out, e)
	}
	return out
}

// completes reads all events of a turn, which must complete.
func completes(t *testing.T, r *threadmill.Turn) []event.AgentEvent {
	t.Helper()
	events := runEvents(t, r)
	out, err := r.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, out.Status)
	last := len(events) - 1
	require.True(t, events[last].EndsTurn(), "the last event: %+v", events[last])
	require.True(t, events[last-1].Terminal(), "the event before it: %+v", events[last-1])
	return events
}

// pieces joins the streamed text.
func pieces(events []event.AgentEvent) string {
	var b strings.Builder
	for _, e := range events {
		if e.Type == event.EventStream {
			b.WriteString(e.Content)
		}
	}
	return b.String()
}

// contentsOf are the messages among events.
func contentsOf(events []event.AgentEvent) []string {
	var out []string
	for _, e := range events {
		if e.Type == event.EventMessage {
			out = append(out, e.Message.SenderID+": "+e.Message.Content)
		}
	}
	return out
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends[:2] {
		t.Run(b.Name, func(t *testing.T) {
			w := harness.New(t, b.Options)
			t.Run("S2-19 S2-20 S2-21 with the pieces of text", func(t *testing.T) { runStreams(t, w) })
			t.Run("S2-19 S2-21 live", func(t *testing.T) { runIsLive(t, w) })
			t.Run("S2-10 S2-19 without them", func(t *testing.T) { runWhole(t, w) })
			t.Run("S2-20 failure", func(t *testing.T) { runFails(t, w) })
			t.Run("S2-20 failure while others wait", func(t *testing.T) { runFailsBeforeOthers(t, w) })
			t.Run("S2-21 S2-40 two runs in a thread", func(t *testing.T) { runsApart(t, w) })
		})
	}
}

func runStreams(t *testing.T, w *harness.Harness) {
	id := w.Open()
	r := begin(w, id, "use note {\"text\":\"x\"}\nthen\nthink hm\ncount 8", threadmill.SendOptions{Stream: true})
	require.Equal(t, id, r.ThreadID(), "S2-22")
	events := completes(t, r)
	out, err := r.Wait(w.Ctx())
	t.Run("S2-20 done has the result", func(t *testing.T) {
		require.NoError(t, err)
		require.Contains(t, out.Message.Content, "1 2 3 4 5 6 7 8")
		require.Equal(t, r.EventID(), out.EventID)
	})
	t.Run("S2-19 text, tool calls and messages are among them", func(t *testing.T) {
		require.Equal(t, out.Message.Content, pieces(events))
		require.Equal(t, 1, check.CountEvents(events, event.EventToolCall))
		require.Equal(t, 1, check.CountEvents(events, event.EventThought))
		require.Equal(t, 1, check.CountEvents(events, event.EventToolResult))
		said := contentsOf(events)
		require.Equal(t, "ann: use note {\"text\":\"x\"}\nthen\nthink hm\ncount 8", said[0])
		require.Equal(t, "assistant: "+out.Message.Content, said[len(said)-1])
		for _, e := range events {
			if e.Type == event.EventToolCall {
				require.Equal(t, "note", e.ToolName)
			}
		}
	})
	t.Run("S2-21 each iterator has the same events", func(t *testing.T) {
		require.Equal(t, events, runEvents(t, r))
	})
	t.Run("S2-53 no token is stored", func(t *testing.T) {
		require.Empty(t, check.OfType(w, id, event.TypeToken))
		for _, rec := range w.Records(id) {
			if rec.Type == event.TypeLLMCall { // its opaque parts are the model's own, such as signed thoughts
				call := harness.Payload[event.LLMCall](w, rec)
				call.Opaque = nil
				rec = event.NewRecord(rec.ID, rec.Type, "", "", rec.CreatedAt, call)
			}
			require.NotContains(t, string(rec.Payload), `"hm"`)
		}
	})
}

// runIsLive reads the events of a turn whose model does not finish.
func runIsLive(t *testing.T, w *harness.Harness) {
	half := w.Provider.Block(3)
	r := begin(w, w.Open(), "count 8", threadmill.SendOptions{Stream: true})
	for e, err := range r.Events() {
		require.NoError(t, err)
		if e.Type == event.EventStream {
			break // early
		}
	}
	half.Release()
	require.Equal(t, "1 2 3 4 5 6 7 8", pieces(completes(t, r)))
}

func runWhole(t *testing.T, w *harness.Harness) {
	id := w.Open()
	r := begin(w, id, "think hm\ncount 5", threadmill.SendOptions{})
	events := completes(t, r)
	require.Equal(t, []event.AgentEventType{event.EventMessage, event.EventMessage, event.EventFinal, event.EventStatus}, check.Kinds(events))
	require.Equal(t, "assistant: 1 2 3 4 5", contentsOf(events)[1])
}

func runFails(t *testing.T, w *harness.Harness) {
	id := w.Open()
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, "").WithError("bad", "no such thing"))
	r := begin(w, id, "hello", threadmill.SendOptions{})
	events := runEvents(t, r)
	require.Equal(t, event.EventError, events[len(events)-2].Type, "the last event says so")
	out, err := r.Wait(w.Ctx())
	require.Equal(t, signals.TurnFailed, out.Status)
	var failed *threadmill.TurnError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, r.EventID(), failed.EventID)
	require.Equal(t, llm.ClassRefused, failed.Class)
	require.Contains(t, failed.Reason, "no such thing")
	require.ErrorContains(t, err, "no such thing")
}

// runFailsBeforeOthers fails a turn whose last records are stored by the next turn.
func runFailsBeforeOthers(t *testing.T, w *harness.Harness) {
	slow := w.Provider.Block(0)
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	held := w.Provider.Block(0)
	id := w.Open()
	first := begin(w, id, "one", threadmill.SendOptions{})
	second := begin(w, id, "two", threadmill.SendOptions{})
	slow.Release()
	events := runEvents(t, first)
	require.Equal(t, event.EventError, events[len(events)-2].Type)
	_, err := first.Wait(w.Ctx())
	require.Error(t, err)
	held.Release()
	completes(t, second)
}

func runsApart(t *testing.T, w *harness.Harness) {
	id := w.Open()
	half := w.Provider.Block(2)
	first := begin(w, id, "first has words", threadmill.SendOptions{Stream: true})
	<-half.Reached()
	second := begin(w, id, "second has others", threadmill.SendOptions{Stream: true})
	half.Release()
	one, two := completes(t, first), completes(t, second)
	require.Equal(t, []string{"ann: first has words", "assistant: first has words"}, contentsOf(one))
	require.Equal(t, []string{"ann: second has others", "assistant: second has others"}, contentsOf(two))
	require.Equal(t, "first has words", pieces(one))
	require.Equal(t, "second has others", pieces(two))
	for _, rec := range w.Records(id)[1:] {
		require.Contains(t, []string{first.EventID(), second.EventID()}, rec.TraceID, "S2-40")
	}
}

// TestRunIsSteered: a message joins the turn of another.
//
//ci:replayed
func TestRunIsSteered(t *testing.T) {
	t.Parallel()
	slow := check.NewGate("slow")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{slow}})
	id := w.Open()
	first := begin(w, id, "use slow {}", threadmill.SendOptions{})
	<-slow.Reached
	second := begin(w, id, "joined", threadmill.SendOptions{OnBusy: event.OnBusySteer})
	slow.Release()
	events := completes(t, second)
	require.Equal(t, "ann: joined", contentsOf(events)[0], "its events begin where it joins")
	whole := completes(t, first)
	require.Equal(t, events, whole[len(whole)-len(events):], "and are those of the turn from then on")
}

// TestRunGoesOn continues the thread as new while a turn is followed.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	const steps = 20
	w := harness.New(t, harness.Options{StepsAsActivities: true, Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 40}})
	r := begin(w, "", strings.Repeat("use note {}\nthen\n", steps)+"enough", threadmill.SendOptions{Stream: true})
	before := check.CurrentRun(w, r.ThreadID())
	events := completes(t, r)
	require.Equal(t, steps, check.CountEvents(events, event.EventToolCall), "S2-20 S2-21 each event once, across continue-as-new")
	require.Equal(t, steps, check.CountEvents(events, event.EventToolResult))
	require.NotEqual(t, before, check.CurrentRun(w, r.ThreadID()), "the thread has moved")
}

// TestRunWithItsContext follows a turn only as long as its context lasts.
func TestRunWithItsContext(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	half := w.Provider.Block(2)
	ctx, cancel := context.WithCancel(w.Ctx())
	r, err := w.Runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: "count 5"}, threadmill.SendOptions{Stream: true, EventID: "e1"})
	require.NoError(t, err)
	<-half.Reached()
	over, end := context.WithCancel(w.Ctx())
	end()
	_, err = r.Wait(over)
	require.ErrorIs(t, err, context.Canceled, "the context of Wait")
	cancel()
	_, err = r.Wait(w.Ctx())
	require.ErrorIs(t, err, context.Canceled, "the context of Send")
	var last error
	for _, last = range r.Events() {
	}
	require.ErrorIs(t, last, context.Canceled, "the iterator says that it is not the end")
	half.Release()

	t.Run("S2-21 another run with its id goes on with it, from its beginning", func(t *testing.T) {
		again := begin(w, r.ThreadID(), "count 5", threadmill.SendOptions{EventID: "e1"})
		events := completes(t, again)
		require.Equal(t, []string{"ann: count 5", "assistant: 1 2 3 4 5"}, contentsOf(events))
		require.Len(t, w.Messages(r.ThreadID()), 2, "nothing was posted twice")
		require.Equal(t, events, completes(t, begin(w, r.ThreadID(), "count 5", threadmill.SendOptions{EventID: "e1"})))
	})
}

// TestStart runs the workers in the background, with the Temporal client of the environment.
func TestStart(t *testing.T) {
	w := harness.New(t, harness.Options{NoWorker: true})
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	t.Setenv("TEMPORAL_ADDRESS", w.Server.Addr())
	t.Setenv("TEMPORAL_NAMESPACE", "default")
	own := func(cfg *threadmill.Config) { cfg.Temporal, cfg.TemporalNamespace = nil, "" }
	t.Run("S0-01 a message is answered", func(t *testing.T) {
		r := w.Beside(own)
		require.NoError(t, r.Start(w.Ctx()))
		require.ErrorContains(t, r.Start(w.Ctx()), "was started before")
		turn, err := r.Send(w.Ctx(), event.NewMessage{Content: "hello"}, threadmill.SendOptions{})
		require.NoError(t, err)
		out, err := turn.Wait(w.Ctx())
		require.NoError(t, err)
		require.Equal(t, "hello", out.Message.Content)
		select {
		case <-r.Stopped():
			t.Fatal("the workers run")
		default:
		}
		require.NoError(t, r.Stop(w.Ctx()))
		<-r.Stopped()
		require.ErrorContains(t, r.CloseThread(w.Ctx(), turn.ThreadID()), "closing", "the client is closed")
	})
	t.Run("no Temporal", func(t *testing.T) {
		t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
		r := w.Beside(own)
		require.ErrorContains(t, r.Start(w.Ctx()), "127.0.0.1:1")
		<-r.Stopped()
		require.Error(t, r.Stop(w.Ctx()), "the error with which they ended")
	})
	t.Run("stopped while it starts", func(t *testing.T) {
		ctx, cancel := context.WithCancel(w.Ctx())
		cancel()
		require.ErrorIs(t, w.Beside(own).Start(ctx), context.Canceled)
	})
	t.Run("never started", func(t *testing.T) { require.NoError(t, w.Beside(own).Stop(w.Ctx())) })
}

// TestRunOpensThreads sends messages to threads that do not exist yet.
func TestRunOpensThreads(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	t.Run("S2-22 a message without a thread begins one", func(t *testing.T) {
		r, err := w.Runtime.Send(w.Ctx(), event.NewMessage{Content: "hello"}, threadmill.SendOptions{
			Start: signals.Start{Title: "greetings", Agents: []string{"assistant"}},
		})
		require.NoError(t, err)
		events := completes(t, r)
		require.Equal(t, "user: hello", contentsOf(events)[0])
		state, err := w.Threads.State(w.Ctx(), r.ThreadID())
		require.NoError(t, err)
		require.Equal(t, "greetings", state.Title)
	})
	t.Run("several at once open it once", func(t *testing.T) {
		const all = 8
		var done sync.WaitGroup
		ctx := w.Ctx()
		for i := range all {
			done.Go(func() {
				said := fmt.Sprintf("hello %d", i)
				r, err := w.Runtime.Send(ctx, event.NewMessage{ThreadID: "shared", Content: said}, threadmill.SendOptions{Ack: threadmill.AckOnComplete})
				if assert.NoError(t, err) {
					out, err := r.Wait(w.Ctx())
					assert.NoError(t, err)
					assert.Equal(t, said, out.Message.Content)
				}
			})
		}
		done.Wait()
		require.Len(t, w.Messages("shared"), 2*all)
	})
	t.Run("a closed thread stays closed", func(t *testing.T) {
		id := w.Open()
		half := w.Provider.Block(2)
		running := begin(w, id, "count 5", threadmill.SendOptions{})
		<-half.Reached()
		require.NoError(t, w.Runtime.CloseThread(w.Ctx(), id))
		half.Release()
		out, err := running.Wait(w.Ctx())
		require.NoError(t, err)
		require.Equal(t, signals.TurnInterrupted, out.Status)
		require.NoError(t, w.Runtime.CloseThread(w.Ctx(), id), "once more")
		_, err = w.Runtime.Send(w.Ctx(), event.NewMessage{ThreadID: id, Content: "hello"}, threadmill.SendOptions{})
		require.ErrorIs(t, err, signals.ErrThreadClosed)
		require.ErrorIs(t, w.Runtime.CloseThread(w.Ctx(), "no-such-thread"), signals.ErrThreadNotFound)
	})
}
