package harness

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// noCancel runs activities that do not notice when the server cancels them.
type noCancel struct{ interceptor.InterceptorBase }

func (*noCancel) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	d := &noCancelActivity{}
	d.Next = next
	return d
}

type noCancelActivity struct {
	interceptor.ActivityInboundInterceptorBase
}

func (d *noCancelActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	// Its worker cancels a local activity, without a heartbeat.
	if !activity.GetInfo(ctx).IsLocalActivity {
		ctx = context.WithoutCancel(ctx)
	}
	return d.Next.ExecuteActivity(ctx, in)
}
