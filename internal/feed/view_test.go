package feed_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// toEnd reads until io.EOF, over heartbeats.
func (w *world) toEnd(r *feed.Reader) []feed.Item {
	w.t.Helper()
	var out []feed.Item
	for {
		item, err := r.Next(w.ctx)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case errors.Is(err, feed.ErrIdle):
		default:
			require.NoError(w.t, err)
			out = append(out, item)
		}
	}
}

func TestView(t *testing.T) {
	w := newWorld(t, options{})
	made := 0
	var err error
	w.feed, err = feed.New(feed.Config{
		Store: w.store, Stream: w.stream, HeartbeatInterval: 2 * patience, Grace: patience / 2,
		View: func(key store.Key) feed.View {
			require.Equal(t, w.key, key)
			made++
			n := 0
			return func(_ context.Context, e event.AgentEvent) event.AgentEvent {
				n++ // the view of one reader is its own
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
	require.NoError(t, err)

	t.Run("S0-10 pieces and messages are replaced for each reader", func(t *testing.T) {
		first, second := w.open(feed.From{}), w.open(feed.From{})
		w.storeAll(said("hello"))
		w.piece(1, "m1", 1, "se")
		w.storeAll(message("m1", "secret"))
		for _, r := range []*feed.Reader{first, second} {
			require.Equal(t, "HELLO", w.next(r).Event.Message.Content)
			piece := w.next(r).Event
			require.Equal(t, "SE", piece.Content)
			require.Equal(t, "xx", piece.Detail)
			require.Equal(t, "SECRET", w.next(r).Event.Message.Content)
		}
		require.Equal(t, 2, made)
	})
	t.Run("S0-10 so are those of a page", func(t *testing.T) {
		items, _, err := w.feed.Page(w.ctx, w.key, feed.Cursor{}, 10)
		require.NoError(t, err)
		require.Len(t, items, 2)
		require.Equal(t, "SECRET", items[1].Event.Message.Content)
	})
	t.Run("S0-10 and the store keeps what was said", func(t *testing.T) {
		records, err := w.store.Records(w.ctx, w.key, store.Query{})
		require.NoError(t, err)
		require.Contains(t, string(records[1].Payload), `"secret"`)
	})
}

func TestTrace(t *testing.T) {
	w := newWorld(t, options{})
	r := w.open(feed.From{})
	w.storeAll(said("hello"))
	entry := piece(1, "m1", 1, "a")
	entry.TraceID = "trace"
	w.publish(entry)
	w.publish(stream.Entry{After: 1, Event: piece(1, "m1", 1, "b").Event})
	for _, want := range []string{"trace", "trace", ""} {
		require.Equal(t, want, w.next(r).TraceID, "S2-40")
	}
}

func TestWhole(t *testing.T) {
	w := newWorld(t, options{})
	r := w.open(feed.From{Whole: true})
	w.storeAll(said("hello"))
	w.publish(stream.Entry{After: 1, Event: &event.AgentEvent{Type: event.EventThought, Content: "hm", MessageID: "m1", Attempt: 1}})
	w.piece(1, "m1", 1, "a")
	w.publish(reset(1, "m1", 2))
	w.piece(1, "m1", 2, "b")
	w.storeAll(message("m1", "b"), calls("c1"))
	w.publish(progress(3, "c1", "half"))
	w.storeAll(result("c1", "done"), closed())
	var types []event.AgentEventType
	for _, item := range w.untilClosed(r) {
		types = append(types, item.Event.Type)
	}
	require.Equal(t, []event.AgentEventType{
		event.EventMessage, event.EventMessage, event.EventToolCall, event.EventToolProgress, event.EventToolResult, event.EventStatus,
	}, types, "S2-10 messages come whole")
}

func TestEnd(t *testing.T) {
	t.Run("after what leads up to it, and no later", func(t *testing.T) {
		w := newWorld(t, options{})
		r := w.open(feed.From{Now: true})
		w.storeAll(said("hello"))
		w.piece(1, "m1", 1, "a")
		head := w.storeAll(message("m1", "a"))
		w.piece(head, "m2", 1, "of another turn")
		w.storeAll(message("m2", "of another turn"))
		r.End(head)
		require.Equal(t, []string{"hello", "a", "a"}, contents(w.toEnd(r)))
	})
	t.Run("once its record is there", func(t *testing.T) {
		w := newWorld(t, options{})
		r := w.open(feed.From{Now: true})
		head := w.append(said("hello"))
		r.End(head)
		w.word(head)
		require.Equal(t, []string{"hello"}, contents(w.toEnd(r)))
	})
	t.Run("though the log never speaks of it", func(t *testing.T) {
		w := newWorld(t, options{grace: time.Millisecond})
		r := w.open(feed.From{Now: true})
		w.append(said("hello"))
		r.End(w.append(message("m1", "a")))
		require.Equal(t, []string{"hello", "a"}, contents(w.toEnd(r)))
	})
	t.Run("at once, when all of it has been delivered", func(t *testing.T) {
		w := newWorld(t, options{})
		r := w.open(feed.From{Now: true})
		head := w.storeAll(said("hello"))
		w.next(r)
		r.End(head)
		require.Empty(t, w.toEnd(r))
	})
	t.Run("also when the wait for more was left before", func(t *testing.T) {
		w := newWorld(t, options{})
		r := w.open(feed.From{Now: true})
		ctx, cancel := context.WithCancel(w.ctx)
		left := make(chan error, 1)
		go func() {
			_, err := r.Next(ctx)
			left <- err
		}()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		r.End(w.storeAll(said("hello"), closed()))
		require.Len(t, w.toEnd(r), 2)
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
