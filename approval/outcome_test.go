package approval

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestCheckTool is row S4-83, and of S4-74 what is pure: a call that needs approval and has
// none is not run, and what comes back says whom to ask. Nothing is run or stored.
func TestCheckTool(t *testing.T) {
	ask := Verdict{Effect: EffectAsk, Rule: "r", Reason: "Costs money.", Terms: Terms{Approvers: []string{"ann", "bob"}, Quorum: 2}}
	once := approvalOf(t, "call_1", shellCall(), event.ScopeOnce)
	session := approvalOf(t, "call_0", shellCall(), event.ScopeSession)
	with := func(a event.Approval, change func(*event.Approval)) event.Approval {
		change(&a)
		return a
	}
	request := func(change ...func(*event.ApprovalRequest)) Outcome {
		q := &event.ApprovalRequest{
			ToolCallID: "call_1", ToolName: "shell_cmd", Arguments: shellCall().Arguments, Agent: "assistant", WorkingDirectory: "/desk",
			Digest: once.Digest, Definition: "sha256:d1", Reason: "Costs money.", Approvers: []string{"ann", "bob"}, Quorum: 2,
		}
		for _, f := range change {
			f(q)
		}
		return Outcome{NeedsApproval: true, Request: q}
	}
	round2 := func(q *event.ApprovalRequest) { q.Round = 2 }
	runs := Outcome{CanExecute: true}
	single := ask
	single.Terms = Terms{Approvers: []string{"ann"}}
	grant, ok := grantOf(session)
	require.True(t, ok)
	covered := Outcome{CanExecute: true, Grant: &grant}
	revoked := func(id string) event.Approval { return event.Approval{ToolCallID: id, Decision: event.DecisionRevoked} }

	for name, c := range map[string]struct {
		records []event.Record
		call    Call
		verdict Verdict
		want    Outcome
	}{
		"S4-74 none found":                       {nil, shellCall(), ask, request()},
		"no policy asks":                         {nil, shellCall(), Verdict{}, runs},
		"a rule allows":                          {nil, shellCall(), Verdict{Effect: EffectAllow}, runs},
		"S4-88 an effect that is none asks":      {nil, shellCall(), Verdict{Effect: "x", Reason: "Costs money.", Terms: ask.Terms}, request()},
		"S4-83 approved once":                    {records(once), shellCall(), ask, runs},
		"S4-79 once is consumed":                 {append(records(once), result("call_1")), shellCall(), ask, request(round2)},
		"S4-79 another call's approval for once": {records(with(once, func(a *event.Approval) { a.ToolCallID = "call_0" })), shellCall(), ask, request()},
		"S4-80 a session covers it":              {append(records(session), result("call_0")), shellCall(), single, covered},
		"a session of one is not for two":        {append(records(session), result("call_0")), shellCall(), ask, request()},
		"nor for another approver": {
			append(records(session), result("call_0")), shellCall(),
			Verdict{Effect: EffectAsk, Rule: ask.Rule, Reason: ask.Reason, Terms: Terms{Approvers: []string{"cleo"}}},
			request(func(q *event.ApprovalRequest) { q.Approvers, q.Quorum, q.ExpiresAt = []string{"cleo"}, 0, nil }),
		},
		"S4-80 its own session":              {records(with(session, func(a *event.Approval) { a.ToolCallID = "call_1" })), shellCall(), ask, runs},
		"S4-81 a session of other arguments": {records(approvalOf(t, "call_0", shellCall(arguments(`{}`)), event.ScopeSession)), shellCall(), ask, request()},
		"a session that was revoked":         {records(session, revoked("call_0")), shellCall(), ask, request()},
		"a rule denies what was approved":    {records(session, once), shellCall(), Verdict{Effect: EffectDeny, Rule: "no", Reason: "Never."}, Outcome{Denied: "Never."}},
		"a rule denies without a reason":     {nil, shellCall(), Verdict{Effect: EffectDeny, Rule: "no"}, Outcome{Denied: `rule "no" denies it`}},
		"S4-82 a person has denied it":       {records(with(once, func(a *event.Approval) { a.Decision = event.DecisionDeny })), shellCall(), ask, Outcome{Denied: "ann has denied it"}},
		"S4-82 and a session does not help":  {records(session, with(once, func(a *event.Approval) { a.Decision, a.Reason = event.DecisionDeny, "No." })), shellCall(), ask, Outcome{Denied: "No."}},
		"S4-82 nor does a rule that allows":  {records(with(once, func(a *event.Approval) { a.Decision, a.Reason = event.DecisionDeny, "No." })), shellCall(), Verdict{Effect: EffectAllow}, Outcome{Denied: "No."}},
		"nobody has decided in time":         {records(with(once, func(a *event.Approval) { a.Decision = event.DecisionExpired })), shellCall(), ask, Outcome{Denied: "nobody has decided on it in time"}},

		"a word that is no decision": {records(with(once, func(a *event.Approval) { a.Decision = "yes" })), shellCall(), ask, Outcome{Denied: `what was decided on it, "yes", is no approval`}},

		"the approval was revoked":   {records(once, revoked("call_1")), shellCall(), ask, request(round2)},
		"and the next one as well":   {records(once, revoked("call_1"), with(once, func(a *event.Approval) { a.Round = 2 }), revoked("call_1")), shellCall(), ask, request(func(q *event.ApprovalRequest) { q.Round = 3 })},
		"the arguments were swapped": {records(with(once, func(a *event.Approval) { a.Digest = sha("other") })), shellCall(), ask, request(round2)},
		"the definition has changed": {records(with(once, func(a *event.Approval) { a.Definition = "sha256:d0" })), shellCall(), ask, request(round2)},
		"it was another agent's":     {records(with(once, func(a *event.Approval) { a.Agent = "intern" })), shellCall(), ask, request(round2)},
		"it was another tool's":      {records(with(once, func(a *event.Approval) { a.ToolName = "other" })), shellCall(), ask, request(round2)},
		"approved before digests":    {records(with(once, func(a *event.Approval) { a.Digest = "" })), shellCall(), ask, request(round2)},
		"what a grant covered, until it is revoked": {
			records(session, with(once, func(a *event.Approval) { a.Grant = "call_0" }), revoked("call_0")), shellCall(), ask, request(round2),
		},
		"one of two has approved": {
			records(with(once, func(a *event.Approval) { a.Missing, a.Reason = 1, "Fine." })), shellCall(), ask,
			request(func(q *event.ApprovalRequest) { q.Votes = []event.Vote{{By: "ann", At: then, Reason: "Fine."}} }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := read(t, c.records)
			require.Equal(t, c.want, h.CheckTool("call_1", c.call, c.verdict))
			require.Equal(t, read(t, c.records), h, "a check changes nothing")
		})
	}

	t.Run("S4-86 consumed in advance", func(t *testing.T) {
		h := read(t, records(once))
		require.Equal(t, runs, h.CheckTool("call_1", shellCall(), ask))
		require.Equal(t, request(round2), h.ConsumeOnce("call_1").CheckTool("call_1", shellCall(), ask))
	})
	t.Run("S4-88 arguments that cannot be compared ask, whatever was approved", func(t *testing.T) {
		twice := `{"command":"git status","command":"git status","timeout":30}`
		got := read(t, records(session, once)).CheckTool("call_1", shellCall(arguments(twice)), ask)
		require.True(t, got.NeedsApproval)
		require.False(t, got.CanExecute)
		require.Empty(t, got.Request.Digest)
		require.Contains(t, got.Request.Reason, "the call cannot be compared with what was approved before: arguments: ")
	})
	t.Run("edited arguments run, those of the call do not", func(t *testing.T) {
		edited := shellCall(arguments(`{"command":"git status","timeout":5}`))
		h := read(t, records(with(once, func(a *event.Approval) { a.Arguments, a.Digest = edited.Arguments, digestOf(t, edited) })))
		require.True(t, h.CheckTool("call_1", edited, ask).CanExecute)
		require.False(t, h.CheckTool("call_1", shellCall(), ask).CanExecute)
	})
}
