package thread

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestPlansOfARunBefore: a run that began before approvals in full goes by no more of a plan
// than the worker did that may have heard it before.
func TestPlansOfARunBefore(t *testing.T) {
	guard := &Guard{Digest: "d", Definition: "x"}
	asks := PlannedCall{ID: "c1", Name: "shell_cmd", NeedsApproval: true, Arguments: `{"command":"ls"}`, Reason: "careful"}
	withTerms := asks
	withTerms.Guard, withTerms.Ask = guard, &AskPlan{Approvers: []string{"eve"}, Quorum: 2, Expires: time.Hour, Remind: time.Minute, Listed: true}
	task := PlannedCall{ID: "c1", Name: "build", By: ByTask, Task: &TaskPlan{Tool: "build"}}
	granted := task
	granted.Guard, granted.Grant = guard, &GrantedCall{ID: "c0", Scope: event.Session, By: "ann"}
	sub := PlannedCall{ID: "c1", Name: "call_agent", Unfit: true, Quick: true, By: ByAgent, TaskID: "t1", Sub: &SubPlan{Agent: "bob"}}
	for _, tc := range []struct {
		name       string
		plan, want PlannedCall
	}{
		{"terms", withTerms, asks},
		{"a grant", granted, task},
		{"S4-82 denied", PlannedCall{ID: "c1", Name: "note", Denied: "no", DeniedBy: "policy x"}, PlannedCall{ID: "c1", Name: "note"}},
		{"lapsed", PlannedCall{ID: "c1", Name: "note", Lapsed: true}, PlannedCall{ID: "c1", Name: "note"}},
		{"a client's", PlannedCall{ID: "c1", Name: "note", By: ByClient, ClientTime: time.Hour}, PlannedCall{ID: "c1", Name: "note"}},
		{"what was there before", sub, sub},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for version, want := range map[int]PlannedCall{VersionApprovals: tc.plan, VersionApprovals - 1: tc.want, -1: tc.want} {
				s := &State{Version: version}
				plans := []PlannedCall{tc.plan}
				require.Equal(t, []PlannedCall{want}, s.known(plans), version)
				require.Equal(t, tc.plan, plans[0], "what came is not changed")
			}
		})
	}
}
