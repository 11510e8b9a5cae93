package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestContinueAsNew continues a thread as new several times, while a call waits for approval,
// messages wait in the queue, a caller waits for a turn, a viewer watches, and the worker restarts.
//
//ci:replayed
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	const queued = 30
	w := harness.New(t, harness.Options{NoWorker: true, Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 24}})
	stop := w.StartWorker()
	id := w.Open()
	view := check.Watch(t, w, id, "")
	first := check.CurrentRun(w, id)

	approved := w.Post(id, `use shell_cmd {"command":"echo once >> ran"}`)
	call := w.AwaitApproval(id, 1)[0]
	type end struct {
		out signals.TurnResult
		err error
	}
	waiting := make(chan end, 1)
	p := signals.UserMessage(id, "ann", "waited for")
	p.ID, p.OnWaiting = "waited", event.OnWaitingHold
	ctx := w.Ctx()
	go func() {
		out, err := w.Threads.Turn(ctx, id, p)
		waiting <- end{out, err}
	}()
	require.Eventually(t, func() bool {
		q, err := w.Threads.Queue(w.Ctx(), id)
		return err == nil && len(q.Items) == 1
	}, testenv.Patience, testenv.Tick)
	for i := range queued {
		p := check.Message(id, fmt.Sprintf("q%d", i), fmt.Sprintf("message %d", i))
		p.OnWaiting = event.OnWaitingHold
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
	}
	require.NotEqual(t, first, check.CurrentRun(w, id), "the thread has moved to a new run while it waits")

	t.Run("S4-77 the approval still waits", func(t *testing.T) {
		require.Equal(t, call.ToolCallID, w.AwaitApproval(id, 1)[0].ToolCallID)
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Equal(t, queued+1, state.QueueLength)
	})
	stop()
	w.StartWorker()

	outcome, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, check.Unrefused(err))
	require.Equal(t, signals.DecideAccepted, outcome.Result)
	require.Equal(t, signals.TurnCompleted, w.Await(id, fmt.Sprintf("q%d", queued-1)).Status)
	waited := <-waiting
	require.NoError(t, waited.err)
	require.Equal(t, signals.TurnCompleted, waited.out.Status)

	t.Run("decisions and posts are remembered", func(t *testing.T) {
		outcome, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideAlreadyResolved, outcome.Result)
		outcome, err = w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, By: "bob"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideConflict, outcome.Result)
		again, err := w.Threads.Post(w.Ctx(), id, check.Message(id, "q3", "message 3"))
		require.NoError(t, err)
		require.Equal(t, signals.PostDuplicate, again.Status)
	})
	t.Run("nothing is lost, doubled or reordered", func(t *testing.T) {
		messages := w.Messages(id)
		require.Len(t, messages, 4+2*(queued+1))
		require.Equal(t, approved, messages[0].ID)
		require.Equal(t, "waited for", messages[5].Content)
		for i := range queued {
			require.Equal(t, fmt.Sprintf("message %d", i), messages[6+2*i].Content)
			require.Equal(t, fmt.Sprintf("message %d", i), messages[7+2*i].Content)
		}
	})
	t.Run("viewers do not notice", func(t *testing.T) {
		seen := view.Until(t, func(e check.Frame) bool {
			return e.Event.Type == event.EventMessage && e.Event.Message.Content == fmt.Sprintf("message %d", queued-1) && e.Event.Message.Role == event.RoleAssistant
		})
		require.Equal(t, 2*(queued+1)+3, check.Count(seen, event.EventMessage))
		require.Zero(t, check.Count(seen, event.EventGap))
	})
	t.Run("it ran in many runs", func(t *testing.T) {
		// Visibility lags behind the state.
		require.Eventually(t, func() bool {
			it, err := w.Temporal.ListWorkflow(w.Ctx(), listRuns(w, id))
			continued := 0
			for _, e := range it.GetExecutions() {
				if e.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
					continued++
				}
			}
			return err == nil && continued > 2
		}, testenv.Patience, testenv.Tick)
	})
}
