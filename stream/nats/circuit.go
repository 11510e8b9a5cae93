package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/threadmill/threadmill/stream"
)

const (
	// mendPause is the delay before each attempt to close the circuit.
	mendPause = 200 * time.Millisecond

	// maxOwed bounds the threads whose announcements are kept. Viewers of others find the records at their next check of the store.
	maxOwed = 10_000
)

// usable fails when the stream is closed, ctx has ended or the circuit is open. It asks nobody.
func (s *Stream) usable(ctx context.Context) error {
	select {
	case <-s.done:
		return stream.ErrClosed
	default:
	}
	away := s.away.Load()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case away != nil:
		return *away
	case !s.conn.IsConnected():
		return s.trip(natsgo.ErrDisconnected)
	}
	return nil
}

// failed opens the circuit if err says that NATS did not answer, though the caller would have waited longer.
func (s *Stream) failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !unanswered(err) {
		return err
	}
	return s.trip(err)
}

// ask makes requests to NATS that end with the connection, and after requestMax: NATS answers none that its connection has lost, and
// ctx may have no end. The error is that of failed.
func (s *Stream) ask(ctx context.Context, requests func(context.Context) error) error {
	lost := s.connection()
	asking, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-asking.Done():
		}
	}()
	err := requests(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", natsgo.ErrTimeout, err)
	}
	return s.failed(ctx, err)
}

func unanswered(err error) bool {
	for _, target := range []error{
		jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled, natsgo.ErrNoResponders, natsgo.ErrReconnectBufExceeded,
		natsgo.ErrDisconnected, natsgo.ErrConnectionReconnecting, natsgo.ErrConnectionClosed, natsgo.ErrTimeout, context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// trip opens the circuit, and returns the error of calls while it is open. It is closed in the background, so that no turn is the
// one that tries whether NATS is back.
func (s *Stream) trip(cause error) error {
	select {
	case <-s.done:
		return fmt.Errorf("%w: %w", stream.ErrClosed, cause)
	default:
	}
	err := fmt.Errorf("%w: %w", stream.ErrUnavailable, cause)
	if s.away.CompareAndSwap(nil, &err) {
		s.cfg.Logger.Warn("live stream: NATS does not answer; turns go on, and viewers read the store", "error", cause)
		go s.heal()
	}
	return err
}

// heal tries to close the circuit until it is closed, or the stream is.
func (s *Stream) heal() {
	for mended := false; !mended; {
		select {
		case <-time.After(mendPause):
			mended = s.mend()
		case <-s.done:
			return
		}
	}
}

// mend closes the circuit if the stream answers, and announces the records that are owed. A server that has lost its memory gets
// the stream again first.
func (s *Stream) mend() bool {
	ctx, cancel := context.WithTimeout(context.Background(), stallWait)
	defer cancel()
	if _, _, err := s.info(ctx); err != nil {
		return false
	}
	s.cfg.Logger.Info("live stream: NATS answers again", "server", s.conn.ConnectedServerName())
	s.mu.Lock()
	owed := s.owed
	s.owed = nil
	s.away.Store(nil)
	s.mu.Unlock()
	for subject, seq := range owed {
		_ = s.publish(subject, stream.Entry{Stored: seq}) // if it fails, it is owed again
	}
	return true
}

// missed keeps an announcement that the log did not take until the circuit is closed. Of a piece, the publisher hears with its
// next one.
func (s *Stream) missed(subject string, e stream.Entry, err error) {
	if e.Event != nil {
		s.losses.add(subject, err)
		return
	}
	for !s.owe(subject, e.Stored) {
		err = s.trip(err)
	}
}

// owe reports whether the circuit is open, and then keeps an announcement.
func (s *Stream) owe(subject string, seq int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() == nil && !s.closed {
		return false
	}
	if _, known := s.owed[subject]; known || len(s.owed) < maxOwed {
		if s.owed == nil {
			s.owed = map[string]int64{}
		}
		s.owed[subject] = max(s.owed[subject], seq)
	}
	return true
}
