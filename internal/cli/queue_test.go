package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

func (w *world) Queue(_ context.Context, id string) (signals.Queue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue, w.known(id)
}

func (w *world) Item(ctx context.Context, id, eventID string) (event.Item, error) {
	q, err := w.Queue(ctx, id)
	if err != nil {
		return event.Item{}, err
	}
	item, ok := q.Find(eventID)
	if !ok {
		return item, &threadclient.UnknownEventError{ThreadID: id, EventID: eventID}
	}
	return item, nil
}

// edit records an edit of an item, and returns the item with its new status.
func (w *world) edit(ctx context.Context, id, eventID string, status event.ItemStatus, note string) (event.Item, error) {
	item, err := w.Item(ctx, id, eventID)
	if err != nil {
		return item, err
	}
	w.change(func() { w.queueEdit = append(w.queueEdit, note) })
	if item.Status == event.ItemCompleted {
		return item, fmt.Errorf("set_status to thread %q: %w: it has ended", id, signals.ErrRefused)
	}
	item.Status = status
	return item, nil
}

func (w *world) SetStatus(ctx context.Context, id string, s signals.SetStatus) (event.Item, error) {
	return w.edit(ctx, id, s.EventID, s.Status, fmt.Sprintf("%s %s by %s because %s", s.EventID, s.Status, s.By, s.Reason))
}

func (w *world) Retry(ctx context.Context, id, eventID, by string) (event.Item, error) {
	if eventID == "" && len(w.queue.Failed) == 0 {
		return event.Item{}, &threadclient.UnknownEventError{ThreadID: id}
	}
	if eventID == "" {
		eventID = w.queue.Failed[len(w.queue.Failed)-1].ID
	}
	item, err := w.edit(ctx, id, eventID, event.ItemPending, "retry "+eventID+" by "+by)
	if err == nil {
		w.reply("again", "it worked")
	}
	return item, err
}

func queueWorld(t *testing.T) *world {
	w := newWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	item := func(id string, status event.ItemStatus) event.Item {
		return event.Item{ID: id, ThreadID: "t1", Type: "deploy", Payload: json.RawMessage(`{"env":"prod"}`), Status: status, TraceID: id, Namespace: "default", CreatedAt: at, UpdatedAt: at}
	}
	current, failed := item("e1", event.ItemProcessing), item("e3", event.ItemFailed)
	failed.Error = "no key"
	w.queue = signals.Queue{
		Processing: &current, Items: []event.Item{item("e2", event.ItemPending)},
		Failed: []event.Item{failed}, Ended: []event.Item{item("e4", event.ItemCompleted)},
	}
	return w
}

func TestQueueList(t *testing.T) {
	w := queueWorld(t)
	out := w.ok("queue", "list", "t1")
	require.Equal(t, `STATUS      PRIORITY  EVENT  TYPE    CREATED              TTL  CONTENT
processing  0         e1     deploy  2026-01-02 03:04:05  -    {"env":"prod"}
pending     0         e2     deploy  2026-01-02 03:04:05  -    {"env":"prod"}
failed      0         e3     deploy  2026-01-02 03:04:05  -    error: no key
`, out, "S2-16 S2-37")
	_, out, _ = w.run("", "queue", "list", "t1", "--all")
	require.Contains(t, out, "completed   0         e4 ")
	_, out, _ = w.run("", "queue", "list", "t1", "--json")
	var q signals.Queue
	require.NoError(t, json.Unmarshal([]byte(out), &q))
	require.Equal(t, "e4", q.Ended[0].ID)

	w.queue = signals.Queue{}
	code, out, errs := w.run("", "queue", "list", "t1")
	require.Equal(t, exitOK, code)
	require.Empty(t, out)
	require.Equal(t, `no events in the queue of thread "t1"`+"\n", errs)
	w.fails(exitFailed, `there is no thread "gone"`, "queue", "list", "gone")
}

func TestQueueShow(t *testing.T) {
	w := queueWorld(t)
	for _, c := range []struct {
		name, id string
		args     []string
	}{
		{"S2-16 S2-17 a failed event with its cause and payload", "e3", []string{"show", "t1", "e3"}},
		{"S2-44 current", "e1", []string{"current", "t1"}},
		{"S2-45 next", "e2", []string{"next", "t1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := w.run("", append([]string{"queue"}, c.args...)...)
			require.Equal(t, exitOK, code, errs)
			require.True(t, strings.HasPrefix(out, "event     "+c.id+"\n"), out)
			require.Contains(t, out, "payload\n  {\n    \"env\": \"prod\"\n  }\n")
			require.Equal(t, c.id == "e3", strings.Contains(out, "\nerror     no key\n"))
			code, out, _ = w.run("", append(append([]string{"queue"}, c.args...), "--json")...)
			require.Equal(t, exitOK, code)
			var item event.Item
			require.NoError(t, json.Unmarshal([]byte(out), &item))
			require.Equal(t, c.id, item.ID)
		})
	}
	errs := w.fails(exitFailed, `thread "t1" does not know event "e0"`, "queue", "show", "t1", "e0")
	require.Contains(t, errs, `"starter queue list --all t1" shows those that it knows`)

	w.queue = signals.Queue{}
	for place, none := range map[string]string{"current": "nothing is being processed", "next": "nothing waits"} {
		code, out, errs := w.run("", "queue", place, "t1")
		require.Equal(t, exitOK, code)
		require.Empty(t, out)
		require.Equal(t, none+` in thread "t1"`+"\n", errs)
		_, out, _ = w.run("", "queue", place, "t1", "--json")
		require.Equal(t, "null\n", out)
	}
}

func TestQueueAdd(t *testing.T) {
	w := queueWorld(t)
	t.Run("S2-43 S2-36 a custom event with everything", func(t *testing.T) {
		code, out, errs := w.run("", "queue", "add", "t1", "deploy", `{"n": 12345678901234567890}`, "--id", "e7", "--priority", "3", "--ttl", "500ms",
			"--trace", "trace", "--parent", "e1", "--on-busy", "steer", "--agent", "a", "--tool", "x")
		require.Equal(t, exitOK, code, errs)
		require.Equal(t, "e7\n", out)
		require.Equal(t, signals.Post{
			ID: "e7", Type: "deploy", Payload: json.RawMessage(`{"n": 12345678901234567890}`), Priority: 3, TTL: 500,
			TraceID: "trace", ParentEventID: "e1", OnBusy: event.OnBusySteer, Agents: []string{"a"}, Tools: []string{"x"},
		}, w.posts[0])
	})
	t.Run("S2-43 a message, from stdin", func(t *testing.T) {
		code, out, errs := w.run(`{"senderId":"ci","senderType":"system","content":"built"}`+"\n", "queue", "add", "t1", "message", "-", "--json")
		require.Equal(t, exitOK, code, errs)
		var result signals.PostResult
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		require.Equal(t, signals.PostResult{EventID: w.posts[1].ID, Status: signals.PostQueued}, result)
		require.JSONEq(t, `{"threadId":"t1","senderId":"ci","senderType":"system","content":"built"}`, string(w.posts[1].Payload))
	})
	t.Run("S2-43 without a payload", func(t *testing.T) {
		w.ok("queue", "add", "t1", "ping")
		require.Empty(t, w.posts[2].Payload)
	})
	t.Run("a duplicate is said to be one", func(t *testing.T) {
		code, out, errs := w.run("", "queue", "add", "t1", "ping", "--id", "e7")
		require.Equal(t, exitOK, code)
		require.Equal(t, "e7\n", out)
		require.Equal(t, "the thread already has this event: nothing was added\n", errs)
	})
	t.Run("refused", func(t *testing.T) {
		w.fails(exitFailed, `there is no thread "gone"`, "queue", "add", "gone", "ping")
		code, _, errs := w.run(`"`+strings.Repeat("x", signals.MaxPayload), "queue", "add", "t1", "ping", "-")
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "must be at most 262144")
		w.refuses = true
		w.fails(exitFailed, "refused: a turn runs", "queue", "add", "t1", "ping")
	})
}

func TestQueueEdit(t *testing.T) {
	w := queueWorld(t)
	out := w.ok("queue", "set-status", "t1", "e2", "overwritten", "--by", "bob", "--reason", "stale")
	require.Equal(t, "e2 overwritten\n", out, "S2-46 S2-37")
	_, out, _ = w.run("", "queue", "set-status", "t1", "e1", "pending", "--json")
	var item event.Item
	require.NoError(t, json.Unmarshal([]byte(out), &item))
	require.Equal(t, event.ItemPending, item.Status, "S2-46")
	for _, args := range [][]string{{"queue", "retry", "t1", "e3"}, {"queue", "retry", "t1"}, {"retry", "t1", "e3", "--json"}} {
		out = w.ok(args...)
		require.Contains(t, out, "e3", "S2-17")
		require.Contains(t, out, "pending", "S2-17")
	}
	require.Equal(t, []string{"e2 overwritten by bob because stale", "e1 pending by ann because ", "retry e3 by ann", "retry e3 by ann", "retry e3 by ann"}, w.queueEdit)

	for problem, args := range map[string][]string{
		`does not know event "e0"`:           {"set-status", "t1", "e0", "failed"},
		"refused: it has ended":              {"set-status", "t1", "e4", "failed"},
		`there is no thread "gone"`:          {"set-status", "gone", "e2", "failed"},
		`thread "closed" is closed`:          {"retry", "closed", "e3"},
		`thread "t1" does not know event`:    {"retry", "t1", "e0"},
		"refused: it has ended" + "\n":       {"retry", "t1", "e4"},
		`"starter queue list --all t1" show`: {"retry", "t1", "e9"},
	} {
		w.fails(exitFailed, problem, append([]string{"queue"}, args...)...)
	}
	w.queue.Failed = nil
	w.fails(exitFailed, `no event of thread "t1" has failed`, "queue", "retry", "t1")
}

// TestQueueOfThePast: only the API has the payloads of ended events.
func TestQueueOfThePast(t *testing.T) {
	w := newWorld(t)
	w.queue = signals.Queue{Ended: []event.Item{{ID: "e4", Type: "deploy", Status: event.ItemCompleted, Payload: json.RawMessage("null")}}}
	w.ended = []event.Item{{ID: "e4", Type: "deploy", Status: event.ItemCompleted, Payload: json.RawMessage(`{"env":"prod"}`)}}
	for args, want := range map[string]string{
		"queue list t1 --all": `{"env":"prod"}`, "queue list t1 --json": `"env": "prod"`, "queue show t1 e4": `"env": "prod"`, "queue show t1 e4 --json": `"env": "prod"`,
	} {
		code, out, errs := w.run("", strings.Fields(args)...)
		require.Equal(t, exitOK, code, errs)
		require.Contains(t, out, want, args)
		require.Empty(t, errs)
	}
	w.queue.Ended[0].Payload = nil
	w.url = "http://" + nobody
	code, out, errs := w.run("", "queue", "show", "t1", "e4")
	require.Equal(t, exitOK, code)
	require.Contains(t, out, "deploy")
	require.Contains(t, errs, "the payloads of ended events are missing: the Threadmill API does not answer")
}
