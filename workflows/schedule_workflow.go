package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

// deliverTimeout limits one attempt to deliver a post, which waits for the thread's worker.
const deliverTimeout = 30 * time.Second

// deliver is one run of a schedule: it posts the schedule's event or message to its thread. It
// retries through outages, and fails if the thread will never accept the post.
func deliver(ctx workflow.Context, s signals.Schedule) (signals.PostResult, error) {
	var out signals.PostResult
	run, err := signals.ParseScheduledRun(workflow.GetInfo(ctx).WorkflowExecution.ID)
	if err != nil {
		return out, temporal.NewNonRetryableApplicationError("running a schedule: "+err.Error(), signals.RefusedType, err)
	}
	delivery, err := s.Delivery(run)
	if err != nil {
		return out, temporal.NewNonRetryableApplicationError("running a schedule: "+err.Error(), signals.RefusedType, err)
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: deliverTimeout,
		RetryPolicy:         retry,
		Summary:             brief("to thread " + s.ThreadID),
	})
	err = workflow.ExecuteActivity(ctx, job.ActivityDeliver, delivery).Get(ctx, &out)
	return out, err
}
