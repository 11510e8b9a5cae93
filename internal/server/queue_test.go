package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// queueFake is the queue of every thread. change answers changes of an item.
type queueFake struct {
	has     signals.Queue
	changes []signals.SetStatus
	retries []string
	change  func() (event.Item, error)
}

func (f *threads) Queue(ctx context.Context, id string) (signals.Queue, error) {
	if f.state != nil {
		return signals.Queue{}, f.state(ctx)
	}
	return f.queue.has, f.check(id)
}

func (f *threads) Item(ctx context.Context, id, eventID string) (event.Item, error) {
	q, err := f.Queue(ctx, id)
	if err != nil {
		return event.Item{}, err
	}
	item, ok := q.Find(eventID)
	if !ok {
		return item, &threadclient.UnknownEventError{ThreadID: id, EventID: eventID}
	}
	return item, nil
}

func (f *threads) SetStatus(_ context.Context, id string, s signals.SetStatus) (event.Item, error) {
	if err := f.check(id); err != nil {
		return event.Item{}, err
	}
	f.queue.changes = append(f.queue.changes, s)
	return f.queue.change()
}

func (f *threads) Retry(_ context.Context, id, eventID, by string) (event.Item, error) {
	if err := f.check(id); err != nil {
		return event.Item{}, err
	}
	f.queue.retries = append(f.queue.retries, eventID+" by "+by)
	return f.queue.change()
}

func queued(id string, status event.ItemStatus) event.Item {
	at := time.Unix(1700000000, 0).UTC()
	return event.Item{
		ID: id, ThreadID: "t1", Type: event.TypeMessage, Payload: json.RawMessage(`{"content":"hi"}`), Status: status,
		TraceID: id, Namespace: "default", CreatedAt: at, UpdatedAt: at,
	}
}

func queueWorld(t *testing.T, change ...func(*server.Config)) *world {
	w := newWorld(t, change...)
	w.open("t1")
	w.threads.known["gone"] = false
	current, ended := queued("e1", event.ItemProcessing), queued("e4", event.ItemCompleted)
	ended.Payload = nil
	full := event.Item{
		ID: "e2", ThreadID: "t1", Type: "deploy", Payload: json.RawMessage(`{"n":12345678901234567890}`), Status: event.ItemPending,
		Priority: 7, TTL: 60000, TraceID: "e1", ParentEventID: "e1", Namespace: "default", CreatedAt: current.CreatedAt, UpdatedAt: current.UpdatedAt,
	}
	failed := queued("e3", event.ItemFailed)
	failed.Error, failed.Attempt = "no key", 1
	w.threads.queue.has = signals.Queue{
		Processing: &current, Waiting: []event.Item{queued("e9", event.ItemProcessing)}, Items: []event.Item{full, queued("e5", event.ItemPending)},
		Failed: []event.Item{failed}, Ended: []event.Item{ended},
	}
	return w
}

func TestQueue(t *testing.T) {
	w := queueWorld(t)
	const path = "/v1/threads/t1/queue"
	t.Run("S2-36 every field", func(t *testing.T) {
		got := w.call("GET", path+"/e2", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"id":"e2","threadId":"t1","type":"deploy","payload":{"n":12345678901234567890},"status":"pending","priority":7,
			"ttl":60000,"traceId":"e1","parentEventId":"e1","namespace":"default",
			"createdAt":"2023-11-14T22:13:20Z","updatedAt":"2023-11-14T22:13:20Z"}`, got.text)
		assert.Contains(t, got.text, "12345678901234567890", "payloads keep their form")
	})
	t.Run("S2-37 every status", func(t *testing.T) {
		got := w.call("GET", path, nil).ok(t, http.StatusOK)
		assert.Equal(t, []string{"e1 processing", "e9 processing", "e2 pending", "e5 pending", "e3 failed", "e4 completed"}, listed(got))
		ended := got.body["ended"].([]any)[0].(object)
		assert.NotContains(t, ended, "payload", "nothing is stored of it")
		assert.EqualValues(t, 0, ended["priority"])
	})
	t.Run("the payloads of those that have ended are in the store", func(t *testing.T) {
		at := time.Unix(1700000000, 0)
		w.append("t1", store.Batch{Records: []event.Record{
			event.NewRecord("e4", event.TypeMessage, "e4", "", at, event.Message{
				ID: "e4", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "hi", Metadata: map[string]any{"a": 1.0},
			}),
			event.NewRecord("e6", event.TypeEnv, "e6", "", at, event.EnvEvent{
				ID: "e6", Type: "file.changed", Timestamp: 7, Metadata: event.EnvMetadata{Source: event.SourceEnv}, Payload: json.RawMessage(`{"path":"a.go"}`),
			}),
			event.NewRecord("e7", "deploy", "e7", "", at, map[string]any{"n": 1}),
		}})
		env, custom := queued("e6", event.ItemCompleted), queued("e7", event.ItemFailed)
		env.Type, env.Payload, env.Timestamp, custom.Type, custom.Payload = "file.changed", nil, 7, "deploy", nil
		before := w.threads.queue.has.Ended
		w.threads.queue.has.Ended = append(slices.Clone(before), env, custom)
		defer func() { w.threads.queue.has.Ended = before }()
		ended := w.call("GET", path, nil).body["ended"].([]any)
		require.Len(t, ended, 3)
		assert.Equal(t, object{"threadId": "t1", "senderId": "ann", "senderType": "user", "content": "hi", "metadata": object{"a": 1.0}}, ended[0].(object)["payload"])
		assert.Equal(t, object{"path": "a.go"}, ended[1].(object)["payload"])
		assert.Equal(t, "env", ended[1].(object)["metadata"].(object)["source"])
		assert.Equal(t, object{"n": 1.0}, ended[2].(object)["payload"])
		assert.Equal(t, object{"n": 1.0}, w.call("GET", path+"/e7", nil).body["payload"])
	})
	t.Run("S2-16 why it failed", func(t *testing.T) {
		got := w.call("GET", path+"/e3", nil)
		assert.Equal(t, "no key", got.body["error"], got.text)
		assert.EqualValues(t, 1, got.body["attempt"])
		assert.Equal(t, object{"content": "hi"}, got.body["payload"], "S2-17 nothing of it is lost")
	})
	t.Run("S2-44 current", func(t *testing.T) {
		got := w.call("GET", path+"/current", nil).ok(t, http.StatusOK)
		assert.Equal(t, "e1", got.body["id"])
	})
	t.Run("S2-45 next", func(t *testing.T) {
		got := w.call("GET", path+"/next", nil).ok(t, http.StatusOK)
		assert.Equal(t, "e5", got.body["id"], "S2-39 e2 is past its ttl")
	})
	t.Run("unknown event", func(t *testing.T) {
		w.call("GET", path+"/e0", nil).refused(t, http.StatusNotFound, `does not know event "e0"`)
	})
	for _, part := range []string{"", "/current", "/next", "/e1"} {
		w.call("GET", "/v1/threads/nobody/queue"+part, nil).refused(t, http.StatusNotFound, "there is no thread")
	}
	t.Run("nothing there", func(t *testing.T) {
		w.threads.queue.has = signals.Queue{}
		assert.JSONEq(t, `{"items":[],"failed":[],"ended":[]}`, w.call("GET", path, nil).text)
		for _, place := range []string{"/current", "/next"} {
			got := w.call("GET", path+place, nil)
			assert.Equal(t, http.StatusNoContent, got.status, "S2-44 S2-45 %s", place)
			assert.Empty(t, got.text)
		}
	})
	t.Run("no worker", func(t *testing.T) {
		w := queueWorld(t, func(c *server.Config) { c.AnswerWithin = 20 * time.Millisecond })
		w.threads.state = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for _, part := range []string{"", "/current", "/e1"} {
			got := w.call("GET", path+part, nil)
			got.problem(t, http.StatusServiceUnavailable)
			assert.NotEmpty(t, got.header.Get("Retry-After"))
		}
	})
}

// listed are the ids and statuses of a queue, in the order in which it names them.
func listed(a answer) []string {
	all := []any{a.body["processing"]}
	for _, part := range []string{"waiting", "items", "failed", "ended"} {
		all = append(all, a.body[part].([]any)...)
	}
	var out []string
	for _, item := range all {
		out = append(out, fmt.Sprintf("%s %s", item.(object)["id"], item.(object)["status"]))
	}
	return out
}

func TestAddToQueue(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.threads.known["gone"] = false
	const path = "/v1/threads/t1/queue"
	t.Run("S2-43 S2-36 a custom event with everything", func(t *testing.T) {
		got := w.call("POST", path, `{"id":"e1","type":"deploy","payload":{"n":12345678901234567890},"priority":7,"ttl":60000,
			"traceId":"trace","parentEventId":"e0","onBusy":"reject","agents":["bot"],"tools":[]}`)
		require.Equal(t, http.StatusAccepted, got.status, got.text)
		assert.Equal(t, object{"eventId": "e1", "status": "queued"}, got.body)
		assert.Equal(t, signals.Post{
			ID: "e1", Type: "deploy", Payload: json.RawMessage(`{"n":12345678901234567890}`), Priority: 7, TTL: 60000,
			TraceID: "trace", ParentEventID: "e0", OnBusy: event.OnBusyReject, Agents: []string{"bot"}, Tools: []string{},
		}, w.threads.posts[0])
	})
	t.Run("S2-43 with nothing but a type", func(t *testing.T) {
		got := w.call("POST", path, object{"type": "ping"}).ok(t, http.StatusAccepted)
		post := w.threads.posts[len(w.threads.posts)-1]
		assert.Equal(t, post.ID, got.body["eventId"])
		assert.Len(t, post.ID, 26)
	})
	for _, by := range []event.CreatedBy{event.CreatedByUser, event.CreatedByTool, event.CreatedBySystem, event.CreatedByAgent} {
		t.Run("S2-43 a message by "+string(by), func(t *testing.T) {
			w.call("POST", path, object{"type": "message", "payload": object{"senderId": "x", "senderType": by, "content": "hi"}}).ok(t, http.StatusAccepted)
			var m event.NewMessage
			require.NoError(t, json.Unmarshal(w.threads.posts[len(w.threads.posts)-1].Payload, &m))
			assert.Equal(t, event.NewMessage{ThreadID: "t1", SenderID: "x", SenderType: by, Content: "hi"}, m)
		})
	}
	message := object{"senderId": "x", "senderType": "user", "content": "hi"}
	for name, test := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"no type":            {object{"payload": 1}, 422, "body.type"},
		"empty type":         {object{"type": ""}, 422, "body.type"},
		"reserved type":      {object{"type": "llm_call"}, 422, "body.type"},
		"bad id":             {object{"type": "x", "id": "e.1"}, 422, "body.id"},
		"unknown field":      {object{"type": "x", "colour": "red"}, 422, "body.colour"},
		"bad ttl":            {object{"type": "x", "ttl": -1}, 422, "body.ttl"},
		"bad priority":       {object{"type": "x", "priority": 1.5}, 422, "body.priority"},
		"long trace":         {object{"type": "x", "traceId": strings.Repeat("x", 201)}, 422, "body.traceId"},
		"NUL in a trace":     {object{"type": "x", "traceId": "a\x00b"}, 422, "body.traceId"},
		"long parent":        {object{"type": "x", "parentEventId": strings.Repeat("x", 201)}, 422, "body.parentEventId"},
		"bad onBusy":         {object{"type": "x", "onBusy": "wait"}, 422, "body.onBusy"},
		"unknown agent":      {object{"type": "message", "payload": message, "agents": []string{"nobody"}}, 422, "body.agents[0]"},
		"no payload":         {object{"type": "message"}, 422, "body.payload"},
		"null payload":       {object{"type": "message", "payload": nil}, 422, "body.payload"},
		"no message":         {object{"type": "message", "payload": "hi"}, 422, "body.payload"},
		"surplus":            {object{"type": "message", "payload": object{"role": "user"}}, 422, "body.payload.role"},
		"no sender":          {object{"type": "message", "payload": object{"content": "hi"}}, 422, "body.payload.senderId"},
		"unknown sender":     {object{"type": "message", "payload": object{"senderId": "x", "senderType": "robot", "content": "hi"}}, 422, "body.payload.senderType"},
		"another thread":     {object{"type": "message", "payload": object{"threadId": "t2", "senderId": "x", "senderType": "user", "content": "hi"}}, 422, "body.payload.threadId"},
		"payload too large":  {object{"type": "x", "payload": strings.Repeat("x", signals.MaxPayload)}, 413, "body.payload"},
		"message too large":  {object{"type": "message", "payload": object{"senderId": "x", "senderType": "user", "content": strings.Repeat("x", signals.MaxPayload)}}, 413, "body.payload"},
		"not JSON":           {`hello`, 400, "body"},
		"payload of no JSON": {`{"type":"x","payload":{]}`, 400, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			posts := len(w.threads.posts)
			got := w.call("POST", path, test.body)
			assert.Equal(t, []string{test.location}, got.problem(t, test.status), got.text)
			assert.Len(t, w.threads.posts, posts, "nothing was posted")
			assert.Less(t, len(got.text), 2000, "what was sent is not sent back")
		})
	}
	w.call("POST", "/v1/threads/nobody/queue", object{"type": "x"}).problem(t, http.StatusNotFound)
	w.call("POST", "/v1/threads/a%2Fb/queue", object{"type": "x"}).problem(t, http.StatusNotFound)
	w.call("POST", "/v1/threads/gone/queue", object{"type": "x"}).problem(t, http.StatusConflict)
	t.Run("the thread refuses", func(t *testing.T) {
		w.threads.postUpdate = func() error { return fmt.Errorf("post: %w: the queue is full", signals.ErrRefused) }
		w.call("POST", path, object{"type": "x"}).refused(t, http.StatusUnprocessableEntity, "the queue is full")
		w.threads.postUpdate = func() error { return fmt.Errorf("post: %w", signals.ErrBusy) }
		w.call("POST", path, object{"type": "x", "onBusy": "reject"}).problem(t, http.StatusConflict)
	})
}

func TestDuplicateInQueue(t *testing.T) {
	w := newWorld(t)
	w.threads.duplicate = true
	w.open("t1")
	got := w.call("POST", "/v1/threads/t1/queue", object{"id": "e1", "type": "x"}).ok(t, http.StatusAccepted)
	assert.Equal(t, object{"eventId": "e1", "status": "duplicate"}, got.body)
}

func TestSetStatus(t *testing.T) {
	w := queueWorld(t)
	const path = "/v1/threads/t1/queue/e2"
	after := queued("e2", event.ItemCompleted)
	w.threads.queue.change = func() (event.Item, error) { return after, nil }
	for _, status := range []event.ItemStatus{event.ItemPending, event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten} {
		t.Run("S2-46 S2-37 "+string(status), func(t *testing.T) {
			got := w.call("PATCH", path, object{"status": status, "by": "ann", "reason": "stale"}).ok(t, http.StatusOK)
			assert.Equal(t, "e2", got.body["id"])
			assert.Equal(t, "completed", got.body["status"], "the item comes back as it stands")
			assert.Equal(t, signals.SetStatus{EventID: "e2", Status: status, By: "ann", Reason: "stale"}, w.threads.queue.changes[len(w.threads.queue.changes)-1])
		})
	}
	w.call("PATCH", path, object{"status": "pending", "content": "other", "by": "ann"}).ok(t, http.StatusOK)
	assert.Equal(t, signals.SetStatus{EventID: "e2", Status: event.ItemPending, Content: "other", By: "ann"}, w.threads.queue.changes[len(w.threads.queue.changes)-1])
	w.call("PATCH", path, object{"status": "expired"})
	assert.Equal(t, "api", w.threads.queue.changes[len(w.threads.queue.changes)-1].By)
	t.Run("S2-17 retry", func(t *testing.T) {
		got := w.call("POST", "/v1/threads/t1/queue/e3/retry", nil).ok(t, http.StatusOK)
		assert.Equal(t, "e2", got.body["id"], "the thread's answer")
		w.call("POST", "/v1/threads/t1/queue/e3/retry", object{"by": "ann"})
		assert.Equal(t, []string{"e3 by api", "e3 by ann"}, w.threads.queue.retries)
	})

	for name, test := range map[string]struct {
		body     any
		location string
	}{
		"no status":      {object{"by": "ann"}, "body.status"},
		"unknown status": {object{"status": "done"}, "body.status"},
		"processing":     {object{"status": "processing"}, "body.status"},
		"long name":      {object{"status": "expired", "by": strings.Repeat("x", 201)}, "body.by"},
		"unknown field":  {object{"status": "expired", "payload": 1}, "body.payload"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := len(w.threads.queue.changes)
			assert.Equal(t, []string{test.location}, w.call("PATCH", path, test.body).problem(t, 422))
			assert.Len(t, w.threads.queue.changes, changes)
		})
	}
	for _, call := range []func(thread, id string) answer{
		func(thread, id string) answer {
			return w.call("PATCH", "/v1/threads/"+thread+"/queue/"+id, object{"status": "pending"})
		},
		func(thread, id string) answer {
			return w.call("POST", "/v1/threads/"+thread+"/queue/"+id+"/retry", nil)
		},
	} {
		call("nobody", "e2").problem(t, http.StatusNotFound)
		call("gone", "e2").problem(t, http.StatusConflict)
		w.threads.queue.change = func() (event.Item, error) {
			return event.Item{}, fmt.Errorf("set_status: %w: it has ended", signals.ErrRefused)
		}
		impossible := call("t1", "e4")
		impossible.problem(t, http.StatusConflict)
		assert.Contains(t, impossible.body["detail"], "it has ended")
		unknown := call("t1", "e0")
		unknown.problem(t, http.StatusNotFound)
		assert.Contains(t, unknown.body["detail"], `does not know event "e0"`)
	}
}
