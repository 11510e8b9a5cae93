package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

// retainTries bounds the attempts to close a thread: the next pass tries again.
const retainTries = 3

const (
	// maxBatches is the number of batches after which retention continues as new.
	maxBatches = 20

	// erasedWithin is the time after which retention no longer waits for the erasure of a thread, which goes on.
	erasedWithin = 10 * time.Minute
)

// retain deletes what has become too old, in batches, one thread after the other. It waits between the passes, and ends when
// everything is to be kept.
func (w *Workflows) retain(ctx workflow.Context, in job.RetainStep) error {
	ctx = w.context(ctx)
	r := &retention{step: in, limits: workflow.GetSignalChannel(ctx, job.SignalRetain)}
	for range maxBatches {
		r.receive()
		if r.step.Limits.Off() {
			return nil
		}
		wait, err := r.batch(ctx)
		if err != nil {
			return err
		}
		if wait > 0 {
			// New limits apply at once.
			if _, err := awaitFor(ctx, wait, "the next pass", func() bool { return r.limits.Len() > 0 }); err != nil {
				return err
			}
		}
	}
	r.receive()
	return workflow.NewContinueAsNewError(ctx, job.RetainWorkflow, r.step)
}

// retention is a pass in its workflow.
type retention struct {
	step   job.RetainStep
	limits workflow.ReceiveChannel
}

// receive takes in new limits.
func (r *retention) receive() {
	for {
		var limits job.RetainLimits // a limit that is not set is missing in the signal
		if !r.limits.ReceiveAsync(&limits) {
			return
		}
		r.step.Limits = limits
	}
}

// batch handles the next batch. It returns the time to wait for the one after it.
func (r *retention) batch(ctx workflow.Context) (wait time.Duration, err error) {
	var found job.RetainFound
	err = workflow.ExecuteActivity(lowPriorityOptions(ctx, "find what is too old"), job.ActivityRetainFind, r.step).Get(ctx, &found)
	switch {
	case ctx.Err() != nil:
		return 0, err
	case err != nil:
		return unavailableFor, nil // the store has been unavailable for a while
	}
	pass := &r.step.Pass
	if pass.StartedAt.IsZero() {
		pass.StartedAt = workflow.Now(ctx).UTC()
	}
	// New limits apply to the next thread.
	for _, id := range found.Close {
		if r.receive(); r.step.Limits.IdleThreads > 0 {
			closeIdle(ctx, job.RetainClose{Namespace: r.step.Namespace, ThreadID: id, IdleThreads: r.step.Limits.IdleThreads}, pass)
		}
	}
	for _, id := range found.Erase {
		if r.receive(); r.step.Limits.ClosedThreads > 0 {
			eraseOld(ctx, job.RetainCheck{Namespace: r.step.Namespace, ThreadID: id, ClosedThreads: r.step.Limits.ClosedThreads}, pass)
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	pass.ToolLogs += found.ToolLogs
	if next := found.Next; next != nil {
		r.step.Phase, r.step.UpdatedAt, r.step.ThreadID = next.Phase, next.UpdatedAt, next.ThreadID
		return 0, nil
	}
	done := workflow.WithStartToCloseTimeout(lowPriorityOptions(ctx, "clean the files and store the receipt"), longestStep)
	if err := workflow.ExecuteActivity(done, job.ActivityRetainDone, r.step).Get(ctx, nil); ctx.Err() != nil {
		return 0, err
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("The last pass closed %d threads, erased %d, and deleted %d logs of tool calls. The next one is in %s.",
		pass.Closed, pass.Erased, pass.ToolLogs, r.step.Limits.Every))
	r.step = job.RetainStep{Namespace: r.step.Namespace, Limits: r.step.Limits}
	return max(r.step.Limits.Every, time.Minute), nil
}

// unavailableFor is the time after which a batch that could not be found is looked for again.
const unavailableFor = time.Minute

func closeIdle(ctx workflow.Context, in job.RetainClose, pass *signals.Retained) {
	switch closed, err := tried(ctx, "close "+in.ThreadID, job.ActivityRetainClose, in); {
	case err != nil:
		pass.Failed++
	case closed:
		pass.Closed++
	}
}

// tried runs a step for a thread a few times.
func tried(ctx workflow.Context, summary, name string, in any) (yes bool, err error) {
	ctx = lowPriorityOptions(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.RetryPolicy = &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: retainTries}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), name, in).Get(ctx, &yes)
	return yes, err
}

// eraseOld erases a closed thread by the workflow that erases threads.
func eraseOld(ctx workflow.Context, in job.RetainCheck, pass *signals.Retained) {
	switch due, err := tried(ctx, "look at "+in.ThreadID, job.ActivityRetainCheck, in); {
	case err != nil:
		pass.Failed++
		return
	case !due:
		return
	}
	own := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        job.EraseWorkflowID(in.Namespace, in.ThreadID),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief("erase thread " + in.ThreadID),
	})
	input := job.EraseInput{EraseStep: job.EraseStep{Namespace: in.Namespace, ThreadID: in.ThreadID, By: "retention", Part: true}}
	erased := workflow.ExecuteChildWorkflow(own, job.EraseWorkflow, input)
	// One thread that cannot be erased does not keep the others.
	if ready, err := awaitFor(ctx, erasedWithin, "a thread is erased", erased.IsReady); err != nil || !ready {
		pass.Failed++
		return
	}
	var receipt signals.Erasure
	switch err := erased.Get(ctx, &receipt); {
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		// Somebody else erases it.
	case err != nil:
		pass.Failed++
	default:
		pass.Erased++
		pass.Contents = pass.Contents.Add(receipt.Erased)
	}
}
