package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/store"
)

// list returns the ids of the threads that a query lists.
func (w *world) list(query string) []string {
	w.t.Helper()
	ids := []string{}
	for _, thread := range w.call("GET", "/v1/threads?"+query, nil).ok(w.t, http.StatusOK).body["threads"].([]any) {
		ids = append(ids, thread.(object)["id"].(string))
	}
	return ids
}

// waits stores that a call waits for an approval, which expires after some time.
func (w *world) waits(thread, call, tool string, expires time.Duration) {
	q := event.ApprovalRequest{ToolCallID: call, ToolName: tool}
	if expires != 0 {
		at := time.Now().Add(expires)
		q.ExpiresAt = &at
	}
	w.put(thread, record(event.TypeApprovalRequest, q).In("e1"))
}

func failed() event.Record {
	return record(event.TypeTurnEnded, event.TurnEnded{EventID: "e1", Status: "failed"}).In("e1")
}

// TestThreadPreview: every list and every thread has the beginning of its first message, as it is stored now.
func TestThreadPreview(t *testing.T) {
	w := newWorld(t)
	stream := w.watchThreads("")
	w.open("t1")
	said := event.NewRecord("m1", event.TypeMessage, "", "", time.Now(), event.Message{ID: "m1", Content: "my card is 4111\nplease\tpay", SenderType: event.CreatedByUser})
	w.put("t1", said, failed())
	w.open("t2")
	previews := func(want any) {
		t.Helper()
		assert.Equal(t, want, w.call("GET", "/v1/threads/t1", nil).body["preview"])
		assert.Equal(t, want, w.call("GET", "/v1/threads/t1?state=true", nil).body["preview"])
		assert.Equal(t, want, w.call("PATCH", "/v1/threads/t1", object{"title": "Payment"}).ok(t, http.StatusOK).body["preview"])
		threads := w.call("GET", "/v1/threads", nil).body["threads"].([]any)
		assert.NotContains(t, threads[0], "preview", "of a thread without a message")
		assert.Equal(t, want, threads[1].(object)["preview"])
	}
	previews("my card is 4111 please pay")
	stream.until(func(thread object) bool { return thread["preview"] == "my card is 4111 please pay" })
	erased := event.NewRecord("m1", event.TypeMessage, "", "", time.Now(), event.Message{ID: "m1", Content: "my card is […]", SenderType: event.CreatedByUser})
	require.NoError(t, w.store.ReplaceRecords(w.ctx, store.Key{Namespace: "default", ThreadID: "t1"}, erased))
	previews("my card is […]")
}

// TestOpenedTitleIsRedacted: a title is redacted in the row that lists show at once, too.
func TestOpenedTitleIsRedacted(t *testing.T) {
	redactor, err := redact.New(redact.Config{Patterns: []redact.Pattern{{Name: "card", Expression: "4111"}}})
	require.NoError(t, err)
	w := newWorld(t, func(c *server.Config) { c.Redact = redactor })
	got := w.call("POST", "/v1/threads", object{"id": "t1", "title": "card 4111"}).ok(t, http.StatusCreated)
	assert.NotContains(t, got.text, "4111")
	assert.NotContains(t, w.call("GET", "/v1/threads", nil).text, "4111")
}

// TestThreadsByAttention: waiting threads come first, then failing ones, the longest first, in pages that keep their order.
func TestThreadsByAttention(t *testing.T) {
	w := newWorld(t)
	for i := range 2 {
		id := fmt.Sprint(i)
		w.put("idle"+id, record(event.TypeStatus, event.StatusChange{Status: "x"}))
		w.put("fails"+id, failed())
		w.waits("waits"+id, "c", "shell", 0)
	}
	since := func() any { return w.call("GET", "/v1/threads/waits0", nil).body["activitySince"] }
	before := since()
	require.NotEmpty(t, before)
	w.put("waits0", said("and")) // is active, and has waited as long as before
	assert.Equal(t, before, since())
	all := []string{"waits0", "waits1", "fails0", "fails1", "idle1", "idle0"}
	assert.Equal(t, all, w.list("sort=attention"))
	assert.Equal(t, []string{"waits0", "waits1", "fails1", "idle1", "fails0", "idle0"}, w.list("sort=active"))
	assert.Equal(t, w.list("sort=active"), w.list(""))
	assert.Equal(t, []string{"fails0", "fails1"}, w.list("sort=attention&activity=failing"))
	for limit := 1; limit < len(all); limit++ {
		var got []string
		for cursor := ""; ; {
			page := w.call("GET", fmt.Sprintf("/v1/threads?sort=attention&limit=%d&cursor=%s", limit, cursor), nil).ok(t, http.StatusOK)
			for _, thread := range page.body["threads"].([]any) {
				got = append(got, thread.(object)["id"].(string))
			}
			if page.body["next"] == nil {
				break
			}
			cursor = page.body["next"].(string)
		}
		assert.Equal(t, all, got, "pages of %d", limit)
	}
	next := func(sort string) string {
		return w.call("GET", "/v1/threads?limit=1&sort="+sort, nil).body["next"].(string)
	}
	for _, query := range []string{"sort=attention&cursor=" + next("active"), "cursor=" + next("attention"), "sort=attention&cursor=x"} {
		assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads?"+query, nil).problem(t, 422), query)
	}
	assert.Equal(t, []string{"query.sort"}, w.call("GET", "/v1/threads?sort=oldest", nil).problem(t, 422))
}

// TestThreadFilters: lists and counts select the same threads.
func TestThreadFilters(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Agents = agent.Fixed{{Name: "bot"}, {Name: "clerk"}} })
	w.waits("shell", "c", "shell", time.Minute)
	w.waits("mail", "c", "mail", 3*time.Hour)
	w.append("clerk", store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"clerk"}}})
	w.append("both", store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"bot", "clerk"}}, Records: []event.Record{said("green")}})
	w.append("closed", closedBatch())
	at := url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for query, want := range map[string][]string{
		"agent=bot": {"closed", "both", "mail", "shell"}, "agent=BOT": {"closed", "both", "mail", "shell"}, "agent=clerk": {"both", "clerk"}, "agent=nobody": {},
		"tool=shell": {"shell"}, "tool=mail": {"mail"}, "tool=other": {},
		"expiresBefore=1h": {"shell"}, "expiresBefore=" + at: {"shell"}, "expiresBefore=24h": {"mail", "shell"}, "expiresBefore=24h&tool=mail": {"mail"}, "expiresBefore=1h&tool=mail": {},
		"olderThan=1h": {}, "newerThan=1h": {"closed", "both", "clerk", "mail", "shell"}, "olderThan=" + at: {"closed", "both", "clerk", "mail", "shell"}, "newerThan=" + at: {},
		"q=green": {"both"}, "agent=clerk&q=green": {"both"}, "": {"closed", "both", "clerk", "mail", "shell"},
	} {
		assert.Equal(t, want, w.list(query), query)
		assert.ElementsMatch(t, want, w.list(query+"&sort=attention"), query)
		counts := w.call("GET", "/v1/thread-counts?"+query, nil).ok(t, http.StatusOK).body
		assert.Equal(t, len(want), int(counts["open"].(float64))+int(counts["closed"].(float64)), query)
	}
	for _, query := range []string{"olderThan=yesterday", "olderThan=-1h", "newerThan=0", "newerThan=2026-01-01", "expiresBefore=1", "expiresBefore=0001-01-01T00:00:00Z"} {
		name, _, _ := strings.Cut(query, "=")
		for _, path := range []string{"/v1/threads?", "/v1/thread-counts?"} {
			assert.Equal(t, []string{"query." + name}, w.call("GET", path+query, nil).problem(t, 422), query)
		}
	}
	assert.Equal(t, []string{"query.status"}, w.call("GET", "/v1/thread-counts?status=open", nil).problem(t, 422), "counts are of each status")
}

// TestThreadCounts: one request counts the threads of the namespace.
func TestThreadCounts(t *testing.T) {
	w := newWorld(t)
	zero := object{"open": 0., "closed": 0., "waiting": 0., "failing": 0., "running": 0., "unanswered": 0., "idle": 0.}
	assert.Equal(t, zero, w.call("GET", "/v1/thread-counts", nil).ok(t, http.StatusOK).body)
	w.waits("waits1", "c", "shell", 0)
	w.waits("waits2", "c", "shell", 0)
	w.put("fails", failed())
	w.open("idle")
	w.append("closed", closedBatch())
	_, err := w.store.Append(w.ctx, store.Key{Namespace: "other", ThreadID: "t"}, store.Batch{})
	require.NoError(t, err)
	assert.Equal(t, object{"open": 4., "closed": 1., "waiting": 2., "failing": 1., "running": 0., "unanswered": 0., "idle": 1.}, w.call("GET", "/v1/thread-counts", nil).body)
}
