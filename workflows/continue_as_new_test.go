package workflows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// suggestWith makes one workflow task deliver both a signal and the server's suggestion to continue
// as new.
func (w *fixture) suggestWith(signal string, input any) {
	w.SignalWorkflowSkippingWorkflowTask(signal, input)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Millisecond)
}

func TestContinueAsNewWhileApprovalWaits(t *testing.T) {
	f := newFakes(t)
	f.onWaiting = event.OnWaitingHold
	f.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "e1" {
			return script(plain("c1"), asks("c2"))(ctx, in)
		}
		return reply(in, "ok"), nil
	}

	w := fixtureWith(t, f)
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.then(func() {
		p := says("e2", "later")
		p.Priority, p.TraceID = -1, "trace"
		w.SignalWorkflow(signals.SignalPost, p)
		w.SignalWorkflow(signals.SignalControl, signals.Control{Action: "dance"})
	})
	w.then(func() {
		require.Equal(t, []string{"c1"}, f.tools)
		// The signal in the workflow task that continues as new is not lost.
		w.suggestWith(signals.SignalPost, says("e3", "first"))
	})
	next := w.leave(workflows.Input{Start: signals.Start{Agents: []string{"alice"}, Title: "A title"}})
	require.NoError(t, turn.err)
	require.Equal(t, signals.TurnResult{EventID: "e1", Status: signals.TurnContinues}, turn.result, "who waits is told to ask again")
	require.Equal(t, "A title", next.State.Title)
	require.Empty(t, next.Start, "the state says it all")

	w = fixtureWith(t, f)
	var again, duplicate *answer
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadWaitingApproval, s.Status)
		require.Equal(t, 2, s.QueueLength)
		require.Equal(t, 2, s.Usage.InputTokens+s.Usage.OutputTokens)
		require.Equal(t, []string{"alice"}, s.Agents)
		require.Equal(t, "c2", w.approvals().Approvals[0].ToolCallID)
		again = w.update(signals.UpdateTurn, says("e1", "go"))
		duplicate = w.update(signals.UpdatePost, says("e3", "first"))
	})
	w.then(func() { w.decide("c2", event.DecisionApprove, "") })
	w.run(next)
	requireRefused(t, signals.DuplicateType, duplicate.rejected)
	require.Equal(t, signals.TurnCompleted, again.result.(signals.TurnResult).Status)
	require.Equal(t, []string{"c1", "c2"}, f.tools, "no call runs twice")
	require.Equal(t, []string{
		"e1: go", "e1.0.1: ", "c1.result: ran", "c2.result: ran", "e1.0.2: done",
		"e3: first", "e3.0.1: ok", "e2: later", "e2.0.1: ok",
	}, f.messages())
	require.Len(t, stored[event.Rejected](f, event.TypeRejected), 1, "what was not stored yet is carried over")
}

func TestContinueAsNewWaitsForTheRunningStep(t *testing.T) {
	f := newFakes(t)
	w := fixtureWith(t, f)
	var turn *answer
	asked := make(chan struct{})
	f.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "e1" && in.Step == 1 {
			// Not here: the thread may be reading it.
			w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 0)
			w.post("e2", "later")
			w.RegisterDelayedCallback(func() {
				// The run continues while a step runs: callers must not be sent to the next run,
				// only to call again immediately.
				require.False(t, turn.done)
				close(asked)
			}, time.Millisecond)
			<-asked
			return reply(in, "", plain("c1")), nil
		}
		return reply(in, "done"), nil
	}
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
	next := w.leave(workflows.Input{})
	require.Equal(t, signals.TurnContinues, turn.result.(signals.TurnResult).Status)
	require.Empty(t, f.tools, "the next step is for the next run")

	fixtureWith(t, f).run(next)
	require.Equal(t, []string{"c1"}, f.tools)
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: ran", "e1.0.2: done", "e2: later", "e2.0.1: done"}, f.messages())
}

// TestContinueAsNewStoresWhatWaits: the input of the next run is limited.
func TestContinueAsNewStoresWhatWaits(t *testing.T) {
	f := newFakes(t)
	f.model = script(asks("c1"))
	w := fixtureWith(t, f)
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		for range 300 {
			w.decide("c9", event.DecisionApprove, strings.Repeat("x", 4000))
		}
	})
	w.then(func() { w.suggestWith(signals.SignalPost, says("e2", "later")) })
	next := w.leave(workflows.Input{})
	require.Empty(t, next.State.Outbox.Pending)
	require.Len(t, stored[event.Rejected](f, event.TypeRejected), 300)
}

func TestInterruptAcrossContinueAsNew(t *testing.T) {
	f := newFakes(t)
	f.model = script(asks("c1"))
	w := fixtureWith(t, f)
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		w.suggestWith(signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, By: "ann"})
	})
	// The turn is reported, in whichever of the two runs it ends.
	next := w.leave(workflows.Input{})
	fixtureWith(t, f).run(next)
	require.Equal(t, "c1.result: Tool execution was interrupted before it began: the tool did not run.", f.messages()[2])
}

func TestCancelledWithSeveralRuns(t *testing.T) {
	w := newFixture(t)
	called := make(chan struct{})
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Agent == "bob" {
			<-called // records in the input of alice's step must not be stored after the end
			w.CancelWorkflow()
			return w.cutOff()
		}
		close(called)
		return reply(in, "", asks("c1")), nil
	}
	w.then(func() { w.post("e1", "go") })
	w.ExecuteWorkflow(signals.ThreadWorkflow, workflows.Input{Start: signals.Start{Agents: []string{"alice", "bob"}}})
	require.ErrorContains(t, w.GetWorkflowError(), "canceled")
	require.Equal(t, "closed", w.row.Status)
	require.Len(t, w.awaitNotices(1), 1, "the running step is told at once")
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 2)
}
