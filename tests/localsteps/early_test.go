package localsteps

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// slowAnswer is a store that has what it was given, and holds its answer to a request for approval if there is a hold.
type slowAnswer struct {
	teststore.Store
	hold atomic.Pointer[chan struct{}]
}

func (s *slowAnswer) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	out, err := s.Store.Append(ctx, key, b)
	asks := slices.ContainsFunc(b.Records, func(r event.Record) bool { return r.Type == event.TypeApprovalRequest })
	if hold := s.hold.Load(); hold != nil && asks {
		select {
		case <-*hold:
		case <-ctx.Done():
		}
	}
	return out, err
}

// TestEarlyDecisionIsAnswered: a decision on a call that the thread does not know yet is answered as soon as the thread knows it, and not
// after the steps that follow.
func TestEarlyDecisionIsAnswered(t *testing.T) {
	t.Parallel()
	db, asked := &slowAnswer{}, check.NewSpy("asked", tool.NeedsApproval(""))
	w := harness.New(t, harness.Options{Tools: []tool.Tool{asked}, Configure: func(c *threadmill.Config) {
		db.Store, c.Store = teststore.Of(c.Store), db
	}})
	id := w.Open()
	pending := func() (q event.ApprovalRequest) {
		require.Eventually(t, func() bool {
			records := check.OfType(w, id, event.TypeApprovalRequest)
			if len(records) > 0 {
				q = harness.Payload[event.ApprovalRequest](w, records[len(records)-1])
			}
			return len(records) > len(check.OfType(w, id, event.TypeApproval))
		}, testenv.Patience, testenv.Tick)
		return q
	}
	check.Paced(w, id, func() {
		e := w.Post(id, "use asked {}\nthen\ndone")
		d := check.Approving(pending())
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, d))
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, e).Status)
	})
	before, updates := len(check.HistoryOf(w, id, "")), accepted(w, id)
	hold := make(chan struct{})
	db.hold.Store(&hold)
	// The first step after an update is an activity, during which the thread accepts the decision.
	_, err := w.Temporal.UpdateWorkflow(w.Ctx(), client.UpdateWorkflowOptions{
		WorkflowID: signals.WorkflowID(w.TaskQueue, id), UpdateName: signals.UpdatePost, Args: []any{check.Message(id, "e1", "use asked {}\nthen\ndone")},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	q, answered := pending(), make(chan error, 1)
	go func() {
		_, err := w.Threads.Decide(w.Ctx(), id, check.Approving(q))
		answered <- err
	}()
	require.Eventually(t, func() bool { return accepted(w, id) == updates+2 }, testenv.Patience, testenv.Tick, "the post and the decision")
	close(hold)
	require.NoError(t, <-answered)
	require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, "e1").Status)

	local, answer := false, false
	for _, e := range check.Settle(w, id)[before:] {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			require.False(t, local && answer, "a step held the task that answers the decision")
			local, answer = false, false
		case enumspb.EVENT_TYPE_MARKER_RECORDED:
			local = local || e.GetMarkerRecordedEventAttributes().GetMarkerName() == "LocalActivity" &&
				!strings.Contains(string(e.GetUserMetadata().GetSummary().GetData()), "store records")
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
			answer = true
		}
	}
}
