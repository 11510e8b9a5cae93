package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// ContextWithSpan returns a workflow context in which activities, child workflows and signals continue the trace
// of a span.
func ContextWithSpan(ctx workflow.Context, span trace.Span) workflow.Context {
	ctx = workflow.WithValue(ctx, workflowSpanKey{}, span)
	return workflow.WithValue(ctx, spanKey{}, temporalTracer.SpanFromContext(trace.ContextWithSpan(context.Background(), span)))
}

// SpanFromContext returns the span of [ContextWithSpan], or one that records nothing.
func SpanFromContext(ctx workflow.Context) trace.Span {
	span, ok := ctx.Value(workflowSpanKey{}).(trace.Span)
	if !ok {
		return noop.Span{}
	}
	return span
}

// spanKey has the span as Temporal's interceptor knows it, workflowSpanKey the span itself.
type (
	spanKey         struct{}
	workflowSpanKey struct{}
)

// TemporalOptions returns the options of Temporal's tracing interceptor.
func TemporalOptions(tracer trace.Tracer) opentelemetry.TracerOptions {
	return opentelemetry.TracerOptions{
		Tracer: tracer, TextMapPropagator: Propagator{}, DisableBaggage: true, SpanContextKey: spanKey{},
		// Queries are not part of a turn. Another program's header must not fail a workflow.
		DisableQueryTracing: true, AllowInvalidParentSpans: true,
	}
}

// temporalTracer converts spans to those of Temporal's interceptors.
var temporalTracer, _ = opentelemetry.NewTracer(TemporalOptions(noop.Tracer{}))

// SpanOfHeader returns the span in which a workflow was started, by the header of Temporal's interceptors.
func SpanOfHeader(ctx workflow.Context) trace.Span {
	var carried map[string]string
	if raw, ok := interceptor.WorkflowHeader(ctx)[temporalTracer.Options().HeaderKey]; ok {
		// Another program's header must not fail a workflow.
		_ = converter.GetDefaultDataConverter().FromPayload(raw, &carried)
	}
	return trace.SpanFromContext(Propagator{}.Extract(context.Background(), propagation.MapCarrier(carried)))
}
