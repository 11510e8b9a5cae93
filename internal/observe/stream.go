package observe

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/threadmill/threadmill/stream"
)

// Stream decorates a live stream: it counts entries and viewers, and measures how late viewers receive entries.
func (o *Observer) Stream(s stream.Stream) stream.Stream {
	if o == nil {
		return s
	}
	return &observedStream{s, o}
}

type observedStream struct {
	stream.Stream
	o *Observer
}

func (s *observedStream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	e.At = time.Now().UnixMilli()
	err := s.Stream.Publish(ctx, key, e)
	var set []attribute.KeyValue
	if err != nil {
		set = append(set, attribute.String(AttrErrorType, errOther))
	}
	s.o.meters.published.Add(ctx, 1, metric.WithAttributes(set...))
	return err
}

func (s *observedStream) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	sub, err := s.Stream.Subscribe(ctx, key, from)
	if err != nil {
		return nil, err
	}
	s.o.meters.viewers.Add(ctx, 1)
	leave := sync.OnceFunc(func() { s.o.meters.viewers.Add(context.Background(), -1) })
	return &observedSubscription{sub, s.o, time.Now().UnixMilli(), leave}, nil
}

type observedSubscription struct {
	stream.Subscription
	o     *Observer
	since int64
	leave func()
}

func (s *observedSubscription) Next(ctx context.Context) (stream.Entry, error) {
	e, err := s.Subscription.Next(ctx)
	if err == nil && e.At >= s.since {
		// Clocks of processes differ, so the time may be negative.
		lag := max(time.Since(time.UnixMilli(e.At)), 0)
		s.o.meters.streamLag.Record(ctx, lag.Seconds())
	}
	return e, err
}

func (s *observedSubscription) Close() {
	s.Subscription.Close()
	s.leave()
}
