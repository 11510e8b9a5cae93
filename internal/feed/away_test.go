package feed_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// outage is a stream that can be away: its subscriptions break, and nobody can subscribe.
type outage struct {
	stream.Stream
	mu   sync.Mutex
	away bool
	subs []stream.Subscription
}

type brokenSub struct{ stream.Subscription }

func (s brokenSub) Next(ctx context.Context) (stream.Entry, error) {
	e, err := s.Subscription.Next(ctx)
	if errors.Is(err, stream.ErrClosed) {
		err = errors.New("connection lost")
	}
	return e, err
}

func (o *outage) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away {
		return nil, stream.ErrUnavailable
	}
	sub, err := o.Stream.Subscribe(ctx, key, from)
	o.subs = append(o.subs, sub)
	return brokenSub{sub}, err
}

func (o *outage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
	for _, sub := range o.subs {
		sub.Close()
	}
	o.subs = nil
}

// TestStreamIsAway: viewers read the store meanwhile, those who were there and those who come, and see each event once.
func TestStreamIsAway(t *testing.T) {
	o := &outage{Stream: memory.New(memory.Config{})}
	w := feedtest.New(t, feedtest.Options{Stream: func() stream.Stream { return o }, Grace: testenv.Patience})
	head := w.StoreAll(feedtest.Said("go"))
	w.Piece(head, "m1", 1, "cut ")
	early := w.Open(feed.From{})
	require.Equal(t, []string{"1", "1:1"}, ids([]feed.Item{w.Next(early), w.Next(early)}))

	o.set(true)
	head = w.Append(feedtest.Message("m1", "cut short"), feedtest.Said("again"))
	seen := []feed.Item{w.Next(early), w.Next(early)}
	assert.Equal(t, []string{"cut short", "again"}, []string{seen[0].Event.Message.Content, seen[1].Event.Message.Content})
	now := w.Open(feed.From{Now: true})
	assert.Equal(t, feed.Cursor{Seq: head}, now.Start())
	resumed := w.Open(feed.From{Cursor: feed.Cursor{Seq: 1}})
	assert.Equal(t, "cut short", w.Next(resumed).Event.Message.Content)
	assert.Equal(t, "again", w.Next(resumed).Event.Message.Content)
	assert.Len(t, w.Rest(feed.From{}), 3, "what is stored is all there is")
	assert.Empty(t, w.Rest(feed.From{Cursor: feed.Cursor{Seq: head}}))
	head = w.Append(feedtest.Said("third"))
	readers := []*feed.Reader{early, now, resumed}
	for _, r := range readers {
		assert.Equal(t, "third", w.Next(r).Event.Message.Content)
	}

	w.Piece(1, "m1", 1, "short") // the publisher's connection was never lost
	w.Word(head)
	o.set(false)
	w.Piece(head, "m2", 1, "live")
	w.StoreAll(feedtest.Message("m2", "live"), feedtest.Closed())
	for _, r := range readers {
		var got []string
		for _, item := range w.UntilClosed(r) {
			text := item.Event.Content
			if item.Event.Message != nil {
				text = item.Event.Message.Content
			}
			got = append(got, string(item.Event.Type)+" "+text)
		}
		assert.Equal(t, []string{"stream live", "message live", "status "}, got)
	}
}
