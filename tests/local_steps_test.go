package tests

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// stepsOf are the steps among events: the summaries of local activities, and the task queues of activities.
func stepsOf(t *testing.T, events []*history.HistoryEvent) (local, queues []string) {
	t.Helper()
	for _, e := range events {
		if e.GetMarkerRecordedEventAttributes().GetMarkerName() == "LocalActivity" {
			var summary string
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(e.GetUserMetadata().GetSummary(), &summary))
			local = append(local, summary)
		}
		if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			queues = append(queues, e.GetActivityTaskScheduledEventAttributes().GetTaskQueue().GetName())
		}
	}
	return local, queues
}

// TestLocalSteps: a step that is usually quick holds the workflow task only for a moment, and nothing that is sent to its
// thread waits for it.
func TestLocalSteps(t *testing.T) {
	if harness.StepsAsActivities() {
		t.Skip("the suite runs each step as an activity")
	}
	// begun returns a thread whose model has been quick, and its running turn.
	begun := func(t *testing.T) (w *harness.Harness, id, posted string, before int, release func()) {
		t.Parallel()
		w = harness.New(t, harness.Options{})
		id = w.Open()
		w.Say(id, "hello")
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
		require.Eventually(t, func() bool {
			_, queues := stepsOf(t, check.HistoryOf(w, id, "")[before:])
			return len(queues) == 1
		}, harness.Patience, harness.Tick)
		release()
		require.Equal(t, "1 2 3 4 5 6 7 8 9 10", w.Await(id, posted).Message.Content)
		require.Equal(t, 2, w.Provider.Calls(), "the model was not called again")
		local, queues := stepsOf(t, check.Settle(w, id)[before:])
		require.Len(t, local, 1)
		require.Equal(t, "default agent · step 1", local[0], "the summary in Temporal's Web UI")
		require.True(t, strings.HasPrefix(queues[0], w.TaskQueue+"/"), "on the task queue of the process: %s", queues[0])

		before = len(check.Settle(w, id))
		w.Say(id, "hello")
		local, queues = stepsOf(t, check.Settle(w, id)[before:])
		require.Empty(t, local, "the model is not quick any more")
		require.Equal(t, []string{w.TaskQueue}, queues)
	})
	t.Run("steps in a row hold it for a second, then one is an activity", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Options{Tools: []tool.Tool{tool.MustFunc("wait", "Waits.", func(context.Context, tool.Call, struct{}) (string, error) {
			time.Sleep(400 * time.Millisecond) // it is as slow as that
			return "done", nil
		})}})
		id := w.Open()
		w.Say(id, "use wait {}")
		before := len(check.Settle(w, id))
		w.Say(id, strings.Repeat("use wait {}\nthen\n", 6)+"enough")
		local, queues := stepsOf(t, check.Settle(w, id)[before:])
		require.Len(t, slices.Concat(local, queues), 13)
		require.NotEmpty(t, queues)
		require.Greater(t, len(local), len(queues))
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
