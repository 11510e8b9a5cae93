package threadclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// waitingThread is a thread as visibility lists it while it waits.
func waitingThread(t *testing.T, id, parent, title string, minutes int) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	info := execution("thread/acme/"+id, minutes, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	info.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{signals.MemoTitle: payload(t, title)}}
	if parent != "" {
		info.Memo.Fields[signals.MemoParent] = payload(t, parent)
	}
	info.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
		signals.AttributeStatus: payload(t, signals.StatusWaitingApproval),
	}}
	return info
}

// lists lets visibility answer with threads, and returns what it was asked.
func lists(m *mocks.Client, threads ...*workflowpb.WorkflowExecutionInfo) *workflowservice.ListWorkflowExecutionsRequest {
	query := &workflowservice.ListWorkflowExecutionsRequest{}
	m.On("ListWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		query.Query = args.Get(1).(*workflowservice.ListWorkflowExecutionsRequest).GetQuery()
	}).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: threads}, nil)
	return query
}

func (r waits) in(t *testing.T, m *mocks.Client, thread string) {
	t.Helper()
	answer := client.NewValue(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, signals.Approvals(r))}})
	m.On("QueryWorkflow", mock.Anything, "thread/acme/"+thread, "", signals.QueryApprovals).Return(answer, nil)
}

// waits is what a thread answers.
type waits signals.Approvals

// asks is a request that was made so many minutes after listStart.
func asks(call string, minutes int) event.ApprovalRequest {
	return event.ApprovalRequest{ToolCallID: call, ToolName: "sh", Arguments: "{}", Agent: "bot", RequestedAt: listStart.Add(time.Duration(minutes) * time.Minute)}
}

func runs(call string, minutes int) event.ClientCall {
	return event.ClientCall{ToolCallID: call, ToolName: "camera", Arguments: "{}", Agent: "bot", RequestedAt: listStart.Add(time.Duration(minutes) * time.Minute)}
}

// places tells where calls are listed.
func places(w Waiting) []string {
	var out []string
	for _, a := range w.Approvals {
		out = append(out, a.ThreadID+" "+a.Request.ToolCallID)
	}
	for _, c := range w.ClientCalls {
		out = append(out, c.ThreadID+" client "+c.Call.ToolCallID)
	}
	return out
}

func TestListApprovals(t *testing.T) {
	t.Run("S4-77 all that waits, the longest first", func(t *testing.T) {
		c, m := listClient(t)
		query := lists(m, waitingThread(t, "a", "", "Files", 9), waitingThread(t, "b", "", "", 1))
		waits{Approvals: []event.ApprovalRequest{asks("a2", 12), asks("a1", 10)}}.in(t, m, "a")
		waits{Approvals: []event.ApprovalRequest{asks("b1", 11)}, ClientCalls: []event.ClientCall{runs("b2", 11)}}.in(t, m, "b")
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{"a a1", "b b1", "a a2", "b client b2"}, places(got))
		require.Equal(t, WaitingApproval{ThreadID: "a", Title: "Files", Request: asks("a1", 10)}, got.Approvals[0])
		require.False(t, got.More)
		require.Empty(t, got.Unanswered)
		require.Equal(t, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus = "Running" AND ThreadmillStatus = "waiting_approval"`, query.Query)
	})
	t.Run("of an agent, of a tool, or of both", func(t *testing.T) {
		mine, other := asks("mine", 1), asks("other", 2)
		other.Agent = "clerk"
		for q, want := range map[ApprovalsQuery][]string{
			{}: {"a mine", "a other", "a client shot"}, {Agent: "bot"}: {"a mine", "a client shot"}, {Agent: "clerk"}: {"a other"}, {Tool: "sh"}: {"a mine", "a other"},
			{Tool: "camera"}: {"a client shot"}, {Agent: "clerk", Tool: "camera"}: nil, {Agent: "nobody"}: nil,
		} {
			c, m := listClient(t)
			lists(m, waitingThread(t, "a", "", "", 1))
			waits{Approvals: []event.ApprovalRequest{mine, other}, ClientCalls: []event.ClientCall{runs("shot", 3)}}.in(t, m, "a")
			got, err := c.ListApprovals(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, want, places(got), "%+v", q)
		}
	})
	t.Run("nothing is two lists", func(t *testing.T) {
		c, m := listClient(t)
		lists(m)
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, Waiting{Approvals: []WaitingApproval{}, ClientCalls: []WaitingCall{}, Inputs: []WaitingInput{}}, got)
	})
	t.Run("a sub-agent's call once, in the topmost thread", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a.s1.s1", "a.s1", "", 3), waitingThread(t, "a.s1", "a", "", 2), waitingThread(t, "a", "", "Root", 1),
			waitingThread(t, "lone.s1", "lone", "", 0))
		deep, mine := asks("deep", 20), asks("mine", 21)
		waits{Approvals: []event.ApprovalRequest{deep}, ClientCalls: []event.ClientCall{runs("shot", 5)}}.in(t, m, "a.s1.s1")
		waits{Approvals: []event.ApprovalRequest{mine, deep}}.in(t, m, "a.s1")
		waits{Approvals: []event.ApprovalRequest{deep, asks("own", 22)}}.in(t, m, "a")
		waits{Approvals: []event.ApprovalRequest{asks("far", 23)}}.in(t, m, "lone.s1")
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{
			"a deep",
			"a.s1 mine", // the root has not heard of it yet
			"a own",
			"lone.s1 far", // the thread above is not among them
			"a.s1.s1 client shot",
		}, places(got))
	})
	t.Run("calls of different threads are different ones, whatever their ids", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a", "", "", 2), waitingThread(t, "b", "", "", 1))
		waits{Approvals: []event.ApprovalRequest{asks("call_1", 1)}}.in(t, m, "a")
		waits{Approvals: []event.ApprovalRequest{asks("call_1", 2)}}.in(t, m, "b")
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{"a call_1", "b call_1"}, places(got))
	})
	t.Run("threads that are each other's parents end", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a", "b", "", 2), waitingThread(t, "b", "a", "", 1))
		waits{Approvals: []event.ApprovalRequest{asks("1", 1)}}.in(t, m, "a")
		waits{Approvals: []event.ApprovalRequest{asks("2", 2)}}.in(t, m, "b")
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{"a 1", "b 2"}, places(got))
	})
	t.Run("what does not answer is named", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a", "", "", 3), waitingThread(t, "slow", "", "", 2), waitingThread(t, "gone", "", "", 1))
		waits{Approvals: []event.ApprovalRequest{asks("a1", 1)}}.in(t, m, "a")
		m.On("QueryWorkflow", mock.Anything, "thread/acme/slow", "", signals.QueryApprovals).Return(nil, serviceerror.NewDeadlineExceeded("slow"))
		m.On("QueryWorkflow", mock.Anything, "thread/acme/gone", "", signals.QueryApprovals).Return(nil, serviceerror.NewNotFound("gone"))
		m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/gone", "").Return(nil, serviceerror.NewNotFound("gone"))
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.NoError(t, err)
		require.Equal(t, []string{"a a1"}, places(got))
		require.Equal(t, []string{"slow"}, got.Unanswered)
	})
	t.Run("nobody answers", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a", "", "", 2), waitingThread(t, "b", "", "", 1))
		m.On("QueryWorkflow", mock.Anything, mock.Anything, "", signals.QueryApprovals).Return(nil, context.DeadlineExceeded)
		_, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `thread "a"`)
	})
	t.Run("nobody knows the threads", func(t *testing.T) {
		c, m := listClient(t)
		broken := errors.New("broken")
		m.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, broken)
		_, err := c.ListApprovals(t.Context(), ApprovalsQuery{})
		require.ErrorIs(t, err, broken)
	})
	t.Run("the newest up to the limit, and whether there are more", func(t *testing.T) {
		c, m := listClient(t)
		lists(m, waitingThread(t, "a", "", "", 3), waitingThread(t, "b", "", "", 2), waitingThread(t, "c", "", "", 1))
		for _, id := range []string{"a", "b"} {
			waits{Approvals: []event.ApprovalRequest{asks(id, 1)}}.in(t, m, id)
		}
		got, err := c.ListApprovals(t.Context(), ApprovalsQuery{Limit: 2})
		require.NoError(t, err)
		require.Equal(t, []string{"a a", "b b"}, places(got))
		require.True(t, got.More)
	})
	for _, limit := range []int{-1, MaxApprovalsLimit + 1} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			c, _ := listClient(t)
			_, err := c.ListApprovals(t.Context(), ApprovalsQuery{Limit: limit})
			require.EqualError(t, err, fmt.Sprintf("listing approvals: limit is %d, must be 1 to 1000 threads", limit))
		})
	}
}

// crowd lets queries wait for each other, and notes how many come at once.
type crowd struct {
	*mocks.Client
	now, most atomic.Int64
	full      chan struct{}
	fill      sync.Once
}

func (c *crowd) QueryWorkflow(ctx context.Context, _, _, _ string, _ ...any) (converter.EncodedValue, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	if n == askers {
		c.fill.Do(func() { close(c.full) })
	}
	select {
	case <-c.full:
		return nil, serviceerror.NewUnavailable("enough")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestListApprovalsAsksSeveralAtOnce(t *testing.T) {
	_, m := listClient(t)
	c := &crowd{Client: m, full: make(chan struct{})}
	threads, err := New(Config{Temporal: c, Namespace: "acme"})
	require.NoError(t, err)
	found := make([]Summary, 5*askers)
	for i := range found {
		found[i].ThreadID = fmt.Sprint("t", i)
	}
	for _, a := range threads.askAll(t.Context(), found) {
		require.ErrorContains(t, a.err, "enough", a.Thread.ThreadID)
	}
	require.EqualValues(t, askers, c.most.Load())
}

func TestDecisionsAreUpdates(t *testing.T) {
	sent := func(m *mocks.Client, out signals.DecideResult) *client.UpdateWorkflowOptions {
		asked := &client.UpdateWorkflowOptions{}
		handle := &mocks.WorkflowUpdateHandle{}
		handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			*args.Get(1).(*signals.DecideResult) = out
		}).Return(nil)
		m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			*asked = args.Get(1).(client.UpdateWorkflowOptions)
		}).Return(handle, nil)
		return asked
	}
	t.Run("decide tells how many are missing", func(t *testing.T) {
		c, m := listClient(t)
		want := signals.DecideResult{Result: signals.DecideAccepted, Missing: 2}
		asked := sent(m, want)
		d := signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann"}
		got, err := c.Decide(t.Context(), "t1", d)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, signals.UpdateDecide, asked.UpdateName)
		require.Equal(t, []any{d}, asked.Args)
	})
	t.Run("revoke", func(t *testing.T) {
		c, m := listClient(t)
		asked := sent(m, signals.DecideResult{Result: signals.DecideAlreadyResolved})
		r := signals.Revoke{ToolCallID: "c1", By: "ann", Reason: "too wide"}
		got, err := c.Revoke(t.Context(), "t1", r)
		require.NoError(t, err)
		require.Equal(t, signals.DecideAlreadyResolved, got)
		require.Equal(t, signals.UpdateRevoke, asked.UpdateName)
		require.Equal(t, "thread/acme/t1", asked.WorkflowID)
		require.Equal(t, []any{r}, asked.Args)
		_, err = c.Revoke(t.Context(), "t1", signals.Revoke{ToolCallID: "c1"})
		require.ErrorIs(t, err, event.ErrInvalid)
		require.ErrorContains(t, err, "by: is required")
	})
	t.Run("tool result", func(t *testing.T) {
		c, m := listClient(t)
		asked := sent(m, signals.DecideResult{Result: signals.DecideAccepted})
		r := signals.ToolResult{ToolCallID: "c1", Output: "a photo", By: "phone"}
		got, err := c.ToolResult(t.Context(), "t1", r)
		require.NoError(t, err)
		require.Equal(t, signals.DecideAccepted, got)
		require.Equal(t, signals.UpdateToolResult, asked.UpdateName)
		require.Equal(t, []any{r}, asked.Args)
		r.Output = strings.Repeat("x", signals.MaxPayload+1)
		_, err = c.ToolResult(t.Context(), "t1", r)
		require.ErrorContains(t, err, "output: is 262145 bytes")
	})
}
