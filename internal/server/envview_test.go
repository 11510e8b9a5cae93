package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/stream"
)

// begin publishes the first piece of a message.
func (w *world) begin(thread string, after int64, e event.AgentEvent) {
	w.t.Helper()
	key := stream.Key{Namespace: "default", ThreadID: thread}
	require.NoError(w.t, w.stream.Publish(w.ctx, key, stream.Entry{After: after, Event: &e, Begins: true}))
}

// answered makes what a thread stores and streams that is asked something and answers.
func (w *world) answered(thread string) {
	head := w.put(thread, record(event.TypeStatus, event.StatusChange{Status: event.StatusOpened}), env(fileChanged("e1")), said("go"))
	text := event.AgentEvent{Type: event.EventStream, Content: "do", MessageID: "m1", Attempt: 1, Agent: "bot"}
	w.begin(thread, head, text)
	text.Content = "ne"
	w.publish(thread, head, text)
	text.Type, text.Content = event.EventThought, "hm"
	w.publish(thread, head, text)
	final := replied("m1", "done")
	final.ID = "m1"
	w.put(thread, record(event.TypeLLMCall, event.LLMCall{MessageID: "m1", Attempt: 1}), final,
		record(event.TypeFinal, event.Final{Agent: "bot", MessageID: "m1"}))
}

// envEvents reads the data of events.
func envEvents(t *testing.T, events []seen) []event.EnvEvent {
	t.Helper()
	out := make([]event.EnvEvent, len(events))
	for i, e := range events {
		require.NoError(t, json.Unmarshal([]byte(e.data), &out[i]))
	}
	return out
}

func types(events []event.EnvEvent) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.Type
	}
	return out
}

func eventIDs(events []event.EnvEvent) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}

func TestEnvStream(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 50 * time.Millisecond })
	w.open("t1")
	v, plain := w.watch("t1", "?view=env", ""), w.watch("t1", "", "")
	w.answered("t1")
	var live []seen
	t.Run("S3-34 S3-50 S3-52 S3-stream_event_published events in order, each as soon as it is there", func(t *testing.T) {
		for range 7 {
			live = append(live, v.mustNext())
		}
		assert.Equal(t, []string{
			"session.created", "file.changed", "stream.start", "stream.text", "stream.text", "stream.reasoning", "stream.completed",
		}, types(envEvents(t, live)))
		assert.JSONEq(t, `{"id":"e1","type":"file.changed","timestamp":1700000000123,"metadata":{"trigger_session_id":"t1","source":"env"},"payload":{"path":"a.go"}}`, live[1].data)
	})
	t.Run("S3-50 S3-stream_event_metadata payload and metadata", func(t *testing.T) {
		text := envEvents(t, live)[3]
		assert.JSONEq(t, `{"type":"text","content":"do","messageId":"m1","attempt":1,"agent":"bot"}`, string(text.Payload))
		assert.Equal(t, event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceLLM}, text.Metadata)
		assert.InDelta(t, time.Now().UnixMilli(), text.Timestamp, float64(testenv.Patience.Milliseconds()))
		assert.JSONEq(t, `{"type":"completed","content":"done","messageId":"m1","agent":"bot"}`, string(envEvents(t, live)[6].Payload))
	})
	t.Run("S3-51 S3-existing_emit_unchanged others get what they always did", func(t *testing.T) {
		var got []string
		for range 8 {
			var e event.AgentEvent
			require.NoError(t, json.Unmarshal([]byte(plain.mustNext().data), &e))
			got = append(got, string(e.Type))
		}
		assert.Equal(t, []string{"status", "environment", "message", "stream", "stream", "thought", "message", "final"}, got)
		assert.Equal(t, "1", w.watch("t1", "?view=agent", "").mustNext().id)
	})
	w.append("t1", closedBatch())
	t.Run("S3-53 it ends with its thread", func(t *testing.T) {
		rest := v.rest()
		require.Len(t, rest, 1)
		live = append(live, rest...)
		assert.Equal(t, []string{"session.deleted"}, types(envEvents(t, rest)))
		over := w.call("GET", "/v1/threads/t1/events?view=env", nil, "Accept", "text/event-stream", "Last-Event-ID", rest[0].id)
		assert.Equal(t, http.StatusNoContent, over.status)
	})
	t.Run("S3-52 resumed at every event", func(t *testing.T) {
		all := eventIDs(envEvents(t, live))
		for i, e := range live[:len(live)-1] {
			got := w.watch("t1", "?view=env", e.id).rest()
			assert.Equal(t, all[i+1:], eventIDs(envEvents(t, got)), "behind %s", e.id)
		}
	})
	t.Run("an id within an event is none of the other view", func(t *testing.T) {
		assert.Equal(t, "3~1", live[2].id)
		bad := w.call("GET", "/v1/threads/t1/events", nil, "Last-Event-ID", live[2].id)
		assert.Equal(t, []string{"header.Last-Event-ID"}, bad.problem(t, 400))
	})
}

func TestEnvStreamDoesNotEnd(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 10 * time.Millisecond })
	w.open("t1")
	v := w.watch("t1", "?view=env", "")
	gone := fileChanged("e1")
	gone.Type = event.TypeSessionDeleted // somebody says so
	w.put("t1", env(gone))
	assert.Equal(t, []string{"session.deleted"}, types(envEvents(t, []seen{v.mustNext()})))
	for v.beats = 0; v.beats < 3; {
		require.True(t, v.lines.Scan(), "the thread is open")
		if v.lines.Text() == ": heartbeat" {
			v.beats++
		}
	}
}

func TestEnvPage(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.answered("t1")
	page := func(query string) answer {
		got := w.call("GET", "/v1/threads/t1/events?view=env"+query, nil).ok(t, http.StatusOK)
		return got
	}
	listed := func(a answer) []string {
		var out []string
		for _, e := range a.body["events"].([]any) {
			out = append(out, e.(object)["type"].(string))
		}
		return out
	}
	whole := page("")
	assert.Equal(t, []string{"session.created", "file.changed", "stream.start", "stream.text", "stream.completed"}, listed(whole), "S3-34")
	assert.Equal(t, object{
		"id": "e1", "type": "file.changed", "timestamp": 1700000000123.0,
		"metadata": object{"trigger_session_id": "t1", "source": "env"}, "payload": object{"path": "a.go"},
	}, whole.body["events"].([]any)[1])
	assert.NotContains(t, whole.body, "next")
	assert.Equal(t, "5", whole.body["lastEventId"])

	first := page("&limit=3")
	assert.Equal(t, []string{"session.created", "file.changed", "stream.start"}, listed(first))
	assert.Equal(t, "3~1", first.body["next"], "in the middle of a message")
	assert.Equal(t, []string{"stream.text", "stream.completed"}, listed(page("&cursor=3~1")))
	empty := page("&cursor=5")
	assert.Equal(t, object{"events": []any{}}, empty.body)

	w.call("GET", "/v1/threads/nobody/events?view=env", nil).problem(t, 404)
	assert.Equal(t, []string{"query.cursor"}, w.call("GET", "/v1/threads/t1/events?view=env&cursor=1~x", nil).problem(t, 400))
	assert.Equal(t, []string{"query.view"}, w.call("GET", "/v1/threads/t1/events?view=all", nil).problem(t, 422))
}

func TestEnvFromNow(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", env(fileChanged("e1")))
	v := w.watch("t1", "?view=env&from=now", "")
	require.True(t, v.lines.Scan()) // the header has come: the reader is there
	w.put("t1", env(fileChanged("e2")))
	assert.Equal(t, []string{"e2"}, eventIDs(envEvents(t, []seen{v.mustNext()})))
}
