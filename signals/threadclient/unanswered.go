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

// UnansweredError means that a thread did not answer, with the reason as far as Temporal knows.
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

// UncertainError means that a post was sent and not answered: the thread may have the event. Post it again with the same EventID: a
// thread that has it ignores it.
type UncertainError struct {
	ThreadID, EventID string
	Err               error
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("%v; the thread may have event %q: post it again with this id, which adds nothing then", e.Err, e.EventID)
}

// Unwrap returns the error of the request.
func (e *UncertainError) Unwrap() error { return e.Err }

// uncertain returns the error of a post, which is an [*UncertainError] if it does not tell whether the thread has the event.
func uncertain(threadID, eventID string, err error) error {
	if err == nil || !unanswered(err) && !errors.Is(err, context.Canceled) && !is[*serviceerror.Canceled](err) {
		return err
	}
	return &UncertainError{threadID, eventID, err}
}

// unanswered reports whether err means that a request was not answered in time.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || is[*serviceerror.DeadlineExceeded](err) || is[*serviceerror.Unavailable](err) ||
		is[*serviceerror.FailedPrecondition](err) || is[*serviceerror.WorkflowNotReady](err)
}

const (
	// diagnoseWithin is the time limit for finding the reason.
	diagnoseWithin = time.Second

	// diagnosisAge is the time for which a reason is valid.
	diagnosisAge = time.Second

	// pollWithin is the maximum interval between polls of a running worker.
	pollWithin = 70 * time.Second
)

// withReason adds the reason to the error of an unanswered update.
func (c *conn) withReason(ctx context.Context, threadID string, err error) error {
	if err == nil || !unanswered(err) || errors.Is(ctx.Err(), context.Canceled) || is[*UnansweredError](err) {
		return err
	}
	return &UnansweredError{ThreadID: threadID, Reason: c.diagnose(threadID).reason, Err: err}
}

// diagnosis is the state of a thread that does not answer.
type diagnosis struct {
	at time.Time

	// reachable means that Temporal answers, and working that a worker has a workflow task of the
	// thread.
	reachable, working bool
	reason             string

	historyEvents, historyBytes int64
}

// diagnose determines why a thread does not answer, once for all callers that wait for it.
func (ln *lane) diagnose(c *conn, threadID string) diagnosis {
	ln.diagnosing.Lock()
	defer ln.diagnosing.Unlock()
	if time.Since(ln.diagnosis.at) > diagnosisAge {
		ln.diagnosis = c.diagnose(threadID)
	}
	return ln.diagnosis
}

func (c *conn) diagnose(threadID string) diagnosis {
	ctx, cancel := context.WithTimeout(context.Background(), diagnoseWithin)
	defer cancel()
	out := diagnosis{at: time.Now(), reason: "Temporal cannot be reached"}
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
