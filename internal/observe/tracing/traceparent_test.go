package tracing

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func TestTraceparent(t *testing.T) {
	require.Empty(t, Traceparent(context.Background()))
	require.Equal(t, context.Background(), WithTraceparent(context.Background(), ""))
	const value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := WithTraceparent(context.Background(), value)
	require.Equal(t, value, Traceparent(ctx))
	require.True(t, trace.SpanContextFromContext(ctx).IsRemote())
	require.Empty(t, Traceparent(WithTraceparent(context.Background(), "nonsense")))

	const later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what.comes"
	require.Equal(t, value, Traceparent(WithTraceparent(context.Background(), later)))
	require.Empty(t, Traceparent(WithTraceparent(context.Background(), "ff"+later[2:])))
	ctx = Propagator{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": value, "tracestate": "a=b"})
	require.Equal(t, "b", trace.SpanContextFromContext(ctx).TraceState().Get("a"))
}
