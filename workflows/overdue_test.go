package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// TestDecidedWhileAnotherCallWaits: the decision and the result are stored immediately.
func TestDecidedWhileAnotherCallWaits(t *testing.T) {
	decided := func(d event.Decision) signals.Decide {
		return signals.Decide{ToolCallID: "c1", Decision: d, By: "ann"}
	}
	edited := decided(event.DecisionApprove)
	edited.Args = json.RawMessage(`{"command":"pwd"}`)
	bySignal := func(d signals.Decide) func(*fixture) {
		return func(w *fixture) { w.SignalWorkflow(signals.SignalDecide, d) }
	}
	byUpdate := func(d signals.Decide) func(*fixture) { return func(w *fixture) { w.update(signals.UpdateDecide, d) } }
	quorum := asksWith("c1", step.ApprovalPlan{Quorum: 2})
	for name, tc := range map[string]struct {
		call step.PlannedCall
		do   func(*fixture)
		want []string
		runs bool
	}{
		"denied by signal":        {asks("c1"), bySignal(decided(event.DecisionDeny)), []string{"c1.decision", "c1.result"}, false},
		"denied by update":        {asks("c1"), byUpdate(decided(event.DecisionDeny)), []string{"c1.decision", "c1.result"}, false},
		"approved by signal":      {asks("c1"), bySignal(decided(event.DecisionApprove)), []string{"c1.decision", "c1.result"}, true},
		"approved by update":      {asks("c1"), byUpdate(decided(event.DecisionApprove)), []string{"c1.decision", "c1.result"}, true},
		"edited by signal":        {asksWith("c1", step.ApprovalPlan{}), bySignal(edited), []string{"c1.decision", "c1.result"}, true},
		"edited by update":        {asksWith("c1", step.ApprovalPlan{}), byUpdate(edited), []string{"c1.decision", "c1.result"}, true},
		"one of several, signal":  {quorum, bySignal(decided(event.DecisionApprove)), []string{"c1.decision.vote.1"}, false},
		"one of several, update":  {quorum, byUpdate(decided(event.DecisionApprove)), []string{"c1.decision.vote.1"}, false},
		"it expires":              {asksWith("c1", step.ApprovalPlan{Expires: time.Minute + time.Second}), func(*fixture) {}, []string{"c1.decision", "c1.result"}, false},
		"people are reminded":     {asksWith("c1", step.ApprovalPlan{Remind: time.Minute + time.Second}), func(*fixture) {}, []string{"c1.reminder.1"}, false},
		"an approval is revoked":  {asks("c1"), func(w *fixture) { w.SignalWorkflow(signals.SignalRevoke, signals.Revoke{ToolCallID: "c0", By: "ann"}) }, nil, false},
		"a client answers":        {atClient("c1"), func(w *fixture) { w.toolResult(signals.ToolResult{ToolCallID: "c1", Output: "x", By: "editor"}) }, []string{"c1.client", "c1.result"}, false},
		"a signal is refused":     {asks("c1"), bySignal(signals.Decide{ToolCallID: "c9", Decision: event.DecisionDeny, By: "ann"}), nil, false},
		"the thread has a title":  {asks("c1"), func(w *fixture) { w.update(signals.UpdateThread, signals.ThreadChange{Title: "new", By: "ann"}) }, nil, false},
		"the policy denies it":    {step.PlannedCall{ID: "c1", Name: "shell_cmd", Denied: "no", DeniedBy: "policy"}, func(*fixture) {}, []string{"c1.decision", "c1.result"}, false},
		"a grant before it holds": {step.PlannedCall{ID: "c1", Name: "shell_cmd", Grant: &step.GrantedCall{ID: "c0", By: "ann"}}, func(*fixture) {}, []string{"c1.decision", "c1.result"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.checks(func(step.Check) step.CheckReply {
				return step.CheckReply{Guard: &step.Guard{Digest: "pwd"}}
			})
			w.model = script(tc.call, asks("c2"))
			w.then(func() { w.post("e1", "go") })
			w.then(func() { tc.do(w) })
			w.then(func() {
				for _, id := range tc.want {
					require.Contains(t, w.recordIDs(), id)
				}
				if tc.want == nil {
					require.NotEqual(t, "e1.0.1.calls", w.recordIDs()[len(w.recordIDs())-1], "it is stored")
				}
				require.Equal(t, tc.runs, len(w.tools) == 1, "an approved call runs while the other waits")
				require.Len(t, w.models, 1, "the agent goes on with all results")
				waiting := w.approvals().Approvals
				require.Equal(t, "c2", waiting[len(waiting)-1].ToolCallID)
				w.decide("c2", event.DecisionDeny, "")
				w.decide("c1", event.DecisionDeny, "")
			})
			w.then(func() { require.Len(t, w.models, 2, "once") })
			w.run(workflows.Input{})
		})
	}
}

// TestDecidedWhileAnotherCallRuns: even if the thread is about to continue as new, which it does
// once that call has ended.
func TestDecidedWhileAnotherCallRuns(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		t.Run(fmt.Sprintf("leaving %t", leaving), func(t *testing.T) {
			f := newFakes(t)
			w := fixtureWith(t, f)
			w.model = script(plain("long"), asks("c1"), asks("c2"), asks("c3"))
			w.tool = func(_ context.Context, in step.Tool) (step.ToolReply, error) {
				if in.ToolCallID == "long" {
					w.SetContinueAsNewSuggested(leaving)
					w.decide("c1", event.DecisionDeny, "")
					w.decide("c2", event.DecisionApprove, "")
					require.Eventually(t, func() bool {
						return slices.Contains(f.recordIDs(), "c1.result") && slices.Contains(f.recordIDs(), "c2.result")
					}, testenv.Patience, time.Millisecond)
				}
				return step.ToolReply{}, nil
			}
			w.then(func() { w.post("e1", "go") })
			in := workflows.Input{}
			if leaving {
				in = w.leave(in)
				w = fixtureWith(t, f)
			}
			w.then(func() { w.decide("c3", event.DecisionDeny, "") })
			w.run(in)
			require.Equal(t, []string{"long", "c2"}, f.tools)
			require.Equal(t, []string{"e1.0.1", "e1.0.2"}, f.modelled())
		})
	}
}

// TestStoredWhileAModelSpeaks: records of other events are stored during the model call.
func TestStoredWhileAModelSpeaks(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		w.SignalWorkflow(signals.SignalRevoke, signals.Revoke{ToolCallID: "c0", By: "ann"})
		require.Eventually(t, func() bool { return len(stored[event.Approval](w.fakes, event.TypeApproval)) == 1 }, testenv.Patience, time.Millisecond)
		return reply(in, "done"), nil
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
}

func (f *fakes) recordIDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ids(f.records)
}
