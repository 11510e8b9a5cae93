package deploying

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestMove: threads run on the current build, and move to the next one by continuing as new: with the next post, or, idle
// or waiting for a person, when they are woken. No build replays what another one has begun.
func TestMove(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{})
	stopOne := f.Start("1", true)
	f.Switch("1")
	busy, idle, waiting := f.Open("assistant"), f.Open("assistant"), f.Open("assistant")
	first := map[string]string{}
	for _, id := range []string{busy, idle, waiting} {
		first[id] = check.CurrentRun(f.Harness, id)
		f.Say(id, "hello")
		require.Equal(t, "1", check.BuildOf(f.Harness, id))
	}
	f.Post(waiting, `use shell_cmd {"command":"true"}`)
	call := f.AwaitApproval(waiting, 1)[0]

	check.Settle(f.Harness, idle) // its last task may come after the reply

	f.Start("2", false)
	f.Switch("2")
	f.Moved(f.Open("assistant"), "2")
	f.Moved(busy, "2")
	require.Equal(t, "1", check.BuildOf(f.Harness, idle), "it was asked nothing")

	waker := &deployment.Waker{Deployment: f.deployment(), Build: "1"}
	require.Eventually(t, func() bool {
		_, err := waker.Wake(f.Ctx())
		return err == nil && check.BuildOf(f.Harness, idle) == "2" && check.BuildOf(f.Harness, waiting) == "2"
	}, testenv.Patience, testenv.Tick)
	require.Eventually(t, func() bool {
		status, err := f.deployment().Describe(f.Ctx())
		require.NoError(t, err)
		require.Equal(t, "2", status.Current)
		running, err := f.deployment().Running(f.Ctx(), "1")
		require.NoError(t, err)
		return status.Find("1").Status == deployment.Drained && running == deployment.Running{}
	}, testenv.Patience, testenv.Tick)
	stopOne()

	_, err := f.Threads.Decide(f.Ctx(), waiting, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, err)
	for _, id := range []string{busy, idle, waiting} {
		check.Settle(f.Harness, id)
		f.Say(id, "still there?")
		f.RequireSound(id, first[id])
	}
}
