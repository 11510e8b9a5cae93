package threadclient

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestDeliver(t *testing.T) {
	run := signals.ScheduledRun{Namespace: "other", ScheduleID: "daily", At: listStart}
	delivery := func(t *testing.T, change ...func(*signals.Schedule)) signals.Delivery {
		d, err := daily(change...).Delivery(run)
		require.NoError(t, err)
		return d
	}
	open := func(s *signals.Schedule) { s.Open, s.Agents, s.Title = true, []string{"bob"}, "Hours" }
	workflowID := signals.WorkflowID("other", "t1")
	// posts lets update "post" answer with err.
	posts := func(m *mocks.Client, err error) *client.UpdateWorkflowOptions {
		asked := &client.UpdateWorkflowOptions{}
		handle := &mocks.WorkflowUpdateHandle{}
		handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			*args.Get(1).(*signals.PostResult) = signals.PostResult{EventID: run.EventID(), Status: signals.PostQueued}
		}).Return(nil).Maybe()
		m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			*asked = args.Get(1).(client.UpdateWorkflowOptions)
		}).Return(handle, err).Once()
		return asked
	}
	gone := func(m *mocks.Client) {
		posts(m, serviceerror.NewNotFound("no such workflow"))
		m.On("DescribeWorkflowExecution", mock.Anything, workflowID, "").Return(nil, serviceerror.NewNotFound("no such workflow")).Once()
	}
	t.Run("to a thread of any namespace", func(t *testing.T) {
		c, m, _ := scheduleClient(t)
		asked := posts(m, nil)
		d := delivery(t)
		out, err := c.Deliver(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, signals.PostResult{EventID: run.EventID(), Status: signals.PostQueued}, out)
		require.Equal(t, workflowID, asked.WorkflowID)
		require.Equal(t, []any{d.Post}, asked.Args)
	})
	t.Run("again is a duplicate", func(t *testing.T) {
		c, m, _ := scheduleClient(t)
		posts(m, temporal.NewNonRetryableApplicationError("posted before", signals.DuplicateType, nil))
		out, err := c.Deliver(t.Context(), delivery(t))
		require.NoError(t, err)
		require.Equal(t, signals.PostResult{EventID: run.EventID(), Status: signals.PostDuplicate}, out)
	})
	t.Run("to no thread", func(t *testing.T) {
		c, m, _ := scheduleClient(t)
		gone(m)
		_, err := c.Deliver(t.Context(), delivery(t))
		require.ErrorIs(t, err, signals.ErrThreadNotFound)
	})
	t.Run("to a thread that it opens", func(t *testing.T) {
		c, m, _ := scheduleClient(t)
		gone(m)
		d := delivery(t, open)
		var posted signals.Post
		opens(t, m, workflowID, signals.Start{Agents: []string{"bob"}, Title: "Hours"}, &posted, nil)
		out, err := c.Deliver(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, signals.PostResult{EventID: run.EventID(), Status: signals.PostQueued}, out)
		require.Equal(t, d.Post, posted)
	})
	t.Run("to a closed thread, also with open", func(t *testing.T) {
		c, m, _ := scheduleClient(t)
		posts(m, serviceerror.NewNotFound("workflow execution already completed"))
		m.On("DescribeWorkflowExecution", mock.Anything, workflowID, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED},
		}, nil).Once()
		opens(t, m, workflowID, signals.Start{Agents: []string{"bob"}, Title: "Hours"}, &signals.Post{}, serviceerror.NewWorkflowExecutionAlreadyStarted("closed", "", ""))
		_, err := c.Deliver(t.Context(), delivery(t, open))
		require.ErrorIs(t, err, signals.ErrThreadClosed)
	})
	t.Run("in no namespace", func(t *testing.T) {
		c, _, _ := scheduleClient(t)
		d := delivery(t)
		d.Namespace = "a/b"
		_, err := c.Deliver(t.Context(), d)
		require.ErrorIs(t, err, event.ErrInvalid)
	})
}
