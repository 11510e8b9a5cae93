package streamtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/stream"
)

// Bench measures a driver: the latency from Publish to Next, and the throughput of a publisher.
func Bench(b *testing.B, s stream.Stream) {
	token := Piece("token ")
	b.Run("publish to next", func(b *testing.B) {
		ctx, key := context.Background(), newKey(b)
		sub, err := s.Subscribe(ctx, key, stream.From{Now: true})
		require.NoError(b, err)
		defer sub.Close()
		for b.Loop() {
			if err := s.Publish(ctx, key, token); err != nil {
				b.Fatal(err)
			}
			if _, err := sub.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("publish", func(b *testing.B) {
		ctx, key := context.Background(), newKey(b)
		for b.Loop() {
			if err := s.Publish(ctx, key, token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("publish to 100 viewers", func(b *testing.B) { benchViewers(b, s, token, 100) })
}

func benchViewers(b *testing.B, s stream.Stream, token stream.Entry, viewers int) {
	ctx, key := context.Background(), newKey(b)
	var subs []stream.Subscription
	for range viewers {
		sub, err := s.Subscribe(ctx, key, stream.From{Now: true})
		require.NoError(b, err)
		defer sub.Close()
		subs = append(subs, sub)
	}
	for b.Loop() {
		if err := s.Publish(ctx, key, token); err != nil {
			b.Fatal(err)
		}
		for _, sub := range subs {
			if _, err := sub.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}
