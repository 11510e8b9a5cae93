package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// IDs generates the ids of spans. It implements the IDGenerator of OpenTelemetry's SDK: ids are random, except
// where several processes must use the same, see [WithIDs].
type IDs struct{}

type idsKey struct{}

// WithIDs sets the ids of the next span that is started with the context: its span id and, without a parent, its
// trace id. The provider must use [IDs].
func WithIDs(ctx context.Context, trace trace.TraceID, span trace.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, spanIDs{trace, span})
}

type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if set, ok := ctx.Value(idsKey{}).(spanIDs); ok && set.trace.IsValid() && set.span.IsValid() {
		return set.trace, set.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, newSpanID()
}

// NewSpanID returns the id of a span with a parent.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if set, ok := ctx.Value(idsKey{}).(spanIDs); ok && set.span.IsValid() {
		return set.span
	}
	return newSpanID()
}

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
