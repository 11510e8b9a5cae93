package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/threadmill/threadmill/stream"
)

// Publish appends an entry to the thread's log. It waits for no answer: the package documentation describes how it reports losses.
func (s *Stream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	subject := s.liveSubject(key)
	err := s.usable(ctx)
	switch {
	case err == nil:
		err = s.publish(subject, e)
	case errors.Is(err, stream.ErrUnavailable):
		s.missed(subject, e, err)
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", key, err)
	}
	return nil
}

func (s *Stream) publish(subject string, e stream.Entry) error {
	data, err := e.Encode()
	if err != nil {
		return err
	}
	if e.Event != nil {
		if err := s.losses.take(subject); err != nil {
			return fmt.Errorf("%w: %w", stream.ErrLost, err)
		}
	}
	// A retry by the client would overtake later entries.
	if _, err = s.js.PublishAsync(subject, data, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(stallWait)); err != nil {
		err = s.trip(err)
		s.missed(subject, e, err)
	}
	return err
}

// publishFailed handles an entry that was not acknowledged. The client may hold its lock.
func (s *Stream) publishFailed(_ jetstream.JetStream, m *natsgo.Msg, err error) {
	var e stream.Entry
	if json.Unmarshal(m.Data, &e) == nil {
		s.missed(m.Subject, e, s.trip(err))
	}
}

// Purge removes the entries of a thread's log.
func (s *Stream) Purge(ctx context.Context, key stream.Key) error {
	err := s.usable(ctx)
	if err != nil {
		return err
	}
	// Pieces that are under way arrive first.
	select {
	case <-s.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ackTimeout):
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		h, _, err := s.info(ctx)
		if err != nil {
			return err
		}
		return h.Purge(ctx, jetstream.WithPurgeSubject(s.liveSubject(key)))
	})
	if err != nil {
		return fmt.Errorf("purge %s: %w", key, err)
	}
	return nil
}

// losses contains the subjects whose publishers have not been told of a loss yet.
type losses struct {
	keep  time.Duration
	count atomic.Int64
	mu    sync.Mutex
	by    map[string]loss
}

type loss struct {
	err error
	at  time.Time
}

func (l *losses) add(subject string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.by[subject]; known {
		return
	}
	now := time.Now()
	for other, old := range l.by {
		if now.Sub(old.at) > l.keep {
			delete(l.by, other)
		}
	}
	if l.by == nil {
		l.by = map[string]loss{}
	}
	l.by[subject] = loss{err: err, at: now}
	l.count.Store(int64(len(l.by)))
}

func (l *losses) take(subject string) error {
	if l.count.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.by[subject]
	delete(l.by, subject)
	l.count.Store(int64(len(l.by)))
	return found.err
}
