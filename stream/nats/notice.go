package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	natsgo "github.com/nats-io/nats.go"

	"github.com/threadmill/threadmill/stream"
)

// Notify notifies the listeners of the thread in all processes. It returns nil when the server has
// accepted the notice.
func (s *Stream) Notify(ctx context.Context, key stream.Key, n stream.Notice) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	if err = s.conn.Publish(s.noticeSubject(key), data); err == nil {
		err = s.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("notify %s: %w", key, s.failed(ctx, err))
	}
	return nil
}

// Listen calls fn for each notice until stop is called. A notice in progress may still arrive after
// stop. Notices that are sent while the connection to NATS is lost do not arrive: a step that begins meanwhile listens from the
// moment on that NATS is back.
func (s *Stream) Listen(ctx context.Context, key stream.Key, fn func(stream.Notice)) (stop func(), err error) {
	err = s.usable(ctx)
	if err != nil && !errors.Is(err, stream.ErrUnavailable) {
		return nil, err
	}
	sub, failed := s.conn.Subscribe(s.noticeSubject(key), func(m *natsgo.Msg) {
		var n stream.Notice
		if err := json.Unmarshal(m.Data, &n); err != nil {
			s.cfg.Logger.Warn("live stream: notice is not JSON", "thread", key.ThreadID, "error", err)
			return
		}
		fn(n)
	})
	if failed != nil {
		return nil, fmt.Errorf("listen to %s: %w", key, s.failed(ctx, failed))
	}
	stop = func() { _ = sub.Unsubscribe() } // fails only if it is already gone
	if err == nil {
		// Without the flush, a notice that another connection sends now could be missed.
		err = s.failed(ctx, s.flush(ctx))
	}
	if err != nil && !errors.Is(err, stream.ErrUnavailable) {
		stop()
		return nil, fmt.Errorf("listen to %s: %w", key, err)
	}
	return stop, nil
}

// flush waits until NATS has received everything before.
func (s *Stream) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stallWait)
	defer cancel()
	return s.conn.FlushWithContext(ctx)
}
