package threadclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
)

// conn connects to the threads of one namespace.
type conn struct {
	temporal   client.Client
	namespace  string
	taskQueue  string
	stepQueues []string
	redact     *redact.Redactor
	erased     func(ctx context.Context, namespace, threadID string) (bool, error)
	known      func(ctx context.Context, namespace, threadID, recordID string) (bool, error)
	urgent     func(ctx context.Context, namespace, threadID string)

	answerWithin time.Duration
}

// hurry has the running steps of a thread let its workflow task go, if they hold it and the thread must not
// wait for them to handle what was sent.
func (c *conn) hurry(ctx context.Context, threadID string, sent any) {
	if p, ok := sent.(signals.Post); ok && !urgent(p) {
		return
	}
	if c.urgent != nil {
		c.urgent(ctx, c.namespace, threadID)
	}
}

// urgent reports whether a post may change the turn in progress.
func urgent(p signals.Post) bool { return p.OnBusy != "" && p.OnBusy != event.OnBusyEnqueue }

func (c *conn) startOptions(threadID string, start signals.Start, policy enumspb.WorkflowIdReusePolicy) client.StartWorkflowOptions {
	opts := client.StartWorkflowOptions{
		ID:                       signals.WorkflowID(c.namespace, threadID),
		TaskQueue:                c.taskQueue,
		WorkflowIDReusePolicy:    policy,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		// By default, Temporal returns the existing workflow without an error.
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            staticSummary(threadID, start.Title),
		Priority:                                 temporal.Priority{FairnessKey: job.FairnessKey(c.namespace)},
		Memo:                                     memo(start.Title, start.Agents),
		TypedSearchAttributes:                    temporal.NewSearchAttributes(searchattr.Open(c.namespace, start.Agents)...),
	}
	return opts
}

// signalOrOpen posts an event by signal to a thread, which it starts if it does not exist.
func (c *conn) signalOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) error {
	if err := c.refuseErased(ctx, threadID); err != nil {
		return err
	}
	start, p = redaction.Payload(c.redact, start), redaction.Payload(c.redact, p)
	opts := c.startOptions(threadID, start, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	opts.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_UNSPECIFIED
	_, err := c.temporal.SignalWithStartWorkflow(ctx, opts.ID, signals.SignalPost, p, opts, signals.ThreadWorkflow, start)
	if is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
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
	err := c.temporal.SignalWorkflow(ctx, signals.WorkflowID(c.namespace, threadID), "", name, redaction.Payload(c.redact, arg))
	if err == nil {
		c.hurry(ctx, threadID, arg)
	}
	return c.explain(ctx, name, threadID, err)
}

func (c *conn) update(ctx context.Context, threadID, name string, arg, out any) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	c.hurry(ctx, threadID, arg)
	err := c.sendUpdate(ctx, threadID, c.updateOptions(threadID, name, arg), nil, out)
	return c.explain(ctx, name, threadID, c.withReason(ctx, threadID, err))
}

func (c *conn) updateOptions(threadID, name string, arg any) client.UpdateWorkflowOptions {
	return client.UpdateWorkflowOptions{
		WorkflowID: signals.WorkflowID(c.namespace, threadID), UpdateName: name, Args: []any{redaction.Payload(c.redact, arg)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}
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

// ask sends a valid update and returns its result.
func ask[T any](ctx context.Context, c *Client, threadID, name string, in interface{ Validate() error }) (out T, err error) {
	if err = in.Validate(); err == nil {
		err = c.update(ctx, threadID, name, in, &out)
	}
	return out, err
}

// query queries a thread.
func query[T any](ctx context.Context, c *Client, threadID, name string) (out T, err error) {
	err = c.query(ctx, threadID, name, &out)
	return out, err
}

// is reports whether an error of a type is in the chain of err.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// explain converts an error of Temporal to one of this package.
func (c *conn) explain(ctx context.Context, name, threadID string, err error) error {
	if err == nil {
		return nil
	}
	if is[*serviceerror.NotFound](err) {
		err = c.withReason(ctx, threadID, c.missing(ctx, threadID))
	} else if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		if rejected := rejection(name, threadID, app.Type(), app.Message()); rejected != nil {
			return rejected
		}
	}
	return fmt.Errorf("%s to thread %q: %w", name, threadID, err)
}

// missing returns why Temporal has no running workflow of a thread. It says that there is none, or that it was closed,
// only if Temporal says so: who is told this does not try again.
func (c *conn) missing(ctx context.Context, threadID string) error {
	erased, err := c.isErased(ctx, threadID)
	if err != nil {
		return err
	}
	if erased {
		return signals.ErrThreadErased
	}
	open, err := c.isOpen(ctx, threadID)
	switch {
	case is[*serviceerror.NotFound](err), err == nil && open: // it was opened after the request
		return signals.ErrThreadNotFound
	case err != nil:
		return err
	}
	return signals.ErrThreadClosed
}

// rejections maps the types of the application errors with which a thread rejects an update to
// errors.
var rejections = map[string]error{
	signals.ClosedType: signals.ErrThreadClosed, signals.BusyType: signals.ErrBusy, signals.ConflictType: signals.ErrConflict,
	signals.FullType: signals.ErrFull, signals.ProcessedType: signals.ErrProcessed, signals.EarlyType: signals.ErrEarly,
}

// rejection returns the error for the type of the application error with which a thread rejected an
// update, or nil.
func rejection(name, threadID, typ, message string) error {
	if typ == signals.RefusedType {
		return fmt.Errorf("%s to thread %q: %w: %s", name, threadID, signals.ErrRefused, message)
	}
	if err := rejections[typ]; err != nil {
		return fmt.Errorf("%s to thread %q: %w", name, threadID, err)
	}
	return nil
}

// sendUpdate sends an update. With open, it starts the thread if it does not exist.
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
	if err := c.refuseErased(ctx, threadID); err != nil {
		return nil, err
	}
	input := redaction.Payload(c.redact, *open)
	start := c.startOptions(threadID, input, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	start.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	h, err := retryUpdate(ctx, func() (client.WorkflowUpdateHandle, error) {
		return c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(start, signals.ThreadWorkflow, input),
			UpdateOptions:          opts,
		})
	})
	if is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return nil, signals.ErrThreadClosed
	}
	return h, err
}
