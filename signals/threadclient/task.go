package threadclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/signals"
)

// UnknownTaskError means that a thread does not know a background task: it never existed, or it
// ended long ago. It wraps [signals.ErrTaskNotFound].
type UnknownTaskError struct {
	ThreadID string
	TaskID   string
}

func (e *UnknownTaskError) Error() string {
	return fmt.Sprintf("thread %q does not know task %.200q: of those that have ended it keeps the last few; "+
		"what has ended before is in its records", e.ThreadID, e.TaskID)
}

// Unwrap returns signals.ErrTaskNotFound.
func (e *UnknownTaskError) Unwrap() error { return signals.ErrTaskNotFound }

// Tasks returns the background tasks of a thread: the running ones, and the last ones that ended.
// For a closed thread, they are as they were when it was closed.
func (c *Client) Tasks(ctx context.Context, threadID string) (signals.Tasks, error) {
	out, err := query[signals.Tasks](ctx, c, threadID, signals.QueryTasks)
	if err == nil && out.Tasks == nil {
		out.Tasks = []event.Task{} // a list in JSON too
	}
	return out, err
}

// Task returns a background task. The error is an [*UnknownTaskError] if its thread does not know
// it.
func (c *Client) Task(ctx context.Context, taskID string) (event.Task, error) {
	threadID, _, err := signals.ParseTaskID(taskID)
	if err != nil {
		return event.Task{}, err
	}
	all, err := c.Tasks(ctx, threadID)
	if err != nil {
		return event.Task{}, err
	}
	if i := slices.IndexFunc(all.Tasks, func(t event.Task) bool { return t.ID == taskID }); i >= 0 {
		return all.Tasks[i], nil
	}
	return event.Task{}, &UnknownTaskError{ThreadID: threadID, TaskID: taskID}
}

// CompleteTask completes a background task with a result or an error, and returns the outcome. It
// is idempotent.
//
// A detached task continues when its thread is closed. It is then completed by signal, without an
// answer: the first completion is effective. If the task has ended too, the error wraps
// [signals.ErrThreadClosed].
func (c *Client) CompleteTask(ctx context.Context, in signals.CompleteTask) (signals.CompleteTaskResult, error) {
	if err := in.Validate(); err != nil {
		return signals.CompleteTaskResult{}, err
	}
	end := event.Task{ID: in.TaskID, State: event.TaskCompleted, By: in.By, Error: in.Error}
	if in.Error != "" {
		end.State = event.TaskFailed
	}
	return c.endTask(ctx, signals.UpdateCompleteTask, in, end, func(workflowID string) error {
		return c.temporal.SignalWorkflow(ctx, workflowID, "", signals.SignalCompleteTask, redaction.Payload(c.redact, in))
	})
}

// CancelTask cancels a background task, and returns the outcome. It is idempotent.
//
// A detached task of a closed thread is cancelled by Temporal, which does not store By and Reason.
// If the task has ended too, the error wraps [signals.ErrThreadClosed].
func (c *Client) CancelTask(ctx context.Context, in signals.CancelTask) (signals.CompleteTaskResult, error) {
	if err := in.Validate(); err != nil {
		return signals.CompleteTaskResult{}, err
	}
	end := event.Task{ID: in.TaskID, State: event.TaskCancelled, By: in.By, Error: in.Reason}
	return c.endTask(ctx, signals.UpdateCancelTask, in, end, func(workflowID string) error {
		return c.cancelWorkflow(ctx, workflowID)
	})
}

// cancelWorkflow cancels a workflow. Temporal does not report an error if the workflow has already
// ended.
func (c *conn) cancelWorkflow(ctx context.Context, id string) error {
	if err := c.temporal.CancelWorkflow(ctx, id, ""); err != nil {
		return err
	}
	d, err := c.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return err
	}
	switch status := d.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return nil
	default:
		return serviceerror.NewNotFound(fmt.Sprintf("workflow %s is %s", id, status))
	}
}

// endTask sends an update to the thread. If the thread is closed or unknown to Temporal, direct
// sends the request to the workflow of a detached task.
func (c *Client) endTask(ctx context.Context, update string, in any, end event.Task, direct func(workflowID string) error) (signals.CompleteTaskResult, error) {
	var out signals.CompleteTaskResult
	threadID, _, err := signals.ParseTaskID(end.ID)
	if err != nil {
		return out, err
	}
	gone := c.update(ctx, threadID, update, in, &out)
	if !errors.Is(gone, signals.ErrThreadClosed) && !errors.Is(gone, signals.ErrThreadNotFound) {
		return out, gone
	}
	task, err := c.Task(ctx, end.ID)
	switch {
	case is[*UnknownTaskError](err):
		return signals.CompleteTaskResult{Result: signals.TaskNotFound}, nil
	case errors.Is(err, signals.ErrThreadNotFound), errors.Is(err, signals.ErrThreadClosed):
		// The thread is forgotten, but the task may run.
		task = event.Task{ID: end.ID}
	case err != nil:
		return out, err
	case task.State.Ended() || !task.Detached:
		// The end of the thread ends the task. Its workflow might still accept a signal, without
		// effect.
		return out, gone
	}
	err = direct(signals.TaskWorkflowID(c.namespace, end.ID))
	switch {
	case is[*serviceerror.NotFound](err):
		return out, gone
	case err != nil:
		return out, fmt.Errorf("%s to task %q: %w", update, end.ID, err)
	}
	task.State, task.By, task.Error = end.State, end.By, end.Error
	return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: task}, nil
}
