package threadclient

import (
	"encoding/json"
	"errors"
	"strings"
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
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

var (
	taskAttached = event.Task{ID: "t1~t1", Title: "build", State: event.TaskRunning, Tool: "build", Agent: "bot", ToolCallID: "c1", TraceID: "e1", StartedAt: listStart, Deadline: listStart.Add(time.Hour)}
	taskDetached = event.Task{ID: "t1~t2", State: event.TaskRunning, Tool: "crawl", Agent: "bot", ToolCallID: "c2", TraceID: "e1", StartedAt: listStart, Deadline: listStart.Add(time.Hour), Detached: true}
	taskOver     = event.Task{ID: "t1~t3", State: event.TaskFailed, Agent: "bot", ToolCallID: "c3", TraceID: "e1", StartedAt: listStart, Deadline: listStart.Add(time.Hour), Detached: true, Error: "no disk"}
	someTasks    = signals.Tasks{Tasks: []event.Task{taskAttached, taskDetached, taskOver}}
)

// taskClient is a client of a thread "t1" that answers query "tasks".
func taskClient(t *testing.T, tasks any) (*Client, *mocks.Client) {
	t.Helper()
	c, m := listClient(t)
	answer := client.NewValue(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, tasks)}})
	m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryTasks).Return(answer, nil).Maybe()
	return c, m
}

// forgotten lets Temporal know nothing of thread "t1".
func forgotten(m *mocks.Client) {
	m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryTasks).Return(nil, serviceerror.NewNotFound("gone")).Maybe()
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("gone")).Maybe()
	m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(nil, serviceerror.NewNotFound("gone"))
}

// closedThread lets thread "t1" be closed: it takes no updates.
func closedThread(m *mocks.Client) {
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("completed"))
	m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(described(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), nil)
}

func described(status enumspb.WorkflowExecutionStatus) *workflowservice.DescribeWorkflowExecutionResponse {
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status},
	}
}

// ends lets updates that end a task answer with result, or with err, and returns what was asked.
func ends(t *testing.T, m *mocks.Client, result signals.CompleteTaskResult, err error) *client.UpdateWorkflowOptions {
	t.Helper()
	asked := &client.UpdateWorkflowOptions{}
	handle := &mocks.WorkflowUpdateHandle{}
	handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*args.Get(1).(*signals.CompleteTaskResult) = result
	}).Return(err)
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
		*asked = args.Get(1).(client.UpdateWorkflowOptions)
	}).Return(handle, nil)
	return asked
}

func TestTasks(t *testing.T) {
	ctx := t.Context()
	t.Run("S3-54 all that the thread knows", func(t *testing.T) {
		c, _ := taskClient(t, someTasks)
		got, err := c.Tasks(ctx, "t1")
		require.NoError(t, err)
		require.Equal(t, someTasks, got)
	})
	t.Run("S3-54 one, whose id names its thread", func(t *testing.T) {
		c, _ := taskClient(t, someTasks)
		got, err := c.Task(ctx, "t1~t2")
		require.NoError(t, err)
		require.Equal(t, taskDetached, got)
	})
	t.Run("an unknown task is told from an unknown thread", func(t *testing.T) {
		c, _ := taskClient(t, someTasks)
		_, err := c.Task(ctx, "t1~t9")
		require.ErrorIs(t, err, signals.ErrTaskNotFound)
		var unknown *UnknownTaskError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, UnknownTaskError{ThreadID: "t1", TaskID: "t1~t9"}, *unknown)
		require.ErrorContains(t, err, `thread "t1" does not know task "t1~t9"`)
		require.ErrorContains(t, err, "in its records", "it says where to look")

		c, m := listClient(t)
		forgotten(m)
		_, err = c.Task(ctx, "t1~t9")
		require.ErrorIs(t, err, signals.ErrThreadNotFound)
		require.NotErrorAs(t, err, &unknown)
	})
	t.Run("none is a list", func(t *testing.T) {
		c, _ := taskClient(t, map[string]any{"tasks": nil})
		got, err := c.Tasks(ctx, "t1")
		require.NoError(t, err)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, `{"tasks":[]}`, string(raw))
	})
	t.Run("a wrong id is not asked for", func(t *testing.T) {
		c, _ := listClient(t)
		for _, id := range []string{"", "t1", "t1~t0", "t1~t01", "no/slash~t1", "t1~t1~t1"} {
			_, err := c.Task(ctx, id)
			var field *event.FieldError
			require.ErrorAs(t, err, &field, id)
			require.Equal(t, "taskId", field.Field)
		}
		_, err := c.Tasks(ctx, "no/slash")
		require.ErrorIs(t, err, event.ErrInvalid)
	})
}

// ending is one of the two ways in which a task is ended from outside.
type ending struct {
	update string
	in     func(taskID string) any
	end    func(c *Client, taskID string) (signals.CompleteTaskResult, error)

	// direct expects a word to the workflow of a task.
	direct func(m *mocks.Client, taskID string, err error)
	want   func(event.Task) event.Task
}

func endings(t *testing.T) map[string]ending {
	complete := func(taskID string) signals.CompleteTask {
		return signals.CompleteTask{TaskID: taskID, Result: json.RawMessage(`{"ok":true}`), By: "ci"}
	}
	fail := func(taskID string) signals.CompleteTask {
		return signals.CompleteTask{TaskID: taskID, Error: "no disk", By: "ci"}
	}
	cancel := func(taskID string) signals.CancelTask {
		return signals.CancelTask{TaskID: taskID, By: "ann", Reason: "too slow"}
	}
	signalled := func(in func(string) signals.CompleteTask) func(*mocks.Client, string, error) {
		return func(m *mocks.Client, taskID string, err error) {
			m.On("SignalWorkflow", mock.Anything, "task/acme/"+taskID, "", signals.SignalCompleteTask, in(taskID)).Return(err).Once()
		}
	}
	as := func(state event.TaskState, by, problem string) func(event.Task) event.Task {
		return func(task event.Task) event.Task {
			task.State, task.By, task.Error = state, by, problem
			return task
		}
	}
	ctx := t.Context()
	return map[string]ending{
		"completed": {
			update: signals.UpdateCompleteTask,
			in:     func(id string) any { return complete(id) },
			end: func(c *Client, id string) (signals.CompleteTaskResult, error) {
				return c.CompleteTask(ctx, complete(id))
			},
			direct: signalled(complete), want: as(event.TaskCompleted, "ci", ""),
		},
		"failed": {
			update: signals.UpdateCompleteTask,
			in:     func(id string) any { return fail(id) },
			end: func(c *Client, id string) (signals.CompleteTaskResult, error) {
				return c.CompleteTask(ctx, fail(id))
			},
			direct: signalled(fail), want: as(event.TaskFailed, "ci", "no disk"),
		},
		"cancelled": {
			update: signals.UpdateCancelTask,
			in:     func(id string) any { return cancel(id) },
			end: func(c *Client, id string) (signals.CompleteTaskResult, error) {
				return c.CancelTask(ctx, cancel(id))
			},
			direct: func(m *mocks.Client, id string, err error) {
				m.On("CancelWorkflow", mock.Anything, "task/acme/"+id, "").Return(err).Once()
				m.On("DescribeWorkflowExecution", mock.Anything, "task/acme/"+id, "").Return(described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), nil).Maybe()
			},
			want: as(event.TaskCancelled, "ann", "too slow"),
		},
	}
}

// TestEndTask ends tasks of a thread that is open. The mock refuses calls that it does not
// expect, so nothing goes to a task's own workflow in these.
func TestEndTask(t *testing.T) {
	for name, how := range endings(t) {
		for _, outcome := range []signals.TaskOutcome{signals.TaskAccepted, signals.TaskAlreadyEnded, signals.TaskConflict, signals.TaskNotFound} {
			t.Run("S3-54 "+name+": the thread answers "+string(outcome), func(t *testing.T) {
				c, m := listClient(t)
				want := signals.CompleteTaskResult{Result: outcome, Task: how.want(taskAttached)}
				asked := ends(t, m, want, nil)
				got, err := how.end(c, "t1~t1")
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, "thread/acme/t1", asked.WorkflowID)
				require.Equal(t, how.update, asked.UpdateName)
				require.Equal(t, []any{how.in("t1~t1")}, asked.Args)
				require.Equal(t, client.WorkflowUpdateStageCompleted, asked.WaitForStage)
			})
		}
		t.Run(name+": refused", func(t *testing.T) {
			c, m := listClient(t)
			ends(t, m, signals.CompleteTaskResult{}, temporal.NewNonRetryableApplicationError("result: no", signals.RefusedType, nil))
			_, err := how.end(c, "t1~t1")
			require.ErrorIs(t, err, signals.ErrRefused)
			require.ErrorContains(t, err, how.update+` to thread "t1"`)
		})
		t.Run(name+": a wrong id is not sent", func(t *testing.T) {
			c, _ := listClient(t)
			_, err := how.end(c, "t1")
			require.ErrorIs(t, err, event.ErrInvalid)
		})
	}
	c, _ := listClient(t)
	for field, in := range map[string]signals.CompleteTask{
		"result": {TaskID: "t1~t1", Result: json.RawMessage(`{`)},
		"error":  {TaskID: "t1~t1", Result: json.RawMessage(`1`), Error: "no"},
		"by":     {TaskID: "t1~t1", By: strings.Repeat("x", 201)},
	} {
		_, err := c.CompleteTask(t.Context(), in)
		var problem *event.FieldError
		require.ErrorAs(t, err, &problem)
		require.Equal(t, field, problem.Field)
	}
	_, err := c.CancelTask(t.Context(), signals.CancelTask{TaskID: "t1~t1"})
	require.ErrorContains(t, err, "by: is required")
}

func TestEndTaskOfClosedThread(t *testing.T) {
	for name, how := range endings(t) {
		t.Run("S3-54 "+name+": a detached task by its own workflow", func(t *testing.T) {
			c, m := taskClient(t, someTasks)
			closedThread(m)
			how.direct(m, "t1~t2", nil)
			got, err := how.end(c, "t1~t2")
			require.NoError(t, err)
			require.Equal(t, signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: how.want(taskDetached)}, got)
		})
		t.Run(name+": a detached task that Temporal has forgotten the thread of", func(t *testing.T) {
			c, m := listClient(t)
			forgotten(m)
			how.direct(m, "t1~t2", nil)
			got, err := how.end(c, "t1~t2")
			require.NoError(t, err)
			require.Equal(t, signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: how.want(event.Task{ID: "t1~t2"})}, got)
		})
		t.Run(name+": a detached task that has ended since", func(t *testing.T) {
			c, m := taskClient(t, someTasks)
			closedThread(m)
			how.direct(m, "t1~t2", serviceerror.NewNotFound("completed"))
			_, err := how.end(c, "t1~t2")
			require.ErrorIs(t, err, signals.ErrThreadClosed)
		})
		for id, why := range map[string]string{"t1~t1": "went with the thread", "t1~t3": "ended before"} {
			t.Run(name+": a task that "+why, func(t *testing.T) {
				c, m := taskClient(t, someTasks)
				closedThread(m)
				_, err := how.end(c, id)
				require.ErrorIs(t, err, signals.ErrThreadClosed)
			})
		}
		t.Run(name+": a task that the thread did not know", func(t *testing.T) {
			c, m := taskClient(t, someTasks)
			closedThread(m)
			got, err := how.end(c, "t1~t9")
			require.NoError(t, err)
			require.Equal(t, signals.CompleteTaskResult{Result: signals.TaskNotFound}, got)
		})
		t.Run(name+": a thread that is not there", func(t *testing.T) {
			c, m := listClient(t)
			forgotten(m)
			how.direct(m, "t1~t1", serviceerror.NewNotFound("no such workflow"))
			_, err := how.end(c, "t1~t1")
			require.ErrorIs(t, err, signals.ErrThreadNotFound)
		})
		t.Run(name+": Temporal fails", func(t *testing.T) {
			c, m := taskClient(t, someTasks)
			closedThread(m)
			how.direct(m, "t1~t2", serviceerror.NewUnavailable("down"))
			_, err := how.end(c, "t1~t2")
			var unavailable *serviceerror.Unavailable
			require.ErrorAs(t, err, &unavailable)
			require.ErrorContains(t, err, `task "t1~t2"`)
		})
		t.Run(name+": nobody answers what the task was", func(t *testing.T) {
			c, m := listClient(t)
			closedThread(m)
			away := errors.New("no worker")
			m.On("QueryWorkflow", mock.Anything, "thread/acme/t1", "", signals.QueryTasks).Return(nil, away)
			_, err := how.end(c, "t1~t2")
			require.ErrorIs(t, err, away)
		})
	}
}

// TestCancelTaskThatHasEnded has a server that takes the cancelling of a workflow that has
// ended for a success, as Temporal's does.
func TestCancelTaskThatHasEnded(t *testing.T) {
	cancel := signals.CancelTask{TaskID: "t1~t2", By: "ann"}
	for status, want := range map[enumspb.WorkflowExecutionStatus]error{
		enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:   nil,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:  nil,
		enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED: signals.ErrThreadClosed,
		enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:    signals.ErrThreadClosed,
	} {
		t.Run(status.String(), func(t *testing.T) {
			c, m := taskClient(t, someTasks)
			closedThread(m)
			m.On("CancelWorkflow", mock.Anything, "task/acme/t1~t2", "").Return(nil).Once()
			m.On("DescribeWorkflowExecution", mock.Anything, "task/acme/t1~t2", "").Return(described(status), nil).Once()
			got, err := c.CancelTask(t.Context(), cancel)
			require.ErrorIs(t, err, want)
			if want == nil {
				require.Equal(t, signals.TaskAccepted, got.Result)
			}
		})
	}
}
