package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

type idsKey struct{}

// WithIDs sets the ids of the next span that is started with the context: its span id and, without a parent, its
// trace id. The provider must use telemetry.IDs.
func WithIDs(ctx context.Context, trace trace.TraceID, span trace.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, spanIDs{trace, span})
}

type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span without a parent.
func NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if set, ok := ctx.Value(idsKey{}).(spanIDs); ok && set.trace.IsValid() && set.span.IsValid() {
		return set.trace, set.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, randomSpanID()
}

// NewSpanID returns the id of a span with a parent.
func NewSpanID(ctx context.Context) trace.SpanID {
	if set, ok := ctx.Value(idsKey{}).(spanIDs); ok && set.span.IsValid() {
		return set.span
	}
	return randomSpanID()
}

func randomSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
