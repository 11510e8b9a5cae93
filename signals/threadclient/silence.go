package threadclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/signals"
)

// UnansweredError says that a thread did not answer, and why, as far as Temporal knows.
type UnansweredError struct {
	ThreadID string
	Reason   string
	Err      error
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("thread %q did not answer: %s: %v", e.ThreadID, e.Reason, e.Err)
}

// Unwrap returns the error of the request.
func (e *UnansweredError) Unwrap() error { return e.Err }

// unanswered reports whether a request found nobody to answer it in time.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || is[*serviceerror.DeadlineExceeded](err) || is[*serviceerror.Unavailable](err) ||
		is[*serviceerror.FailedPrecondition](err) || is[*serviceerror.WorkflowNotReady](err)
}

const (
	// askWhy bounds how long it takes to find a reason.
	askWhy = time.Second

	// lookAgain is for how long a reason holds.
	lookAgain = time.Second

	// pollWithin is how often a worker polls at least: one that polled longer ago has gone.
	pollWithin = 70 * time.Second
)

// reasoned adds to the error of an update that was not answered why that is.
func (c *conn) reasoned(ctx context.Context, threadID string, err error) error {
	if err == nil || !unanswered(err) || errors.Is(ctx.Err(), context.Canceled) || is[*UnansweredError](err) {
		return err
	}
	return &UnansweredError{ThreadID: threadID, Reason: c.look(threadID).reason, Err: err}
}

// condition is how a thread is found that does not answer.
type condition struct {
	at time.Time

	// reachable says that Temporal answers, working that a worker has a workflow task of the thread.
	reachable, working bool
	reason             string

	historyEvents, historyBytes int64
}

// look finds out how a thread is that does not answer, once for all who wait for it.
func (ln *lane) look(c *conn, threadID string) condition {
	ln.seeing.Lock()
	defer ln.seeing.Unlock()
	if time.Since(ln.seen.at) > lookAgain {
		ln.seen = c.look(threadID)
	}
	return ln.seen
}

func (c *conn) look(threadID string) condition {
	ctx, cancel := context.WithTimeout(context.Background(), askWhy)
	defer cancel()
	out := condition{at: time.Now(), reason: "Temporal cannot be reached"}
	d, err := c.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(c.namespace, threadID), "")
	queue := c.taskQueue
	switch {
	case is[*serviceerror.NotFound](err):
	case err != nil:
		return out
	default:
		queue = d.GetExecutionConfig().GetTaskQueue().GetName()
		out.historyEvents, out.historyBytes = d.GetWorkflowExecutionInfo().GetHistoryLength(), d.GetWorkflowExecutionInfo().GetHistorySizeBytes()
	}
	if d.GetPendingWorkflowTask().GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED {
		out.reachable, out.working = true, true
		out.reason = fmt.Sprintf("a worker of task queue %q has been busy with it, or has just stopped", queue)
		return out
	}
	q, err := c.temporal.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return out
	}
	out.reachable, out.reason = true, fmt.Sprintf("no worker is polling task queue %q", queue)
	for _, p := range q.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < pollWithin {
			out.reason = fmt.Sprintf("the workers of task queue %q are busy, or have just stopped", queue)
		}
	}
	return out
}
