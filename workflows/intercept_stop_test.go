package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func notConfigured(why string) error {
	return temporal.NewNonRetryableApplicationError(why, step.ErrTypeConfig, nil)
}

func asMessage(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	e, err := event.Unmarshal(raw)
	require.NoError(t, err)
	return e.(event.MessageEvent).Message.Content
}

// asking is a thread with a hook that asks a person about messages.
func asking(t *testing.T) (*fixture, *persons) {
	t.Helper()
	return askingWith(t, newFakes(t))
}

func askingWith(t *testing.T, f *fakes) (*fixture, *persons) {
	t.Helper()
	person := personHook("person", event.TypeMessage)
	person.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
	w := hookedWorld(t, f, setOf(t, []hook.Hook{person}))
	return w, (&persons{}).register(w)
}

func TestInterruptWhileHooksDecide(t *testing.T) {
	w, people := asking(t)
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")); w.post("e2", "waits") })
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.then(func() {
		require.Equal(t, 1, people.cancelled, "who is being asked hears of it")
		require.Equal(t, "e2", w.state().Turn.EventID, "the next event has its turn")
		w.saysOn("e2", "person", hook.Verdict{})
	})
	w.run(workflows.Input{})
	out := turn.result.(signals.TurnResult)
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Equal(t, "test", out.Error)
	require.Equal(t, []string{"e1: hello", "e2: waits", "e2.0.1: ok"}, w.messages())
	require.Equal(t, []string{"e2: passed"}, w.heard())
}

func TestCloseWhileHooksDecide(t *testing.T) {
	w, people := asking(t)
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")); w.post("e2", "waits") })
	w.run(workflows.Input{})
	require.Equal(t, 1, people.cancelled)
	require.Equal(t, signals.TurnInterrupted, turn.result.(signals.TurnResult).Status, "nobody waits for ever")
	require.Equal(t, []string{"e1: hello", "e2: waits"}, w.messages(), "nothing that was said is lost")
	require.Empty(t, w.heard())
}

func TestCancelledWhileHooksDecide(t *testing.T) {
	w, people := asking(t)
	w.then(func() { w.post("e1", "hello") })
	w.then(w.CancelWorkflow)
	w.ExecuteWorkflow(signals.ThreadWorkflow, workflows.Input{})
	require.ErrorContains(t, w.GetWorkflowError(), "canceled")
	require.Equal(t, 1, people.cancelled)
	require.Equal(t, "closed", w.row.Status)
	require.Equal(t, []string{"e1: hello"}, w.messages())
}

// TestInterruptedWhileHooksDecideOnCalls: those calls get results too.
func TestInterruptedWhileHooksDecideOnCalls(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{personHook("person", event.TypeToolCall)}))
	people := (&persons{}).register(w)
	w.model = script(plain("c1"), asks("c2"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.run(workflows.Input{})
	require.Equal(t, 1, people.cancelled)
	require.Equal(t, []string{
		"e1: go", "e1.0.1: ", "c1.result: Tool execution was interrupted before it began: the tool did not run.", "c2.result: Tool execution was interrupted before it began: the tool did not run.",
	}, w.messages(), "S4-71")
	require.Empty(t, w.tools)
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 1, "S1-37")
}

func TestSteeringMessageGoesBackWhenTheTurnIsInterrupted(t *testing.T) {
	w, people := asking(t)
	w.onWaiting = event.OnWaitingHold
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "e1" {
			return script(asks("c1"))(ctx, in)
		}
		return reply(in, "ok"), nil
	}
	steer := says("e2", "and mind the gap")
	steer.OnBusy = event.OnBusySteer
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.says("person", hook.Verdict{}) })
	w.then(func() { w.SignalWorkflow(signals.SignalPost, steer); w.decide("c1", event.DecisionApprove, "") })
	w.then(func() {
		require.Equal(t, "hook/ns/t1/e2.steer.e1", w.state().Turn.Deciding[0].WorkflowID)
		w.control(signals.ControlInterrupt)
	})
	w.then(func() {
		require.Equal(t, 1, people.cancelled)
		require.Equal(t, "e2", w.state().Turn.EventID, "S2-50 it has a turn of its own")
		w.saysOn("e2", "person", hook.Verdict{})
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: ran", "e2: and mind the gap", "e2.0.1: ok"}, w.messages())
	require.Equal(t, []string{"e1: passed", "e2: passed"}, w.heard())
}

// moved lets a thread continue as new while a person is asked about e1. It returns the next input.
func moved(t *testing.T, w *fixture) workflows.Input {
	t.Helper()
	// The hook workflow outlives this run; the test has no next run.
	w.SetDetachedChildWait(false)
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")); w.post("e2", "waits") })
	w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
	next := w.leave(workflows.Input{})
	require.Equal(t, signals.TurnContinues, turn.result.(signals.TurnResult).Status, "who waits is told to ask again")
	require.NotNil(t, next.State.Turns.Current)
	require.Len(t, next.State.Turns.Current.Intercepting, 1)
	return next
}

// report is a hook workflow's report to a thread that has continued as new.
func report(content string) step.HookDecided {
	return step.HookDecided{EventID: "e1", Decision: step.HookDecision{
		Outcome: event.OutcomeResponded, By: "person", Responses: []hook.Response{{Content: content, SenderType: event.CreatedBySystem}},
		Hooks: []event.HookOutcome{outcome("person", event.OutcomeResponded, 1)},
	}}
}

const hookID = "hook/ns/t1/e1"

// onReport sets the result of requests for a report.
func (w *fixture) onReport(err error) *atomic.Int32 {
	asked := &atomic.Int32{}
	w.OnSignalExternalWorkflow(mock.Anything, hookID, "", step.SignalReport, mock.Anything).
		Return(func(_, _, _, _ string, _ any) error { asked.Add(1); return err })
	return asked
}

// TestForeignReport: an unrequested report changes nothing, and leaves an audit record.
func TestForeignReport(t *testing.T) {
	w, _ := asking(t)
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		other := report("no")
		other.EventID = "e9"
		w.SignalWorkflow(step.SignalHookDecided, other)
	})
	w.then(func() { w.says("person", hook.Verdict{}) })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: passed"}, w.heard())
	require.Equal(t, step.SignalHookDecided, stored[event.Rejected](w.fakes, event.TypeRejected)[0].Signal)
}

func TestThreadMovesWhileHooksDecide(t *testing.T) {
	f := newFakes(t)
	w, _ := askingWith(t, f)
	next := moved(t, w)

	w, people := askingWith(t, f)
	asked := w.onReport(nil)
	var again *answer
	w.then(func() {
		require.Positive(t, asked.Load())
		require.Empty(t, people.requests, "the hook workflow that runs is not started again")
		require.Equal(t, "e1", w.state().Turn.EventID)
		again = w.update(signals.UpdateTurn, says("e1", "hello"))
	})
	w.then(func() {
		w.SignalWorkflow(step.SignalHookDecided, report("no"))
		w.SignalWorkflow(step.SignalHookDecided, report("twice"))
	})
	w.then(func() { w.saysOn("e2", "person", hook.Verdict{}) })
	w.run(next)
	out := again.result.(signals.TurnResult)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "no", out.Message.Content)
	require.Equal(t, []string{"e1: responded", "e2: passed"}, f.heard(), "S0-24 decided once")
	require.Equal(t, "e2", f.models[0].EventID, "S0-15")
	require.Len(t, f.models, 1)
}

// TestDecisionComesWhileTheThreadMoves: the decision is not lost.
func TestDecisionComesWhileTheThreadMoves(t *testing.T) {
	f := newFakes(t)
	w, _ := askingWith(t, f)
	next := moved(t, w)

	w, _ = askingWith(t, f)
	w.onReport(nil)
	w.then(func() { w.suggestWith(step.SignalHookDecided, report("no")) })
	next = w.leave(next)
	require.NotNil(t, next.State.Turns.Current.Intercepting[0].Decision)

	w, _ = askingWith(t, f)
	w.onReport(errors.New("no such workflow"))
	w.then(func() { w.saysOn("e2", "person", hook.Verdict{}) })
	w.run(next)
	require.Equal(t, []string{"e1: responded", "e2: passed"}, f.heard())
	require.Len(t, f.models, 1)
}

func TestHookWorkflowIsGoneWhenTheThreadHasMoved(t *testing.T) {
	f := newFakes(t)
	w, _ := askingWith(t, f)
	next := moved(t, w)

	w, _ = askingWith(t, f)
	w.onReport(errors.New("no such workflow"))
	w.then(func() {
		require.Contains(t, w.state().Failed[0].Error, "the hook workflow ended without a decision", "S0-23 it does not wait for ever")
		w.saysOn("e2", "person", hook.Verdict{})
	})
	w.run(next)
	require.Equal(t, []string{"e1: failed", "e2: passed"}, f.heard())
}

// TestInterruptEndsTheWholeTurn: an interrupt of a turn, by its event, without a name or by another
// message, also ends the events derived from its event.
func TestInterruptEndsTheWholeTurn(t *testing.T) {
	for name, stop := range map[string]func(w *fixture){
		"by its event": func(w *fixture) {
			w.SignalWorkflow(signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, EventID: "e1", By: "ann", Reason: "test"})
		},
		"without a name": func(w *fixture) { w.control(signals.ControlInterrupt) },
		"by a message": func(w *fixture) {
			p := says("e2", "wait")
			p.OnBusy = event.OnBusyInterrupt
			w.SignalWorkflow(signals.SignalPost, p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			guard := function("guard", event.TypeMessage)
			guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
			w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{guard}))
			w.hook = func(in step.Hook, _ string) said {
				if in.EventID != "e1" {
					return said{}
				}
				return said{responses: []hook.Response{{Content: "one", SenderType: event.CreatedByUser}, {Content: "two", SenderType: event.CreatedByUser}, {Content: "three", SenderType: event.CreatedByUser}}}
			}
			w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
				if in.EventID == "e2" {
					return reply(in, "I wait"), nil
				}
				return reply(in, "", asks(in.MessageID+"-call")), nil
			}
			var turn *answer
			w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
			w.then(func() {
				require.Len(t, w.approvals().Approvals, 1, "the first part of it is being processed")
				stop(w)
			})
			w.then(func() {
				require.True(t, turn.done)
				require.Equal(t, signals.TurnInterrupted, turn.result.(signals.TurnResult).Status)
				require.Equal(t, signals.ThreadIdle, w.state().Status)
			})
			w.run(workflows.Input{})
			asked := 0
			for _, in := range w.models {
				if in.EventID != "e2" {
					asked++
				}
			}
			require.Equal(t, 1, asked, "the other parts have none")
		})
	}
}

// TestLostHooks: only the hooks that ran can be lost, even if the registered hooks have changed.
func TestLostHooks(t *testing.T) {
	guard := function("guard", event.TypeMessage)
	guard.OnFailure = hook.FailClosed
	person := personHook("person", event.TypeMessage)
	person.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
	for name, tc := range map[string]struct {
		mode hook.FailureMode
		now  []hook.Hook
		want string
	}{
		"one was added":   {hook.FailOpen, []hook.Hook{guard, person}, "e1: passed"},
		"it fails closed": {hook.FailClosed, []hook.Hook{guard, person}, "e1: failed"},
		"it is gone":      {hook.FailOpen, nil, "e1: failed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w, _ := askingWith(t, f)
			next := moved(t, w)

			for i := range tc.now {
				if tc.now[i].Name == "person" {
					tc.now[i].OnFailure = tc.mode
				}
			}
			w = hookedWorld(t, f, setOf(t, tc.now))
			(&persons{}).register(w)
			w.onReport(errors.New("no such workflow"))
			w.then(func() {})
			w.run(next)
			require.Equal(t, tc.want, f.heard()[0])
		})
	}
}

// TestHookWorkflowGoesLater: a hook workflow that is terminated after continue-as-new counts as
// lost.
func TestHookWorkflowGoesLater(t *testing.T) {
	f := newFakes(t)
	w, _ := askingWith(t, f)
	next := moved(t, w)

	w, _ = askingWith(t, f)
	asked := 0
	w.OnSignalExternalWorkflow(mock.Anything, hookID, "", step.SignalReport, mock.Anything).
		Return(func(_, _, _, _ string, _ any) error {
			if asked++; asked > 5 {
				return errors.New("no such workflow")
			}
			return nil
		})
	w.at = 24 * time.Hour
	w.then(func() {
		require.Contains(t, w.state().Failed[0].Error, "the hook workflow ended without a decision")
		w.saysOn("e2", "person", hook.Verdict{})
	})
	w.run(next)
}

func TestInterruptWhenTheThreadHasMoved(t *testing.T) {
	for name, when := range map[string]func(w *fixture, next *workflows.Input){
		"while it waits for the decision": func(w *fixture, _ *workflows.Input) {
			w.then(func() { w.control(signals.ControlInterrupt) })
		},
		"before it has asked for it": func(_ *fixture, next *workflows.Input) {
			next.State.Turns.Current.Interrupted = &signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "test"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w, _ := askingWith(t, f)
			next := moved(t, w)

			w, _ = askingWith(t, f)
			w.onReport(nil)
			cancelled := 0
			w.OnRequestCancelExternalWorkflow(mock.Anything, hookID, "").Return(func(_, _, _ string) error { cancelled++; return nil })
			when(w, &next)
			w.then(func() {
				require.Equal(t, 1, cancelled, "the hook workflow is not left behind")
				require.Equal(t, "e2", w.state().Turn.EventID)
				w.SignalWorkflow(step.SignalHookDecided, report("no"))
				w.saysOn("e2", "person", hook.Verdict{})
			})
			w.run(next)
			require.Equal(t, []string{"e2: passed"}, f.heard(), "what is decided after that has no effect")
			for _, r := range stored[event.Rejected](f, event.TypeRejected) {
				require.NotEqual(t, step.SignalHookDecided, r.Signal, "and is no mistake of anybody's")
			}
			require.Equal(t, "e2.0.1: ok", f.messages()[len(f.messages())-1])
		})
	}
}

// TestThreadMovesTwiceWhileHooksDecide: each run requests the report.
func TestThreadMovesTwiceWhileHooksDecide(t *testing.T) {
	f := newFakes(t)
	w, _ := askingWith(t, f)
	next := moved(t, w)

	w, _ = askingWith(t, f)
	w.onReport(nil)
	w.then(func() { w.suggestWith(signals.SignalPost, says("e3", "later")) })
	next = w.leave(next)
	require.Len(t, next.State.Turns.Current.Intercepting, 1)

	w, _ = askingWith(t, f)
	w.onReport(nil)
	w.then(func() { w.SignalWorkflow(step.SignalHookDecided, report("no")) })
	w.then(func() { w.saysOn("e2", "person", hook.Verdict{}) })
	w.then(func() { w.saysOn("e3", "person", hook.Verdict{}) })
	w.run(next)
	require.Equal(t, []string{"e1: responded", "e2: passed", "e3: passed"}, f.heard())
}
