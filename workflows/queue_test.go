package workflows_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func TestSetStatusByUpdate(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	var waiting, processing, refused *answer
	set := func(id string, st event.ItemStatus) *answer {
		return w.update(signals.UpdateSetStatus, signals.SetStatus{EventID: id, Status: st, By: "ann", Reason: "test"})
	}
	w.then(func() { w.post("e1", "go"); w.post("e2", "waits") })
	w.then(func() {
		waiting = set("e2", event.ItemOverwritten)
		refused = set("e9", event.ItemCompleted)
	})
	w.then(func() { processing = set("e1", event.ItemFailed) })
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadIdle, s.Status, "S2-46 its turn is interrupted")
		require.Equal(t, "e1", s.Failed[0].ID)
		var q signals.Queue
		w.query(signals.QueryQueue, &q)
		require.Equal(t, "e2", q.Ended[0].ID)
		require.Equal(t, event.ItemOverwritten, q.Ended[0].Status)
		require.Nil(t, q.Processing, "S2-44")
	})
	w.run(workflows.Input{})
	require.Equal(t, event.ItemOverwritten, waiting.result.(signals.SetStatusResult).Item.Status)
	require.Equal(t, event.ItemFailed, processing.result.(signals.SetStatusResult).Item.Status)
	requireRefused(t, signals.RefusedType, refused.rejected)
	require.Empty(t, w.tools)
	require.Contains(t, w.messages(), "c1.result: Tool execution was interrupted before it began: the tool did not run.")
}

func TestInterruptOfOneEvent(t *testing.T) {
	w := newFixture(t)
	w.onWaiting = event.OnWaitingHold
	w.model = script(asks("c1"))
	interrupt := func(id string) {
		w.SignalWorkflow(signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, EventID: id, By: "ann"})
	}
	w.then(func() { w.post("e1", "go"); w.post("e2", "waits"); w.post("e3", "waits, too") })
	w.then(func() { interrupt("e2"); interrupt("e9") })
	w.then(func() {
		require.Equal(t, signals.ThreadWaitingApproval, w.state().Status, "the turn in progress is another's")
		require.Equal(t, 1, w.state().QueueLength)
		interrupt("e1")
	})
	w.then(func() { interrupt("e3") })
	w.run(workflows.Input{})
	require.Len(t, stored[event.Rejected](w.fakes, event.TypeRejected), 1)
	require.Len(t, w.models, 2)
	require.NotContains(t, strings.Join(w.messages(), "\n"), "e2.0.1")
}

// TestInterruptWithTheLastReply: a complete reply stands, even if an interrupt arrived with it.
func TestInterruptWithTheLastReply(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "e1" {
			w.SignalWorkflowSkippingWorkflowTask(signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, By: "ann"})
		}
		return reply(in, "all said"), nil
	}
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.run(workflows.Input{})
	out := turn.result.(signals.TurnResult)
	require.Equal(t, signals.TurnCompleted, out.Status, "there was nothing left to interrupt")
	require.Equal(t, "all said", out.Message.Content)
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 1, "S1-23")
}
