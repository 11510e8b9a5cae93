package deploying

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// unheard lets the first report of the limits time out, as it does while no build is current.
type unheard struct {
	interceptor.InterceptorBase
	interceptor.ClientOutboundInterceptorBase

	reports atomic.Int64
}

func (u *unheard) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	u.Next = next
	return u
}

func (u *unheard) UpdateWithStartWorkflow(ctx context.Context, in *interceptor.ClientUpdateWithStartWorkflowInput) (client.WorkflowUpdateHandle, error) {
	if in.UpdateOptions.UpdateName == job.UpdateReportUsage && u.reports.Add(1) == 1 {
		return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded)
	}
	return u.Next.UpdateWithStartWorkflow(ctx, in)
}

// TestLimitsOfFirstBuild: a build whose models have limits runs before anything is current, and calls the models once it is.
func TestLimitsOfFirstBuild(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{Configure: func(cfg *threadmill.Config) {
		cfg.ModelLimits = map[string]llm.Limits{"openai": {RequestsPerMinute: 600}}
	}})
	u := &unheard{}
	f.start("1", client.Options{Interceptors: []interceptor.ClientInterceptor{u}})
	require.Eventually(t, func() bool { return u.reports.Load() >= 2 }, testenv.Patience, testenv.Tick, "it tries again")

	f.Switch("1")
	thread := f.Open("assistant")
	f.Moved(thread, "1")
	f.Say(thread, "and on the queue of the provider")
	queue, err := f.Temporal.DescribeTaskQueue(f.Ctx(), job.ModelTaskQueue(f.TaskQueue, "openai"), enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	require.NoError(t, err)
	require.NotEmpty(t, queue.GetPollers())
}
