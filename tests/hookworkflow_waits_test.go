package tests

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// often makes threads continue as new after few events.
var often = map[string]any{"limit.historyCount.suggestContinueAsNew": 40}

// move posts events until the thread has continued as new. It returns their number.
func (r review) move(thread string) (posted int) {
	r.T.Helper()
	for begun := run(r.Harness, thread); run(r.Harness, thread) == begun; posted += 10 {
		for range 10 {
			_, err := r.Threads.PostSignal(r.Ctx(), thread, signals.Post{Type: "tick", Payload: []byte(`{}`)})
			require.NoError(r.T, err)
		}
	}
	return posted
}

// idle waits until a thread has nothing left to do, and all of it is stored.
func (r review) idle(thread string) {
	r.T.Helper()
	settle(r.Harness, thread)
}

// terminate terminates a workflow like an operator.
func (r review) terminate(workflowID string) {
	r.T.Helper()
	require.NoError(r.T, r.Temporal.TerminateWorkflow(r.Ctx(), workflowID, "", "it hangs"))
}

// hooksOf is the id of the workflow that started an event's foreign hook workflow.
func (r review) hooksOf(thread, eventID string) string {
	return signals.HookWorkflowID(r.TaskQueue, thread, eventID)
}

// requireDecidedOnce checks that the records have one decision, and that the hook ran once.
func (r review) requireDecidedOnce(t *testing.T, thread, eventID string) {
	t.Helper()
	r.decisionOn(thread, eventID)
	require.Len(t, ofType(r.Harness, thread, event.TypeHook), 1)
	require.Empty(t, ofType(r.Harness, thread, event.TypeRejected), "nobody has said anything that was not heard")
	for _, id := range []string{r.hooksOf(thread, eventID), r.workflowID(thread, eventID)} {
		r.endsAs(id, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED) // they report to the thread before they end
	}
}

// TestHookWorkflowWaits: a hook workflow waits for a person, whatever happens to the thread
// meanwhile.
//
//ci:replayed
func TestHookWorkflowWaits(t *testing.T) {
	t.Parallel()
	t.Run("S2-51 the worker of the thread is restarted", func(t *testing.T) {
		r := newReview(t, harness.Options{NoWorker: true}, nil)
		stop := r.StartWorker()
		id := r.Open()
		posted := r.Post(id, "hello")
		r.arrived(id, posted)
		stop()
		r.rule(id, posted, foreign.Ruling{Content: "hello there"})
		r.StartWorker()
		require.Equal(t, "hello there", r.Await(id, posted).Message.Content)
		r.requireDecidedOnce(t, id, posted)
	})
	t.Run("the thread moves, again and again", func(t *testing.T) {
		r := newReview(t, harness.Options{Dynamic: often}, nil)
		id := r.Open()
		posted := r.Post(id, "hello")
		r.arrived(id, posted)
		ticks := 0
		for range 4 {
			ticks += r.move(id)
		}
		r.requireMoved(t, id, posted, ticks)
	})
	t.Run("the thread moves at a thousand events", func(t *testing.T) {
		r := newReview(t, harness.Options{}, nil)
		id := r.Open()
		posted := r.Post(id, "hello")
		r.arrived(id, posted)
		first := run(r.Harness, id)
		ticks := r.move(id)
		require.GreaterOrEqual(t, len(historyOf(r.Harness, id, first)), 1000)
		r.requireMoved(t, id, posted, ticks)
	})
	t.Run("it decides while the thread moves", func(t *testing.T) {
		r := newReview(t, harness.Options{Dynamic: often}, nil)
		id := r.Open()
		begun := run(r.Harness, id)
		for i := range 5 {
			said := fmt.Sprintf("message %d", i)
			posted := r.Post(id, said)
			r.arrived(id, posted)
			decided := make(chan error, 1)
			ctx := r.Ctx()
			go func() {
				decided <- foreign.Rule(ctx, r.Temporal, r.workflowID(id, posted), foreign.Ruling{Content: said + "!"})
			}()
			for range i + 4 {
				_, err := r.Threads.PostSignal(ctx, id, signals.Post{Type: "tick", Payload: []byte(`{}`)})
				require.NoError(t, err)
			}
			require.NoError(t, <-decided)
			require.Equal(t, said+"!", r.Await(id, posted).Message.Content)
		}
		r.idle(id)
		require.NotEqual(t, begun, run(r.Harness, id))
		require.Len(t, ofType(r.Harness, id, event.TypeHook), 5)
		require.Empty(t, ofType(r.Harness, id, event.TypeRejected))
	})
}

// requireMoved decides on an event whose thread has continued as new, and checks the result.
func (r review) requireMoved(t *testing.T, id, posted string, ticks int) {
	t.Helper()
	state, err := r.Threads.State(r.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, signals.ThreadRunning, state.Status, "it waits still")
	require.Equal(t, posted, state.Turn.EventID)
	require.Zero(t, r.Provider.Calls())
	r.rule(id, posted, foreign.Ruling{Content: "hello there"})
	awaitMessages(r.Harness, id, 2)
	require.Equal(t, "hello there", r.Messages(id)[1].Content)
	r.requireDecidedOnce(t, id, posted)
	r.idle(id)
	came := 0
	for _, rec := range allRecords(r.Harness, id) {
		if rec.Type == "tick" {
			came++
		}
	}
	require.Equal(t, ticks, came, "what came meanwhile is not lost")
	require.Equal(t, 1, r.Provider.Calls())
}

// asksAgain waits until a thread that has continued as new has found the hook workflow again.
func (r review) asksAgain(thread string) {
	r.T.Helper()
	require.Eventually(r.T, func() bool {
		return slices.ContainsFunc(historyOf(r.Harness, thread, ""), func(e *history.HistoryEvent) bool {
			return e.GetEventType() == enumspb.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
		})
	}, waitLong, waitTick)
	awaitRest(r.Harness, thread)
}

// moved is whether the thread of a test has continued as new before.
var moved = map[string]bool{"": false, " after the thread has moved": true}

// TestHookWorkflowIsInterrupted interrupts a turn while a hook workflow waits.
//
//ci:replayed
func TestHookWorkflowIsInterrupted(t *testing.T) {
	t.Parallel()
	for when, moves := range moved {
		t.Run("interrupted"+when, func(t *testing.T) {
			r := newReview(t, harness.Options{Dynamic: often}, nil)
			id := r.Open()
			posted := r.Post(id, "hello")
			r.arrived(id, posted)
			if moves {
				r.move(id)
			}
			require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "never mind"}))
			out := r.Await(id, posted)
			require.Equal(t, signals.TurnInterrupted, out.Status)
			require.Equal(t, "never mind", out.Error)
			for _, workflowID := range []string{r.workflowID(id, posted), r.hooksOf(id, posted)} {
				r.endsAs(workflowID, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
			}
			require.Equal(t, "again", r.says(id, "again", foreign.Ruling{}).Message.Content, "the thread goes on")
			require.Equal(t, 1, r.Provider.Calls(), "the model was asked about this one only")
		})
	}
}

// TestHookWorkflowIsTerminated terminates hook workflows like an operator.
//
//ci:replayed
func TestHookWorkflowIsTerminated(t *testing.T) {
	t.Parallel()
	for when, moves := range moved {
		for _, what := range []string{"the hook workflow", "the hook's own workflow"} {
			t.Run("S0-23 "+what+" is terminated"+when, func(t *testing.T) {
				r := newReview(t, harness.Options{}, nil)
				id := r.Open()
				posted := r.Post(id, "hello")
				r.arrived(id, posted)
				if moves {
					r.move(id)
					r.asksAgain(id)
				}
				if what == "the hook workflow" {
					r.terminate(r.hooksOf(id, posted))
				} else {
					r.terminate(r.workflowID(id, posted))
				}
				made := r.failureOn(id, posted)
				require.Equal(t, event.OutcomeFailed, only(t, made.Hooks).Outcome)
				require.Contains(t, made.Hooks[0].Error, "terminated")
				queue, err := r.Threads.Queue(r.Ctx(), id)
				require.NoError(t, err)
				require.Equal(t, "hook review failed: "+made.Hooks[0].Error, only(t, queue.Failed).Error)
				require.Zero(t, r.Provider.Calls())

				require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlRetry, By: "ann"}))
				r.rule(id, posted+"~1", foreign.Ruling{})
				require.Equal(t, signals.TurnCompleted, r.Await(id, posted).Status, "the event can be retried")
			})
		}
	}
	t.Run("S0-23 a hook that fails open lets it pass", func(t *testing.T) {
		r := newReview(t, harness.Options{}, func(h *hook.Hook) { h.OnFailure = hook.FailOpen })
		id := r.Open()
		posted := r.Post(id, "hello")
		r.arrived(id, posted)
		r.terminate(r.hooksOf(id, posted))
		require.Equal(t, "hello", r.Await(id, posted).Message.Content)
		require.Equal(t, event.OutcomeFailed, only(t, r.decisionOn(id, posted).Hooks).Outcome)
	})
}
