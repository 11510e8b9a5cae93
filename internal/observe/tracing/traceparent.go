package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"

	"github.com/threadmill/threadmill/internal/observe/traceparent"
)

const (
	traceparentKey = "traceparent"
	tracestateKey  = "tracestate"
)

// Propagator carries trace contexts as the W3C defines them. Baggage, which callers choose, is not carried.
type Propagator struct{ propagation.TraceContext }

// Extract returns a context in which new spans continue the trace of a carrier, or ctx if it has none.
func (p Propagator) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	value, ok := traceparent.Parse(carrier.Get(traceparentKey))
	if !ok {
		return ctx
	}
	return p.TraceContext.Extract(ctx, propagation.MapCarrier{traceparentKey: value, tracestateKey: carrier.Get(tracestateKey)})
}

// Traceparent returns the trace context of the span in ctx as the traceparent of a post, or "" without a span.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	Propagator{}.Inject(ctx, carrier)
	return carrier.Get(traceparentKey)
}

// WithTraceparent returns a context in which new spans continue a trace. Empty = ctx.
func WithTraceparent(ctx context.Context, value string) context.Context {
	return Propagator{}.Extract(ctx, propagation.MapCarrier{traceparentKey: value})
}
