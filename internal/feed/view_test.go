package feed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

func TestView(t *testing.T) {
	made := 0
	w := feedtest.New(t, feedtest.Options{
		View: func(key store.Key) feed.View {
			require.Equal(t, "t1", key.ThreadID)
			made++
			n := 0
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent {
				n++ // each reader has its own view
				e.Detail = strings.Repeat("x", n)
				if e.Type == event.EventMessage {
					m := *e.Message
					m.Content = strings.ToUpper(m.Content)
					e.Message = &m
				}
				e.Content = strings.ToUpper(e.Content)
				return e
			}
		},
	})

	t.Run("S0-10 pieces and messages are replaced for each reader", func(t *testing.T) {
		first, second := w.Open(feed.From{}), w.Open(feed.From{})
		w.StoreAll(feedtest.Said("hello"))
		w.Piece(1, "m1", 1, "se")
		w.StoreAll(feedtest.Message("m1", "secret"))
		for _, r := range []*feed.Reader{first, second} {
			require.Equal(t, "HELLO", w.Next(r).Event.Message.Content)
			piece := w.Next(r).Event
			require.Equal(t, "SE", piece.Content)
			require.Equal(t, "xx", piece.Detail)
			require.Equal(t, "SECRET", w.Next(r).Event.Message.Content)
		}
		require.Equal(t, 2, made)
	})
	t.Run("S0-10 so are those of a page", func(t *testing.T) {
		items, _, err := w.Feed.Page(w.Ctx, w.Key, feed.Cursor{}, 10)
		require.NoError(t, err)
		require.Len(t, items, 2)
		require.Equal(t, "SECRET", items[1].Event.Message.Content)
	})
	t.Run("S0-10 and the store keeps what was said", func(t *testing.T) {
		records, err := w.Store.Records(w.Ctx, w.Key, store.Query{})
		require.NoError(t, err)
		require.Contains(t, string(records[1].Payload), `"secret"`)
	})
}

func TestTrace(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	r := w.Open(feed.From{})
	w.StoreAll(feedtest.Said("hello"))
	entry := feedtest.Piece(1, "m1", 1, "a")
	entry.TraceID = "trace"
	w.Publish(entry)
	w.Publish(stream.Entry{After: 1, Event: feedtest.Piece(1, "m1", 1, "b").Event})
	for _, want := range []string{"trace", "trace", ""} {
		require.Equal(t, want, w.Next(r).TraceID, "S2-40")
	}
}

func TestWhole(t *testing.T) {
	w := feedtest.New(t, feedtest.Options{})
	r := w.Open(feed.From{Whole: true})
	w.StoreAll(feedtest.Said("hello"))
	w.Publish(stream.Entry{After: 1, Event: &event.AgentEvent{Type: event.EventThought, Content: "hm", MessageID: "m1", Attempt: 1}})
	w.Piece(1, "m1", 1, "a")
	w.Publish(feedtest.Reset(1, "m1", 2))
	w.Piece(1, "m1", 2, "b")
	w.StoreAll(feedtest.Message("m1", "b"), feedtest.Calls("c1"))
	w.Publish(feedtest.Progress(3, "c1", "half"))
	w.StoreAll(feedtest.Result("c1", "done"), feedtest.Closed())
	var types []event.AgentEventType
	for _, item := range w.UntilClosed(r) {
		types = append(types, item.Event.Type)
	}
	require.Equal(t, []event.AgentEventType{
		event.EventMessage, event.EventMessage, event.EventToolCall, event.EventToolProgress, event.EventToolResult, event.EventStatus,
	}, types, "S2-10 messages come whole")
}

func TestEnd(t *testing.T) {
	t.Run("after what leads up to it, and no later", func(t *testing.T) {
		w := feedtest.New(t, feedtest.Options{})
		r := w.Open(feed.From{Now: true})
		w.StoreAll(feedtest.Said("hello"))
		w.Piece(1, "m1", 1, "a")
		head := w.StoreAll(feedtest.Message("m1", "a"))
		w.Piece(head, "m2", 1, "of another turn")
		w.StoreAll(feedtest.Message("m2", "of another turn"))
		r.End(head)
		require.Equal(t, []string{"hello", "a", "a"}, contents(w.ToEnd(r)))
	})
	t.Run("once its record is there", func(t *testing.T) {
		w := feedtest.New(t, feedtest.Options{})
		r := w.Open(feed.From{Now: true})
		head := w.Append(feedtest.Said("hello"))
		r.End(head)
		w.Word(head)
		require.Equal(t, []string{"hello"}, contents(w.ToEnd(r)))
	})
	t.Run("though the log never speaks of it", func(t *testing.T) {
		w := feedtest.New(t, feedtest.Options{Grace: time.Millisecond})
		r := w.Open(feed.From{Now: true})
		w.Append(feedtest.Said("hello"))
		r.End(w.Append(feedtest.Message("m1", "a")))
		require.Equal(t, []string{"hello", "a"}, contents(w.ToEnd(r)))
	})
	t.Run("at once, when all of it has been delivered", func(t *testing.T) {
		w := feedtest.New(t, feedtest.Options{})
		r := w.Open(feed.From{Now: true})
		head := w.StoreAll(feedtest.Said("hello"))
		w.Next(r)
		r.End(head)
		require.Empty(t, w.ToEnd(r))
	})
	t.Run("also when the wait for more was left before", func(t *testing.T) {
		w := feedtest.New(t, feedtest.Options{})
		r := w.Open(feed.From{Now: true})
		ctx, cancel := context.WithCancel(w.Ctx)
		left := make(chan error, 1)
		go func() {
			_, err := r.Next(ctx)
			left <- err
		}()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		r.End(w.StoreAll(feedtest.Said("hello"), feedtest.Closed()))
		require.Len(t, w.ToEnd(r), 2)
	})
}

func contents(items []feed.Item) []string {
	var out []string
	for _, item := range items {
		if m := item.Event.Message; m != nil {
			out = append(out, m.Content)
			continue
		}
		out = append(out, item.Event.Content)
	}
	return out
}
