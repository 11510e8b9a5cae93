package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of Threadmill's instrumentation.
const Scope = "github.com/threadmill/threadmill"

// Config configures traces and metrics. The zero value records nothing.
type Config struct {
	// TracerProvider creates spans. Default: none.
	TracerProvider trace.TracerProvider

	// MeterProvider creates metrics. Default: none.
	MeterProvider metric.MeterProvider

	// Content adds prompts, replies, arguments and results to spans, each up to 16 KiB. They may contain
	// personal data and secrets. Default: no content.
	Content bool

	// IgnoreCallers begins a new trace with every HTTP request. Default: a request with the header
	// traceparent continues the trace of its caller, who so decides whether it is sampled.
	IgnoreCallers bool

	// CountWaiting is the interval at which Runtime.Run counts the approvals that wait in all threads of the
	// namespace, with one query of the store. One process is enough. Default: never.
	CountWaiting time.Duration
}

// MinCountWaiting is the minimum of [Config].CountWaiting.
const MinCountWaiting = time.Second

// Enabled reports whether anything is recorded.
func (c Config) Enabled() bool { return c.TracerProvider != nil || c.MeterProvider != nil }

// traceContext encodes the trace context of a span. Baggage, which callers choose, is not kept.
var traceContext propagation.TraceContext

// Traceparent returns the trace context of the span in ctx as the traceparent of a post, or "" without a span.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// WithTraceparent returns a context in which new spans continue a trace. Empty = ctx.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
