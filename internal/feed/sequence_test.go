package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
)

// perform runs a script while a reader follows, and returns its items.
func perform(w *feedtest.Thread, s feedtest.Script) (items []feed.Item) {
	r := w.Open(feed.From{})
	w.Run(s, func() { items = w.UntilClosed(r) })
	return items
}

// show makes sequences comparable and failures readable.
func show(items []feed.Item) []string {
	out := make([]string, len(items))
	for i, item := range items {
		raw, err := json.Marshal(item.Event)
		if err != nil {
			panic(err)
		}
		out[i] = string(raw)
	}
	return out
}

func TestSequence(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := feedtest.New(t, feedtest.Options{})
			items := perform(w, feedtest.Runs(rand.New(rand.NewPCG(seed, 1)), 1+int(seed%3)))
			t.Run("S1-24 the pieces of the last attempt are the message", func(t *testing.T) { checkContent(t, items) })
			t.Run("S1-26 progress lies between its call and its result", func(t *testing.T) { checkProgress(t, items) })
			t.Run("S1-23 one terminal event for each run, nothing of the run after it", func(t *testing.T) { checkFinal(t, items) })
			t.Run("records in order, each once", func(t *testing.T) { checkRecords(t, w, items) })
			t.Run("cut at every position", func(t *testing.T) { checkCuts(t, w, items) })
			t.Run("a late reader gets the records only", func(t *testing.T) { checkLate(t, w, items) })
		})
	}
}

func checkContent(t *testing.T, items []feed.Item) {
	said := map[string]string{}
	messages := 0
	for _, item := range items {
		switch e := item.Event; {
		case e.Type == event.EventReset:
			said[e.MessageID] = ""
		case e.Type == event.EventStream:
			said[e.MessageID] += e.Content
		case e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent:
			messages++
			assert.Equal(t, e.Message.Content, said[e.Message.ID])
			said[e.Message.ID] = "nothing may follow"
		}
	}
	assert.NotZero(t, messages)
}

func checkProgress(t *testing.T, items []feed.Item) {
	running := map[string]bool{}
	results := 0
	for _, item := range items {
		switch e := item.Event; e.Type {
		case event.EventToolCall:
			running[e.ToolCallID] = true
		case event.EventToolProgress:
			assert.True(t, running[e.ToolCallID], "progress of %s", e.ToolCallID)
		case event.EventToolResult:
			assert.True(t, running[e.ToolCallID], "result of %s", e.ToolCallID)
			running[e.ToolCallID] = false
			results++
		}
	}
	assert.NotZero(t, results)
}

func checkFinal(t *testing.T, items []feed.Item) {
	ended := map[string]int{}
	for _, item := range items {
		e := item.Event
		if e.Terminal() {
			ended[e.Agent]++
			continue
		}
		if e.Type == event.EventStream || e.Type == event.EventReset {
			assert.Zero(t, ended[e.MessageID[:2]], "%s after the end of its run", e.MessageID)
		}
	}
	require.NotEmpty(t, ended)
	for agent, n := range ended {
		assert.Equal(t, 1, n, agent)
	}
}

func checkRecords(t *testing.T, w *feedtest.Thread, items []feed.Item) {
	stored, next, err := w.Feed.Page(w.Ctx, w.Key, feed.Cursor{}, 1000)
	require.NoError(t, err)
	require.Nil(t, next)
	assert.Equal(t, show(stored), show(facts(items)))
}

// facts filters out the pieces.
func facts(items []feed.Item) []feed.Item {
	var out []feed.Item
	for _, item := range items {
		switch item.Event.Type {
		case event.EventThought, event.EventStream, event.EventToolProgress, event.EventReset:
		default:
			out = append(out, item)
		}
	}
	return out
}

func checkCuts(t *testing.T, w *feedtest.Thread, items []feed.Item) {
	for i, item := range items {
		cursor, err := feed.ParseCursor(item.Cursor.String())
		require.NoError(t, err)
		require.Equal(t, item.Cursor, cursor)
		require.Equal(t, show(items[i+1:]), show(w.Rest(feed.From{Cursor: cursor})), "resumed at %d, id %s", i, cursor)
	}
}

func checkLate(t *testing.T, w *feedtest.Thread, items []feed.Item) {
	late := w.Rest(feed.From{})
	require.Equal(t, show(facts(items)), show(late))
	for i, item := range late {
		got := w.Rest(feed.From{Cursor: item.Cursor})
		require.Equal(t, show(late[i+1:]), show(facts(got)), "resumed at id %s", item.Cursor)
	}
}

func TestCutWhileRunning(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("each piece once, seed %d", seed), func(t *testing.T) {
			w := feedtest.New(t, feedtest.Options{})
			rng := rand.New(rand.NewPCG(seed, 2))
			got := make(chan []feed.Item, 1)
			// The first connection exists before the script begins, like the reference.
			r := w.Open(feed.From{})
			go func() {
				defer close(got)
				got <- cutAtRandom(w, r, rand.New(rand.NewPCG(seed, 3)))
			}()
			s := feedtest.Runs(rng, 1+rng.IntN(3))
			for i, step := range s {
				s[i] = func(w *feedtest.Thread) { runtime.Gosched(); step(w) }
			}
			assert.Equal(t, show(perform(w, s)), show(<-got))
		})
	}
}

// cutAtRandom reads to the end and reconnects at random.
func cutAtRandom(w *feedtest.Thread, r *feed.Reader, rng *rand.Rand) []feed.Item {
	var out []feed.Item
	for {
		for range 1 + rng.IntN(4) {
			out = append(out, w.Next(r))
			if out[len(out)-1].Closes() {
				r.Close()
				return out
			}
		}
		r.Close()
		r = w.Open(feed.From{Cursor: out[len(out)-1].Cursor})
	}
}

// flaky is a stream whose subscriptions break after a few entries.
type flaky struct {
	stream.Stream
	rng *rand.Rand
}

type flakySub struct {
	stream.Subscription
	left int
}

func (f *flaky) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	if f.rng.IntN(4) == 0 {
		return nil, errors.New("no connection")
	}
	sub, err := f.Stream.Subscribe(ctx, key, from)
	return &flakySub{sub, 1 + f.rng.IntN(5)}, err
}

func (s *flakySub) Next(ctx context.Context) (stream.Entry, error) {
	if s.left == 0 {
		return stream.Entry{}, stream.ErrLagged
	}
	s.left--
	return s.Subscription.Next(ctx)
}

func TestBrokenSubscription(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := feedtest.New(t, feedtest.Options{})
			want := perform(w, feedtest.Runs(rand.New(rand.NewPCG(seed, 4)), 2))
			w.Stream = &flaky{w.Stream, rand.New(rand.NewPCG(seed, 5))}
			var err error
			w.Feed, err = feed.New(feed.Config{Store: w.Store, Stream: w.Stream, HeartbeatInterval: 2 * testenv.Patience, Grace: testenv.Patience / 2})
			require.NoError(t, err)
			for _, at := range []int{0, len(want) / 3, len(want) / 2} {
				var r *feed.Reader
				require.Eventually(t, func() bool {
					r, err = w.Feed.Open(w.Ctx, w.Key, feed.From{Cursor: want[at].Cursor})
					return err == nil
				}, testenv.Patience, 1)
				assert.Equal(t, show(want[at+1:]), show(w.UntilClosed(r)))
				r.Close()
			}
		})
	}
}

func TestClosedStream(t *testing.T) {
	s := memory.New(memory.Config{})
	w := feedtest.New(t, feedtest.Options{Stream: func() stream.Stream { return s }})
	r := w.Open(feed.From{})
	require.NoError(t, s.Close())
	_, err := r.Next(w.Ctx)
	assert.ErrorIs(t, err, stream.ErrClosed)
}
