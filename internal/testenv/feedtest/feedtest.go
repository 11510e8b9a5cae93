// Package feedtest has fixtures for the tests of the feed and its projections: a thread with its
// store and live log, records, and scripts of threads.
package feedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// ErrLookup is the error of a failing [Store].
var ErrLookup = errors.New("the store is down")

// Store counts its reads, and fails on request.
type Store struct {
	teststore.Store
	Reads atomic.Int64

	// FailLookups is the number of the next lookups by id that fail.
	FailLookups atomic.Int64

	replaced atomic.Pointer[store.Store]
}

// Replace replaces the store by another one.
func (s *Store) Replace(other store.Store) { s.replaced.Store(&other) }

func (s *Store) current() store.Store {
	if other := s.replaced.Load(); other != nil {
		return *other
	}
	return s.Store
}

// Append calls the current store.
func (s *Store) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	return s.current().Append(ctx, key, b)
}

// Records calls the current store.
func (s *Store) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	s.Reads.Add(1)
	return s.current().Records(ctx, key, q)
}

// Thread calls the current store.
func (s *Store) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	s.Reads.Add(1)
	return s.current().Thread(ctx, key)
}

// RecordsByID fails FailLookups times, then calls the current store.
func (s *Store) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if s.FailLookups.Load() > 0 {
		s.FailLookups.Add(-1)
		return nil, ErrLookup
	}
	return s.Store.RecordsByID(ctx, key, ids...)
}

// Options of a [Thread]. By default neither heartbeat nor grace ends during the test.
type Options struct {
	Heartbeat, Grace time.Duration
	Stream           func() stream.Stream // default: in memory
	View             func(store.Key) feed.View
}

// Thread is a thread with its store, live log and feed.
type Thread struct {
	T      testing.TB
	Ctx    context.Context
	Key    store.Key
	Store  *Store
	Stream stream.Stream
	Feed   *feed.Feed
	ids    int
}

// New returns a thread t1 without records.
func New(t testing.TB, o Options) *Thread {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	t.Cleanup(cancel)
	db, err := sqlite.Open(ctx, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w := &Thread{T: t, Ctx: ctx, Key: store.Key{Namespace: "default", ThreadID: "t1"}, Store: &Store{Store: db}}
	if o.Stream == nil {
		o.Stream = func() stream.Stream { return memory.New(memory.Config{}) }
	}
	w.Stream = o.Stream()
	t.Cleanup(func() { _ = w.Stream.Close() })
	if o.Heartbeat == 0 {
		o.Heartbeat = 2 * testenv.Patience
	}
	if o.Grace == 0 {
		o.Grace = testenv.Patience / 2
	}
	w.Feed, err = feed.New(feed.Config{Store: w.Store, Stream: w.Stream, HeartbeatInterval: o.Heartbeat, Grace: o.Grace, View: o.View})
	require.NoError(t, err)
	return w
}

// Append stores records without announcing them, and returns the head.
func (w *Thread) Append(records ...event.Record) int64 { return w.append(records).Head }

func (w *Thread) append(records []event.Record) store.Appended {
	for i := range records {
		w.ids++
		var m event.Message
		switch {
		case records[i].ID != "":
		case records[i].Type == event.TypeMessage && json.Unmarshal(records[i].Payload, &m) == nil && m.ID != "":
			records[i].ID = m.ID // as in threads
		default:
			records[i].ID = fmt.Sprintf("r%d", w.ids)
		}
	}
	out, err := w.Store.Append(w.Ctx, w.Key, store.Batch{Records: records})
	require.NoError(w.T, err)
	return out
}

// Publish publishes an entry to the log.
func (w *Thread) Publish(e stream.Entry) {
	require.NoError(w.T, w.Stream.Publish(w.Ctx, w.Key, e))
}

// Word announces the records up to seq, without the records, as another process does.
func (w *Thread) Word(seq int64) { w.Publish(stream.Entry{Stored: seq}) }

// StoreAll stores and announces records as steps do, with the records in the notice.
func (w *Thread) StoreAll(records ...event.Record) int64 {
	out := w.append(records)
	w.announce(out)
	return out.Head
}

func (w *Thread) announce(out store.Appended) {
	w.Publish(stream.Entry{Stored: out.Head, Records: out.Records})
}

// Piece publishes a piece of a message.
func (w *Thread) Piece(after int64, message string, attempt int, text string) {
	w.Publish(Piece(after, message, attempt, text))
}

// Open opens a reader of agent events.
func (w *Thread) Open(from feed.From) *feed.Reader {
	w.T.Helper()
	r, err := w.Feed.Open(w.Ctx, w.Key, from)
	require.NoError(w.T, err)
	w.T.Cleanup(r.Close)
	return r
}

// Next reads the next item.
func (w *Thread) Next(r *feed.Reader) feed.Item {
	w.T.Helper()
	return next(w, r)
}

// Rest reads a finite reader to its end.
func (w *Thread) Rest(from feed.From) []feed.Item {
	w.T.Helper()
	from.Finite = true
	r := w.Open(from)
	defer r.Close()
	return w.ToEnd(r)
}

// ToEnd reads until io.EOF.
func (w *Thread) ToEnd(r *feed.Reader) []feed.Item {
	w.T.Helper()
	return toEnd(w, r)
}

// UntilClosed reads to the end of the thread.
func (w *Thread) UntilClosed(r *feed.Reader) (out []feed.Item) {
	w.T.Helper()
	for len(out) == 0 || !out[len(out)-1].Closes() {
		out = append(out, w.Next(r))
	}
	return out
}

// reader is a reader of the feed or of a projection.
type reader[T any] interface {
	Next(ctx context.Context) (T, error)
}

// next reads one item, ignoring heartbeats.
func next[T any](w *Thread, r reader[T]) T {
	w.T.Helper()
	for {
		item, err := r.Next(w.Ctx)
		if errors.Is(err, feed.ErrIdle) {
			continue
		}
		require.NoError(w.T, err)
		return item
	}
}

// toEnd reads until io.EOF, ignoring heartbeats.
func toEnd[T any](w *Thread, r reader[T]) (out []T) {
	w.T.Helper()
	for {
		item, err := r.Next(w.Ctx)
		switch {
		case errors.Is(err, feed.ErrIdle):
			continue
		case errors.Is(err, io.EOF):
			return out
		}
		require.NoError(w.T, err)
		out = append(out, item)
	}
}
