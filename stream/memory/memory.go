package memory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/stream"
)

// Defaults of [Config].
const (
	DefaultMaxEntries = 10_000
	DefaultMaxBytes   = 64 << 20
)

// Config configures a [Stream]. The zero value is ready to use; fields that are not positive have
// their defaults.
type Config struct {
	// Retention is how long entries are kept. Default [stream.DefaultRetention].
	Retention time.Duration

	// MaxEntries is the maximum number of entries per thread. Default [DefaultMaxEntries].
	MaxEntries int

	// MaxBytes is the maximum size of the entries per thread. Default [DefaultMaxBytes]. The newest
	// entry is always kept.
	MaxBytes int

	// Now is the clock. Default [time.Now].
	Now func() time.Time
}

// Stream is an in-memory [stream.Stream].
type Stream struct {
	cfg       Config
	done      chan struct{}
	nextSweep atomic.Int64 // Unix time in nanoseconds

	mu        sync.RWMutex
	closed    bool
	logs      map[stream.Key]*log
	floor     int64 // the greatest offset of all dropped logs
	listeners map[stream.Key]map[*listener]struct{}
}

type listener struct{ fn func(stream.Notice) }

var _ stream.Stream = (*Stream)(nil)

// New returns an empty stream.
func New(cfg Config) *Stream {
	if cfg.Retention <= 0 {
		cfg.Retention = stream.DefaultRetention
	}
	if cfg.MaxEntries <= 0 {
		cfg.MaxEntries = DefaultMaxEntries
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Stream{
		cfg:       cfg,
		done:      make(chan struct{}),
		logs:      map[stream.Key]*log{},
		listeners: map[stream.Key]map[*listener]struct{}{},
	}
	s.nextSweep.Store(cfg.Now().Add(cfg.Retention).UnixNano())
	return s
}

// Publish appends an entry to the thread's log.
func (s *Stream) Publish(ctx context.Context, key stream.Key, e stream.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	size := e.Size()
	if size > stream.MaxEntryBytes/maxGrowth || e.Event != nil && opaque(e) {
		data, err := e.Encode()
		if err != nil {
			return fmt.Errorf("publish to %s: %w", key, err)
		}
		size = len(data)
	}
	now := s.cfg.Now()
	if now.UnixNano() >= s.nextSweep.Load() {
		s.sweep(now)
	}
	for {
		l, err := s.log(key)
		if err != nil {
			return err
		}
		if l.publish(e, size, now, &s.cfg) {
			return nil
		}
	}
}

// maxGrowth is the maximum number of bytes in JSON per byte of text (\u0000).
const maxGrowth = 6

// opaque reports whether [stream.Entry.Size] does not include all of the entry.
func opaque(e stream.Entry) bool {
	v := e.Event
	return v.Message != nil || v.Request != nil || v.Approval != nil || v.Status != nil
}

// Subscribe returns a subscription to a thread's log from a position.
func (s *Stream) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		l, err := s.log(key)
		if err != nil {
			return nil, err
		}
		if sub := l.subscribe(s, key, from); sub != nil {
			return sub, nil
		}
	}
}

// log returns the log of a thread and creates it if necessary.
func (s *Stream) log(key stream.Key) (*log, error) {
	s.mu.RLock()
	l, closed := s.logs[key], s.closed
	s.mu.RUnlock()
	if closed {
		return nil, stream.ErrClosed
	}
	if l != nil {
		return l, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, stream.ErrClosed
	}
	if l = s.logs[key]; l == nil {
		first := max(s.cfg.Now().UnixMicro(), s.floor+2)
		l = &log{base: first, first: first}
		s.logs[key] = l
	}
	return l, nil
}

// sweep removes expired entries and unused logs. It runs occasionally within a publish, so the
// stream needs no goroutine.
func (s *Stream) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.UnixNano() < s.nextSweep.Load() {
		return
	}
	s.nextSweep.Store(now.Add(s.cfg.Retention / 4).UnixNano())
	for key, l := range s.logs {
		if last, ok := l.drop(now.Add(-s.cfg.Retention)); ok {
			s.floor = max(s.floor, last)
			delete(s.logs, key)
		}
	}
}

// Purge removes the entries of a thread's log.
func (s *Stream) Purge(ctx context.Context, key stream.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	l, closed := s.logs[key], s.closed
	s.mu.RUnlock()
	if closed {
		return stream.ErrClosed
	}
	if l != nil {
		l.purge()
	}
	return nil
}

// Notify calls the listeners of the thread one after another.
func (s *Stream) Notify(ctx context.Context, key stream.Key, n stream.Notice) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	closed := s.closed
	fns := make([]func(stream.Notice), 0, len(s.listeners[key]))
	for l := range s.listeners[key] {
		fns = append(fns, l.fn)
	}
	s.mu.RUnlock()
	if closed {
		return stream.ErrClosed
	}
	for _, fn := range fns {
		fn(n)
	}
	return nil
}

// Listen calls fn for each notice until stop is called. A notice in progress may still arrive after
// stop.
func (s *Stream) Listen(ctx context.Context, key stream.Key, fn func(stream.Notice)) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listener{fn: fn}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, stream.ErrClosed
	}
	if s.listeners[key] == nil {
		s.listeners[key] = map[*listener]struct{}{}
	}
	s.listeners[key][l] = struct{}{}
	return func() { s.unlisten(key, l) }, nil
}

func (s *Stream) unlisten(key stream.Key, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners[key], l)
	if len(s.listeners[key]) == 0 {
		delete(s.listeners, key)
	}
}

// Ping fails if the stream is closed.
func (s *Stream) Ping(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return stream.ErrClosed
	}
	return ctx.Err()
}

// Close ends all subscriptions with [stream.ErrClosed] and deletes all logs.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.logs, s.listeners = nil, nil
	close(s.done)
	return nil
}
