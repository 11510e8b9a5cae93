package threadclient

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/searchattr"
	"github.com/threadmill/threadmill/signals"
)

// conn is how threads of one namespace are reached.
type conn struct {
	temporal  client.Client
	namespace string
	taskQueue string
}

func (c *conn) startOptions(threadID string, start signals.Start, policy enumspb.WorkflowIdReusePolicy) client.StartWorkflowOptions {
	opts := client.StartWorkflowOptions{
		ID:                       signals.WorkflowID(c.namespace, threadID),
		TaskQueue:                c.taskQueue,
		WorkflowIDReusePolicy:    policy,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		// The default answers an id that is taken with that workflow, silently.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            staticSummary(threadID, start.Title),
		Memo:                                     memo(start.Title, start.Agents),
		TypedSearchAttributes:                    temporal.NewSearchAttributes(searchattr.Open(c.namespace, start.Agents)...),
	}
	return opts
}

// signalOrOpen signals an event to a thread, which is started first if it does not exist.
func (c *conn) signalOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) error {
	opts := c.startOptions(threadID, start, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	opts.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED
	_, err := c.temporal.SignalWithStartWorkflow(ctx, opts.ID, signals.SignalPost, p, opts, signals.ThreadWorkflow, start)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		err = signals.ErrThreadClosed
	}
	return c.explain(ctx, signals.SignalPost, threadID, err)
}

func (c *conn) isOpen(ctx context.Context, threadID string) (bool, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(c.namespace, threadID), "")
	if err != nil {
		return false, err
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

func (c *conn) signal(ctx context.Context, threadID, name string, arg any) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	err := c.temporal.SignalWorkflow(ctx, signals.WorkflowID(c.namespace, threadID), "", name, arg)
	return c.explain(ctx, name, threadID, err)
}

func (c *conn) update(ctx context.Context, threadID, name string, arg, out any) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	h, err := retryUpdate(ctx, func() (client.WorkflowUpdateHandle, error) {
		return c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID:   signals.WorkflowID(c.namespace, threadID),
			UpdateName:   name,
			Args:         []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
	})
	if err == nil {
		err = h.Get(ctx, out)
	}
	return c.explain(ctx, name, threadID, c.reasoned(ctx, threadID, err))
}

func (c *conn) query(ctx context.Context, threadID, name string, out any) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	v, err := c.temporal.QueryWorkflow(ctx, signals.WorkflowID(c.namespace, threadID), "", name)
	if err == nil {
		err = v.Get(out)
	}
	return c.explain(ctx, name, threadID, err)
}

// explain turns Temporal's errors into this package's.
func (c *conn) explain(ctx context.Context, name, threadID string, err error) error {
	if err == nil {
		return nil
	}
	var notFound *serviceerror.NotFound
	var app *temporal.ApplicationError
	switch {
	case errors.As(err, &notFound):
		if open, derr := c.isOpen(ctx, threadID); derr == nil && !open {
			return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrThreadClosed)
		}
		return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrThreadNotFound)
	case errors.As(err, &app):
		if rejected := rejection(name, threadID, app.Type(), app.Message()); rejected != nil {
			return rejected
		}
	}
	return fmt.Errorf("%s to thread %q: %w", name, threadID, err)
}

// rejection is the error for the type of error with which a thread rejects an update, or nil.
func rejection(name, threadID, typ, message string) error {
	switch typ {
	case signals.RefusedType:
		return fmt.Errorf("%s to thread %q: %w: %s", name, threadID, signals.ErrRefused, message)
	case signals.ClosedType:
		return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrThreadClosed)
	case signals.BusyType:
		return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrBusy)
	case signals.FullType:
		return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrFull)
	case signals.ProcessedType:
		return fmt.Errorf("%s to thread %q: %w", name, threadID, signals.ErrProcessed)
	}
	return nil
}

// sendUpdate sends an update, with open to a thread that it opens if need be.
func (c *conn) sendUpdate(ctx context.Context, threadID string, opts client.UpdateWorkflowOptions, open *signals.Start, out any) error {
	h, err := c.startUpdate(ctx, threadID, opts, open)
	if err != nil {
		return err
	}
	return h.Get(ctx, out)
}

func (c *conn) startUpdate(ctx context.Context, threadID string, opts client.UpdateWorkflowOptions, open *signals.Start) (client.WorkflowUpdateHandle, error) {
	if open == nil {
		return retryUpdate(ctx, func() (client.WorkflowUpdateHandle, error) { return c.temporal.UpdateWorkflow(ctx, opts) })
	}
	start := c.startOptions(threadID, *open, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	start.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	h, err := retryUpdate(ctx, func() (client.WorkflowUpdateHandle, error) {
		return c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(start, signals.ThreadWorkflow, *open),
			UpdateOptions:          opts,
		})
	})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		return nil, signals.ErrThreadClosed
	}
	return h, err
}
