package server_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// outage is around the calls of a store that cannot be reached while it is down.
type outage struct{ down, frozen atomic.Bool }

var errRefused = errors.New("connection refused")

func (o *outage) fails(ctx context.Context) error {
	if o.frozen.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if o.down.Load() {
		return store.Unavailable(errRefused)
	}
	return nil
}

func (o *outage) of(s store.Store) store.Store { return teststore.Before(s, o.fails) }

// lines is a log.
type lines struct{ testenv.Buffer }

func (l *lines) count(text string) int {
	return strings.Count(l.String(), text)
}

// withOutage is a world whose store can be taken away, and its log from info on.
func withOutage(t *testing.T, change ...func(*server.Config)) (*world, *outage, *lines) {
	o, log := &outage{}, &lines{}
	w := newWorld(t, append(change, func(c *server.Config) {
		c.Store, c.Logger, c.Heartbeat = o.of(c.Store), slog.New(slog.NewTextHandler(log, nil)), 20*time.Millisecond
	})...)
	return w, o, log
}

// viewer opens a stream of events, which ends with the test.
func (w *world) viewer(path string, header ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, "GET", w.url+path, nil)
	require.NoError(w.t, err)
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// await reads a stream until it says text.
func await(t *testing.T, in *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err, "before %q", text)
		if strings.Contains(line, text) {
			return
		}
	}
}

func TestStoreOutage(t *testing.T) {
	w, o, log := withOutage(t)
	w.open("t1")
	w.put("t1", replied("m1", "before"))
	streams := map[string]*bufio.Reader{}
	for _, view := range []string{"agent", "base", "env", "world"} {
		streams[view] = bufio.NewReader(w.viewer("/v1/threads/t1/events?view=" + view).Body)
		await(t, streams[view], "before")
		await(t, streams[view], ": heartbeat") // it reads nothing any more: what ends well during an outage would end it
	}

	o.down.Store(true)
	for range 20 {
		for _, path := range []string{"/v1/threads/t1/events", "/v1/threads/t1/events?view=world", "/v1/agents/changes"} {
			for _, accept := range []string{"text/event-stream", "application/json"} {
				got := w.call("GET", path, nil, "Accept", accept)
				got.problem(t, http.StatusServiceUnavailable)
				require.Equal(t, "5", got.header.Get("Retry-After"))
			}
		}
		require.Equal(t, http.StatusServiceUnavailable, w.call("GET", "/readyz", nil).status)
	}
	key, meanwhile := store.Key{Namespace: "default", ThreadID: "t1"}, replied("m2", "meanwhile")
	meanwhile.ID = "m2"
	out, err := w.store.Append(w.ctx, key, store.Batch{Records: []event.Record{meanwhile}}) // by a worker that still reaches the store
	require.NoError(t, err)
	require.NoError(t, w.stream.Publish(w.ctx, key, stream.Entry{Stored: out.Head}))
	for view, in := range streams {
		await(t, in, ": heartbeat")
		await(t, in, ": heartbeat")
		require.NotNil(t, in, view)
	}
	require.Equal(t, 1, log.count("store unavailable"))
	require.Equal(t, 1, log.count("level="), "nothing else is logged")

	o.down.Store(false)
	for _, in := range streams {
		await(t, in, "meanwhile")
	}
	require.Equal(t, http.StatusOK, w.call("GET", "/readyz", nil).status)
	require.Equal(t, 1, log.count("store available again"))
	require.Equal(t, 2, log.count("level="))
}

func TestStoreFrozen(t *testing.T) {
	w, o, log := withOutage(t, func(c *server.Config) { c.AnswerWithin = 50 * time.Millisecond })
	o.frozen.Store(true)
	for range 3 {
		got := w.call("GET", "/v1/threads/t1", nil)
		got.problem(t, http.StatusServiceUnavailable)
		require.Equal(t, "5", got.header.Get("Retry-After"))
	}
	require.Equal(t, 1, log.count("level="))
}

func TestMaxViewers(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.MaxViewers = 2 })
	w.open("t1")
	first := w.viewer("/v1/threads/t1/events")
	second := w.viewer("/v1/agents/changes")
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.Equal(t, http.StatusOK, second.StatusCode)
	for _, path := range []string{"/v1/threads/t1/events", "/v1/agents/changes"} {
		got := w.call("GET", path, nil, "Accept", "text/event-stream")
		got.problem(t, http.StatusServiceUnavailable)
		require.Equal(t, "5", got.header.Get("Retry-After"))
		require.Equal(t, http.StatusOK, w.call("GET", path, nil).status, "a page is no stream")
	}
	require.Equal(t, http.StatusNotFound, w.call("GET", "/v1/threads/t2/events", nil, "Accept", "text/event-stream").status)
	require.NoError(t, first.Body.Close())
	require.Eventually(t, func() bool {
		return w.viewer("/v1/threads/t1/events").StatusCode == http.StatusOK
	}, testenv.Patience, 10*time.Millisecond, "one that has gone makes room")
}
