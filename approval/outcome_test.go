package approval

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestHistoryCheck is row S4-83, and of S4-74 what is pure: a check runs and stores nothing.
func TestHistoryCheck(t *testing.T) {
	ask := Verdict{Effect: EffectAsk, Rule: "r", Reason: "Costs money.", Terms: Terms{Approvers: []string{"ann", "bob"}}}
	two := ask
	two.Terms.Quorum = 2
	others := ask
	others.Terms.Approvers = []string{"cleo"}
	once := approvalOf(t, "call_1", shellCall(), event.ScopeOnce)
	session := approvalOf(t, "call_0", shellCall(), event.ScopeSession)
	own := approvalOf(t, "call_1", shellCall(), event.ScopeSession)
	grant, ok := grantOf(session)
	require.True(t, ok)
	ownGrant, ok := grantOf(own)
	require.True(t, ok)
	revoked := func(id string) event.Approval { return event.Approval{ToolCallID: id, Decision: event.DecisionRevoked} }
	twice := shellCall(arguments(`{"command":"git status","command":"git status","timeout":30}`))
	needs, runs, covered := Outcome{NeedsApproval: true}, Outcome{CanExecute: true}, Outcome{CanExecute: true, Grant: &grant}

	for name, c := range map[string]struct {
		records []event.Record
		call    Call
		verdict Verdict
		want    Outcome
	}{
		"S4-74 no approval is found":              {nil, shellCall(), ask, needs},
		"S4-83 a rule allows":                     {nil, shellCall(), Verdict{Effect: EffectAllow}, runs},
		"a rule denies what was approved":         {records(session), shellCall(), Verdict{Effect: EffectDeny, Reason: "Never."}, Outcome{Denied: "Never."}},
		"a rule denies without a reason":          {nil, shellCall(), Verdict{Effect: EffectDeny}, Outcome{Denied: "no reason is given"}},
		"S4-88 an unknown effect":                 {nil, shellCall(), Verdict{Effect: "x"}, needs},
		"S4-88 arguments that cannot be compared": {records(session), twice, ask, needs},
		"S4-79 another call was approved once":    {records(once), shellCall(), ask, needs},
		"S4-80 a session grant covers it":         {append(records(session), result("call_0")), shellCall(), ask, covered},
		"S4-80 so does its own":                   {records(own), shellCall(), ask, Outcome{CanExecute: true, Grant: &ownGrant}},
		"S4-81 a grant for other arguments":       {records(approvalOf(t, "call_0", shellCall(arguments(`{}`)), event.ScopeSession)), shellCall(), ask, needs},
		"one person granted, two must approve":    {records(session), shellCall(), two, needs},
		"others must approve":                     {records(session), shellCall(), others, needs},
		"the grant was revoked":                   {records(session, revoked("call_0")), shellCall(), ask, needs},
		"the call's own approval was revoked":     {records(session, once, revoked("call_1")), shellCall(), ask, needs},
	} {
		t.Run(name, func(t *testing.T) {
			h := read(t, c.records)
			require.Equal(t, c.want, h.Check("call_1", c.call, c.verdict))
			require.Equal(t, read(t, c.records), h, "a check changes nothing")
		})
	}
}
