package server_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
)

func TestAgentChanges(t *testing.T) {
	w := agentWorld(t)
	require.Equal(t, object{"changes": []any{}}, w.call("GET", "/v1/agents/changes", nil).body)
	w.putAgent("bot?by=ann", object{"model": "demo/1"}, 201)
	w.putAgent("bot?by=ann", object{"model": "demo/2"}, 200)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/agents/bot?by=bob", nil).status)

	t.Run("S4-07 what was made, changed and deleted", func(t *testing.T) {
		got := w.call("GET", "/v1/agents/changes", nil)
		require.NotContains(t, got.body, "next")
		changes := got.body["changes"].([]any)
		for _, c := range changes {
			require.NotEmpty(t, c.(object)["at"])
			delete(c.(object), "at")
		}
		require.Equal(t, []any{
			object{"seq": 1.0, "type": "agent.created", "name": "bot", "version": 1.0, "by": "ann"},
			object{"seq": 2.0, "type": "agent.updated", "name": "bot", "version": 2.0, "by": "ann"},
			object{"seq": 3.0, "type": "agent.deleted", "name": "bot", "version": 3.0, "by": "bob"},
		}, changes)
	})
	t.Run("page by page", func(t *testing.T) {
		got := w.call("GET", "/v1/agents/changes?limit=2", nil)
		require.EqualValues(t, 2, got.body["next"])
		got = w.call("GET", "/v1/agents/changes?limit=2&after=2", nil)
		require.Len(t, got.body["changes"], 1)
		require.NotContains(t, got.body, "next")
	})
	t.Run("places that are none", func(t *testing.T) {
		for _, id := range []string{"x", "-1", "1:2"} {
			got := w.call("GET", "/v1/agents/changes", nil, "Accept", "text/event-stream", "Last-Event-ID", id)
			require.Equal(t, []string{"header.Last-Event-ID"}, got.problem(t, 400))
		}
		require.Equal(t, []string{"query.after"}, w.call("GET", "/v1/agents/changes?after=-1", nil).problem(t, 422))
	})
}

// watchAgents opens a stream of changes.
func (w *world) watchAgents(query, lastID string) *viewer {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/agents/changes"+query, nil)
	require.NoError(w.t, err)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { res.Body.Close() })
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	return &viewer{w: w, res: res, lines: bufio.NewScanner(res.Body), cancel: cancel, lastID: lastID}
}

func TestAgentChangesLive(t *testing.T) {
	w := agentWorld(t)
	w.putAgent("bot", object{"model": "demo/1"}, 201)
	w.putAgent("bot", object{"model": "demo/2"}, 200)
	v := w.watchAgents("", "")
	require.Equal(t, "text/event-stream", v.res.Header.Get("Content-Type"))
	first := v.mustNext()
	require.Equal(t, "1", first.id)
	require.Contains(t, first.data, `{"seq":1,"type":"agent.created","name":"bot","version":1,"by":"api","at":"`)
	require.Equal(t, "2", v.mustNext().id)
	w.putAgent("critic", object{"model": "demo/1"}, 201)
	third := v.mustNext()
	require.Equal(t, "3", third.id)
	require.Contains(t, third.data, `"name":"critic"`)

	require.Equal(t, third, w.watchAgents("", "2").mustNext(), "it resumes behind the last one")
	require.Equal(t, third, w.watchAgents("?after=2", "").mustNext())
	require.Equal(t, third, w.watchAgents("?after=0", "2").mustNext(), "browsers repeat the query when they reconnect")
	late := w.watchAgents("", "3")
	w.putAgent("zoe", object{"model": "demo/1"}, 201)
	require.Equal(t, "4", late.mustNext().id)
	require.Equal(t, "4", v.mustNext().id)
}

func TestAgentChangesHeartbeat(t *testing.T) {
	var asked atomic.Int32
	var fails atomic.Bool
	w := agentWorld(t, func(c *server.Config) {
		c.Heartbeat = 5 * time.Millisecond
		c.Store = teststore.Before(c.Store, func(context.Context) error {
			asked.Add(1)
			if fails.Load() {
				return errors.New("a secret of the store")
			}
			return nil
		}, "agent_changes")
	})
	begun := time.Now()
	v := w.watchAgents("", "")
	for v.beats < 20 {
		require.True(t, v.lines.Scan())
		if strings.HasPrefix(v.lines.Text(), ":") {
			v.beats++
		}
	}
	require.LessOrEqual(t, int(asked.Load()), 2+int(time.Since(begun)/time.Second), "a heartbeat asks nothing")
	fails.Store(true)
	for v.lines.Scan() {
		require.NotContains(t, v.lines.Text(), "secret")
	}
	require.NoError(t, v.lines.Err(), "the stream ends, so that the client resumes")
	got := w.call("GET", "/v1/agents/changes", nil, "Accept", "text/event-stream")
	got.problem(t, 500)
	require.NotContains(t, got.text, "secret")
}

func TestAgentChangesEndWithTheServer(t *testing.T) {
	closing, shut := context.WithCancel(t.Context())
	w := agentWorld(t, func(c *server.Config) { c.Closing = closing })
	w.putAgent("bot", object{"model": "demo/1"}, 201)
	v := w.watchAgents("", "")
	v.mustNext()
	shut()
	_, more := v.next()
	assert.False(t, more)
}
