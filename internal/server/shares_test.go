package server_test

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/configdiff"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/webhook"
)

// TestMCPSessionsOfAKey: a key has a tenth of the sessions. One more ends the session that it has not used for the longest time, and if
// all are in use, it has to wait; other keys do not notice.
func TestMCPSessionsOfAKey(t *testing.T) {
	w := newWorld(t, withBadges)
	const share = 100
	header := func(who string, more ...string) []string {
		return append(append(bearer(who), "Accept", "application/json, text/event-stream"), more...)
	}
	open := func(who string) answer {
		return w.call("POST", "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{
			"protocolVersion": generations[0], "capabilities": object{}, "clientInfo": object{"name": "test", "version": "1"},
		}}, header(who)...)
	}
	ping := func(id string) int {
		return w.call("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header("eve read", "Mcp-Session-Id", id)...).status
	}
	var ids []string
	for range share {
		got := open("eve read")
		require.Equal(t, http.StatusOK, got.status, got.text)
		ids = append(ids, got.header.Get("Mcp-Session-Id"))
	}
	require.Equal(t, http.StatusOK, ping(ids[0]))
	got := open("eve read")
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Eventually(t, func() bool { return ping(ids[1]) == http.StatusNotFound }, testenv.Patience, testenv.Tick)
	require.Equal(t, http.StatusOK, ping(ids[0]))
	ids[1] = got.header.Get("Mcp-Session-Id")

	for _, id := range ids {
		require.Equal(t, http.StatusOK, w.viewer("/mcp", header("eve read", "Mcp-Session-Id", id)...).StatusCode)
	}
	refused := open("eve read")
	refused.problem(t, http.StatusTooManyRequests)
	require.Equal(t, "5", refused.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, open("ann read").status)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/mcp", nil, header("eve read", "Mcp-Session-Id", ids[0])...).status)
	require.Equal(t, http.StatusOK, open("eve read").status)
}

// TestStreamsOfAKey: a key leaves a tenth of the event streams to others.
func TestStreamsOfAKey(t *testing.T) {
	w := newWorld(t, withBadges, func(c *server.Config) { c.MaxViewers = 10 })
	for range 9 {
		require.Equal(t, http.StatusOK, w.viewer("/v1/agents/changes", bearer("eve read")...).StatusCode)
	}
	refused := w.call("GET", "/v1/agents/changes", nil, append(bearer("eve read"), "Accept", "text/event-stream")...)
	refused.problem(t, http.StatusTooManyRequests)
	require.Equal(t, "5", refused.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, w.viewer("/v1/agents/changes", bearer("ann read")...).StatusCode)
}

// TestPresenceOfAKey: a key does not fill the list of those who look at a thread.
func TestPresenceOfAKey(t *testing.T) {
	w := newWorld(t, withBadges)
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, bearer("ann post")...).status)
	see := func(who, window string) answer {
		return w.call("POST", "/v1/threads/t1/presence", object{"id": window}, bearer(who+" read")...)
	}
	for _, window := range "0123456789" {
		require.Equal(t, http.StatusOK, see("eve", string(window)).status)
	}
	refused := see("eve", "one more")
	refused.problem(t, http.StatusTooManyRequests)
	require.Equal(t, "30", refused.header.Get("Retry-After"))
	require.Len(t, see("ann", "1").ok(t, http.StatusOK).body["others"], 10)
}

// heldThread is a store that does not have the records of a thread until the hold is over.
type heldThread struct {
	teststore.Store
	thread string
	hold   chan struct{}

	// reads counts the reads of the thread that are in progress.
	reads atomic.Int64
}

func (s *heldThread) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if key.ThreadID == s.thread {
		s.reads.Add(1)
		defer s.reads.Add(-1)
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Store.Records(ctx, key, q)
}

// TestPagesOfAKey: a key that reads very much waits for itself, and is refused when too much waits. Others are served meanwhile.
func TestPagesOfAKey(t *testing.T) {
	held := &heldThread{thread: "t1", hold: make(chan struct{})}
	w := newWorld(t, withBadges, func(c *server.Config) {
		held.Store, c.Store = teststore.Of(c.Store), held
		c.AnswerWithin = testenv.Patience
	})
	for _, id := range []string{"t1", "t2"} {
		require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": id}, bearer("ann post")...).status)
		w.put(id, said("hello"))
	}
	const queue = 256
	answers := make(chan answer)
	for range queue + 1 {
		go func() { answers <- w.call("GET", "/v1/threads/t1/messages", nil, bearer("eve read")...) }()
	}
	refused := <-answers
	refused.problem(t, http.StatusTooManyRequests)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/threads/t2/messages", nil, bearer("ann read")...).status)
	close(held.hold)
	for range queue {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}
}

// TestReadsAtOnce: however many read, by HTTP or as clients of MCP, half of the processors and what posts remain for others.
func TestReadsAtOnce(t *testing.T) {
	held := &heldThread{thread: "t1", hold: make(chan struct{})}
	w := newWorld(t, func(c *server.Config) {
		held.Store, c.Store = teststore.Of(c.Store), held
		c.AnswerWithin = testenv.Patience
	})
	w.open("t1")
	w.open("t2")
	w.put("t1", said("hello"))
	var readers sync.WaitGroup
	clients := []*mcpClient{w.mcpClient(t, generations[0], ""), w.mcpClient(t, generations[1], "")}
	for i := range 20 {
		readers.Go(func() {
			assert.Equal(t, http.StatusOK, w.call("GET", "/v1/threads/t1/messages", nil).status)
		})
		readers.Go(func() {
			got, err := clients[i%2].CallTool(t.Context(), &mcp.CallToolParams{Name: "read_thread", Arguments: object{"thread": "t1"}})
			if assert.NoError(t, err) {
				assert.False(t, got.IsError)
			}
		})
	}
	most := max(2, int64(runtime.GOMAXPROCS(0)/2))
	require.Eventually(t, func() bool { return held.reads.Load() == most }, testenv.Patience, testenv.Tick)
	for range 20 {
		require.Equal(t, http.StatusAccepted, w.call("POST", "/v1/threads/t2/messages", object{"content": "x", "sender": "ann"}).status)
		require.Equal(t, most, held.reads.Load())
	}
	close(held.hold)
	readers.Wait()
}

// TestWaitingIsNoRead: a client of MCP that waits for a turn leaves its place to those who read.
func TestWaitingIsNoRead(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", in("e1", said("question"), "e1"))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 2 + runtime.GOMAXPROCS(0) {
		c := w.mcpClient(t, generations[0], "")
		waiting.Go(func() {
			_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "wait_for_turn", Arguments: object{"thread": "t1", "event": "e1"}})
		})
	}
	for range 20 {
		require.Equal(t, http.StatusOK, w.call("GET", "/v1/threads/t1/messages", nil).status)
	}
	cancel()
	waiting.Wait()
}

// TestComparisonsAtOnce: few configurations are compared at once, one for each key.
func TestComparisonsAtOnce(t *testing.T) {
	begun, hold := make(chan struct{}), make(chan struct{})
	w := newWorld(t, withBadges, func(c *server.Config) {
		c.AnswerWithin = 20 * time.Millisecond
		c.CompareConfig = func(context.Context, []byte, []webhook.Endpoint) (configdiff.Diff, error) {
			begun <- struct{}{}
			<-hold
			return configdiff.Diff{}, nil
		}
	})
	compare := func(who string) answer {
		return w.call("POST", "/v1/config/diff", object{"file": "agents: []"}, bearer(who+" admin")...)
	}
	answers := make(chan answer)
	for _, who := range []string{"eve", "ann"} {
		go func() { answers <- compare(who) }()
		<-begun
	}
	refused := compare("eve")
	refused.problem(t, http.StatusTooManyRequests)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	compare("bob").problem(t, http.StatusServiceUnavailable)
	close(hold)
	for range 2 {
		require.Equal(t, http.StatusOK, (<-answers).status)
	}
}
