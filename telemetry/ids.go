package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/threadmill/threadmill/internal/observe/tracing"
)

// IDs generates the ids of spans. It implements the IDGenerator of OpenTelemetry's SDK: ids are random, except
// those of the spans of agents, which several workers must know.
type IDs struct{}

// NewIDs returns the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) { return tracing.NewIDs(ctx) }

// NewSpanID returns the id of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return tracing.NewSpanID(ctx)
}
