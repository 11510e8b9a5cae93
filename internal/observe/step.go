package observe

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"golang.org/x/time/rate"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
)

// WorkerInterceptors returns the interceptors of workers: those of traces, and one of steps.
func (o *Observer) WorkerInterceptors() []interceptor.WorkerInterceptor {
	if o == nil {
		return nil
	}
	return append(o.cfg.WorkerInterceptors(), &stepInterceptor{o: o, describe: rate.NewLimiter(describeRate, describeBurst)})
}

// Limits of the requests for the reasons of retries: an outage must not become worse by them.
const (
	describeRate   = 10 // a second
	describeBurst  = 20
	describeWithin = 2 * time.Second
)

type stepInterceptor struct {
	interceptor.WorkerInterceptorBase
	o        *Observer
	describe *rate.Limiter
}

func (i *stepInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &stepInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, i}
}

type stepInbound struct {
	interceptor.ActivityInboundInterceptorBase
	*stepInterceptor
}

// ExecuteActivity measures an attempt at a step, and tells model calls within it for whom they are.
func (i *stepInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	o, info, began := i.o, activity.GetInfo(ctx), time.Now()
	input := attribute.String(AttrStep, o.steps.bound(job.ActivityOf(info.ActivityType.Name)))
	s := subjectOfStep(in.Args)
	ctx = context.WithValue(ctx, subjectKey{}, s)
	trace.SpanFromContext(ctx).SetAttributes(append(s.attributes(), attribute.Int(AttrAttempt, int(info.Attempt)))...)
	if info.Attempt > 1 {
		o.meters.retries.Add(ctx, 1, metric.WithAttributes(input))
		if i.lostBefore(ctx, info) {
			o.meters.lost.Add(ctx, 1, metric.WithAttributes(input))
		}
	}
	out, err := i.Next.ExecuteActivity(ctx, in)
	set := []attribute.KeyValue{input}
	if err != nil {
		set = append(set, attribute.String(AttrErrorType, errOther))
	}
	o.meters.stepDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(set...))
	return out, err
}

// lostBefore reports whether the attempt before this one was lost with its worker.
func (i *stepInterceptor) lostBefore(ctx context.Context, info activity.Info) bool {
	if info.IsLocalActivity || !i.describe.Allow() {
		return false
	}
	within, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	found, err := activity.GetClient(ctx).DescribeWorkflowExecution(within, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	if err != nil {
		return false
	}
	for _, p := range found.GetPendingActivities() {
		if p.GetActivityId() == info.ActivityID {
			last := p.GetLastFailure()
			return last.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT || last.GetApplicationFailureInfo().GetType() == step.ErrTypeLost
		}
	}
	return false
}

type subjectKey struct{}

// subject is for whom a step works.
type subject struct{ namespace, thread, event, trace, agent string }

func subjectOf(ctx context.Context) subject {
	s, _ := ctx.Value(subjectKey{}).(subject)
	return s
}

// subjectOfStep returns the subject of a step by its input.
func subjectOfStep(args []any) subject {
	if len(args) != 1 {
		return subject{}
	}
	of := func(r step.Run) subject {
		return subject{r.Thread.Namespace, r.Thread.ThreadID, r.EventID, r.TraceID, r.Agent}
	}
	switch in := args[0].(type) {
	case step.Model:
		return of(in.Run)
	case step.Tool:
		return of(in.Run)
	case step.Task:
		return subject{in.Thread.Namespace, in.Thread.ThreadID, in.EventID, in.Task.TraceID, in.Task.Agent}
	case step.Hook:
		return subject{in.Thread.Namespace, in.Thread.ThreadID, in.EventID, in.TraceID, in.Agent}
	case step.Record:
		return subject{namespace: in.Thread.Namespace, thread: in.Thread.ThreadID}
	}
	return subject{}
}

func (s subject) attributes() []attribute.KeyValue {
	var list []attribute.KeyValue
	for _, a := range []attribute.KeyValue{
		attribute.String(AttrNamespace, s.namespace), attribute.String(AttrConversation, s.thread),
		attribute.String(AttrEvent, s.event), attribute.String(AttrTrace, s.trace), attribute.String(AttrAgent, s.agent),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	return list
}
