package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

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
