package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/signals"
)

// maxErased bounds the threads of one erasure: sub-agents of sub-agents, each with its thread.
const maxErased = 10_000

// erase erases a thread and the threads of its sub-agents. Each of them is stopped before it is read, so that it starts nothing
// that is not found. A step that fails is retried until it succeeds.
func (w *Workflows) erase(ctx workflow.Context, in signals.EraseStep) (signals.Erasure, error) {
	var out signals.Erasure
	if err := in.Validate(); err != nil {
		return out, temporal.NewNonRetryableApplicationError("erasing a thread: "+err.Error(), signals.RefusedType, err)
	}
	ctx = staleAfter(ctx, w.StaleAfter)
	finish := signals.EraseFinish{EraseStep: in, RequestedAt: workflow.Now(ctx).UTC()}
	waiting := []string{in.ThreadID}
	for known := 0; known < len(waiting) && known < maxErased; known++ {
		step := in
		step.ThreadID = waiting[known]
		var found signals.EraseFound
		if err := workflow.ExecuteActivity(activity(ctx, "find "+step.ThreadID), signals.ActivityEraseFind, step).Get(ctx, &found); err != nil {
			return out, err
		}
		for _, sub := range found.Threads {
			if !slices.Contains(waiting, sub) {
				waiting = append(waiting, sub)
			}
		}
		finish.Threads = append(finish.Threads, signals.EraseDelete{EraseStep: step, Found: found})
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d threads are stopped, %d are waiting", known+1, len(waiting)-known-1))
	}
	for i, step := range finish.Threads {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d of %d threads are deleted", i, len(finish.Threads)))
		if err := workflow.ExecuteActivity(activity(ctx, "delete "+step.ThreadID), signals.ActivityEraseDelete, step).Get(ctx, nil); err != nil {
			return out, err
		}
	}
	err := workflow.ExecuteActivity(activity(ctx, "look again"), signals.ActivityEraseFinish, finish).Get(ctx, &out)
	if err == nil {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d threads are erased", len(finish.Threads)))
	}
	return out, err
}

// lateTimeout limits one attempt to begin the erasure of a thread that was started again.
const lateTimeout = 30 * time.Second

// eraseLate ends a thread that the store refuses since it was erased: a client that does not ask the store has started it
// again. The erasure that it begins deletes this run too.
func (t *conversation) eraseLate(ctx workflow.Context) error {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	in := signals.EraseStep{Namespace: t.state.Namespace, ThreadID: t.state.ThreadID, Late: true}
	opts := workflow.ActivityOptions{StartToCloseTimeout: lateTimeout, RetryPolicy: retry, Summary: "the thread was erased"}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), signals.ActivityEraseLate, in).Get(ctx, nil); err != nil {
		return err
	}
	return temporal.NewNonRetryableApplicationError(signals.ErrThreadErased.Error(), signals.ErasedType, signals.ErrThreadErased)
}
