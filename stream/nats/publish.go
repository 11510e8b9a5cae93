package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/threadmill/threadmill/stream"
)

const (
	storedAttempt = time.Second
	storedPause   = 50 * time.Millisecond
)

// Publish appends an entry to the thread's log. The package documentation describes how it reports
// losses.
func (s *Stream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	data, err := e.Encode()
	if err != nil {
		return fmt.Errorf("publish to %s: %w", key, err)
	}
	subject := s.liveSubject(key)
	if e.Event == nil {
		err = s.publishStored(ctx, subject, data)
	} else {
		err = s.publishPiece(ctx, subject, data)
	}
	if err != nil {
		return s.named(fmt.Errorf("publish to %s: %w", key, err))
	}
	return nil
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
	h, _, err := s.info(ctx)
	if err == nil {
		err = h.Purge(ctx, jetstream.WithPurgeSubject(s.liveSubject(key)))
	}
	if err != nil {
		return s.named(fmt.Errorf("purge %s: %w", key, err))
	}
	return nil
}

func (s *Stream) publishPiece(ctx context.Context, subject string, data []byte) error {
	if err := s.losses.take(subject); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrLost, err)
	}
	if err := s.ensure(ctx); err != nil {
		return err
	}
	// A retry by the client would overtake later entries.
	_, err := s.js.PublishAsync(subject, data, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(stallWait))
	return err
}

// publishStored repeats until the entry is acknowledged.
func (s *Stream) publishStored(ctx context.Context, subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	for {
		err := s.publishOnce(ctx, subject, data)
		if err == nil || !passing(err) {
			return err
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			s.stale.Store(true)
		}
		select {
		case <-time.After(storedPause):
		case <-s.done:
			return stream.ErrClosed
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Stream) publishOnce(ctx context.Context, subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, storedAttempt)
	defer cancel()
	if err := s.ensure(ctx); err != nil {
		return err
	}
	_, err := s.js.Publish(ctx, subject, data, jetstream.WithRetryAttempts(0))
	return err
}

// passing reports whether err is temporary.
func passing(err error) bool {
	for _, target := range []error{
		jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled, natsgo.ErrNoResponders, natsgo.ErrReconnectBufExceeded,
		natsgo.ErrDisconnected, natsgo.ErrConnectionReconnecting, natsgo.ErrTimeout, context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// named translates errors of a closed or missing connection to those of package stream.
func (s *Stream) named(err error) error {
	switch {
	case errors.Is(err, natsgo.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", stream.ErrClosed, err)
	case errors.Is(err, natsgo.ErrReconnectBufExceeded):
		return fmt.Errorf("NATS is not connected: %w", err)
	}
	return err
}

// publishFailed handles a piece that was not acknowledged.
func (s *Stream) publishFailed(_ jetstream.JetStream, m *natsgo.Msg, err error) {
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		s.stale.Store(true)
	}
	if s.losses.add(m.Subject, err) {
		s.cfg.Logger.Warn("live stream: entries may be lost", "subject", m.Subject, "error", err)
	}
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

// add reports whether the loss is the first one that the publisher does not know of.
func (l *losses) add(subject string, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.by[subject]; known {
		return false
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
	return true
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
