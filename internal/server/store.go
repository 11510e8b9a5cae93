package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/internal/observe/outage"
	"github.com/threadmill/threadmill/store"
)

// storeCalls limits the time of each call of the store, after which the call fails with [store.ErrUnavailable]. It logs each outage
// once.
type storeCalls struct {
	within time.Duration
	log    *outage.Log

	// streams has a place for each stream that reads records: fewer than a store has connections, so
	// that many streams that catch up leave one to other requests.
	streams chan struct{}
}

const readingStreams = 3

func limited(s store.Store, within time.Duration, log *outage.Log) store.Store {
	c := storeCalls{within, log, make(chan struct{}, readingStreams)}
	return store.With(s, c.call)
}

type streamKey struct{}

// asStream marks the context of a stream.
func asStream(ctx context.Context) context.Context { return context.WithValue(ctx, streamKey{}, true) }

// call implements [store.Around].
func (c storeCalls) call(ctx context.Context, name string, do func(context.Context) error) error {
	if name == "records" && ctx.Value(streamKey{}) != nil {
		select {
		case c.streams <- struct{}{}:
			defer func() { <-c.streams }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	within, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	err := do(within)
	switch {
	case ctx.Err() != nil: // whoever has gone learns nothing of the store
	case err != nil && within.Err() != nil && !errors.Is(err, store.ErrUnavailable):
		err = store.Unavailable(fmt.Errorf("no answer within %v: %w", c.within, err))
		c.log.Down(err)
	case errors.Is(err, store.ErrUnavailable):
		c.log.Down(err)
	default:
		c.log.Up()
	}
	return err
}
