package hooks

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// moved is whether the thread of a test has continued as new before.
var moved = map[string]bool{"": false, " after the thread has moved": true}

// TestHookWorkflowWaits: a hook workflow waits for a person, whatever happens to the thread
// meanwhile.
//
//ci:replayed only
func TestHookWorkflowWaits(t *testing.T) {
	t.Parallel()
	t.Run("S2-51 the worker of the thread is restarted", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{NoWorker: true}, nil)
		stop := r.StartWorker()
		id := r.Open()
		posted := r.Post(id, "hello")
		r.Arrived(id, posted)
		stop()
		r.Rule(id, posted, foreign.Ruling{Content: "hello there"})
		r.StartWorker()
		require.Equal(t, "hello there", r.Await(id, posted).Message.Content)
		r.RequireDecidedOnce(t, id, posted)
	})
	t.Run("the thread moves, again and again", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{Dynamic: check.MovesOften}, nil)
		id := r.Open()
		posted := r.Post(id, "hello")
		r.Arrived(id, posted)
		ticks := 0
		for range 4 {
			ticks += r.Move(id)
		}
		r.RequireMoved(t, id, posted, ticks)
	})
	t.Run("the thread moves at a thousand events", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, nil)
		id := r.Open()
		posted := r.Post(id, "hello")
		r.Arrived(id, posted)
		first := check.CurrentRun(r.Harness, id)
		ticks := r.Move(id)
		require.GreaterOrEqual(t, len(check.HistoryOf(r.Harness, id, first)), 1000)
		r.RequireMoved(t, id, posted, ticks)
	})
	t.Run("it decides while the thread moves", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{Dynamic: check.MovesOften}, nil)
		id := r.Open()
		begun := check.CurrentRun(r.Harness, id)
		for i := range 5 {
			said := fmt.Sprintf("message %d", i)
			posted := r.Post(id, said)
			r.Arrived(id, posted)
			decided := make(chan error, 1)
			ctx := r.Ctx()
			go func() {
				decided <- foreign.Rule(ctx, r.Temporal, r.WorkflowID(id, posted), foreign.Ruling{Content: said + "!"})
			}()
			for range i + 4 {
				_, err := r.Threads.PostSignal(ctx, id, signals.Post{Type: "tick", Payload: []byte(`{}`)})
				require.NoError(t, err)
			}
			require.NoError(t, <-decided)
			require.Equal(t, said+"!", r.Await(id, posted).Message.Content)
		}
		r.Idle(id)
		require.NotEqual(t, begun, check.CurrentRun(r.Harness, id))
		require.Len(t, check.OfType(r.Harness, id, event.TypeHook), 5)
		require.Empty(t, check.OfType(r.Harness, id, event.TypeRejected))
	})
}

// TestHookWorkflowIsInterrupted interrupts a turn while a hook workflow waits.
//
//ci:replayed
func TestHookWorkflowIsInterrupted(t *testing.T) {
	t.Parallel()
	for when, moves := range moved {
		t.Run("interrupted"+when, func(t *testing.T) {
			r := check.NewReview(t, harness.Options{Dynamic: check.MovesOften}, nil)
			id := r.Open()
			posted := r.Post(id, "hello")
			r.Arrived(id, posted)
			if moves {
				r.Move(id)
			}
			require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "never mind"}))
			out := r.Await(id, posted)
			require.Equal(t, signals.TurnInterrupted, out.Status)
			require.Equal(t, "never mind", out.Error)
			for _, workflowID := range []string{r.WorkflowID(id, posted), r.HooksOf(id, posted)} {
				r.EndsAs(workflowID, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
			}
			require.Equal(t, "again", r.Says(id, "again", foreign.Ruling{}).Message.Content, "the thread goes on")
			require.Equal(t, 1, r.Provider.Calls(), "the model was asked about this one only")
		})
	}
}

// TestHookWorkflowIsTerminated terminates hook workflows like an operator.
//
//ci:replayed only
func TestHookWorkflowIsTerminated(t *testing.T) {
	t.Parallel()
	for when, moves := range moved {
		for _, what := range []string{"the hook workflow", "the hook's own workflow"} {
			t.Run("S0-23 "+what+" is terminated"+when, func(t *testing.T) {
				r := check.NewReview(t, harness.Options{}, nil)
				id := r.Open()
				posted := r.Post(id, "hello")
				r.Arrived(id, posted)
				if moves {
					r.Move(id)
					r.AsksAgain(id)
				}
				if what == "the hook workflow" {
					r.Terminate(r.HooksOf(id, posted))
				} else {
					r.Terminate(r.WorkflowID(id, posted))
				}
				made := r.FailureOn(id, posted)
				require.Equal(t, event.OutcomeFailed, check.Only(t, made.Hooks).Outcome)
				require.Contains(t, made.Hooks[0].Error, "terminated")
				queue, err := r.Threads.Queue(r.Ctx(), id)
				require.NoError(t, err)
				require.Equal(t, "hook review failed: "+made.Hooks[0].Error, check.Only(t, queue.Failed).Error)
				require.Zero(t, r.Provider.Calls())

				require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlRetry, By: "ann"}))
				r.Rule(id, posted+"~1", foreign.Ruling{})
				require.Equal(t, signals.TurnCompleted, r.Await(id, posted).Status, "the event can be retried")
			})
		}
	}
	t.Run("S0-23 a hook that fails open lets it pass", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, func(h *hook.Hook) { h.OnFailure = hook.FailOpen })
		id := r.Open()
		posted := r.Post(id, "hello")
		r.Arrived(id, posted)
		r.Terminate(r.HooksOf(id, posted))
		require.Equal(t, "hello", r.Await(id, posted).Message.Content)
		require.Equal(t, event.OutcomeFailed, check.Only(t, r.DecisionOn(id, posted).Hooks).Outcome)
	})
}
