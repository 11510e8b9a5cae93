package workflows_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// chain is a world in which bob works for the thread, and carol for bob; carol calls x1.
func chain(t *testing.T) *fixture {
	t.Helper()
	carol := asked("c2")
	carol.SubAgent = &step.SubAgentPlan{Agent: "carol", Message: "do it"}
	return delegating(t, newFakes(t), func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.Thread.ThreadID == subThread {
			return script(carol)(ctx, in)
		}
		require.True(t, strings.HasPrefix(in.Thread.ThreadID, subThread+".s"))
		return script(asks("x1"))(ctx, in)
	}, asked("c1"))
}

// TestAgentsOfAChainDecideNothing: the top thread rejects an agent in the middle, and the call
// waits for a person.
func TestAgentsOfAChainDecideNothing(t *testing.T) {
	decide := func(by string) signals.Decide {
		return signals.Decide{ToolCallID: "x1", Decision: event.DecisionApprove, By: by}
	}
	alice := workflows.Input{Start: signals.Start{Agents: []string{"alice"}}}
	t.Run("S4-92 by update", func(t *testing.T) {
		w := chain(t)
		refused, accepted := []*answer{}, &answer{}
		w.then(func() { w.post("go", "go") })
		w.then(func() {
			for _, by := range []string{"alice", "bob", "carol"} {
				refused = append(refused, w.update(signals.UpdateDecide, decide(by)))
			}
			accepted = w.update(signals.UpdateDecide, decide("ann"))
		})
		w.run(alice)
		for _, a := range refused {
			require.Equal(t, signals.DecideResult{Result: signals.DecideNotAllowed}, a.result)
		}
		require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, accepted.result)
		require.Equal(t, []string{"x1"}, w.tools)
	})
	t.Run("S4-92 by signal", func(t *testing.T) {
		w := chain(t)
		w.then(func() { w.post("go", "go") })
		w.then(func() {
			w.SignalWorkflow(signals.SignalDecide, decide("bob"))
			w.SignalWorkflow(signals.SignalDecide, decide("ann"))
		})
		w.run(alice)
		require.Equal(t, []string{"x1"}, w.tools)
		rejected := stored[event.Rejected](w.fakes, event.TypeRejected)
		require.Len(t, rejected, 1)
		require.Equal(t, "not_allowed", rejected[0].Problem)
	})
	t.Run("one who has become an agent below since people were asked", func(t *testing.T) {
		w := chain(t)
		var lost, early, late *answer
		w.then(func() { w.post("go", "go") })
		w.then(func() {
			require.NoError(t, w.UpdateWorkflowByID(subWorkflowID, signals.UpdateThread, "add", &answer{}, signals.ThreadChange{AddAgents: []string{"dave"}}))
		})
		w.then(func() {
			lost = w.update(signals.UpdateDecide, decide("dave"))
			deny := decide("ann")
			deny.Decision = event.DecisionDeny
			w.RegisterDelayedCallback(func() { early = w.update(signals.UpdateDecide, deny) }, thread.ForwardTimeout-time.Second)
			w.RegisterDelayedCallback(func() {
				require.Len(t, w.approvals().Approvals, 1)
				late = w.update(signals.UpdateDecide, deny)
			}, thread.ForwardTimeout+12*time.Second)
		})
		w.run(alice)
		require.ErrorContains(t, lost.err, "look whether it still waits")
		require.ErrorContains(t, early.err, "look whether it still waits")
		require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, late.result)
		require.Empty(t, w.tools)
	})
}
