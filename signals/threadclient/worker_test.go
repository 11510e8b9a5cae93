package threadclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestStartIsChecked: a thread that cannot begin so is not started, where nobody would hear why
// it has closed.
func TestStartIsChecked(t *testing.T) {
	c, _ := listClient(t)
	start, hello := signals.Start{Title: "a\x1b[2J"}, signals.UserMessage("t1", "ann", "hello")
	require.ErrorIs(t, c.Open(t.Context(), "t1", start, nil), event.ErrInvalid)
	_, err := c.PostOrOpen(t.Context(), "t1", start, hello)
	require.ErrorIs(t, err, event.ErrInvalid)
	_, err = c.StartTurnOrOpen(t.Context(), "t1", signals.Start{TurnLimit: -1}, hello)
	require.ErrorIs(t, err, event.ErrInvalid)
}

func TestWorkers(t *testing.T) {
	c, m := listClient(t)
	m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		ExecutionConfig: &workflowpb.WorkflowExecutionConfig{TaskQueue: &taskqueuepb.TaskQueue{Name: "other"}},
	}, nil)
	m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t2", "").Return(nil, serviceerror.NewNotFound("no"))
	polled := func(queue string, ago time.Duration) {
		m.On("DescribeTaskQueue", mock.Anything, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW).Return(&workflowservice.DescribeTaskQueueResponse{
			Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(time.Now().Add(-ago))}},
		}, nil)
	}
	polled("other", time.Second)
	polled(c.taskQueue, time.Hour)
	for id, want := range map[string]Workers{"t1": {TaskQueue: "other", Polled: true}, "t2": {TaskQueue: c.taskQueue}, "": {TaskQueue: c.taskQueue}} {
		got, err := c.Workers(t.Context(), id)
		require.NoError(t, err)
		require.False(t, got.LastPoll.IsZero())
		got.LastPoll = time.Time{}
		require.Equal(t, want, got, "the queue of the thread, and only workers that still run")
	}
}
