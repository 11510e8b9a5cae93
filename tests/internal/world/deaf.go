package world

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// deaf runs activities that do not notice when the server cancels them.
type deaf struct{ interceptor.InterceptorBase }

func (*deaf) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	d := &deafActivity{}
	d.Next = next
	return d
}

type deafActivity struct {
	interceptor.ActivityInboundInterceptorBase
}

func (d *deafActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	// Its worker cancels a local activity, without a heartbeat.
	if !activity.GetInfo(ctx).IsLocalActivity {
		ctx = context.WithoutCancel(ctx)
	}
	return d.Next.ExecuteActivity(ctx, in)
}
