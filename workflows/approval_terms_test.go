package workflows_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// asksWith is a call that needs approval on these terms.
func asksWith(id string, terms step.ApprovalPlan) step.PlannedCall {
	p := asks(id)
	p.Approval = &terms
	p.Guard = &step.Guard{Digest: "digest", Definition: "definition", Arguments: step.ArgumentsDigest(p.Arguments)}
	return p
}

// requestsOf are the ids of the thread's own requests and reminders.
func (f *fakes) requestsOf() []string { return f.idsOf(event.TypeApprovalRequest) }

// checks sets the responses to checks of decisions, and returns their inputs.
func (w *fixture) checks(answer func(step.Check) step.CheckReply) *[]step.Check {
	asked := &[]step.Check{}
	var mu sync.Mutex // several may be checked at once
	w.RegisterActivityWithOptions(func(_ context.Context, in step.Check) (step.CheckReply, error) {
		mu.Lock()
		defer mu.Unlock()
		*asked = append(*asked, in)
		return answer(in), nil
	}, activity.RegisterOptions{Name: step.ActivityCheckDecision})
	return asked
}

// TestLateMember: somebody who has become a member of a group since people were asked may decide, by update and by signal.
func TestLateMember(t *testing.T) {
	w := newFixture(t)
	terms := step.ApprovalPlan{Approvers: []string{"ann"}, Groups: []string{"finance"}, Quorum: 3}
	w.model = script(asksWith("c1", terms))
	asked := w.checks(func(in step.Check) step.CheckReply {
		switch in.By {
		case "gus":
			return step.CheckReply{Field: "by", Problem: "could not be checked"}
		default:
			return step.CheckReply{Member: in.By != "mallory"}
		}
	})
	vote := func(by string) *answer {
		return w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: by})
	}
	var listed, unread, stranger, agent, late *answer
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		require.Equal(t, []string{"finance"}, w.approvals().Approvals[0].Groups)
		listed, unread, stranger, agent, late = vote("ann"), vote("gus"), vote("mallory"), vote("assistant"), vote("bob")
	})
	w.then(func() {
		for _, by := range []string{"mallory", "cleo"} {
			w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: by})
		}
	})
	w.run(workflows.Input{})
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted, Missing: 2}, listed.result)
	require.ErrorContains(t, unread.err, "by: could not be checked")
	require.Equal(t, signals.DecideResult{Result: signals.DecideNotAllowed}, stranger.result)
	require.Equal(t, signals.DecideResult{Result: signals.DecideNotAllowed}, agent.result, "an agent never may")
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted, Missing: 1}, late.result)
	require.Equal(t, []string{"c1"}, w.tools, "by the signal of the third")
	for _, input := range *asked {
		require.NotEqual(t, "ann", input.By, "no step is spent on whom the request names")
		require.True(t, input.Late)
	}
}

// TestRequestExpires: a durable timer of the thread denies the call, or ends the turn.
func TestRequestExpires(t *testing.T) {
	terms := step.ApprovalPlan{Expires: day}
	ends := step.ApprovalPlan{Expires: day, EndsTurn: true}
	for name, tc := range map[string]struct {
		calls  []step.PlannedCall
		status signals.TurnStatus
		last   string
	}{
		"the call is denied": {[]step.PlannedCall{asksWith("c1", terms)}, signals.TurnCompleted, "e1.0.2: done"},
		"the turn ends, whatever else waits": {
			[]step.PlannedCall{asksWith("c1", ends), asks("c2")},
			signals.TurnInterrupted,
			"c2.result: Tool execution was interrupted before it began: the tool did not run.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.model = script(tc.calls...)
			var turn *answer
			w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
			w.at = day
			w.then(func() { require.Len(t, w.approvals().Approvals, len(tc.calls), "not before its time") })
			w.then(func() {
				require.Empty(t, w.approvals().Approvals)
				require.Equal(t, tc.status, turn.result.(signals.TurnResult).Status)
				w.decide("c1", event.DecisionApprove, "")
			})
			w.run(workflows.Input{})
			require.Empty(t, w.tools)
			require.Contains(t, w.messages(), "c1.result: Nobody has decided on this call within 24h0m0s. It was not run.")
			require.Equal(t, tc.last, w.messages()[len(w.messages())-1])
			made := stored[event.Approval](w.fakes, event.TypeApproval)
			require.Len(t, made, 1)
			require.Equal(t, event.DecisionExpired, made[0].Decision)
			require.Equal(t, "conflict", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem, "too late")
		})
	}
}

// TestExpiryAfterTheThreadHasMoved: a request of one workflow run expires in the next.
func TestExpiryAfterTheThreadHasMoved(t *testing.T) {
	f := newFakes(t)
	f.model = script(asksWith("c1", step.ApprovalPlan{Expires: day, Remind: 23 * time.Hour}))
	w := fixtureWith(t, f)
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
	next := w.leave(workflows.Input{})
	expires := *next.State.Turns.Current.Runs[0].Calls[0].Requested.ExpiresAt

	w = fixtureWith(t, f)
	w.SetStartTime(expires.Add(-2 * time.Hour))
	w.at = time.Hour - 2*time.Minute
	w.then(func() { require.Empty(t, f.requestsOf()) })
	w.at = time.Hour
	w.then(func() { require.Equal(t, []string{"c1.reminder.1"}, f.requestsOf()) })
	w.at = 2 * time.Hour
	w.then(func() { require.Equal(t, signals.ThreadIdle, w.state().Status) })
	w.run(next)
	require.Empty(t, f.tools)
	require.WithinDuration(t, expires, stored[event.Approval](f, event.TypeApproval)[0].DecidedAt, time.Second)
}

// TestReminders: reminders are stored when they are due, until there is a decision.
func TestReminders(t *testing.T) {
	w := newFixture(t)
	w.model = script(asksWith("c1", step.ApprovalPlan{Remind: time.Hour}))
	w.then(func() { w.post("e1", "go") })
	w.at = 2*time.Hour + 30*time.Minute
	w.then(func() {
		require.Equal(t, []string{"c1.reminder.1", "c1.reminder.2"}, w.requestsOf(), "stored, while the thread waits")
		w.decide("c1", event.DecisionApprove, "")
	})
	w.at = day
	w.run(workflows.Input{})
	require.Equal(t, []string{"c1.reminder.1", "c1.reminder.2"}, w.requestsOf(), "nobody is reminded of what was decided")
	require.Equal(t, []string{"c1"}, w.tools)
}

// TestApprovalThatDoesNotHold: the step finds an invalid approval and people are asked again.
// Earlier votes do not count.
func TestApprovalThatDoesNotHold(t *testing.T) {
	w := newFixture(t)
	w.model = script(asksWith("c1", step.ApprovalPlan{}))
	tries := 0
	w.RegisterActivityWithOptions(func(ctx context.Context, in step.Tool) (step.ToolReply, error) {
		if tries++; tries == 1 {
			w.flush(in.Flush)
			again := asksWith("c1", step.ApprovalPlan{})
			again.Reason = "the tool has changed"
			return step.ToolReply{ToolCallID: in.ToolCallID, Approval: &again}, nil
		}
		require.Equal(t, "c1.decision.2", in.DecisionID)
		return w.runTool(ctx, in)
	}, activity.RegisterOptions{Name: step.ActivityRunTool, DisableAlreadyRegisteredCheck: true})
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.then(func() {
		asked := w.approvals().Approvals
		require.Len(t, asked, 1)
		require.Equal(t, 2, asked[0].Round)
		require.Equal(t, "the tool has changed", asked[0].Reason)
		require.Equal(t, []string{"c1.request.2"}, w.requestsOf(), "people see it at once")
		w.decide("c1", event.DecisionApprove, "")
	})
	w.then(func() {
		require.Len(t, w.approvals().Approvals, 1, "S4-94 the same decision once more")
		w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann", Round: 2})
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"c1"}, w.tools)
	require.Equal(t, "mismatch", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem)
	require.Equal(t, []string{"c1.decision", "c1.decision.2"}, w.idsOf(event.TypeApproval))
}

// TestGuardedTask: the approval of a background task is checked before it starts.
func TestGuardedTask(t *testing.T) {
	for name, holds := range map[string]bool{"it holds": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			p := asksWith("c1", step.ApprovalPlan{})
			p.By, p.Task = step.ByTask, &step.TaskPlan{Tool: "build", Deadline: time.Hour}
			w := newFixture(t)
			w.forward(step.SignalTaskReport)
			w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
				if in.EventID == "e1" {
					return script(p)(ctx, in)
				}
				return reply(in, "I see"), nil
			}
			w.plan = func(in step.Plan) (step.PlanReply, error) {
				require.True(t, w.has("c1.decision"), "the decision is stored before")
				again := p
				again.NeedsApproval = !holds
				return step.PlanReply{Agent: in.Agent, MaxSteps: 5, Calls: []step.PlannedCall{again}}, nil
			}
			w.then(func() { w.post("e1", "go") })
			w.then(func() { w.decide("c1", event.DecisionApprove, "") })
			w.then(func() {
				require.Equal(t, map[string]string{"c1": "c1.decision"}, w.planned[0].Decisions)
				require.Equal(t, holds, len(w.worked) == 1)
				require.Equal(t, holds, len(w.approvals().Approvals) == 0)
			})
			w.run(workflows.Input{})
			if holds {
				require.Equal(t, "c1.decision", w.worked[0].DecisionID)
			}
		})
	}
}

// TestCascade: pending calls that a new grant covers run after another check.
func TestCascade(t *testing.T) {
	w := newFixture(t)
	w.model = script(asksWith("c1", step.ApprovalPlan{}), asksWith("c2", step.ApprovalPlan{}), asksWith("c3", step.ApprovalPlan{}))
	w.plan = func(in step.Plan) (step.PlanReply, error) {
		require.True(t, w.has("c1.decision"), "the grant is stored before")
		covered := asksWith("c2", step.ApprovalPlan{})
		covered.NeedsApproval, covered.Grant = false, &step.GrantedCall{ID: "c1", Scope: event.ScopeSession, By: "ann"}
		return step.PlanReply{Agent: in.Agent, MaxSteps: 5, Calls: []step.PlannedCall{covered, asksWith("c3", step.ApprovalPlan{})}}, nil
	}
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann"})
	})
	w.then(func() {
		require.ElementsMatch(t, []string{"c1", "c2"}, w.tools)
		require.Len(t, w.approvals().Approvals, 1)
		w.decide("c3", event.DecisionDeny, "")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"c2", "c3"}, w.planned[0].Only)
	require.Equal(t, "e1.0.2: done", w.messages()[len(w.messages())-1])
}

// TestEditedArguments: they are validated before they take effect, by update and by signal.
func TestEditedArguments(t *testing.T) {
	edit := func(command string) signals.Decide {
		args, _ := json.Marshal(map[string]string{"command": command})
		return signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann", Args: args}
	}
	check := func(in step.Check) step.CheckReply {
		if in.Args == `{"command":"rm"}` {
			return step.CheckReply{Field: "args", Problem: "are denied by policy no-rm"}
		}
		return step.CheckReply{Guard: &step.Guard{Digest: "digest of " + in.Args}}
	}
	for name, send := range map[string]func(*fixture, signals.Decide) *answer{
		"by update": func(w *fixture, d signals.Decide) *answer { return w.update(signals.UpdateDecide, d) },
		"by signal": func(w *fixture, d signals.Decide) *answer { w.SignalWorkflow(signals.SignalDecide, d); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.model = script(asksWith("c1", step.ApprovalPlan{}))
			asked := w.checks(check)
			var refused, taken *answer
			w.then(func() { w.post("e1", "go") })
			w.then(func() { refused = send(w, edit("rm")) })
			w.then(func() {
				require.Len(t, w.approvals().Approvals, 1)
				taken = send(w, edit("ls -l"))
			})
			w.run(workflows.Input{})
			require.Equal(t, []string{"c1"}, w.tools)
			require.Len(t, *asked, 2)
			require.Equal(t, "e1.0.1", (*asked)[0].MessageID)
			made := stored[event.Approval](w.fakes, event.TypeApproval)
			require.Len(t, made, 1)
			require.JSONEq(t, `{"command":"ls -l"}`, made[0].Arguments)
			require.Equal(t, `digest of {"command":"ls -l"}`, made[0].Digest)
			if refused != nil {
				require.ErrorContains(t, refused.err, "args: are denied by policy no-rm")
				require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, taken.result)
				return
			}
			require.Equal(t, "args: are denied by policy no-rm", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem)
		})
	}
}

// TestVotes: each vote is stored immediately, and the last one lets the call run.
func TestVotes(t *testing.T) {
	w := newFixture(t)
	w.model = script(asksWith("c1", step.ApprovalPlan{Quorum: 2, Approvers: []string{"ann", "bea"}}))
	vote := func(by string) *answer {
		return w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: by})
	}
	var wide, first, again, other, last *answer
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		wide = w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann", Scope: event.ScopeSession})
		first, again, other = vote("ann"), vote("ann"), vote("eve")
	})
	w.then(func() {
		require.Empty(t, w.tools)
		require.Equal(t, []string{"c1.decision.vote.1"}, w.idsOf(event.TypeApproval), "stored, while the thread waits")
		last = vote("bea")
	})
	w.run(workflows.Input{})
	require.ErrorContains(t, wide.err, "scope: requires a call that one person decides on")
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted, Missing: 1}, first.result)
	require.Equal(t, signals.DecideResult{Result: signals.DecideAlreadyResolved, Missing: 1}, again.result)
	require.Equal(t, signals.DecideResult{Result: signals.DecideNotAllowed}, other.result)
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, last.result)
	require.Equal(t, []string{"c1"}, w.tools)
}
