package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// pagesBefore reads the events of a thread from the end.
func pagesBefore(t *testing.T, w *world, thread string, limit int) (ids []string, last string) {
	t.Helper()
	before := "end"
	for {
		page := w.call("GET", fmt.Sprintf("/v1/threads/%s/events?before=%s&limit=%d", thread, before, limit), nil).ok(t, http.StatusOK)
		var got []string
		for _, e := range page.body["events"].([]any) {
			got = append(got, e.(object)["id"].(string))
		}
		ids = append(got, ids...)
		if last == "" {
			last, _ = page.body["lastEventId"].(string)
		}
		previous, more := page.body["previous"]
		if !more {
			return ids, last
		}
		require.NotEqual(t, before, previous)
		before = previous.(string)
	}
}

func TestEventsBefore(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	records := []event.Record{}
	for i := range 25 {
		records = append(records, said(fmt.Sprint(i)), record(event.TypeLLMCall, event.LLMCall{}))
	}
	w.append("t1", store.Batch{Records: records})
	all := w.call("GET", "/v1/threads/t1/events?limit=1000", nil).ok(t, http.StatusOK)
	var want []string
	for _, e := range all.body["events"].([]any) {
		want = append(want, e.(object)["id"].(string))
	}
	head := fmt.Sprint(int64(w.call("GET", "/v1/threads/t1", nil).body["head"].(float64)))
	for _, limit := range []int{1, 2, 7, 1000} {
		got, last := pagesBefore(t, w, "t1", limit)
		assert.Equal(t, want, got, limit)
		assert.Equal(t, head, last, "records without events count")
	}
	for _, query := range []string{"before=x", "before=end&cursor=1", "before=end&view=env"} {
		got := w.call("GET", "/v1/threads/t1/events?"+query, nil)
		assert.Equal(t, []string{"query.before"}, got.problem(t, http.StatusBadRequest), query)
	}
}

// threadsStream is a viewer of the list of threads.
type threadsStream struct {
	t     testing.TB
	lines *bufio.Scanner
	last  string
}

func (w *world) watchThreads(lastID string) *threadsStream {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, "GET", w.url+"/v1/threads", nil)
	require.NoError(w.t, err)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { res.Body.Close() })
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	return &threadsStream{t: w.t, lines: bufio.NewScanner(res.Body)}
}

// until reads threads until one satisfies a condition.
func (s *threadsStream) until(found func(object) bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if id, ok := strings.CutPrefix(s.lines.Text(), "id: "); ok {
			s.last = id
		}
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		thread := object{}
		require.NoError(s.t, json.Unmarshal([]byte(data), &thread))
		if found(thread) {
			return
		}
	}
	require.Fail(s.t, "the stream has ended")
}

func is(id, activity string) func(object) bool {
	return func(thread object) bool { return thread["id"] == id && thread["activity"] == activity }
}

func TestThreadsStream(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	first, second := w.watchThreads(""), w.watchThreads("")
	first.until(is("t1", "idle"))
	posted := said("hello").In("e1")
	posted.ID = "e1"
	w.put("t1", posted)
	first.until(is("t1", "running"))
	w.open("t2")
	first.until(is("t2", "idle"))
	second.until(is("t2", "idle"))

	w.put("t1", record(event.TypeTurnEnded, event.TurnEnded{EventID: "e1", Status: "failed"}))
	resumed := w.watchThreads(first.last)
	resumed.until(is("t1", "failing"))
	first.until(is("t1", "failing"))

	list := func(query string) (ids []string) {
		for _, thread := range w.call("GET", "/v1/threads?"+query, nil).ok(t, http.StatusOK).body["threads"].([]any) {
			ids = append(ids, thread.(object)["id"].(string))
		}
		return ids
	}
	assert.Equal(t, []string{"t1"}, list("activity=failing"))
	assert.Equal(t, []string{"t2"}, list("activity=idle"))
	assert.Equal(t, []string{"t1"}, list("q=hello"))
	assert.Empty(t, list("q=hello&activity=idle"))
	assert.Equal(t, []string{"query.activity"}, w.call("GET", "/v1/threads?activity=busy", nil).problem(t, http.StatusUnprocessableEntity))
	assert.Equal(t, []string{"query.q"}, w.call("GET", "/v1/threads?q="+strings.Repeat("x", 201), nil).problem(t, http.StatusUnprocessableEntity))
	got := w.call("GET", "/v1/threads", nil, "Accept", "text/event-stream", "Last-Event-ID", "nonsense")
	assert.Equal(t, []string{"header.Last-Event-ID"}, got.problem(t, http.StatusBadRequest))
}
