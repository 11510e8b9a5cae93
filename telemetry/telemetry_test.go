package telemetry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/threadmill/threadmill/internal/observe/tracing"
)

// TestOff: the zero configuration changes nothing.
func TestOff(t *testing.T) {
	var c Config
	require.False(t, c.Enabled())
	require.Nil(t, c.WorkerInterceptors())
	opts := c.ClientOptions(client.Options{})
	require.Nil(t, opts.Interceptors)
	require.Nil(t, opts.MetricsHandler)
}

func TestClientOptions(t *testing.T) {
	c := Config{TracerProvider: noop.NewTracerProvider()}
	opts := c.ClientOptions(client.Options{})
	require.Len(t, opts.Interceptors, 1)
	_, twice := opts.Interceptors[0].(interceptor.WorkerInterceptor)
	require.False(t, twice, "workers have interceptors of their own")
	require.Nil(t, opts.MetricsHandler)
}

// TestIDs: the ids of a context are used, and otherwise new ones.
func TestIDs(t *testing.T) {
	traceID, spanID := trace.TraceID{1}, trace.SpanID{2}
	ctx := tracing.WithIDs(context.Background(), traceID, spanID)
	gotTrace, gotSpan := IDs{}.NewIDs(ctx)
	require.Equal(t, traceID, gotTrace)
	require.Equal(t, spanID, gotSpan)
	require.Equal(t, spanID, IDs{}.NewSpanID(ctx, trace.TraceID{9}))

	seen := map[trace.SpanID]bool{}
	for range 100 {
		id, span := IDs{}.NewIDs(context.Background())
		require.True(t, id.IsValid())
		require.False(t, seen[span])
		seen[span] = true
		other := IDs{}.NewSpanID(context.Background(), id)
		require.True(t, other.IsValid())
		require.False(t, seen[other])
		seen[other] = true
	}
}
