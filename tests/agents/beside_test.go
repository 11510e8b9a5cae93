package agents

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestPeopleSpeakToASubAgent posts to the thread of a sub-agent while it works.
func TestPeopleSpeakToASubAgent(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", "first", "use wait {}"))
	check.Arrives(t, g.Reached, "the tool")
	below := check.Sub(w, id, 1)
	steers := check.Message(below, "steers", "and this")
	steers.OnBusy = event.OnBusySteer
	for _, p := range []signals.Post{check.Message(below, "waits", "never answered"), steers} {
		_, err := w.Threads.Post(w.Ctx(), below, p)
		require.NoError(t, err)
	}
	g.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, "firstand this", check.ResultIn(t, w, id, "call-agent").Content, "what joins its turn counts")
	awaitClosed(w, below)
	require.Equal(t, []string{"assistant: " + "first\nuse wait {}", "helper: first", "wait: open", "ann: and this", "helper: and this", "ann: never answered"},
		check.SaidIn(w, below), "what waits for a turn of its own is kept, and has no answer: the thread is closed")
}

// TestSubAgentOutlivesItsThread terminates the parent thread: the sub-agent's answer is still
// stored there.
//
//ci:replayed
func TestSubAgentOutlivesItsThread(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	id := w.Open()
	w.Post(id, check.Asks("helper", "use wait {}", check.Touches(id)))
	check.Arrives(t, g.Reached, "the tool")
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	below := check.Sub(w, id, 1)
	check.Review{Harness: w}.Terminate(signals.WorkflowID(w.TaskQueue, id))
	g.Release()
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, below, call), "who asks is gone, who was asked is not")
	awaitClosed(w, below)
	endsAs(w, below, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "wait returned: open")
	check.RequireSettled(t, w, id)
	require.Equal(t, "made\n", check.Made(w, id))
}

// TestTasksOfASubAgent: background tasks of a sub-agent end with its thread, unless they are
// detached.
func TestTasksOfASubAgent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options []tool.Option
		want    event.TaskState
	}{
		"attached": {[]tool.Option{tool.Background()}, event.TaskCancelled},
		"detached": {[]tool.Option{tool.Background(), tool.Detached()}, event.TaskCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			g := check.NewGate("wait", tc.options...)
			w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
			id := w.Open()
			require.Equal(t, signals.TurnCompleted, w.Say(id, check.Asks("helper", "use wait {}")).Status)
			below := check.Sub(w, id, 1)
			awaitClosed(w, below)
			g.Release()
			require.Eventually(t, func() bool {
				tasks := check.OfType(w, below, event.TypeTask)
				return len(tasks) == 2 && harness.Payload[event.Task](w, tasks[1]).State == tc.want
			}, testenv.Patience, testenv.Tick)
		})
	}
}
