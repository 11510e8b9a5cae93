package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/internal/step"
)

// TestTermsOfBoth: a task and the call that it runs each have their terms of approval.
func TestTermsOfBoth(t *testing.T) {
	type terms = approval.Terms
	for _, tc := range []struct {
		name        string
		task, build terms

		// want are the terms of the request. Nil = the call is denied.
		want *terms
	}{
		{"of one only", terms{}, terms{Approvers: of("ann", "eve"), Quorum: 2}, &terms{Approvers: of("ann", "eve"), Quorum: 2}},
		{"those who may by both", terms{Approvers: of("ann", "bob")}, terms{Approvers: of("eve", "bob")}, &terms{Approvers: of("bob")}},
		{"as many as either asks for", terms{Quorum: 3}, terms{Quorum: 2}, &terms{Quorum: 3}},
		{"some, and enough of them", terms{Approvers: of("ann", "eve")}, terms{Quorum: 2}, &terms{Approvers: of("ann", "eve"), Quorum: 2}},
		{"nobody may by both", terms{Approvers: of("ann")}, terms{Approvers: of("eve")}, nil},
		{"too few may by both", terms{Approvers: of("ann", "eve"), Quorum: 2}, terms{Approvers: of("ann", "bob")}, nil},
		{"one may, where several have to", terms{Approvers: of("ann")}, terms{Quorum: 2}, nil},
		{"several have to, where one may", terms{Quorum: 2}, terms{Approvers: of("ann")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t, func(c *activities.Config) {
				withOwnTools(c)
				c.ApprovalRules = []approval.Rule{
					{Name: "tasks", Tools: of("task"), Effect: approval.EffectAsk, Terms: tc.task},
					{Name: "builds", Tools: of("build"), Effect: approval.EffectAsk, Terms: tc.build},
				}
			}, backgroundTool(returns("built")))
			w.asked(call("c1", "task", `{"tool":"build","arguments":{}}`))
			out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "e1.0.1"}, Only: of("c1")})
			require.NoError(t, err)
			planned := out.Calls[0]
			if tc.want == nil {
				require.False(t, planned.NeedsApproval, "nobody is asked in vain")
				require.Equal(t, "too few may approve both the task and what it runs", planned.Denied)
				return
			}
			require.Empty(t, planned.Denied)
			require.Equal(t, tc.want.Approvers, planned.Approval.Approvers)
			require.Equal(t, tc.want.Quorum, planned.Approval.Quorum)
		})
	}
}
