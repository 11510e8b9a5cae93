package workflows

import (
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/signals"
)

// retainTries bounds the attempts to close a thread: the next pass tries again.
const retainTries = 3

// maxBatches is the number of batches after which retention continues as new.
const maxBatches = 20

// retain deletes what has become too old, in batches, one thread after the other. It waits between the passes, and ends when the
// workers are configured to keep everything.
func (w *Workflows) retain(ctx workflow.Context, in signals.RetainStep) error {
	ctx = staleAfter(ctx, w.StaleAfter)
	for range maxBatches {
		var found signals.RetainFound
		if err := workflow.ExecuteActivity(lowPriorityOptions(ctx, "find what is too old"), signals.ActivityRetainFind, in).Get(ctx, &found); err != nil {
			if ctx.Err() != nil {
				return err
			}
			// The store has been unavailable for a while.
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			continue
		}
		if found.Off {
			return nil
		}
		pass := in.Pass
		if found.Next != nil && pass.StartedAt.IsZero() {
			pass.StartedAt = found.Next.Pass.StartedAt
		}
		for _, id := range found.Close {
			closeIdle(ctx, in.Namespace, id, &pass)
		}
		for _, id := range found.Erase {
			eraseOld(ctx, in.Namespace, id, &pass)
		}
		pass.ToolLogs += found.ToolLogs
		if found.Next != nil {
			in = *found.Next
			in.Pass = pass
			continue
		}
		in.Pass = pass
		if err := workflow.ExecuteActivity(lowPriorityOptions(ctx, "store the receipt"), signals.ActivityRetainDone, in).Get(ctx, nil); err != nil && ctx.Err() != nil {
			return err
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("The last pass closed %d threads, erased %d, and deleted %d logs of tool calls. The next one is in %s.",
			pass.Closed, pass.Erased, pass.ToolLogs, found.Every))
		if err := workflow.Sleep(ctx, found.Every); err != nil {
			return err
		}
		in = signals.RetainStep{Namespace: in.Namespace}
	}
	return workflow.NewContinueAsNewError(ctx, signals.RetainWorkflow, in)
}

func closeIdle(ctx workflow.Context, namespace, threadID string, pass *signals.Retained) {
	ctx = lowPriorityOptions(ctx, "close "+threadID)
	opts := workflow.GetActivityOptions(ctx)
	opts.RetryPolicy = &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: retainTries}
	var closed bool
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), signals.ActivityRetainClose, signals.RetainClose{Namespace: namespace, ThreadID: threadID}).Get(ctx, &closed)
	switch {
	case err != nil:
		pass.Failed++
	case closed:
		pass.Closed++
	}
}

// eraseOld erases a closed thread by the workflow that erases threads.
func eraseOld(ctx workflow.Context, namespace, threadID string, pass *signals.Retained) {
	own := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        signals.EraseWorkflowID(namespace, threadID),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief("erase thread " + threadID),
	})
	var receipt signals.Erasure
	err := workflow.ExecuteChildWorkflow(own, signals.EraseWorkflow, signals.EraseStep{Namespace: namespace, ThreadID: threadID, By: "retention"}).Get(ctx, &receipt)
	switch {
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		// Somebody else erases it.
	case err != nil:
		pass.Failed++
	default:
		pass.Erased++
		pass.Contents = pass.Contents.Add(receipt.Erased)
	}
}
