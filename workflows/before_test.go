package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// beganBefore makes the world's thread one whose run began before approvals in full.
func (w *world) beganBefore() {
	w.OnGetVersion("hooks", workflow.DefaultVersion, thread.VersionApprovals).Return(workflow.Version(thread.VersionApprovals - 1))
}

// TestRunBefore: what an activity of a newer worker says changes nothing in a run that an older
// worker may have taken further, which passed it over.
func TestRunBefore(t *testing.T) {
	withTerms := asksWith("c1", thread.AskPlan{Approvers: []string{"eve"}, Quorum: 2, Expires: time.Hour, EndsTurn: true})
	denied := thread.PlannedCall{ID: "c1", Name: "note", Denied: "nothing is deleted", DeniedBy: "policy never-delete"}
	for _, tc := range []struct {
		name string
		plan thread.PlannedCall
		ask  *thread.PlannedCall
	}{
		{"S4-96 terms: whoever approves, whenever, does", withTerms, nil},
		{"S4-82 denied: the tool's run says so", denied, nil},
		{"a client's: the tool's run says so", atClient("c1"), nil},
		{"S4-96 asked again: the call has ended", asks("c1"), &withTerms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.beganBefore()
			w.model = script(tc.plan)
			var told int
			w.RegisterActivityWithOptions(func(ctx context.Context, in thread.ToolStep) (thread.ToolReply, error) {
				told = in.Version
				out, err := w.runTool(ctx, in)
				out.Ask = tc.ask
				return out, err
			}, activity.RegisterOptions{Name: signals.ActivityRunTool, DisableAlreadyRegisteredCheck: true})
			w.then(func() { w.post("m1", "go") })
			w.at = 3 * time.Hour
			if tc.plan.NeedsApproval {
				w.then(func() { w.decide("c1", event.Approve, "") })
			}
			w.run(workflows.Input{})
			require.Equal(t, []string{"c1"}, w.tools)
			require.Equal(t, thread.VersionApprovals-1, told, "what runs the tool knows that it must not ask")
			require.Contains(t, w.messages(), "m1.0.2: done")
			require.Empty(t, w.requestsOf(), "nobody is asked by the thread itself")
		})
	}
	t.Run("titles", func(t *testing.T) {
		w, _ := titled(t, func(context.Context, thread.TitleStep) (thread.TitleReply, error) {
			t.Error("no title is looked for")
			return thread.TitleReply{}, nil
		})
		w.beganBefore()
		w.then(func() { w.post("m1", "hello") })
		w.run(workflows.Input{})
	})
}
