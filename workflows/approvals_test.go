package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func isLocal(ctx context.Context) bool { return activity.GetInfo(ctx).IsLocalActivity }

func TestApprovalAfterDays(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"), plain("c2"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		require.Equal(t, signals.ThreadWaitingApproval, w.state().Status)
		require.Equal(t, "c1", w.approvals().Approvals[0].ToolCallID)
		require.Equal(t, []string{"c2"}, w.tools, "siblings do not wait")
	})
	w.at += 30 * 24 * time.Hour
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"c2", "c1"}, w.tools, "S4-77 no time limit; S4-94 one execution")
	require.Equal(t, "e1.0.2: done", w.messages()[len(w.messages())-1], "S4-78")
	require.Equal(t, "ann", stored[event.Approval](w.fakes, event.TypeApproval)[0].By, "S4-95")
	require.Empty(t, stored[event.Rejected](w.fakes, event.TypeRejected), "deciding the same twice is no mistake")
}

func TestDenial(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.decide("c1", event.DecisionDeny, "not today") })
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.run(workflows.Input{})
	require.Empty(t, w.tools, "S4-82 not run")
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: Tool execution was denied by the user. Reason: not today", "e1.0.2: done"}, w.messages())
	rejected := stored[event.Rejected](w.fakes, event.TypeRejected)
	require.Len(t, rejected, 1)
	require.Equal(t, "conflict", rejected[0].Problem)
}

func TestForeignDecisions(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		w.decide("c9", event.DecisionApprove, "")
		w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "eve", Agent: "another"})
		w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove})
	})
	w.then(func() { require.Len(t, w.approvals().Approvals, 1) })
	w.run(workflows.Input{})
	require.Empty(t, w.tools, "S4-91 S4-92 nothing runs")
	var problems []string
	for _, r := range stored[event.Rejected](w.fakes, event.TypeRejected) {
		require.Equal(t, signals.SignalDecide, r.Signal)
		problems = append(problems, r.Problem)
	}
	require.Equal(t, []string{"not_pending", "mismatch", "by: is required: the person who decides"}, problems)
}

func TestInterruptWhileApprovalWaits(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"), plain("c2"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.then(func() {
		require.Equal(t, signals.ThreadIdle, w.state().Status)
		w.decide("c1", event.DecisionApprove, "")
	})
	w.then(func() { w.post("e2", "go on") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"c2"}, w.tools[:1])
	require.Equal(t, "c1.result: Tool execution was interrupted before it began: the tool did not run.", w.messages()[3], "S4-71")
	require.Equal(t, "conflict", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem)
}

func TestCloseWhileApprovalWaits(t *testing.T) {
	w := newFixture(t)
	w.onWaiting = event.OnWaitingHold
	w.model = script(asks("c1"))
	w.then(func() { w.post("e1", "go"); w.post("e2", "waits") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: Tool execution was interrupted before it began: the tool did not run.", "e2: waits"}, w.messages(), "nothing that was said is lost")
	last := stored[event.StatusChange](w.fakes, event.TypeStatus)
	require.Equal(t, event.StatusChange{Status: event.StatusClosed, By: "ann", Detail: "test"}, last[len(last)-1])
}

func TestCancelledWorkflowCloses(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(w.CancelWorkflow)
	w.ExecuteWorkflow(signals.ThreadWorkflow, workflows.Input{})
	require.ErrorContains(t, w.GetWorkflowError(), "canceled")
	require.Equal(t, "closed", w.row.Status)
	require.Equal(t, "c1.result: Tool execution was interrupted before it began: the tool did not run.", w.messages()[2])
}
