package server_test

import (
	"bufio"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
)

// ticketWorld is a world with API keys, whose clock can be moved, and its log. It returns a configured administrator.
func ticketWorld(t *testing.T) (w *world, admin []string, ahead *atomic.Int64, log *lines) {
	ops := auth.TokenFor("ops")
	ahead, log = &atomic.Int64{}, &lines{}
	w = newWorld(t, func(c *server.Config) {
		keys, err := auth.NewKeys(auth.KeysConfig{
			Store: teststore.Of(c.Store), Required: true, Keys: []auth.Key{{Name: "ops", Roles: auth.Roles{auth.RoleAdmin}, Hash: ops.Hash()}},
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		require.NoError(t, err)
		c.Authenticator, c.AuthCheckInterval, c.Heartbeat = keys, 5*time.Millisecond, 5*time.Millisecond
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	admin = bearer(ops.Reveal())
	for _, id := range []string{"t1", "t2"} {
		require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": id}, admin...).status)
		w.put(id, said("hello"))
	}
	return w, admin, ahead, log
}

func (w *world) ticket(key []string, threads ...string) string {
	w.t.Helper()
	got := w.call("POST", "/v1/stream-tickets", object{"threads": threads}, key...).ok(w.t, http.StatusOK)
	assert.Equal(w.t, "no-store", got.header.Get("Cache-Control"))
	return got.body["ticket"].(string)
}

// TestTickets opens streams with tickets of a key, and of one that is being rotated.
func TestTickets(t *testing.T) {
	w, admin, ahead, log := ticketWorld(t)
	id, ann := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "ann", "roles": []string{"read", "post"}}, admin...), http.StatusCreated)
	got := w.call("POST", "/v1/stream-tickets", object{"threads": []string{"t1"}}, admin...)
	got.problem(t, http.StatusConflict)
	assert.Contains(t, got.text, "a configured API key makes no tickets", "others may know its hash")
	for i := range 2 {
		key := ann
		if i > 0 {
			require.Less(t, w.call("POST", "/v1/keys/"+id+"/rotate", object{"overlap": "1h"}, admin...).status, 300)
			ahead.Add(int64(3 * time.Second)) // keys are read again
		}
		one, both := w.ticket(key, "t1"), w.ticket(key, "t2", "t1")
		first := w.watchPath("/v1/threads/t1/events?ticket="+one, "")
		assert.Contains(t, first.mustNext().data, "hello")
		assert.Equal(t, http.StatusOK, w.viewer("/v1/threads/t1/events?ticket="+one, "Last-Event-ID", first.lastID).StatusCode, "EventSource connects again")
		assert.Equal(t, http.StatusOK, w.viewer(following("t1", "t2")+"&ticket="+both).StatusCode)

		denied := func(status int, method, path string, body any, header ...string) {
			t.Helper()
			got := w.call(method, path, body, header...)
			assert.Equal(t, status, got.status, "%s %s %s", method, path, got.text)
		}
		sse := []string{"Accept", "text/event-stream"}
		for _, path := range []string{
			"/v1/threads/t2/events?ticket=" + one, "/v1/threads/t1/events?ticket=" + both, following("t1", "t2") + "&ticket=" + one, following("t2") + "&ticket=" + both,
			"/v1/threads?ticket=" + one, "/v1/agents/changes?ticket=" + one, "/v1/chat/t1/stream?ticket=" + one, "/v1/threads/t1/events?ticket=" + one + "x",
			"/v1/threads/t1/events?ticket=none", "/v1/threads/t1/events?ticket=tmt_", "/v1/threads/t1/events?ticket=tmt_" + id + "_99999999999_", "/v1/threads/t1/events?ticket=&ticket=" + one,
			"/v1/threads/t1/events?ticket=" + strings.Replace(one, "_1", "_2", 1),
		} {
			denied(http.StatusUnauthorized, "GET", path, nil, sse...)
		}
		denied(http.StatusUnauthorized, "GET", "/v1/threads/t1/events?ticket="+one, nil)
		denied(http.StatusUnauthorized, "GET", "/v1/threads/t1/events", nil, append(sse, bearer(one)...)...)
		denied(http.StatusUnauthorized, "POST", "/v1/threads/t1/events?ticket="+one, object{"type": "x"}, sse...)
		denied(http.StatusUnauthorized, "POST", "/v1/threads/t1/messages?ticket="+one, object{"content": "x"}, sse...)
		denied(http.StatusUnauthorized, "POST", "/v1/stream-tickets?ticket="+one, object{"threads": []string{"t1"}}, sse...)

		ahead.Add(int64(2 * time.Minute))
		denied(http.StatusUnauthorized, "GET", "/v1/threads/t1/events?ticket="+one, nil, append(sse, "Last-Event-ID", first.lastID)...)
		beats := first.beats
		for first.beats < beats+5 { // it is looked at again between them
			require.True(t, first.lines.Scan(), "a stream that has begun goes on")
			if strings.HasPrefix(first.lines.Text(), ": heartbeat") {
				first.beats++
			}
		}
		w.put("t1", replied("m"+one[:8]+first.lastID, "still here"))
		assert.Contains(t, first.mustNext().data, "still here")
		ahead.Add(-int64(2 * time.Minute))
		for _, ticket := range []string{one, both} {
			assert.Zero(t, log.count(ticket), "it is not logged")
			_, signature, _ := strings.Cut(strings.TrimPrefix(ticket, "tmt_"), "_")
			assert.Zero(t, log.count(signature))
		}
	}
	assert.Positive(t, log.count("path=/v1/threads/t1/events"), "requests are")

	t.Run("a key without read gets none", func(t *testing.T) {
		_, poster := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "poster", "roles": []string{"post"}}, admin...), http.StatusCreated)
		w.call("POST", "/v1/stream-tickets", object{"threads": []string{"t1"}}, poster...).problem(t, http.StatusForbidden)
	})
	t.Run("one to fifty threads", func(t *testing.T) {
		w.call("POST", "/v1/stream-tickets", object{"threads": []string{}}, admin...).problem(t, http.StatusUnprocessableEntity)
		w.call("POST", "/v1/stream-tickets", object{"threads": make([]string, 51)}, admin...).problem(t, http.StatusUnprocessableEntity)
	})
	for name, end := range map[string]func(id string) answer{
		"revoked": func(id string) answer { return w.call("DELETE", "/v1/keys/"+id, nil, admin...) },
		"rotated": func(id string) answer { return w.call("POST", "/v1/keys/"+id+"/rotate", object{}, admin...) },
	} {
		t.Run("nor one that is "+name, func(t *testing.T) {
			id, key := tokenOf(t, w.call("POST", "/v1/keys", object{"name": name, "roles": []string{"read"}}, admin...), http.StatusCreated)
			ticket := w.ticket(key, "t1")
			stream := w.viewer("/v1/threads/t1/events?ticket=" + ticket)
			await(t, bufio.NewReader(stream.Body), "hello")
			require.Less(t, end(id).status, 300)
			ahead.Add(int64(3 * time.Second)) // keys are read again
			buf := make([]byte, 1<<10)
			for {
				if _, err := stream.Body.Read(buf); err != nil {
					break // the stream ends
				}
			}
			require.NoError(t, w.ctx.Err())
			w.call("GET", "/v1/threads/t1/events?ticket="+ticket, nil, "Accept", "text/event-stream").problem(t, http.StatusUnauthorized)
		})
	}
}

// TestTicketsWithoutKeys: a page needs no other code for a server without keys.
func TestTicketsWithoutKeys(t *testing.T) {
	keys, _ := withKeys(t, false)
	for _, change := range []func(*server.Config){func(*server.Config) {}, keys} {
		w := newWorld(t, change)
		w.open("t1")
		assert.Equal(t, http.StatusOK, w.viewer("/v1/threads/t1/events?ticket="+w.ticket(nil, "t1")).StatusCode)
	}
}
