package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream"
)

// TestChatJoinsBeginning: a client that comes while a turn has begun, and has stored nothing, gets the turn.
func TestChatJoinsBeginning(t *testing.T) {
	for stored, turn := range map[string]signals.TurnState{
		"nothing": {EventID: "m1"}, "earlier turns": {EventID: "m1"}, "an event from which the turn's is derived": {EventID: "derived", Root: "m1"},
	} {
		for _, target := range []string{"GET /v1/chat/t1/stream", "POST /v1/ag-ui/connect"} {
			t.Run(target+" of a thread with "+stored, func(t *testing.T) {
				w := newWorld(t)
				w.threads.known["t1"] = true
				if stored == "earlier turns" {
					w.put("t1", record(event.TypeMessage, written("m0", "earlier")).In("m0"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m0", Status: "completed"}).In("m0"))
				}
				w.threads.ofTurn = &turn

				got := w.opens(target)
				defer got.Body.Close()

				w.turn()
				text, err := io.ReadAll(got.Body)
				require.NoError(t, err)
				assert.Contains(t, string(text), "welcome")
				assert.NotContains(t, string(text), "RUN_ERROR")
			})
		}
	}
}

// TestChatTitle: a chat that opens a thread gives it a title, which is checked and is nothing to a thread that exists.
func TestChatTitle(t *testing.T) {
	chat := func(title string) object {
		return object{"id": "t1", "title": title, "messages": []object{{"id": "m", "role": "user", "parts": []object{{"type": "text", "text": "hello"}}}}}
	}
	run := func(title string) object {
		message := object{"id": "m", "role": "user", "content": "hello"}
		return object{"threadId": "t1", "runId": "r", "messages": []object{message}, "forwardedProps": object{"title": title}}
	}
	for path, body := range map[string]func(title string) object{"/v1/chat": chat, "/v1/ag-ui": run} {
		w := newWorld(t, func(c *server.Config) { c.Heartbeat, c.WaitLimit = 10*time.Millisecond, 50*time.Millisecond })
		for title, why := range map[string]string{
			"a\nb": "title: contains U+000A", " \u200b": "title: has no visible characters", strings.Repeat("é", 201): "title: is 402 bytes, must be at most 400",
		} {
			got := w.call("POST", path, body(title)).ok(t, http.StatusUnprocessableEntity)
			assert.Contains(t, got.text, why, path)
		}
		require.Empty(t, w.threads.opens)
		w.call("POST", path, body("Greetings")).ok(t, http.StatusOK)
		require.Len(t, w.threads.opens, 1)
		assert.Equal(t, "Greetings", w.threads.opens[0].Title, path)
		w.put("t1", said("hello"))
		w.threads.postUpdate = func() error { return signals.ErrFull }
		w.call("POST", path, body("Something else\n")).ok(t, http.StatusTooManyRequests) // it reaches the thread
	}
}

// placedLog notes where subscriptions begin.
type placedLog struct {
	stream.Stream
	from chan stream.From
}

func (l placedLog) Subscribe(ctx context.Context, key stream.Key, from stream.From) (stream.Subscription, error) {
	l.from <- from
	return l.Stream.Subscribe(ctx, key, from)
}

// TestChatReadsItsTurn: the stream of a new message begins at the end of the live log, however much the log has of earlier turns.
func TestChatReadsItsTurn(t *testing.T) {
	for target, body := range map[string]string{
		"POST /v1/chat":  `{"id":"t1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"hello"}]}]}`,
		"POST /v1/ag-ui": `{"threadId":"t1","runId":"r","messages":[{"id":"m1","role":"user","content":"hello"}]}`,
	} {
		t.Run(target, func(t *testing.T) {
			from := make(chan stream.From, 9)
			w := newWorld(t, func(c *server.Config) { c.Stream = placedLog{c.Stream, from} })
			w.threads.known["t1"] = true
			w.put("t1", record(event.TypeMessage, written("m0", "earlier")).In("m0"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m0", Status: "completed"}).In("m0"))
			got := w.opens(target, body)
			defer got.Body.Close()
			w.turn()
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			assert.Contains(t, string(text), "welcome")
			assert.True(t, (<-from).Now)
			assert.NotZero(t, (<-from).Offset)
			assert.Empty(t, from)
		})
	}
}

// TestRunContext: the context of a run is posted with its message, and a repeated run has that of its message.
func TestRunContext(t *testing.T) {
	w := newWorld(t)
	w.threads.known["t1"] = true
	w.put("t1")
	body := func(value string) string {
		return `{"threadId":"t1","runId":"r","messages":[{"id":"m1","role":"user","content":"hello"}],"context":[{"description":"The cart","value":"` + value + `"}]}`
	}
	posted := func() string { return string(w.threads.posts[len(w.threads.posts)-1].Payload) }
	got := w.opens("POST /v1/ag-ui", body("red shoes"))
	defer got.Body.Close()
	want := `"metadata":{"threadmill.context":[{"description":"The cart","value":"red shoes"}]}`
	require.Contains(t, posted(), want)

	var m event.Message
	require.NoError(t, json.Unmarshal([]byte(posted()), &m))
	m.ID, m.Role = "m1", event.RoleUser
	first := record(event.TypeMessage, m)
	first.ID = "m1"
	w.put("t1", first.In("m1"), replied("m2", "welcome").In("m1"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m1", Status: "completed"}).In("m1"))
	again := w.opens("POST /v1/ag-ui", body("blue shoes"))
	defer again.Body.Close()
	require.Contains(t, posted(), want)

	large := strings.Replace(body(strings.Repeat("x", 64<<10)), "m1", "m3", 1)
	refused, err := http.Post(w.url+"/v1/ag-ui", "application/json", strings.NewReader(large))
	require.NoError(t, err)
	defer refused.Body.Close()
	text, err := io.ReadAll(refused.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, refused.StatusCode)
	require.Contains(t, string(text), "context")
	require.Contains(t, string(text), "is too large: 65544 bytes, at most 65536")
}

// opens sends a request whose response is a stream.
func (w *world) opens(target string, body ...string) *http.Response {
	w.t.Helper()
	method, path, _ := strings.Cut(target, " ")
	req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, strings.NewReader(append(body, `{"threadId":"t1","runId":"r"}`)[0]))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, got.StatusCode)
	return got
}

// turn stores a turn.
func (w *world) turn() {
	first := record(event.TypeMessage, written("m1", "hello"))
	first.ID = "m1"
	w.put("t1", first.In("m1"), replied("m2", "welcome").In("m1"), record(event.TypeTurnEnded, event.TurnEnded{EventID: "m1", Status: "completed"}).In("m1"))
}

// TestRunJoinsBeginning: an indexed stream that was cut before the turn had stored anything can be resumed.
func TestRunJoinsBeginning(t *testing.T) {
	w := newWorld(t)
	w.threads.known["t1"] = true
	w.threads.ofTurn = &signals.TurnState{EventID: "m1"}
	w.threads.queue.has.Processing = &event.Item{ID: "m1", Status: event.ItemProcessing}
	cut := w.opens("GET /v1/chat/t1/stream?startIndex=0")
	require.NoError(t, cut.Body.Close())
	got := w.opens("GET /v1/chat/" + cut.Header.Get("X-Workflow-Run-Id") + "/stream?startIndex=0")
	defer got.Body.Close()
	w.turn()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "welcome")
}
