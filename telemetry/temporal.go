package telemetry

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/observe/tracing"
	"github.com/threadmill/threadmill/signals"
)

// ClientOptions adds what a Temporal client records: the spans of its requests, whose context reaches the
// workflows, and the metrics of the SDK and its workers.
func (c Config) ClientOptions(opts client.Options) client.Options {
	if c.TracerProvider != nil {
		opts.Interceptors = append(opts.Interceptors[:len(opts.Interceptors):len(opts.Interceptors)], &clientInterceptor{tracing: c.temporalTracing()})
	}
	if c.MeterProvider != nil {
		opts.MetricsHandler = fewActivities{opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
			Meter: c.MeterProvider.Meter(Scope), UseMonotonicCounters: true, OnError: func(error) {}, // an instrument that fails is missing
		})}
	}
	return opts
}

// WorkerInterceptors returns the interceptors of workers. Runtime.Run uses them; set them as
// worker.Options.Interceptors of a worker of your own.
func (c Config) WorkerInterceptors() []interceptor.WorkerInterceptor {
	if c.TracerProvider == nil {
		return nil
	}
	return []interceptor.WorkerInterceptor{&workerInterceptor{tracing: c.temporalTracing()}}
}

func (c Config) temporalTracing() interceptor.Interceptor {
	// It fails only without a tracer.
	options := tracing.TemporalOptions(c.TracerProvider.Tracer(Scope))
	options.SpanStarter = func(ctx context.Context, t trace.Tracer, name string, opts ...trace.SpanStartOption) trace.Span {
		_, span := t.Start(ctx, job.ActivityOf(name), opts...) // the names of spans are few, and attributes say the rest
		if c.Content {
			return span
		}
		return withoutTexts{span}
	}
	i, _ := opentelemetry.NewTracingInterceptor(options)
	return i
}

// fewActivities counts local activities by their activities: their types have the names of agents, models and tools.
type fewActivities struct{ client.MetricsHandler }

const tagActivityType = "activity_type"

func (h fewActivities) WithTags(tags map[string]string) client.MetricsHandler {
	if name, ok := tags[tagActivityType]; ok {
		tags = maps.Clone(tags)
		tags[tagActivityType] = job.ActivityOf(name)
	}
	return fewActivities{h.MetricsHandler.WithTags(tags)}
}

// withoutTexts is a span without the texts of errors, which may quote what people wrote.
type withoutTexts struct{ trace.Span }

func (withoutTexts) RecordError(error, ...trace.EventOption) {}

func (s withoutTexts) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

// clientInterceptor is no WorkerInterceptor: workers would use it, too, beside their own.
type clientInterceptor struct {
	interceptor.ClientInterceptorBase
	tracing interceptor.ClientInterceptor
}

func (i *clientInterceptor) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return i.tracing.InterceptClient(next)
}

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	tracing interceptor.WorkerInterceptor
}

func (i *workerInterceptor) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return i.tracing.InterceptActivity(ctx, next)
}

func (i *workerInterceptor) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflowInbound{
		WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: i.tracing.InterceptWorkflow(ctx, next)}, untraced: next,
	}
}

// workflowInbound skips the spans of Temporal's interceptor that do not fit threads.
type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	untraced interceptor.WorkflowInboundInterceptor
}

// ExecuteWorkflow has no span: that of a thread would last for years, begin again whenever a worker replays it, and
// be the parent of turns that other requests have posted. The steps of other child workflows, such as hooks and tasks,
// continue the trace of the step that has started them; a sub-agent has a turn.
func (i *workflowInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if info := workflow.GetInfo(ctx); info.ParentWorkflowExecution != nil && info.WorkflowType.Name != signals.DelegateWorkflow {
		if span := tracing.SpanOfHeader(ctx); span.SpanContext().IsValid() {
			ctx = tracing.ContextWithSpan(ctx, span)
		}
	}
	return i.untraced.ExecuteWorkflow(ctx, in)
}

// ValidateUpdate has no span: that of the update follows at once.
func (i *workflowInbound) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	return i.untraced.ValidateUpdate(ctx, in)
}

// ExecuteUpdate has no second span when it is replayed.
func (i *workflowInbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	if workflow.IsReplaying(ctx) {
		return i.untraced.ExecuteUpdate(ctx, in)
	}
	return i.Next.ExecuteUpdate(ctx, in)
}
