package streamtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
)

// quiet is the time in which a test checks that nothing happens.
const quiet = 100 * time.Millisecond

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// newKey returns the key of a thread that no other test uses, even on a server that outlives the
// test.
func newKey(t testing.TB) stream.Key {
	return stream.Key{Namespace: "ns", ThreadID: strings.ReplaceAll(t.Name(), "/", "-") + "-" + rand.Text()}
}

// Piece returns an entry with a piece of text.
func Piece(text string) stream.Entry {
	return stream.Entry{After: 7, Event: &event.AgentEvent{
		Type: event.EventStream, Content: text, MessageID: "msg-1", Attempt: 2, Agent: "writer",
	}}
}

func publish(t testing.TB, s stream.Stream, key stream.Key, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, s.Publish(testContext(t), key, Piece(text)))
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func subscribe(t testing.TB, s stream.Stream, key stream.Key, from stream.From) stream.Subscription {
	t.Helper()
	sub, err := s.Subscribe(testContext(t), key, from)
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

// next reads n entries and checks that their offsets grow.
func next(t testing.TB, sub stream.Subscription, n int) []stream.Entry {
	t.Helper()
	ctx := testContext(t)
	var out []stream.Entry
	for range n {
		e, err := sub.Next(ctx)
		require.NoError(t, err, "after %d of %d entries", len(out), n)
		if len(out) > 0 {
			require.Greater(t, e.Offset, out[len(out)-1].Offset)
		}
		require.Positive(t, e.Offset)
		out = append(out, e)
	}
	return out
}

func texts(entries []stream.Entry) []string {
	var out []string
	for _, e := range entries {
		if e.Event == nil {
			out = append(out, fmt.Sprintf("stored %d", e.Stored))
			continue
		}
		out = append(out, e.Event.Content)
	}
	return out
}

// silent asserts that nothing arrives for a while.
func silent(t testing.TB, sub stream.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), quiet)
	defer cancel()
	e, err := sub.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "entry %+v", e)
}

// all reads all entries of a thread's log.
func all(t testing.TB, s stream.Stream, key stream.Key, n int) []stream.Entry {
	t.Helper()
	sub := subscribe(t, s, key, stream.From{})
	return next(t, sub, n)
}
