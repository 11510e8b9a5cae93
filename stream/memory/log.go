package memory

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
)

// log is the live log of one thread. Its entries have consecutive offsets.
type log struct {
	mu      sync.Mutex
	base    int64  // the offset of the first entry ever
	first   int64  // the offset of entries[0]
	entries []item // trimmed by reslicing; append moves the rest now and then
	bytes   int
	kept    int // the size of all records of entries, at most maxRecordBytes
	subs    int
	dropped bool          // no longer in the stream's map: look it up again
	wake    chan struct{} // closed at the next publish; nil if nobody waits
}

type item struct {
	entry stream.Entry
	at    int64 // Unix time in nanoseconds
	size  int

	// records is the size of entry.Records, and unread the number of subscriptions that have yet to read them.
	records, unread int
}

// maxRecordBytes is the maximum size of the records that a log keeps until its subscriptions have read them. Notices
// beyond it have no records, so that a slow reader does not fill the memory.
const maxRecordBytes = 256 << 10

// recordBytes is what a record takes in memory besides its payload, approximately.
const recordBytes = 512

func sizeOf(records []event.Record) (size int) {
	for i := range records {
		size += recordBytes + len(records[i].Payload)
	}
	return size
}

// next returns the offset of the next entry.
func (l *log) next() int64 { return l.first + int64(len(l.entries)) }

// publish appends e. It reports false if the log was dropped.
func (l *log) publish(e stream.Entry, size int, now time.Time, cfg *Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return false
	}
	e.Offset = l.next()
	it := item{entry: e, at: now.UnixNano(), size: size, records: sizeOf(e.Records), unread: l.subs}
	l.kept += it.records
	if it.unread == 0 || l.kept > maxRecordBytes {
		l.forget(&it)
	}
	l.entries = append(l.entries, it)
	l.bytes += size
	l.trim(now.Add(-cfg.Retention), cfg)
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
	return true
}

// forget removes the records of an entry.
func (l *log) forget(it *item) {
	l.kept -= it.records
	it.entry.Records, it.records = nil, 0
}

// trim removes entries over the limits, but never the newest one for its size.
func (l *log) trim(oldest time.Time, cfg *Config) {
	l.expire(oldest)
	n, bytes := 0, l.bytes
	for n < len(l.entries)-1 && (len(l.entries)-n > cfg.MaxEntries || bytes > cfg.MaxBytes) {
		bytes -= l.entries[n].size
		n++
	}
	l.cut(n)
}

func (l *log) expire(oldest time.Time) {
	n := 0
	for n < len(l.entries) && l.entries[n].at <= oldest.UnixNano() {
		n++
	}
	l.cut(n)
}

func (l *log) purge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut(len(l.entries))
}

func (l *log) cut(n int) {
	for i := range n {
		l.bytes -= l.entries[i].size
		l.kept -= l.entries[i].records
		l.entries[i] = item{} // frees it: the array behind the slice remains
	}
	l.entries = l.entries[n:]
	l.first += int64(n)
	if len(l.entries) == 0 {
		l.entries = nil
	}
}

// drop removes expired entries and, without entries and readers, marks the log as dropped. It
// returns the last offset of the log.
func (l *log) drop(oldest time.Time) (last int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(oldest)
	if l.subs > 0 || len(l.entries) > 0 {
		return 0, false
	}
	l.dropped = true
	return l.next() - 1, true
}

// subscribe returns nil if the log was dropped.
func (l *log) subscribe(s *Stream, key stream.Key, from stream.From) *subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return nil
	}
	l.expire(s.cfg.Now().Add(-s.cfg.Retention))
	l.subs++
	sub := &subscription{stream: s, log: l, key: key, done: make(chan struct{})}
	if len(l.entries) > 0 {
		sub.start.Last = l.next() - 1
	}
	sub.since = l.next()
	after := from.Offset
	switch {
	case from.Now:
		sub.pos = l.next()
	case after <= 0:
		sub.pos = l.first
	case after < l.first-1 || after >= l.next() || after < l.base:
		sub.start.Gap = true
		sub.pos = l.first
	default:
		sub.pos = after + 1
	}
	return sub
}

// subscription is a position in a log.
type subscription struct {
	stream *Stream
	log    *log
	key    stream.Key
	start  stream.Start
	pos    int64 // guarded by log.mu
	since  int64 // the subscription gets the records of entries from this offset on
	once   sync.Once
	done   chan struct{}
}

func (s *subscription) Start() stream.Start { return s.start }

// Next waits for the next entry.
func (s *subscription) Next(ctx context.Context) (stream.Entry, error) {
	for {
		select {
		case <-ctx.Done():
			return stream.Entry{}, ctx.Err()
		case <-s.done:
			return stream.Entry{}, stream.ErrClosed
		case <-s.stream.done:
			return stream.Entry{}, stream.ErrClosed
		default:
		}
		e, wake, err := s.take()
		if wake == nil {
			return e, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
		case <-s.done:
		case <-s.stream.done:
		}
	}
}

// take returns the next entry, or a channel that is closed when there is one.
func (s *subscription) take() (e stream.Entry, wake <-chan struct{}, err error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch i := s.pos - l.first; {
	case i < 0:
		return e, nil, fmt.Errorf("read %s: %w: %d entries are gone; subscribe again", s.key, stream.ErrLagged, -i)
	case i < int64(len(l.entries)):
		s.pos++
		return s.release(&l.entries[i]), nil, nil
	}
	if l.wake == nil {
		l.wake = make(chan struct{})
	}
	return e, l.wake, nil
}

// release returns an entry for the subscription, which does not ask for it again. The log keeps records until their last reader has them.
func (s *subscription) release(it *item) stream.Entry {
	e := it.entry
	if e.Offset < s.since {
		e.Records = nil
		return e
	}
	if it.unread--; it.unread == 0 {
		s.log.forget(it)
	}
	return e
}

func (s *subscription) Close() {
	s.once.Do(func() {
		close(s.done)
		l := s.log
		l.mu.Lock()
		defer l.mu.Unlock()
		l.subs--
		for i := max(s.pos-l.first, 0); i < int64(len(l.entries)); i++ {
			s.release(&l.entries[i])
		}
		s.since = math.MaxInt64 // a Next that has begun counts no more
	})
}
