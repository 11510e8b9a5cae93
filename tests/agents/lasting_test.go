package agents

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// requireSaid checks that the one turn of a thread has completed with one sub-agent and its answer.
func requireSaid(t *testing.T, w *harness.Harness, id, want string) {
	t.Helper()
	awaitAnswer(w, id)
	check.Settle(w, id)
	result := check.ResultIn(t, w, id, "call-agent")
	require.Equal(t, want, result.Content)
	require.False(t, result.IsError)
	require.Empty(t, check.OfType(w, id, event.TypeRejected), "nothing was said that nobody heard")
	check.RequireSettled(t, w, id)
	awaitClosed(w, check.Sub(w, id, 1))
	check.RequireSettled(t, w, check.Sub(w, id, 1))
	require.Len(t, check.OfType(w, check.Sub(w, id, 1), event.TypeFinal), 1)
	require.Len(t, check.Subs(w, id), 1, "it was asked once")
}

// awaitAnswer waits until a thread has replied after one call. It does not query the thread, which
// remembers only the last turns.
func awaitAnswer(w *harness.Harness, thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool { return len(check.OfType(w, thread, event.TypeFinal)) == 1 }, testenv.Patience, testenv.Tick)
	check.AwaitMessages(w, thread, 4)
}

// TestThreadMovesBelowAndAbove continues parent and child threads as new while one works for the
// other.
//
//ci:replayed
func TestThreadMovesBelowAndAbove(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}, Dynamic: check.MovesOften})
	move := func(thread string) { check.Review{Harness: w}.Move(thread) }
	working := func(t *testing.T) (id, posted string) {
		t.Helper()
		id = w.Open()
		posted = w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		return id, posted
	}
	t.Run("the one above, while it waits for approval", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", check.Touches(id)))
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		move(id)
		move(id)
		require.Equal(t, call, w.AwaitApproval(id, 1)[0].ToolCallID, "it waits still")
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		awaitClosed(w, check.Sub(w, id, 1))
		awaitAnswer(w, id)
		require.Equal(t, "made\n", check.Made(w, id))
		require.Equal(t, event.DecisionApprove, awaitDecided(w, id, call).Decision)
		require.Len(t, check.OfType(w, id, event.TypeApprovalRequest), 1)
	})
	t.Run("the one above: what it asks for comes to the run that is there", func(t *testing.T) {
		id := w.Open()
		gate := w.Provider.Block(0)
		gate.Release()
		begins := w.Provider.Block(0)
		w.Post(id, check.Asks("helper", check.Touches(id)))
		check.Arrives(t, begins.Reached(), "the model call")
		move(id)
		begins.Release()
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
		awaitAnswer(w, id)
		require.Equal(t, "made\n", check.Made(w, id))
	})
	t.Run("the one above, and then it is interrupted", func(t *testing.T) {
		id, posted := working(t)
		move(id)
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann", EventID: posted}))
		check.AwaitMessages(w, id, 3)
		awaitClosed(w, check.Sub(w, id, 1))
		endsAs(w, check.Sub(w, id, 1), enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
		require.Equal(t, step.InterruptedText, check.ResultIn(t, w, id, "call-agent").Content)
	})
	t.Run("the one above, and its sub-agent is terminated", func(t *testing.T) {
		id, _ := working(t)
		move(id)
		check.Review{Harness: w}.Terminate(signals.WorkflowID(w.TaskQueue, check.Sub(w, id, 1)))
		move(id) // it checks immediately, not only after some time
		awaitAnswer(w, id)
		require.Equal(t, "Error: the sub-agent ended without an answer: it was terminated", check.ResultIn(t, w, id, "call-agent").Content)
	})
	t.Run("the one above, and its sub-agent is cancelled", func(t *testing.T) {
		id, _ := working(t)
		move(id)
		require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, check.Sub(w, id, 1)), ""))
		awaitAnswer(w, id)
		require.Equal(t, "Error: the sub-agent ended without an answer: it was cancelled", check.ResultIn(t, w, id, "call-agent").Content)
	})
	t.Run("each, again and again", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", check.Touches(id)))
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		for range 2 {
			move(id)
			move(check.Sub(w, id, 1))
		}
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Equal(t, []string{check.Sub(w, id, 1)}, check.Only(t, state.Turn.Runs).Threads)
		state, err = w.Threads.State(w.Ctx(), check.Sub(w, id, 1))
		require.NoError(t, err)
		require.Equal(t, id, state.Parent)
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		requireSaid(t, w, id, `shell_cmd returned: {"stdout":"","stderr":"","exitCode":0}`)
		require.Equal(t, "made\n", check.Made(w, id))
	})
	t.Run("the one above, while its sub-agent ends", func(t *testing.T) {
		for i := range 6 {
			id := w.Open()
			w.Post(id, check.Asks("helper", "use note {}"))
			for range 4 + 2*i {
				_, err := w.Threads.PostSignal(w.Ctx(), id, signals.Post{Type: "tick", Payload: []byte(`{}`)})
				require.NoError(t, err)
			}
			requireSaid(t, w, id, "note returned: noted: ")
		}
	})
}

// TestSubAgentOutlivesWorkers restarts the worker while a sub-agent works.
//
//ci:replayed
func TestSubAgentOutlivesWorkers(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait", tool.Idempotent(), tool.MaxAttempts(5))
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}, NoWorker: true})
	stop := w.StartWorker()
	t.Run("while it waits for approval", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, check.Asks("helper", check.Touches(id)))
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		stop()
		stop = w.StartWorker()
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, posted).Status)
		require.Equal(t, "made\n", check.Made(w, id))
	})
	t.Run("while its tool runs", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		stop()
		stop = w.StartWorker()
		check.Arrives(t, g.Reached, "the tool")
		g.Release()
		requireSaid(t, w, id, "wait returned: open")
	})
}

// TestSubAgentSurvivesKills kills the worker with SIGKILL while sub-agents are at different points:
// each call has one result, and nothing runs twice.
func TestSubAgentSurvivesKills(t *testing.T) {
	t.Parallel()
	k := killing.New(t, harness.Options{}, "team")
	k.Start()
	at := func(thread, content string, reached <-chan struct{}) {
		t.Helper()
		require.NoError(t, k.Threads.Open(k.Ctx(), thread, signals.Start{}, nil))
		k.PostMessage(thread, thread+"-1", content)
		if reached != nil {
			check.Arrives(t, reached, thread)
		}
	}
	use := func(tool, how string) string { return fmt.Sprintf(`use %s {"how":%q}`, tool, how) }
	at("tool", check.Asks("helper", "I act", use("act", "slowly")), k.Hold("act", "slowly"))
	at("asking", check.Asks("helper", use("risk", "boldly")), nil)
	call := k.AwaitApproval("asking", 1)[0].ToolCallID
	k.Provider.Block(0).Release()
	speaking := k.Provider.Block(3)
	defer speaking.Release()
	at("speaking", check.Asks("helper", "count 6"), speaking.Reached())
	k.Provider.Block(0).Release()
	k.Provider.Block(0).Release()
	k.Provider.Block(0).Release()
	heard := k.Provider.Block(0)
	defer heard.Release()
	at("heard", check.Asks("helper", use("act", "quickly")), heard.Reached())
	k.Kill()
	speaking.Release()
	heard.Release()
	k.Start()

	t.Run("while it speaks", func(t *testing.T) {
		requireSaid(t, k.Harness, "speaking", "1 2 3 4 5 6")
	})
	t.Run("while its tool runs: it is told that nobody knows what came of it", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, k.Ends("tool", "tool-1").Status)
		require.Equal(t, 1, k.Asked("act", "slowly"), "it is not run again")
		require.Contains(t, check.ResultIn(t, k.Harness, check.Sub(k.Harness, "tool", 1), "act").Content, "outcome is unknown")
		require.Contains(t, check.ResultIn(t, k.Harness, "tool", "call-agent").Content, "outcome is unknown")
	})
	t.Run("while it waits for approval", func(t *testing.T) {
		require.Equal(t, signals.DecideAccepted, check.Approve(t, k.Harness, "asking", call))
		requireSaid(t, k.Harness, "asking", "risk returned: acted: boldly")
		require.Equal(t, 1, k.Asked("act", "boldly"))
	})
	t.Run("after it has answered", func(t *testing.T) {
		requireSaid(t, k.Harness, "heard", "act returned: acted: quickly")
		require.Equal(t, 1, k.Asked("act", "quickly"))
	})
}
