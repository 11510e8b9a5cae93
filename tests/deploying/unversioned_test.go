package deploying

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestFromWithoutBuildsAndBack: running threads of workers without a build move to a build, and back.
func TestFromWithoutBuildsAndBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{})
	stopPlain := f.Start("", false)
	busy, idle := f.Open("assistant"), f.Open("assistant")
	first := map[string]string{busy: check.CurrentRun(f.Harness, busy), idle: check.CurrentRun(f.Harness, idle)}
	f.Say(busy, "hello")
	f.Say(idle, "hello")
	require.Empty(t, check.BuildOf(f.Harness, busy))

	f.Start("1", false)
	f.Switch("1")
	f.Moved(busy, "1")
	require.Equal(t, first[busy], check.CurrentRun(f.Harness, busy), "without a pin, the build replays the thread")
	require.Empty(t, check.BuildOf(f.Harness, idle))
	stopPlain()
	f.Moved(idle, "1")

	f.Start("", false)
	f.Switch("")
	f.Moved(busy, "")
	waker := &deployment.Waker{Deployment: f.deployment(), Build: "1"}
	require.Eventually(t, func() bool {
		_, err := waker.Wake(f.Ctx())
		return err == nil && check.BuildOf(f.Harness, idle) == ""
	}, testenv.Patience, testenv.Tick)
	for _, id := range []string{busy, idle} {
		f.Say(id, "still there?")
		require.Len(t, f.RequireSound(id, first[id]), 2, "a thread moves back by continuing as new")
	}
}
