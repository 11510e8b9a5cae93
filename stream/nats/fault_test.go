package nats_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/nats"
	"github.com/threadmill/threadmill/stream/streamtest"
)

var (
	key   = stream.Key{Namespace: "ns", ThreadID: "thread"}
	other = stream.Key{Namespace: "ns", ThreadID: "other"}
)

func config(t *testing.T) nats.Config {
	return nats.Config{URL: testenv.NATS(t), Stream: testenv.Name("live"), Prefix: testenv.Name("tm")}
}

func waiting(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

func publish(t *testing.T, s stream.Stream, key stream.Key, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, s.Publish(waiting(t), key, streamtest.Piece(text)))
	}
}

func subscribe(t *testing.T, s stream.Stream, from stream.From) stream.Subscription {
	t.Helper()
	sub, err := s.Subscribe(waiting(t), key, from)
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

func next(t *testing.T, sub stream.Subscription) stream.Entry {
	t.Helper()
	e, err := sub.Next(waiting(t))
	require.NoError(t, err)
	return e
}

// manager returns a client of JetStream beside the driver.
func manager(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// number returns the number in an entry by big, for readable failures.
func number(e stream.Entry) string { return strings.TrimRight(e.Event.Content, "x") }

func big(i int) string { return strconv.Itoa(i) + strings.Repeat("x", 400<<10) }

// flood replaces the content of the smallest log by entries of a thread.
func flood(t *testing.T, s *nats.Stream, key stream.Key, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		publish(t, s, key, big(i))
	}
	require.NoError(t, s.Publish(waiting(t), key, stream.Entry{Stored: 1}))
	acknowledged(t, s)
}

func acknowledged(t *testing.T, s *nats.Stream) {
	t.Helper()
	select {
	case <-s.Acknowledged():
	case <-waiting(t).Done():
		require.FailNow(t, "NATS does not acknowledge")
	}
}

func small(t *testing.T) nats.Config {
	cfg := config(t)
	cfg.MaxBytes = nats.MinMaxBytes
	return cfg
}

func TestRetentionByAge(t *testing.T) {
	cfg := config(t)
	cfg.Retention = 3 * time.Second
	s, js := open(t, cfg), manager(t, cfg.URL)
	reader := subscribe(t, s, stream.From{})
	arrived := arrival(t, reader)
	// The reader is first, so that it gets both before they expire.
	require.Eventually(t, func() bool { return requests(t, js, cfg.Stream) == 1 }, testenv.Patience, 5*time.Millisecond)
	publish(t, s, key, "1", "2")
	first := (<-arrived).Offset
	require.Positive(t, first)
	require.Eventually(t, func() bool {
		sub := subscribe(t, s, stream.From{Offset: first})
		defer sub.Close()
		return sub.Start().Gap
	}, testenv.Patience, 50*time.Millisecond)

	again := arrival(t, subscribe(t, s, stream.From{Offset: first}))
	require.Eventually(t, func() bool { return requests(t, js, cfg.Stream) == 2 }, testenv.Patience, 5*time.Millisecond, "this one is there first, too")
	publish(t, s, key, "3")
	require.Equal(t, "2", next(t, reader).Event.Content, "it had arrived before it expired")
	third := next(t, reader)
	require.Equal(t, "3", third.Event.Content)
	require.Equal(t, third, <-again)
}

// arrival starts a reader that waits for its next entry, which is empty if none arrives.
func arrival(t *testing.T, sub stream.Subscription) <-chan stream.Entry {
	t.Helper()
	ctx, arrived := waiting(t), make(chan stream.Entry, 1)
	go func() {
		e, _ := sub.Next(ctx)
		arrived <- e
	}()
	return arrived
}

func TestReaderThatWasTrimmedLags(t *testing.T) {
	cfg := small(t)
	s, js := open(t, cfg), manager(t, cfg.URL)
	publish(t, s, key, big(0))
	reader := subscribe(t, s, stream.From{})
	last := next(t, reader)
	flood(t, s, key, 1, 10) // more than the reader fetches at once, less than the log's capacity
	require.Eventually(t, func() bool { return requests(t, js, cfg.Stream) == 0 }, testenv.Patience, 5*time.Millisecond)
	flood(t, s, key, 11, 60)

	want, lagged := 1, false
	for !lagged {
		e, err := reader.Next(waiting(t))
		if err != nil {
			require.ErrorIs(t, err, stream.ErrLagged)
			_, again := reader.Next(waiting(t))
			require.ErrorIs(t, again, stream.ErrLagged)
			lagged = true
			continue
		}
		require.Equal(t, strconv.Itoa(want), number(e))
		last, want = e, want+1
	}
	require.Less(t, want, 11)

	sub := subscribe(t, s, stream.From{Offset: last.Offset})
	require.True(t, sub.Start().Gap)
	e := next(t, sub)
	for e.Event != nil {
		last, e = e, next(t, sub)
	}
	require.Equal(t, "60", number(last))
}

// requests counts the requests that wait for entries in NATS.
func requests(t *testing.T, js jetstream.JetStream, name string) int {
	t.Helper()
	h, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	waiting := 0
	consumers := h.ListConsumers(t.Context())
	for c := range consumers.Info() {
		waiting += c.NumWaiting
	}
	require.NoError(t, consumers.Err())
	return waiting
}

func TestQuietThreadDoesNotLag(t *testing.T) {
	s := open(t, small(t))
	publish(t, s, key, "1")
	reader, fresh := subscribe(t, s, stream.From{}), subscribe(t, s, stream.From{Now: true})
	seen := next(t, reader).Offset
	for _, sub := range []stream.Subscription{reader, fresh} {
		for waits, d := false, 50*time.Millisecond; !waits; waits, d = nats.Waits(sub), 2*d {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_, err := sub.Next(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
	}
	flood(t, s, other, 1, 50)
	publish(t, s, key, "2")
	require.Equal(t, "2", next(t, reader).Event.Content)
	require.Equal(t, "2", next(t, fresh).Event.Content)
	require.True(t, subscribe(t, s, stream.From{Offset: seen}).Start().Gap, "nobody can say what was removed")
}

func TestTwoProcesses(t *testing.T) {
	cfg := config(t)
	worker, api := open(t, cfg), open(t, cfg)
	sub := subscribe(t, api, stream.From{})
	notices := make(chan stream.Notice, 1)
	stop, err := worker.Listen(waiting(t), key, func(n stream.Notice) { notices <- n })
	require.NoError(t, err)
	defer stop()
	publish(t, worker, key, "1")
	require.Equal(t, "1", next(t, sub).Event.Content)
	require.NoError(t, api.Notify(waiting(t), key, stream.Notice{Reason: "interrupt"}))
	select {
	case n := <-notices:
		require.Equal(t, "interrupt", n.Reason)
	case <-time.After(testenv.Patience):
		require.Fail(t, "no notice")
	}
}

func TestServerRestart(t *testing.T) {
	srv := newServer(t)
	s := open(t, nats.Config{URL: srv.url()})
	publish(t, s, key, "1", "2", "3")
	sub := subscribe(t, s, stream.From{})
	next(t, sub)
	old := next(t, sub).Offset
	notices := make(chan stream.Notice, 100)
	stop, err := s.Listen(waiting(t), key, func(n stream.Notice) { notices <- n })
	require.NoError(t, err)
	defer stop()

	srv.kill()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := sub.Next(ctx)
		return err != nil && ctx.Err() == nil
	}, testenv.Patience, time.Millisecond, "the subscription breaks")
	requireAway(t, s)
	sent := s.Sent()
	requireAway(t, s)
	late := make(chan stream.Notice, 100)
	stopLate, err := s.Listen(t.Context(), key, func(n stream.Notice) { late <- n })
	require.NoError(t, err, "a step begins")
	defer stopLate()
	require.Equal(t, sent, s.Sent(), "nothing is tried, so that nothing can wait")
	addr := srv.start()
	require.ErrorIs(t, s.Publish(t.Context(), key, stream.Entry{Stored: 9}), stream.ErrUnavailable, "the server is back, but not the connection to it")
	srv.open(addr)
	require.Eventually(t, func() bool { return s.Ping(t.Context()) == nil }, testenv.Patience, 10*time.Millisecond)
	again := subscribe(t, s, stream.From{Offset: old})
	require.True(t, again.Start().Gap)
	e := next(t, again)
	require.EqualValues(t, 9, e.Stored, "the newest records are announced, once")
	require.Greater(t, e.Offset, old+1)
	require.ErrorIs(t, s.Publish(waiting(t), key, streamtest.Piece("refused")), stream.ErrLost, "the pieces meanwhile are lost")
	publish(t, s, key, "on")
	require.Equal(t, "on", next(t, again).Event.Content)
	require.Eventually(t, func() bool {
		return s.Notify(t.Context(), key, stream.Notice{Reason: "heard"}) == nil && len(notices) > 0 && len(late) > 0
	}, testenv.Patience, 10*time.Millisecond, "listening goes on")
}

// requireAway checks that all calls fail at once: any wait for an answer would be too long a hundred times.
func requireAway(t *testing.T, s *nats.Stream) {
	t.Helper()
	ctx := waiting(t)
	for range 100 {
		require.ErrorIs(t, s.Publish(ctx, key, streamtest.Piece("nowhere")), stream.ErrUnavailable)
		require.ErrorIs(t, s.Publish(ctx, key, stream.Entry{Stored: 8}), stream.ErrUnavailable)
		require.ErrorIs(t, s.Notify(ctx, key, stream.Notice{}), stream.ErrUnavailable)
		require.ErrorIs(t, s.Ping(ctx), stream.ErrUnavailable)
		_, err := s.Subscribe(ctx, key, stream.From{})
		require.ErrorIs(t, err, stream.ErrUnavailable)
	}
}

// TestRequestsEndWithTheConnection: a request whose answer is lost with the server ends then, however long its caller would wait.
func TestRequestsEndWithTheConnection(t *testing.T) {
	srv := newServer(t)
	s := open(t, nats.Config{URL: srv.url()})
	srv.freeze()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	ended, before := make(chan error), s.Sent()
	for range 10 {
		go func() {
			_, err := s.Subscribe(ctx, key, stream.From{})
			ended <- err
		}()
	}
	require.Eventually(t, func() bool { return s.Sent() >= before+10 }, testenv.Patience, time.Millisecond)
	srv.kill()
	for range 10 {
		require.ErrorIs(t, <-ended, stream.ErrUnavailable)
	}
}

// TestServerHangs: a server that keeps its connections, but does not answer, costs the step that begins then a short wait, and
// nothing after that.
func TestServerHangs(t *testing.T) {
	srv := newServer(t)
	s := open(t, nats.Config{URL: srv.url()})
	publish(t, s, key, "1")
	sub := subscribe(t, s, stream.From{})
	require.Equal(t, "1", next(t, sub).Event.Content)
	thaw := srv.freeze()
	publish(t, s, key, "2")
	require.NoError(t, s.Publish(t.Context(), key, stream.Entry{Stored: 3}), "nobody can have acknowledged it")
	stop, err := s.Listen(t.Context(), key, func(stream.Notice) {})
	require.NoError(t, err)
	defer stop()
	requireAway(t, s)
	thaw()
	require.Eventually(t, func() bool { return s.Ping(t.Context()) == nil }, testenv.Patience, 10*time.Millisecond)
	require.Equal(t, "2", next(t, sub).Event.Content)
	require.EqualValues(t, 3, next(t, sub).Stored)
	require.EqualValues(t, 8, next(t, sub).Stored)
	acknowledged(t, s)
}

func TestStreamThatIsGoneIsMadeAgain(t *testing.T) {
	cfg := config(t)
	s, js := open(t, cfg), manager(t, cfg.URL)
	publish(t, s, key, "1")
	sub := subscribe(t, s, stream.From{})
	old := next(t, sub).Offset
	require.NoError(t, js.DeleteStream(t.Context(), cfg.Stream))
	_, err := sub.Next(waiting(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	again := subscribe(t, s, stream.From{Offset: old}) // creates the stream
	require.Equal(t, stream.Start{Gap: true}, again.Start())
	publish(t, s, key, "2")
	e := next(t, again)
	require.Equal(t, "2", e.Event.Content)
	require.Greater(t, e.Offset, old)
}

func TestPublisherHearsOfALoss(t *testing.T) {
	cfg := config(t)
	s, js := open(t, cfg), manager(t, cfg.URL)
	require.NoError(t, js.DeleteStream(t.Context(), cfg.Stream))
	publish(t, s, key, "lost")
	require.Eventually(t, func() bool { return s.Losses() > 0 }, testenv.Patience, time.Millisecond)

	require.Eventually(t, func() bool { return s.Ping(t.Context()) == nil }, testenv.Patience, time.Millisecond, "makes the stream again")
	require.NoError(t, s.Publish(waiting(t), key, stream.Entry{Stored: 3}))
	publish(t, s, other, "not concerned")
	require.ErrorIs(t, s.Publish(waiting(t), key, streamtest.Piece("refused")), stream.ErrLost)
	publish(t, s, key, "on")
	sub := subscribe(t, s, stream.From{})
	require.EqualValues(t, 3, next(t, sub).Stored)
	require.Equal(t, "on", next(t, sub).Event.Content)
}

func TestCloseForgetsTheConsumer(t *testing.T) {
	cfg := config(t)
	s, js := open(t, cfg), manager(t, cfg.URL)
	consumers := func() int {
		h, err := js.Stream(t.Context(), cfg.Stream)
		require.NoError(t, err)
		return h.CachedInfo().State.Consumers
	}
	sub := subscribe(t, s, stream.From{})
	require.Equal(t, 1, consumers())
	sub.Close()
	require.Eventually(t, func() bool { return consumers() == 0 }, testenv.Patience, 5*time.Millisecond)
}

func TestCloseSendsWhatWasPublished(t *testing.T) {
	cfg := config(t)
	reader := open(t, cfg)
	writer, err := nats.Open(t.Context(), cfg)
	require.NoError(t, err)
	for i := range 500 {
		publish(t, writer, key, strconv.Itoa(i))
	}
	require.NoError(t, writer.Close())
	sub := subscribe(t, reader, stream.From{})
	for i := range 500 {
		require.Equal(t, strconv.Itoa(i), next(t, sub).Event.Content)
	}
}

func TestConfigErrors(t *testing.T) {
	for field, cfg := range map[string]nats.Config{
		"Config.Stream":    {Stream: "a.b"},
		"Config.Prefix":    {Prefix: "a..b"},
		"Config.Retention": {Retention: time.Millisecond},
		"Config.MaxBytes":  {MaxBytes: 1},
		"Config.Replicas":  {Replicas: 7},
		"Config.URL":       {URL: "nats://127.0.0.1:1"},
	} {
		_, err := nats.Open(t.Context(), cfg)
		require.ErrorContains(t, err, field)
	}
}
