package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// versionBefore is that of runs which began before approvals in full.
const versionBefore = thread.VersionApprovals - 1

// policyOf lets the assistant use all tools by a policy.
func policyOf(p agent.Policy, terms approval.Terms) func(*activities.Config) {
	return func(c *activities.Config) {
		c.Agents = agent.Fixed{{
			Name: "assistant", Model: "fake/small", Tools: []string{"pay", "confirm"}, Approvals: map[string]agent.Policy{"*": p}, ApprovalTerms: terms,
		}}
	}
}

// decisionBefore is the record of a decision as runs from before make it: it does not say of
// what it is.
func decisionBefore(d event.Decision) event.Record {
	return decisionOn("c1", event.Approval{ToolName: "pay", Decision: d, By: "ann"})
}

func revoked(callID string) event.Record {
	return event.NewRecord(callID+".revoked", event.TypeApproval, "", callID, time.Now(), event.Approval{
		ToolCallID: callID, Decision: event.ApprovalRevoked, Scope: event.Once, By: "ann", DecidedAt: time.Now(),
	})
}

// TestToolOfARunBefore: such a run takes whatever comes back for the call's end, so the call
// has its result then.
func TestToolOfARunBefore(t *testing.T) {
	const needsApproval, denies, runsAtClient = "needs an approval that it does not have", "the policy denies this call", "a connected client runs confirm"
	approved, ask, never := decisionBefore(event.Approve), policyOf(agent.Always, approval.Terms{Quorum: 2}), policyOf(agent.Never, approval.Terms{})
	of := func(scope event.Scope) event.Record {
		return event.NewRecord("c0.decision", event.TypeApproval, "e1", "e1", time.Now(), event.Approval{
			ToolCallID: "c0", ToolName: "pay", Agent: "assistant", Decision: event.Approve, Scope: scope, By: "ann", DecidedAt: time.Now(),
			Digest: digestOf(t, "pay", "{}"), Definition: tool.Definition{Name: "pay"}.Digest(),
		})
	}
	for _, tc := range []struct {
		name   string
		policy func(*activities.Config)
		call   event.ToolCall
		stored []event.Record
		change func(*thread.ToolStep)

		// says is the result of a call that does not run.
		says string
	}{
		{name: "one that asks nobody", policy: never},
		{name: "S4-96 approved, which is handed over", policy: ask, change: func(in *thread.ToolStep) { in.Flush.Records = []event.Record{approved} }},
		{name: "S4-96 approved, which is stored", policy: ask, stored: []event.Record{approved}},
		{name: "S4-96 approved, as a new worker names it", policy: ask, stored: []event.Record{approved}, change: func(in *thread.ToolStep) { in.DecisionID = approved.ID }},
		{name: "S4-93 approved with what is another call", policy: ask, stored: []event.Record{
			decisionOn("c1", event.Approval{ToolName: "pay", Decision: event.Approve, By: "ann", Digest: digestOf(t, "pay", `{"to":"eve"}`)}),
		}, says: needsApproval},
		{name: "S4-96 nobody was asked", policy: ask, says: needsApproval},
		{name: "S4-81 another call was approved", policy: policyOf(agent.Always, approval.Terms{}), stored: []event.Record{of(event.Once)}, says: needsApproval},
		{name: "S4-80 another call was approved, for the session", policy: policyOf(agent.Always, approval.Terms{}), stored: []event.Record{of(event.Session)}},
		{name: "S4-82 denied by a person", policy: ask, stored: []event.Record{decisionBefore(event.Deny)}, says: needsApproval},
		{name: "the approval was taken back", policy: ask, stored: []event.Record{approved, revoked("c1")}, says: needsApproval},
		{name: "S4-82 denied by the policy of today", policy: policyOf(agent.Forbidden, approval.Terms{}), stored: []event.Record{approved}, says: denies},
		{name: "S4-82 planned as denied", policy: policyOf(agent.Forbidden, approval.Terms{}), change: func(in *thread.ToolStep) { in.Unfit = true }, says: denies},
		{name: "a client's", policy: never, call: call("c1", "confirm", "{}"), says: runsAtClient},
		{name: "planned as a client's", policy: never, call: call("c1", "confirm", "{}"), change: func(in *thread.ToolStep) { in.Unfit = true }, says: runsAtClient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pay := &raw{def: tool.Definition{Name: "pay"}, do: returns("paid")}
			w := newWorld(t, tc.policy, pay, tool.Client(tool.Definition{Name: "confirm", Description: "Asks in the browser."}))
			if tc.call.ID == "" {
				tc.call = call("c1", "pay", "{}")
			}
			in := w.asked(tc.call)
			in.Version = 0
			if tc.change != nil {
				tc.change(&in)
			}
			w.append(store.Batch{Records: tc.stored})
			v, err := w.env.ExecuteActivity(signals.ActivityRunTool, in)
			require.NoError(t, err)
			var out thread.ToolReply
			require.NoError(t, v.Get(&out))
			require.Nil(t, out.Ask)
			result := stored[event.Message](w, "c1.result")
			if tc.says == "" {
				require.Equal(t, "succeeded", out.Status)
				require.Equal(t, "paid", result.Content)
				return
			}
			require.Equal(t, "denied", out.Status)
			require.True(t, result.IsError)
			require.Contains(t, result.Content, tc.says)
			require.Zero(t, pay.runs.Load())
		})
	}
}

// TestPlanOfARunBefore: what such a run would pass over is said in its own terms.
func TestPlanOfARunBefore(t *testing.T) {
	unfit := thread.PlannedCall{Name: "pay", Unfit: true, Quick: true}
	for _, tc := range []struct {
		name   string
		policy agent.Policy
		tool   string
		want   thread.PlannedCall
	}{
		{"one that runs", agent.Never, "pay", thread.PlannedCall{Name: "pay"}},
		{"one that asks", agent.Always, "pay", thread.PlannedCall{Name: "pay", NeedsApproval: true, Arguments: "{}"}},
		{"S4-82 one that is denied", agent.Forbidden, "pay", unfit},
		{"a client's", agent.Never, "confirm", thread.PlannedCall{Name: "confirm", Unfit: true, Quick: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			terms := approval.Terms{Approvers: []string{"ann", "eve"}, Quorum: 2, Expires: time.Hour}
			w := newWorld(t, policyOf(tc.policy, terms), &raw{def: tool.Definition{Name: "pay"}, do: returns("paid")},
				tool.Client(tool.Definition{Name: "confirm", Description: "Asks in the browser."}))
			w.replies("", call("x", tc.tool, "{}"))
			in := modelStep()
			in.Version = versionBefore
			reply, err := w.callModel(in)
			require.NoError(t, err)
			tc.want.ID = reply.Calls[0].ID
			require.Equal(t, []thread.PlannedCall{tc.want}, reply.Calls)
			if tc.want.NeedsApproval {
				q := stored[event.ApprovalRequest](w, tc.want.ID+".request")
				require.Nil(t, q.ExpiresAt, "the run knows no such end")
				require.Empty(t, q.Approvers)
			}
			planned, err := w.planCalls(thread.PlanStep{
				Thread: ref, Agent: "assistant", MessageID: in.MessageID, Only: []string{tc.want.ID}, Version: versionBefore,
			})
			require.NoError(t, err)
			require.Equal(t, reply.Calls, planned.Calls)
		})
	}
}

// TestTaskOfARunBefore: its thread may store the approval after the task has begun.
func TestTaskOfARunBefore(t *testing.T) {
	asked := event.NewRecord("c1.request", event.TypeApprovalRequest, "e1", "e1", time.Now(), event.ApprovalRequest{ToolCallID: "c1"})
	for _, tc := range []struct {
		name   string
		policy agent.Policy
		stored []event.Record
		want   string
	}{
		{"S4-96 approved", agent.Always, []event.Record{asked, decisionBefore(event.Approve)}, ""},
		{"S4-96 asked about, and not stored yet", agent.Always, []event.Record{asked}, "not stored yet"},
		{"S4-96 nobody was asked", agent.Always, nil, "needs an approval that it does not have"},
		{"S4-82 denied", agent.Forbidden, []event.Record{asked, decisionBefore(event.Approve)}, "the policy denies this call"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pay := &raw{def: tool.Definition{Name: "pay", Background: true}, do: returns(`"paid"`)}
			w := newWorld(t, policyOf(tc.policy, approval.Terms{}), pay)
			in := w.taskStep(call("c1", "pay", "{}"), "pay")
			in.Version = versionBefore
			w.append(store.Batch{Records: tc.stored})
			out, err := w.runTask(in)
			if tc.want == "" {
				require.NoError(t, err)
				require.Equal(t, `"paid"`, string(out.Result))
				return
			}
			require.Zero(t, pay.runs.Load())
			if err != nil {
				app := appError(t, err)
				require.Equal(t, thread.ErrTypeRetry, app.Type())
				require.Contains(t, app.Message(), tc.want)
				require.False(t, app.NonRetryable())
				return
			}
			require.Contains(t, out.Error, tc.want)
		})
	}
}
