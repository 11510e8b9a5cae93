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
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// outage is a store that cannot be reached while it is down.
type outage struct {
	store.Store
	down, frozen atomic.Bool
}

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

func (o *outage) Append(ctx context.Context, key store.Key, b store.Batch) (out store.Appended, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.Append(ctx, key, b)
}

func (o *outage) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.Records(ctx, key, q)
}

func (o *outage) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.RecordsByID(ctx, key, ids...)
}

func (o *outage) Thread(ctx context.Context, key store.Key) (out store.Thread, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.Thread(ctx, key)
}

func (o *outage) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.Threads(ctx, namespace, page)
}

func (o *outage) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (out store.ThreadCounts, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.CountThreads(ctx, namespace, f)
}

func (o *outage) Previews(ctx context.Context, namespace string, ids ...string) (map[string]string, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.Previews(ctx, namespace, ids...)
}

func (o *outage) WaitingRecords(ctx context.Context, namespace string, ids ...string) (map[string][]event.Record, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.WaitingRecords(ctx, namespace, ids...)
}

func (o *outage) ThreadIDs(ctx context.Context, namespace, after string, limit int) ([]string, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.ThreadIDs(ctx, namespace, after, limit)
}

func (o *outage) ToolLog(ctx context.Context, key store.Key, id string) (out store.ToolLog, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.ToolLog(ctx, key, id)
}

func (o *outage) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	if err := o.fails(ctx); err != nil {
		return v, err
	}
	return o.Store.SaveAgent(ctx, namespace, v, after)
}

func (o *outage) Agent(ctx context.Context, namespace, name string) (out store.AgentVersion, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.Agent(ctx, namespace, name)
}

func (o *outage) Agents(ctx context.Context, namespace, after string, limit int) ([]store.AgentVersion, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.Agents(ctx, namespace, after, limit)
}

func (o *outage) AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]store.AgentVersion, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.AgentVersions(ctx, namespace, name, before, limit)
}

func (o *outage) AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]store.AgentChange, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.AgentChanges(ctx, namespace, after, limit)
}

func (o *outage) CreateAPIKey(ctx context.Context, k store.APIKey) (store.APIKey, error) {
	if err := o.fails(ctx); err != nil {
		return k, err
	}
	return o.Store.CreateAPIKey(ctx, k)
}

func (o *outage) APIKey(ctx context.Context, id string) (out store.APIKey, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.APIKey(ctx, id)
}

func (o *outage) APIKeys(ctx context.Context, namespace string) ([]store.APIKey, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.APIKeys(ctx, namespace)
}

func (o *outage) RotateAPIKey(ctx context.Context, namespace, id, hash string, until time.Time) (out store.APIKey, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.RotateAPIKey(ctx, namespace, id, hash, until)
}

func (o *outage) RevokeAPIKey(ctx context.Context, namespace, id, by string) (out store.APIKey, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.RevokeAPIKey(ctx, namespace, id, by)
}

func (o *outage) HasAPIKeys(ctx context.Context) (bool, error) {
	if err := o.fails(ctx); err != nil {
		return false, err
	}
	return o.Store.HasAPIKeys(ctx)
}

func (o *outage) Document(ctx context.Context, namespace, kind, name string) (out store.Document, err error) {
	if err := o.fails(ctx); err != nil {
		return out, err
	}
	return o.Store.Document(ctx, namespace, kind, name)
}

func (o *outage) Documents(ctx context.Context, namespace, kind, after string, limit int) ([]store.Document, error) {
	if err := o.fails(ctx); err != nil {
		return nil, err
	}
	return o.Store.Documents(ctx, namespace, kind, after, limit)
}

func (o *outage) Ping(ctx context.Context) error {
	if err := o.fails(ctx); err != nil {
		return err
	}
	return o.Store.Ping(ctx)
}

// lines is a log.
type lines struct{ testenv.Buffer }

func (l *lines) count(text string) int {
	return strings.Count(l.String(), text)
}

// withOutage is a world whose store can be taken away, and its log from info on.
func withOutage(t *testing.T, change ...func(*server.Config)) (*world, *outage, *lines) {
	o, log := &outage{}, &lines{}
	w := newWorld(t, append(change, func(c *server.Config) {
		o.Store = c.Store
		c.Store, c.Logger, c.Heartbeat = o, slog.New(slog.NewTextHandler(log, nil)), 20*time.Millisecond
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
