package feed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// countedLog counts the entries that subscriptions read.
type countedLog struct {
	stream.Stream
	read *atomic.Int64
}

func (l countedLog) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	sub, err := l.Stream.Subscribe(ctx, key, from)
	return countedSubscription{sub, l.read}, err
}

type countedSubscription struct {
	stream.Subscription
	read *atomic.Int64
}

func (s countedSubscription) Next(ctx context.Context) (stream.Entry, error) {
	e, err := s.Subscription.Next(ctx)
	if err == nil {
		s.read.Add(1)
	}
	return e, err
}

// TestFreshReader: a viewer of a turn that begins now reads nothing of what was before, neither of the log nor of the store.
func TestFreshReader(t *testing.T) {
	var read atomic.Int64
	w := feedtest.New(t, feedtest.Options{Stream: func() stream.Stream { return countedLog{memory.New(memory.Config{}), &read} }})
	for range 100 {
		w.Piece(0, "m1", 1, "long ago")
	}
	head := w.StoreAll(feedtest.Message("m1", "long ago"))
	at := w.Feed.At(w.Ctx, w.Key, head)
	require.NotZero(t, at.Offset)
	first := w.Store.Reads.Load()
	r := w.Open(feed.From{Cursor: at, Fresh: true})
	require.Equal(t, first+1, w.Store.Reads.Load(), "the head of the thread")
	known := w.Open(feed.From{Cursor: at, Fresh: true, Head: head})
	require.Equal(t, first+1, w.Store.Reads.Load())
	w.Piece(head, "m2", 1, "now")
	for _, reader := range []*feed.Reader{r, known} {
		require.Equal(t, "now", w.Next(reader).Event.Content)
	}
	require.EqualValues(t, 2, read.Load())
	require.Equal(t, first+1, w.Store.Reads.Load())

	beyond := w.Open(feed.From{Cursor: feed.Cursor{Seq: head + 1}, Head: head})
	require.Equal(t, event.EventGap, w.Next(beyond).Event.Type)
}

// TestViewersReadDeliveredMessagesOnce: late pieces of messages that viewers had when they connected are not shown. The second viewer
// reads only the messages that are new.
func TestViewersReadDeliveredMessagesOnce(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	open := func(seq int64, reads int) *feed.Reader {
		t.Helper()
		before := w.Store.Reads.Load()
		r := w.Open(feed.From{Cursor: feed.Cursor{Seq: seq}})
		require.Equal(t, before+int64(reads), w.Store.Reads.Load())
		return r
	}
	w.StoreAll(feedtest.Message("m1", "one"))
	first := w.StoreAll(feedtest.Message("m2", "two"))
	readers := []*feed.Reader{open(first, 2), open(first, 1), open(first-1, 2)}
	require.Equal(t, "m2", w.Next(readers[2]).Event.MessageID)
	second := w.StoreAll(feedtest.Message("m3", "three"))
	for i, r := range readers {
		require.Equal(t, "m3", w.Next(r).Event.MessageID, i)
	}
	readers = append(readers, open(second, 2), open(second, 1))
	for _, id := range []string{"m1", "m2", "m3", "m4"} {
		w.Piece(second, id, 9, "piece of "+id)
	}
	for i, r := range readers {
		require.Equal(t, "piece of m4", w.Next(r).Event.Content, i)
	}
}

// silentLog does not answer.
type silentLog struct{ stream.Stream }

func (silentLog) Subscribe(ctx context.Context, _ stream.Key, _ stream.From) (stream.Subscription, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPlaceWithoutLog: a reader starts at a record if the log cannot be reached, or does not answer.
func TestPlaceWithoutLog(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	head := w.StoreAll(feedtest.Message("m1", "hello"))
	require.NoError(t, w.Stream.Close())
	require.Equal(t, feed.Cursor{Seq: head}, w.Feed.At(w.Ctx, w.Key, head))

	w = feedtest.New(t, feedtest.Options{Grace: time.Millisecond, Stream: func() stream.Stream { return silentLog{memory.New(memory.Config{})} }})
	require.Equal(t, feed.Cursor{Seq: 1}, w.Feed.At(w.Ctx, w.Key, 1))
	require.NoError(t, w.Ctx.Err(), "what follows has time")
}
