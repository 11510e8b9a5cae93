package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/stream"
)

// viewer is a plain client of server-sent events, as browsers have it.
type viewer struct {
	w      *world
	res    *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
	lastID string
	retry  string
	beats  int
}

type seen struct{ id, data string }

func (w *world) watch(thread, query, lastID string) *viewer {
	w.t.Helper()
	return w.watchPath("/v1/threads/"+thread+"/events"+query, lastID)
}

func (w *world) watchPath(path, lastID string) *viewer {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+path, nil)
	require.NoError(w.t, err)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { res.Body.Close() })
	return &viewer{w: w, res: res, lines: bufio.NewScanner(res.Body), cancel: cancel, lastID: lastID}
}

// next returns the next event; false at the end of the stream.
func (v *viewer) next() (seen, bool) {
	v.w.t.Helper()
	var out seen
	for v.lines.Scan() {
		field, value, _ := strings.Cut(v.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			out.id, v.lastID = value, value
		case "data":
			out.data = value
		case "retry":
			v.retry = value
		case "event":
			v.w.t.Fatal("an event field keeps the event from onmessage")
		case "":
			if value != "" {
				v.beats++
			} else if out.data != "" {
				return out, true
			}
		}
	}
	require.NoError(v.w.t, v.lines.Err())
	return out, false
}

func (v *viewer) mustNext() seen {
	v.w.t.Helper()
	e, ok := v.next()
	require.True(v.w.t, ok, "the stream has ended")
	return e
}

// rest reads to the stream's end.
func (v *viewer) rest() []seen {
	var out []seen
	for {
		e, ok := v.next()
		if !ok {
			return out
		}
		out = append(out, e)
	}
}

func data(events []seen) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.data
	}
	return out
}

func TestWireForms(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	v := w.watch("t1", "", "")
	head := w.put("t1", said("go"))
	assert.Equal(t, seen{"1", `{"type":"message","createdAt":"2023-11-14T22:13:20Z","messageId":"m-go","message":{"id":"m-go","threadId":"t1","senderId":"ann",` +
		`"senderType":"user","role":"user","content":"go","createdAt":"2023-11-14T22:13:20Z"}}`}, v.mustNext())

	live := func(e event.AgentEvent) func() { return func() { w.publish("t1", head, e) } }
	fact := func(r event.Record) func() { return func() { head = w.put("t1", r) } }
	call := event.ToolCallEvent{ThreadID: "t1", AgentName: "bot", ToolCalls: []event.ToolCall{
		{ID: "c1", Function: event.Function{Name: "shell_cmd", Arguments: `{"command":"ls"}`}},
	}}
	result := event.Message{
		ID: "m2", ThreadID: "t1", SenderID: "shell_cmd", SenderType: event.CreatedByTool, Role: event.RoleTool,
		Content: "a\nb", ToolCallID: "c1", ToolName: "shell_cmd", AgentID: "bot",
	}
	failed := result
	failed.ToolCallID, failed.IsError = "c2", true
	for _, test := range []struct {
		row  string
		do   func()
		want string
	}{
		{
			"S1-02 thought", live(event.AgentEvent{Type: event.EventThought, Content: "hm", MessageID: "m1", Attempt: 1, Agent: "bot"}),
			`{"type":"thought","content":"hm","messageId":"m1","attempt":1,"agent":"bot"}`,
		},
		{
			"S1-03 tool_call", fact(record(event.TypeToolCall, call)),
			`{"type":"tool_call","toolName":"shell_cmd","toolArgs":"{\"command\":\"ls\"}","messageId":"r2","agent":"bot","toolCallId":"c1"}`,
		},
		{
			"S1-04 tool_progress", live(event.AgentEvent{Type: event.EventToolProgress, ToolName: "shell_cmd", ToolCallID: "c1", Data: json.RawMessage(`{"subtype":"stdout_chunk","content":"a"}`), Agent: "bot"}),
			`{"type":"tool_progress","toolName":"shell_cmd","data":{"subtype":"stdout_chunk","content":"a"},"agent":"bot","toolCallId":"c1"}`,
		},
		{
			"S1-04 tool_progress of a bare string", live(event.AgentEvent{Type: event.EventToolProgress, ToolName: "x", ToolCallID: "c1", Data: json.RawMessage(`"half"`)}),
			`{"type":"tool_progress","toolName":"x","data":"half","toolCallId":"c1"}`,
		},
		{
			"S1-05 tool_result", fact(record(event.TypeMessage, result)),
			`{"type":"tool_result","toolName":"shell_cmd","output":"a\nb","agent":"bot","toolCallId":"c1"}`,
		},
		{
			"S1-05 tool_result of a failure", fact(record(event.TypeMessage, failed)),
			`{"type":"tool_result","toolName":"shell_cmd","output":"a\nb","isError":true,"agent":"bot","toolCallId":"c2"}`,
		},
		{
			"S1-06 stream", live(event.AgentEvent{Type: event.EventStream, Content: "hel\nlo", MessageID: "m3", Attempt: 1, Agent: "bot"}),
			`{"type":"stream","content":"hel\nlo","messageId":"m3","attempt":1,"agent":"bot"}`,
		},
		{"S1-07 final", fact(record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m3"})), `{"type":"final","messageId":"m3","agent":"bot"}`},
		{
			"S1-08 error", fact(record(event.TypeError, event.Failure{Agent: "bot", EventID: "e1", Error: "no key"})),
			`{"type":"error","error":"no key","agent":"bot"}`,
		},
		{
			"reset", live(event.AgentEvent{Type: event.EventReset, MessageID: "m4", Attempt: 2}),
			`{"type":"reset","messageId":"m4","attempt":2}`,
		},
	} {
		t.Run("S1-01 "+test.row, func(t *testing.T) {
			test.do()
			assert.Equal(t, test.want, undated(v.mustNext().data))
		})
	}
}

func TestStreamHeader(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	v := w.watch("t1", "", "")
	assert.Equal(t, "text/event-stream", v.res.Header.Get("Content-Type"))
	assert.Equal(t, "no-cache", v.res.Header.Get("Cache-Control"))
	assert.Equal(t, "no", v.res.Header.Get("X-Accel-Buffering"))
	w.put("t1", said("go"))
	v.mustNext()
	assert.Equal(t, "500", v.retry)
}

func TestStreamRefusals(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	sse := []string{"Accept", "text/event-stream"}
	w.call("GET", "/v1/threads/nobody/events", nil, sse...).problem(t, 404)
	bad := w.call("GET", "/v1/threads/t1/events", nil, append(sse, "Last-Event-ID", "x")...)
	assert.Equal(t, []string{"header.Last-Event-ID"}, bad.problem(t, 400))
	bad = w.call("GET", "/v1/threads/t1/events?lastEventId=1.0", nil, sse...)
	assert.Equal(t, []string{"query.lastEventId"}, bad.problem(t, 400))
	bad = w.call("GET", "/v1/threads/t1/events?from=then", nil, sse...)
	assert.Equal(t, []string{"query.from"}, bad.problem(t, 422))
	require.NoError(t, w.stream.Close())
	w.call("GET", "/v1/threads/t1/events", nil, sse...).problem(t, 503)
}

func TestAccept(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", said("go"))
	w.append("t1", closedBatch()) // so that streams end
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/json":                    "application/json",
		"text/html, application/json":         "application/json",
		"text/event-stream":                   "text/event-stream",
		"text/event-stream; q=0.1, */*":       "text/event-stream",
		"text/event-stream, application/json": "text/event-stream",
		"application/json, text/event-stream": "application/json",
		"application/json;q=0.9, text/event-stream":         "text/event-stream",
		"text/event-stream;q=0.5, application/json;q=0.8":   "application/json",
		"text/event-stream;q=0, */*":                        "application/json",
		"Text/Event-Stream;charset=utf-8, application/json": "text/event-stream",
	} {
		got := w.call("GET", "/v1/threads/t1/events", nil, "Accept", accept)
		assert.Equal(t, want, got.header.Get("Content-Type"), accept)
	}
}

func TestEventPage(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	calls := event.ToolCallEvent{AgentName: "bot", ToolCalls: []event.ToolCall{{ID: "c1"}, {ID: "c2"}}}
	w.put("t1", said("go"), record(event.TypeToolCall, calls), record(event.TypeFinal, event.Final{}))
	page := w.call("GET", "/v1/threads/t1/events?limit=2", nil).ok(t, http.StatusOK)
	events := page.body["events"].([]any)
	require.Len(t, events, 2)
	assert.Equal(t, "1", events[0].(object)["id"])
	assert.Equal(t, "message", events[0].(object)["type"])
	assert.Equal(t, object{"id": "2.1", "type": "tool_call", "createdAt": "2023-11-14T22:13:20Z", "messageId": "r2", "toolName": "", "toolArgs": "", "agent": "bot", "toolCallId": "c1"}, events[1])
	assert.Equal(t, "2.1", page.body["next"])
	rest := w.call("GET", "/v1/threads/t1/events?limit=2&cursor=2.1", nil)
	require.Len(t, rest.body["events"], 2)
	assert.Equal(t, object{"id": "3", "type": "final", "createdAt": "2023-11-14T22:13:20Z"}, rest.body["events"].([]any)[1])
	assert.NotContains(t, rest.body, "next")
	base := w.call("GET", "/v1/threads/t1/events?limit=2&view=base", nil)
	assert.Equal(t, object{"id": "2.1", "type": "tool_call", "toolName": "", "toolArgs": ""}, base.body["events"].([]any)[0], "S1-03")
	rest = w.call("GET", "/v1/threads/t1/events?view=base&cursor="+base.body["next"].(string), nil)
	assert.Equal(t, []any{object{"id": "3", "type": "final"}}, rest.body["events"], "S1-07")
	w.call("GET", "/v1/threads/nobody/events", nil).problem(t, 404)
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/events?cursor=x", nil).problem(t, 400))
}

func TestHeartbeatOfStream(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 10 * time.Millisecond })
	w.open("t1")
	v := w.watch("t1", "", "")
	for v.beats < 3 {
		require.True(t, v.lines.Scan())
		if strings.HasPrefix(v.lines.Text(), ":") {
			v.beats++
		}
	}
	w.put("t1", said("go"))
	assert.Contains(t, v.mustNext().data, `"content":"go"`)
}

func TestStreamEnds(t *testing.T) {
	t.Run("with the server", func(t *testing.T) {
		closing, shutdown := context.WithCancel(context.Background())
		w := newWorld(t, func(c *server.Config) { c.Closing = closing })
		w.open("t1")
		w.put("t1", said("go"))
		v := w.watch("t1", "", "")
		v.mustNext()
		shutdown()
		assert.Empty(t, v.rest(), "it ends cleanly")
	})
	t.Run("S1-23 with the thread, after everything, and stays ended", func(t *testing.T) {
		w := newWorld(t)
		w.open("t1")
		w.put("t1", said("go"), replied("m1", "gone"), record(event.TypeFinal, event.Final{Agent: "bot"}))
		w.append("t1", closedBatch())
		got := w.watch("t1", "", "").rest()
		require.Len(t, got, 4)
		assert.Equal(t, `{"type":"final","agent":"bot"}`, undated(got[2].data))
		assert.Equal(t, `{"type":"status","status":{"status":"closed"}}`, undated(got[3].data))
		again := w.watch("t1", "", got[1].id).rest()
		assert.Equal(t, got[2:], again)
		over := w.call("GET", "/v1/threads/t1/events", nil, "Accept", "text/event-stream", "Last-Event-ID", got[3].id)
		assert.Equal(t, http.StatusNoContent, over.status, "browsers stop to reconnect")
	})
	t.Run("when the thread is closed while it is watched", func(t *testing.T) {
		w := newWorld(t, func(c *server.Config) { c.Heartbeat = 20 * time.Millisecond })
		w.open("t1")
		v, base := w.watch("t1", "", ""), w.watch("t1", "?view=base", "")
		w.append("t1", closedBatch())
		assert.Len(t, v.rest(), 1)
		assert.Empty(t, base.rest(), "it ends without an event")
	})
}

func TestStreamOfClosedThreadOpensSlowly(t *testing.T) {
	var left atomic.Int32 // calls until the one that takes longer than a heartbeat
	w := newWorld(t, func(c *server.Config) {
		c.Heartbeat = 50 * time.Millisecond
		c.Store = teststore.Before(c.Store, func(context.Context) error {
			if left.Add(-1) == 0 {
				<-time.After(2 * c.Heartbeat)
			}
			return nil
		}, "thread")
	})
	w.open("t1")
	w.put("t1", said("go"))
	w.append("t1", closedBatch())
	left.Store(2) // the second is the reader's
	v := w.watch("t1", "", "")
	require.Equal(t, http.StatusOK, v.res.StatusCode)
	assert.Len(t, v.rest(), 2)
}

func TestFromNow(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	head := w.put("t1", said("old"))
	v := w.watch("t1", "?from=now", "")
	require.True(t, v.lines.Scan()) // the header has come: the reader is there
	w.put("t1", said("new"))
	assert.Contains(t, v.mustNext().data, `"content":"new"`)

	v = w.watch("t1", "?from=now", "")
	for v.lastID == "" {
		require.True(t, v.lines.Scan())
		if id, ok := strings.CutPrefix(v.lines.Text(), "id: "); ok {
			v.lastID = id
		}
	}
	v.cancel()
	w.put("t1", said("meanwhile"))
	v = w.watch("t1", "?from=now", v.lastID)
	assert.Contains(t, v.mustNext().data, `"content":"meanwhile"`, "who is cut before the first event misses nothing")
	v = w.watch("t1", fmt.Sprintf("?lastEventId=%d", head), "")
	assert.Contains(t, v.mustNext().data, `"content":"new"`)
}

// TestPagesCompressed: a page is compressed for clients that accept it, as Go's do by themselves.
func TestPagesCompressed(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", said(strings.Repeat("again and ", 1000)))
	var pages []string
	for _, accepts := range []string{"", "identity"} {
		req, err := http.NewRequestWithContext(w.ctx, "GET", w.url+"/v1/threads/t1/events", nil)
		require.NoError(t, err)
		if accepts != "" {
			req.Header.Set("Accept-Encoding", accepts)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		assert.Equal(t, accepts == "", res.Uncompressed, "it was compressed")
		assert.Equal(t, "Accept, Accept-Encoding", res.Header.Get("Vary"))
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		pages = append(pages, string(body))
	}
	assert.Equal(t, pages[1], pages[0])
}

// talk publishes a reply of n tokens in pieces, and stores it.
func (w *world) talk(thread string, n int, pause func(i int)) []string {
	head := w.put(thread, said("count"))
	var text strings.Builder
	tokens := make([]string, n)
	for i := range n {
		tokens[i] = fmt.Sprintf("%d ", i)
		text.WriteString(tokens[i])
		w.publish(thread, head, event.AgentEvent{Type: event.EventStream, Content: tokens[i], MessageID: "m1", Attempt: 1, Agent: "bot"})
		pause(i)
	}
	w.put(thread, replied("m1", text.String()), record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m1"}))
	w.append(thread, closedBatch())
	return tokens
}

func TestCutsOverHTTP(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 50 * time.Millisecond })
	w.open("t1")
	straight, v := w.watch("t1", "", ""), w.watch("t1", "", "")
	whole, moved := make(chan []seen, 1), make(chan struct{}, 1)
	go func() {
		defer close(whole)
		whole <- straight.rest()
	}()
	spoken := make(chan []string, 1)
	go func() {
		defer close(spoken)
		spoken <- w.talk("t1", 500, func(i int) {
			if i%3 == 0 { // the viewer keeps up, so that it is cut in the middle of the message
				select {
				case <-moved:
				case <-w.ctx.Done():
				}
			}
		})
	}()
	var got []seen
	cuts, rng := 0, rand.New(rand.NewPCG(1, 1))
	for ended := false; !ended; {
		for range 1 + rng.IntN(8) {
			e, ok := v.next()
			if ended = !ok; ended {
				break
			}
			got = append(got, e)
			select {
			case moved <- struct{}{}:
			default:
			}
		}
		v.cancel()
		v = w.watch("t1", "", v.lastID)
		cuts++
	}
	want, tokens := <-whole, <-spoken
	assert.Equal(t, data(want), data(got), "the same sequence")
	var pieces []string
	for _, e := range got {
		var piece event.AgentEvent
		require.NoError(t, json.Unmarshal([]byte(e.data), &piece))
		if piece.Type == event.EventStream {
			pieces = append(pieces, piece.Content)
		}
	}
	assert.Equal(t, tokens, pieces, "S1-24: each token once")
	assert.GreaterOrEqual(t, cuts, 100)
	assert.Equal(t, `{"type":"final","messageId":"m1","agent":"bot"}`, undated(got[len(got)-2].data))
}

// BenchmarkPieceToClient is the time from publishing a piece to reading it from the
// connection.
func BenchmarkPieceToClient(b *testing.B) {
	w := newWorld(b)
	w.open("t1")
	head := w.put("t1", said("go"))
	v := w.watch("t1", "", "")
	v.mustNext()
	piece := event.AgentEvent{Type: event.EventStream, Content: "x", MessageID: "m1", Attempt: 1}
	for b.Loop() {
		require.NoError(b, w.stream.Publish(w.ctx, stream.Key{Namespace: "default", ThreadID: "t1"}, stream.Entry{After: head, Event: &piece}))
		v.mustNext()
	}
}
