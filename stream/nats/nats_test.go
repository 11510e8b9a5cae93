package nats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/nats"
	"github.com/threadmill/threadmill/stream/streamtest"
)

func TestConformance(t *testing.T) {
	cfg := nats.Config{URL: testenv.NATS(t), Stream: testenv.Name("live"), Prefix: testenv.Name("tm")}
	streamtest.Run(t, func(t *testing.T) stream.Stream { return open(t, cfg) })
}

func BenchmarkStream(b *testing.B) {
	streamtest.Bench(b, open(b, nats.Config{URL: testenv.NATS(b), Stream: testenv.Name("live"), Prefix: testenv.Name("tm")}))
}

func open(t testing.TB, cfg nats.Config) *nats.Stream {
	t.Helper()
	s, err := nats.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
