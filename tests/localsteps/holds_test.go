package localsteps

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestLocalSteps: a step that is usually quick holds the workflow task only for a moment, and nothing that is sent to its
// thread waits for it.
func TestLocalSteps(t *testing.T) {
	// begun returns a thread whose model has been quick, and its running turn.
	begun := func(t *testing.T) (w *harness.Harness, id, posted string, before int, release func()) {
		t.Parallel()
		w = harness.New(t, harness.Options{})
		id = w.Open()
		check.Paced(w, id, func() { w.SayBySignal(id, "hello") })
		before = len(check.Settle(w, id))
		gate := w.Provider.Block(3)
		t.Cleanup(gate.Release)
		posted = w.Post(id, "count 10")
		check.Arrives(t, gate.Reached(), "the model's reply")
		shown, err := w.Stream.Subscribe(w.Ctx(), w.Key(id), stream.From{})
		require.NoError(t, err)
		defer shown.Close()
		for e := (stream.Entry{}); e.Event == nil || !strings.Contains(e.Event.Content, "3"); {
			e, err = shown.Next(w.Ctx())
			require.NoError(t, err)
		}
		return w, id, posted, before, gate.Release
	}
	t.Run("a call that takes longer goes on in its process, and Temporal sees it", func(t *testing.T) {
		w, id, posted, before, release := begun(t)
		require.Eventually(t, func() bool { return check.Scheduled(check.HistoryOf(w, id, "")[before:]) }, testenv.Patience, testenv.Tick)
		calls := w.Provider.Calls()
		release()
		require.Equal(t, "1 2 3 4 5 6 7 8 9 10", w.Await(id, posted).Message.Content)
		require.Equal(t, calls, w.Provider.Calls(), "the model was not called again")
		events := check.Settle(w, id)[before:]
		var summary string
		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(check.Only(t, check.LocalSteps(events)).GetUserMetadata().GetSummary(), &summary))
		require.Regexp(t, `^assistant · openai/stand-in · step 1 · [0-9]+ tokens so far$`, summary, "in Temporal's Web UI")
		require.True(t, strings.HasPrefix(queueOf(events), w.TaskQueue+"/"), "on the task queue of the process: %s", queueOf(events))

		before = len(check.Settle(w, id))
		w.Say(id, "hello")
		events = check.Settle(w, id)[before:]
		require.Empty(t, check.LocalSteps(events), "the model is not quick any more")
		require.Equal(t, w.TaskQueue, queueOf(events))
	})
	t.Run("after steps of a second in a row, one is an activity", func(t *testing.T) {
		t.Parallel()
		nap := tool.MustFunc("nap", "Naps.", func(context.Context, tool.Call, struct{}) (string, error) {
			time.Sleep(400 * time.Millisecond) // a tool that takes that long
			return "rested", nil
		})
		w := harness.New(t, harness.Options{Tools: []tool.Tool{nap}})
		id := w.Open()
		check.Paced(w, id, func() { w.SayBySignal(id, "use nap {}") })
		before := len(check.Settle(w, id))
		w.Say(id, strings.Repeat("use nap {}\nthen\n", 6)+"enough")
		require.True(t, check.Scheduled(check.Settle(w, id)[before:]))
	})
	for name, interrupt := range map[string]func(w *harness.Harness, id string) error{
		"an interrupt over the API": func(w *harness.Harness, id string) error {
			return w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"})
		},
		"an interrupt by a plain Temporal client": func(w *harness.Harness, id string) error {
			return w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, By: "ann"})
		},
		"a message that interrupts": func(w *harness.Harness, id string) error {
			p := signals.UserMessage(id, "ann", "stop")
			p.OnBusy = event.OnBusyInterrupt
			_, err := w.Threads.Post(w.Ctx(), id, p)
			return err
		},
	} {
		t.Run(name+" ends the call and keeps its text", func(t *testing.T) {
			w, id, posted, _, _ := begun(t)
			require.NoError(t, interrupt(w, id))
			out := w.Await(id, posted)
			require.Equal(t, signals.TurnInterrupted, out.Status)
			require.True(t, out.Message.Interrupted)
			require.Equal(t, "1 2 3", strings.TrimSpace(out.Message.Content))
		})
	}
}

// queueOf returns the task queue of the first activity among events.
func queueOf(events []*history.HistoryEvent) string {
	for _, e := range events {
		if scheduled := e.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
			return scheduled.GetTaskQueue().GetName()
		}
	}
	return ""
}
