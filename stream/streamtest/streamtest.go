package streamtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
)

// Run runs the suite. open returns a working stream with its driver's default limits;
// the suite closes it.
func Run(t *testing.T, open func(t *testing.T) stream.Stream) {
	cases := []struct {
		name string
		run  func(t *testing.T, s stream.Stream)
	}{
		{"order and content", testOrder},
		{"resume after any offset, each entry once", testResume},
		{"from now", testFromNow},
		{"last tells what was published before", testLast},
		{"several subscribers", testSeveral},
		{"threads and namespaces are apart", testIsolation},
		{"offset that the log never gave is a gap", testForeignOffset},
		{"slow reader gets everything that is kept", testSlowReader},
		{"waiting reader wakes up", testWake},
		{"context ends a wait, not the subscription", testContextEnds},
		{"closed subscription", testCloseSubscription},
		{"concurrent publishers", testConcurrent},
		{"subscribing while others publish", testSubscribeWhilePublishing},
		{"large entries", testLarge},
		{"records of a notice", testRecords},
		{"a purged log has nothing, and goes on", testPurge},
		{"notices", testNotices},
		{"closed stream", testClose},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.NoError(t, s.Ping(testContext(t)))
			c.run(t, s)
		})
	}
}

func testOrder(t *testing.T, s stream.Stream) {
	key := newKey(t)
	publish(t, s, key, "a", "b")
	require.NoError(t, s.Publish(testContext(t), key, stream.Entry{Stored: 12}))
	progress := &event.AgentEvent{
		Type: event.EventToolProgress, ToolName: "shell", Data: json.RawMessage(`{"done":0.5}`), ToolCallID: "call-1", Agent: "writer",
	}
	require.NoError(t, s.Publish(testContext(t), key, stream.Entry{After: 12, TraceID: "trace-1", Event: progress}))

	got := all(t, s, key, 4)
	require.Equal(t, "a", got[0].Event.Content)
	require.Equal(t, *Piece("b").Event, *got[1].Event)
	require.EqualValues(t, 7, got[1].After)
	require.EqualValues(t, 12, got[2].Stored)
	require.Nil(t, got[2].Event)
	require.Equal(t, *progress, *got[3].Event)
	require.EqualValues(t, 12, got[3].After)
	require.Equal(t, "trace-1", got[3].TraceID)
	require.Empty(t, got[0].TraceID)
}

// testRecords: drivers may omit the records of a notice, and never replay them.
func testRecords(t *testing.T, s stream.Stream) {
	key, records := newKey(t), []event.Record{{ID: "a", Seq: 1, Type: event.TypeMessage, Payload: json.RawMessage(`{}`)}}
	early := subscribe(t, s, key, stream.From{})
	require.NoError(t, s.Publish(testContext(t), key, stream.Entry{Stored: 1, Records: records}))
	got := next(t, early, 1)[0]
	require.EqualValues(t, 1, got.Stored)
	if got.Records != nil {
		require.Equal(t, records, got.Records)
	}
	later := all(t, s, key, 1)[0]
	require.EqualValues(t, 1, later.Stored)
	require.Empty(t, later.Records)
}

func testPurge(t *testing.T, s stream.Stream) {
	key, other := newKey(t), newKey(t)
	publish(t, s, key, "a", "b")
	publish(t, s, other, "kept")
	all(t, s, key, 2)
	require.NoError(t, s.Purge(testContext(t), key))
	require.NoError(t, s.Purge(testContext(t), newKey(t)), "a log without entries")
	sub := subscribe(t, s, key, stream.From{})
	require.Zero(t, sub.Start().Last)
	silent(t, sub)
	publish(t, s, key, "c")
	require.Equal(t, []string{"c"}, texts(next(t, sub, 1)))
	require.Equal(t, []string{"c"}, texts(all(t, s, key, 1)))
	require.Equal(t, []string{"kept"}, texts(all(t, s, other, 1)))
}

func testResume(t *testing.T, s stream.Stream) {
	key, want := newKey(t), numbers(1, 20)
	publish(t, s, key, want...)
	entries := all(t, s, key, len(want))
	require.Equal(t, want, texts(entries))
	for i, e := range entries {
		sub, err := s.Subscribe(testContext(t), key, stream.From{Offset: e.Offset})
		require.NoError(t, err)
		require.False(t, sub.Start().Gap, "after entry %d", i)
		require.Equal(t, entries[i+1:], append([]stream.Entry{}, next(t, sub, len(want)-i-1)...))
		sub.Close()
	}

	last := subscribe(t, s, key, stream.From{Offset: entries[len(entries)-1].Offset})
	silent(t, last)
	publish(t, s, key, "21", "22")
	require.Equal(t, []string{"21", "22"}, texts(next(t, last, 2)))
	silent(t, last)
}

func testFromNow(t *testing.T, s stream.Stream) {
	key := newKey(t)
	publish(t, s, key, "old")
	old := all(t, s, key, 1)[0]
	sub := subscribe(t, s, key, stream.From{Now: true, Offset: 3})
	require.Equal(t, stream.Start{Last: old.Offset}, sub.Start())
	publish(t, s, key, "new")
	require.Equal(t, []string{"new"}, texts(next(t, sub, 1)))
	silent(t, sub)

	empty := newKey(t)
	sub = subscribe(t, s, empty, stream.From{Now: true})
	require.Zero(t, sub.Start())
	publish(t, s, empty, "first")
	require.Equal(t, []string{"first"}, texts(next(t, sub, 1)))
}

func testLast(t *testing.T, s stream.Stream) {
	key := newKey(t)
	early := subscribe(t, s, key, stream.From{})
	require.Zero(t, early.Start())
	publish(t, s, key, "1", "2", "3")
	entries := next(t, early, 3)

	late := subscribe(t, s, key, stream.From{Offset: entries[0].Offset})
	require.Equal(t, stream.Start{Last: entries[2].Offset}, late.Start())
	publish(t, s, key, "4")
	require.Equal(t, entries[1:], next(t, late, 2))
	require.Greater(t, next(t, late, 1)[0].Offset, late.Start().Last)
}

func testSeveral(t *testing.T, s stream.Stream) {
	key := newKey(t)
	publish(t, s, key, numbers(1, 3)...)
	all(t, s, key, 3) // waits until they exist: pieces may be published asynchronously
	var subs []stream.Subscription
	for range 8 {
		subs = append(subs, subscribe(t, s, key, stream.From{}))
	}
	now := subscribe(t, s, key, stream.From{Now: true})
	publish(t, s, key, numbers(4, 6)...)
	first := next(t, subs[0], 6)
	require.Equal(t, numbers(1, 6), texts(first))
	for _, sub := range subs[1:] {
		require.Equal(t, first, next(t, sub, 6))
	}
	require.Equal(t, first[3:], next(t, now, 3))
}

func testIsolation(t *testing.T, s stream.Stream) {
	unique := rand.Text()
	parts := []string{
		"a", "a.b", "a b", "*", ">", "a.*", "a.>", "A", "%", "%2A", "a/b", "", "ä€", "new\nline", "$JS", "\x00", "=", "-", "_",
		strings.Repeat("long.", 200), strings.Repeat("long.", 200) + "x",
	}
	var keys []stream.Key
	for _, p := range parts {
		keys = append(keys,
			stream.Key{Namespace: unique, ThreadID: "t" + p}, stream.Key{Namespace: unique + p, ThreadID: "u"},
			stream.Key{Namespace: p, ThreadID: unique})
	}
	keys = append(keys, stream.Key{Namespace: unique + ".t", ThreadID: "x"}, stream.Key{Namespace: unique, ThreadID: "t.x"})

	subs, notices := map[stream.Key]stream.Subscription{}, make(chan string, 2*len(keys))
	for _, key := range keys {
		if subs[key] != nil {
			continue
		}
		subs[key] = subscribe(t, s, key, stream.From{})
		stop, err := s.Listen(testContext(t), key, func(n stream.Notice) { notices <- fmt.Sprint(key, n.Reason) })
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	for key := range subs {
		publish(t, s, key, key.String())
	}
	for key, sub := range subs {
		require.Equal(t, []string{key.String()}, texts(next(t, sub, 1)))
		require.NoError(t, s.Notify(testContext(t), key, stream.Notice{Reason: "stop"}))
		require.Equal(t, fmt.Sprint(key, "stop"), receive(t, notices))
	}
	for key, sub := range subs {
		publish(t, s, key, "second")
		require.Equal(t, []string{"second"}, texts(next(t, sub, 1)))
	}
	require.Empty(t, notices)
}

func testForeignOffset(t *testing.T, s stream.Stream) {
	key := newKey(t)
	publish(t, s, key, "1", "2")
	entries := all(t, s, key, 2)
	for name, offset := range map[string]int64{
		"of a lost log":          1,
		"of a log to come":       entries[1].Offset + int64(1000*time.Hour/time.Microsecond),
		"just beyond the newest": entries[1].Offset + 1_000_000,
	} {
		sub := subscribe(t, s, key, stream.From{Offset: offset})
		require.Equal(t, stream.Start{Gap: true, Last: entries[1].Offset}, sub.Start(), name)
		require.Equal(t, entries, next(t, sub, 2), name)
	}

	empty := subscribe(t, s, newKey(t), stream.From{Offset: 5})
	require.Equal(t, stream.Start{Gap: true}, empty.Start())
}

func testSlowReader(t *testing.T, s stream.Stream) {
	const n = 3000
	key := newKey(t)
	sub := subscribe(t, s, key, stream.From{})
	publish(t, s, key, "0")
	next(t, sub, 1)
	publish(t, s, key, numbers(1, n)...)
	require.Equal(t, numbers(1, n), texts(next(t, sub, n)))
	silent(t, sub)
}

func testWake(t *testing.T, s stream.Stream) {
	key := newKey(t)
	sub := subscribe(t, s, key, stream.From{})
	ctx, got := testContext(t), make(chan string, 10)
	go func() {
		defer close(got)
		for {
			e, err := sub.Next(ctx)
			if err != nil {
				return
			}
			got <- e.Event.Content
		}
	}()
	for _, text := range numbers(1, 10) { // the reader waits before each one
		publish(t, s, key, text)
		require.Equal(t, text, receive(t, got))
	}
	sub.Close()
	receive(t, got)
}

func testContextEnds(t *testing.T, s stream.Stream) {
	key := newKey(t)
	sub := subscribe(t, s, key, stream.From{})
	ctx, cancel := context.WithCancel(testContext(t))
	failed := make(chan error)
	go func() {
		_, err := sub.Next(ctx)
		failed <- err
	}()
	cancel()
	require.ErrorIs(t, receive(t, failed), context.Canceled)
	silent(t, sub)
	publish(t, s, key, "on")
	require.Equal(t, []string{"on"}, texts(next(t, sub, 1)))

	require.ErrorIs(t, s.Publish(ctx, key, Piece("x")), context.Canceled)
	_, err := s.Subscribe(ctx, key, stream.From{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Notify(ctx, key, stream.Notice{}), context.Canceled)
	silent(t, sub)
}

func testCloseSubscription(t *testing.T, s stream.Stream) {
	key := newKey(t)
	sub, other := subscribe(t, s, key, stream.From{}), subscribe(t, s, key, stream.From{})
	failed := make(chan error)
	go func() {
		_, err := sub.Next(context.Background())
		failed <- err
	}()
	sub.Close()
	sub.Close()
	require.ErrorIs(t, receive(t, failed), stream.ErrClosed)
	publish(t, s, key, "x")
	_, err := sub.Next(testContext(t))
	require.ErrorIs(t, err, stream.ErrClosed)
	require.Equal(t, []string{"x"}, texts(next(t, other, 1)))
}

func testConcurrent(t *testing.T, s stream.Stream) {
	const publishers, each = 8, 200
	key, ctx := newKey(t), testContext(t)
	sub := subscribe(t, s, key, stream.From{})
	errs := make(chan error, publishers)
	for p := range publishers {
		go func() {
			for i := range each {
				if err := s.Publish(ctx, key, stream.Entry{After: int64(p), Event: &event.AgentEvent{
					Type: event.EventStream, Content: fmt.Sprint(i),
				}}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range publishers {
		require.NoError(t, receive(t, errs))
	}
	seen := make([]int, publishers)
	entries := next(t, sub, publishers*each)
	for _, e := range entries {
		require.Equal(t, fmt.Sprint(seen[e.After]), e.Event.Content, "publisher %d", e.After)
		seen[e.After]++
	}
	require.Equal(t, entries, all(t, s, key, publishers*each))
}

func testSubscribeWhilePublishing(t *testing.T, s stream.Stream) {
	const n, readers = 400, 10
	key, ctx := newKey(t), testContext(t)
	publish(t, s, key, "0")
	done := make(chan error, 1)
	go func() {
		for i := 1; i <= n; i++ {
			if err := s.Publish(ctx, key, Piece(fmt.Sprint(i))); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	var wg sync.WaitGroup
	results := make(chan error, readers)
	for range readers {
		wg.Go(func() { results <- readInParts(ctx, s, key, n) })
	}
	require.NoError(t, receive(t, done))
	wg.Wait()
	for range readers {
		require.NoError(t, <-results)
	}
}

// readInParts reads the log up to n, with a new subscription after every few entries.
func readInParts(ctx context.Context, s stream.Stream, key stream.Key, n int) error {
	var last int64
	for want := 0; want <= n; {
		sub, err := s.Subscribe(ctx, key, stream.From{Offset: last})
		if err != nil {
			return err
		}
		if sub.Start().Gap {
			return fmt.Errorf("gap before %d", want)
		}
		for range 37 {
			if want > n {
				break
			}
			e, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			if e.Event.Content != fmt.Sprint(want) {
				return fmt.Errorf("got %s, want %d", e.Event.Content, want)
			}
			last, want = e.Offset, want+1
		}
		sub.Close()
	}
	return nil
}

func testLarge(t *testing.T, s stream.Stream) {
	key, ctx := newKey(t), testContext(t)
	sub := subscribe(t, s, key, stream.From{})
	fits := stream.Entry{Event: &event.AgentEvent{Type: event.EventToolProgress, ToolName: "t", Data: jsonText(stream.MaxEntryBytes - 200)}}
	require.NoError(t, s.Publish(ctx, key, fits))

	for name, e := range map[string]stream.Entry{
		"1 MB of progress":     {Event: &event.AgentEvent{Type: event.EventToolProgress, ToolName: "t", Data: jsonText(1 << 20)}},
		"grows by escaping":    Piece(strings.Repeat("\x01", stream.MaxEntryBytes/3)),
		"just over the limit":  Piece(strings.Repeat("x", stream.MaxEntryBytes-20)),
		"message in the event": {Event: &event.AgentEvent{Type: event.EventMessage, Message: &event.Message{Content: strings.Repeat("x", 1<<20)}}},
	} {
		require.ErrorIs(t, s.Publish(ctx, key, e), stream.ErrTooLarge, name)
	}
	publish(t, s, key, "after")
	got := next(t, sub, 2)
	require.Equal(t, string(fits.Event.Data), string(got[0].Event.Data))
	require.Equal(t, "after", got[1].Event.Content)
}

func jsonText(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
}

func testNotices(t *testing.T, s stream.Stream) {
	key, ctx := newKey(t), testContext(t)
	require.NoError(t, s.Notify(ctx, key, stream.Notice{Reason: "nobody hears this"}))

	first, second := make(chan stream.Notice, 10), make(chan stream.Notice, 10)
	setup, cancel := context.WithCancel(ctx)
	stop, err := s.Listen(setup, key, func(n stream.Notice) { first <- n })
	require.NoError(t, err)
	stopSecond, err := s.Listen(ctx, key, func(n stream.Notice) { second <- n })
	require.NoError(t, err)
	defer stopSecond()
	cancel() // has no effect

	for _, n := range []stream.Notice{{TraceID: "trace-1", Reason: "interrupt"}, {Reason: "close"}, {Viewer: &stream.Viewer{ID: "w1", Name: "ann", Since: time.Unix(1_700_000_000, 0).UTC()}}} {
		require.NoError(t, s.Notify(ctx, key, n))
		require.Equal(t, n, receive(t, first))
		require.Equal(t, n, receive(t, second))
	}
	stop()
	stop()
	require.NoError(t, s.Notify(ctx, key, stream.Notice{Reason: "again"}))
	require.Equal(t, stream.Notice{Reason: "again"}, receive(t, second))
	require.Empty(t, first)

	sub := subscribe(t, s, key, stream.From{})
	silent(t, sub) // notices are not entries
}

func testClose(t *testing.T, s stream.Stream) {
	key, ctx := newKey(t), testContext(t)
	sub := subscribe(t, s, key, stream.From{})
	failed := make(chan error)
	go func() {
		_, err := sub.Next(context.Background())
		failed <- err
	}()
	require.NoError(t, s.Close())
	require.ErrorIs(t, receive(t, failed), stream.ErrClosed)
	require.NoError(t, s.Close())

	require.ErrorIs(t, s.Ping(ctx), stream.ErrClosed)
	require.ErrorIs(t, s.Publish(ctx, key, Piece("x")), stream.ErrClosed)
	require.ErrorIs(t, s.Notify(ctx, key, stream.Notice{}), stream.ErrClosed)
	_, err := s.Subscribe(ctx, key, stream.From{})
	require.ErrorIs(t, err, stream.ErrClosed)
	_, err = s.Listen(ctx, key, func(stream.Notice) {})
	require.ErrorIs(t, err, stream.ErrClosed)
	sub.Close()
}

// receive waits for a value; a closed channel returns the zero value.
func receive[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(testenv.Patience):
		require.FailNow(t, "nothing arrived in time")
		panic("unreachable")
	}
}
