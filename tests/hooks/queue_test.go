package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

var ulid = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// TestQueue follows events through the queue.
//
//ci:replayed only
func TestQueue(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	w := d.Open(t, harness.Options{}, []hook.Hook{d.Hook("first")}, d.Processor("orders", "order.placed"))

	t.Run("S2-36 S2-43 the fields of an event", func(t *testing.T) { queueFields(t, w) })
	t.Run("S2-37 S2-44 S2-45 its statuses, as it is processed", func(t *testing.T) { queueStatuses(t, d, w) })
	t.Run("S2-38 S2-47 S2-44 S2-45 higher priority first, equals as they came, one at a time", func(t *testing.T) { queueOrder(t, d, w) })
	t.Run("S2-38 who waits for an answer comes after those who posted before and do not", func(t *testing.T) { queueArrival(t, w) })
	t.Run("S2-39 S2-37 past its ttl it expires", func(t *testing.T) { queueExpires(t, d, w) })
	t.Run("S2-16 S2-17 S2-37 what fails says why, stays, and can be retried", func(t *testing.T) { queueFails(t, w) })
	t.Run("S2-46 statuses set by hand", func(t *testing.T) { queueSetStatus(t, d, w) })
	t.Run("S2-46 of the event that is being processed", func(t *testing.T) { queueSetProcessing(t, w) })
	t.Run("S2-42 namespaces never mix", func(t *testing.T) { queueNamespaces(t, w) })
}

// busy keeps a thread busy until release is called, and returns the event that does.
func busy(t *testing.T, w *harness.Harness, id string) (eventID string, release func()) {
	t.Helper()
	gate := w.Provider.Block(0)
	t.Cleanup(gate.Release)
	eventID = w.Post(id, "busy")
	<-gate.Reached()
	return eventID, gate.Release
}

// add posts an event, and returns once it is in the queue.
func add(w *harness.Harness, id string, p signals.Post) string {
	w.T.Helper()
	out, err := w.Threads.Post(w.Ctx(), id, p)
	require.NoError(w.T, err)
	require.Equal(w.T, signals.PostQueued, out.Status)
	return out.EventID
}

func queueOf(w *harness.Harness, id string) signals.Queue {
	w.T.Helper()
	q, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(w.T, err)
	return q
}

func idsOf(items []event.Item) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, it.ID)
	}
	return out
}

func queueFields(t *testing.T, w *harness.Harness) {
	id := w.Open("assistant")
	first, release := busy(t, w, id)
	require.Regexp(t, ulid, first, "an id that the client makes")
	p := check.Custom("e1", "CUSTOM_EVENT", map[string]any{"n": 1.5})
	p.Priority, p.TTL, p.TraceID, p.ParentEventID = 7, 3_600_000, "trace-1", "cause-0"
	add(w, id, p)
	bare := map[string]any{"payload": map[string]any{"threadId": id, "senderId": "ann", "senderType": "user", "content": "bare"}}
	require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalPost, bare))
	require.Eventually(t, func() bool { return len(queueOf(w, id).Items) == 2 }, testenv.Patience, testenv.Tick)

	answer, err := w.Temporal.QueryWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.QueryQueue)
	require.NoError(t, err)
	var raw struct {
		Items []map[string]any `json:"items"`
	}
	require.NoError(t, answer.Get(&raw))
	it := raw.Items[0]
	for _, at := range []string{"createdAt", "updatedAt"} {
		require.NotEmpty(t, it[at])
		delete(it, at)
	}
	require.Equal(t, map[string]any{
		"id": "e1", "threadId": id, "type": "CUSTOM_EVENT", "payload": map[string]any{"n": 1.5}, "status": "pending",
		"priority": 7.0, "ttl": 3_600_000.0, "traceId": "trace-1", "parentEventId": "cause-0", "namespace": w.TaskQueue,
	}, it)
	made := queueOf(w, id).Items[1]
	require.Regexp(t, ulid, made.ID, "an id that the thread makes")
	require.Equal(t, made.ID, made.TraceID, "S2-40 a trace of its own")
	require.Equal(t, event.TypeMessage, made.Type)
	require.Zero(t, made.Priority)
	require.False(t, made.CreatedAt.IsZero())
	require.Equal(t, made.CreatedAt, made.UpdatedAt)
	release()
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, made.ID)).Status)
	done := check.ItemOf(w, id, made.ID)
	require.Equal(t, made.CreatedAt, done.CreatedAt)
	require.True(t, done.UpdatedAt.After(done.CreatedAt), "it tells of the last change")
}

func queueStatuses(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, wait := w.Open("assistant"), check.NewHalt()
	none, processing, err := w.Threads.Processing(w.Ctx(), id)
	require.NoError(t, err)
	require.False(t, processing, "%+v", none)
	_, waiting, err := w.Threads.Next(w.Ctx(), id)
	require.NoError(t, err)
	require.False(t, waiting)

	first, release := busy(t, w, id)
	d.Set(id, "first", wait.Before("order.placed", nil))
	add(w, id, check.Custom("e1", "order.placed", 1))
	require.Equal(t, event.ItemPending, check.ItemOf(w, id, "e1").Status)
	now, _, err := w.Threads.Processing(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, first, now.ID)
	next, _, err := w.Threads.Next(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, "e1", next.ID)
	release()
	<-wait.Reached
	require.Equal(t, event.ItemProcessing, check.ItemOf(w, id, "e1").Status)
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, first).Status)
	wait.Release()
	check.Wholly(w, id, w.Await(id, "e1"))
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, "e1").Status)
	q := queueOf(w, id)
	require.Nil(t, q.Processing)
	require.Empty(t, q.Items)
	require.Equal(t, []string{first, "e1"}, idsOf(q.Ended))
	requireBlocked(w, id, []string{"order.placed"})
}

// queueOrder posts events of mixed priorities at once, while a hook checks the queue at each event.
func queueOrder(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	_, release := busy(t, w, id)
	priorities := []int{0, 5, -3, 5, 0, 10, -3, 5, 1 << 20, -1 << 20}
	want := make([]int, len(priorities))
	for i, p := range priorities {
		want[i] = i
		post := check.Custom(fmt.Sprint("e", i), "order.placed", i)
		if i%3 == 0 {
			post = check.Message(id, post.ID, post.ID)
		}
		post.Priority = p
		add(w, id, post)
		again, err := w.Threads.Post(w.Ctx(), id, post)
		require.NoError(t, err)
		require.Equal(t, signals.PostDuplicate, again.Status)
	}
	slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(priorities[b], priorities[a]) })
	var order []string
	for _, i := range want {
		order = append(order, fmt.Sprint("e", i))
	}
	require.Equal(t, order, idsOf(queueOf(w, id).Items))

	var mu sync.Mutex
	var now []string
	d.Set(id, "first", func(ctx context.Context, e event.Event) (hook.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		deps := hook.DepsOf(ctx)
		q, err := w.Threads.Queue(ctx, id)
		if err != nil || !assert.NotNil(t, q.Processing) {
			return hook.Result{}, err
		}
		if deps.Context.Agent != "" {
			// An agent's reply belongs to the event that it answers.
			assert.Equal(t, deps.Context.ParentEventID, q.Processing.ID)
			return hook.Pass(), nil
		}
		now = append(now, deps.Context.EventID)
		assert.Equal(t, deps.Context.EventID, q.Processing.ID, "the one that is processed is the one that is hooked")
		assert.Equal(t, order[len(now):], idsOf(q.Items), "and the others wait in their order")
		for _, it := range q.Items {
			assert.Equal(t, event.ItemPending, it.Status)
		}
		return hook.Pass(), nil
	})
	release()
	require.Eventually(t, func() bool {
		q, err := w.Threads.Queue(w.Ctx(), id)
		return err == nil && q.Processing == nil && len(q.Items) == 0 && len(q.Ended) == len(order)+1
	}, testenv.Patience, testenv.Tick)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, order, now, "each once")
	require.Equal(t, order, idsOf(queueOf(w, id).Ended)[1:])
	d.Set(id, "first", nil)
	requireBlocked(w, id, []string{"order.placed", "e1", "e2"}, "e0", "e3", "e6", "e9")
}

// queueArrival posts by a signal and then by an update. Sometimes the thread receives both at once.
func queueArrival(t *testing.T, w *harness.Harness) {
	for range 20 {
		id := w.Open("assistant")
		w.Post(id, "first")
		check.Say(w, id, "second")
		require.Equal(t, []string{"ann: first", "assistant: first", "ann: second", "assistant: second"}, check.SaidIn(w, id))
	}
	id := w.Open("assistant")
	w.Post(id, "first")
	check.Say(w, id, "second")
	requireBlocked(w, id, nil, "first", "second")
}

func queueExpires(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	_, release := busy(t, w, id)
	short, long := check.Message(id, "short", "came too late"), check.Message(id, "long", "in time")
	short.TTL, long.TTL = 1, 3_600_000
	short.Priority = 9
	add(w, id, short)
	add(w, id, long)
	// Before the turn ends: the clock of a workflow stands still within a task, in which all of this may happen.
	out := w.Await(id, "short")
	require.Equal(t, signals.TurnExpired, out.Status, "who waits for it is told")
	release()
	require.Equal(t, "in time", check.Wholly(w, id, w.Await(id, "long")).Message.Content)
	it := check.ItemOf(w, id, "short")
	require.Equal(t, event.ItemExpired, it.Status)
	require.Contains(t, it.Error, "ttl of 1 ms")
	require.NotContains(t, eventIDs(d.Asked(id, "first")), "short", "no hook sees it")
	requireBlocked(w, id, []string{"came too late"}, "in time")
	status := harness.Payload[event.StatusChange](w, check.RecordOf(w, id, "short.expired"))
	require.Equal(t, string(event.ItemExpired), status.Status)
	again, err := w.Threads.Post(w.Ctx(), id, short)
	require.NoError(t, err)
	require.Equal(t, signals.PostDuplicate, again.Status)
}

func queueFails(t *testing.T, w *harness.Harness) {
	id := w.Open("assistant")
	for i, code := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		w.Provider.Fail(llmtest.Status(code, "").WithError("bad", fmt.Sprint("reason ", i)))
		out := check.Turn(w, id, check.Message(id, fmt.Sprint("e", i), fmt.Sprint("message ", i)))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, fmt.Sprint("reason ", i))
	}
	q := queueOf(w, id)
	require.Equal(t, []string{"e0", "e1", "e2"}, idsOf(q.Failed))
	for i, it := range q.Failed {
		require.Equal(t, event.ItemFailed, it.Status)
		require.Contains(t, it.Error, fmt.Sprint("reason ", i))
		var m event.NewMessage
		require.NoError(t, json.Unmarshal(it.Payload, &m), "it is all there")
		require.Equal(t, fmt.Sprint("message ", i), m.Content)
	}
	require.Len(t, check.OfType(w, id, event.TypeError), 3)

	last, err := w.Threads.Retry(w.Ctx(), id, "", "ann")
	require.NoError(t, err)
	require.Equal(t, "e2", last.ID, "the one that failed last")
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "e2")).Status)
	w.Provider.Fail(llmtest.Status(http.StatusBadRequest, "").WithError("bad", "still"))
	for _, want := range []signals.TurnStatus{signals.TurnFailed, signals.TurnCompleted} {
		_, err := w.Threads.Retry(w.Ctx(), id, "e0", "ann")
		require.NoError(t, err)
		require.Equal(t, want, check.Wholly(w, id, w.Await(id, "e0")).Status)
	}
	require.Equal(t, 2, check.ItemOf(w, id, "e0").Attempt)
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, "e0").Status)
	require.Equal(t, []string{"e1"}, idsOf(queueOf(w, id).Failed), "the other one stays")
	_, err = w.Threads.Retry(w.Ctx(), id, "e0", "ann")
	require.ErrorIs(t, err, signals.ErrRefused)
	users := 0
	for _, m := range w.Messages(id) {
		if m.SenderType == event.CreatedByUser {
			users++
		}
	}
	require.Equal(t, 3, users, "no message is stored twice")
	require.Len(t, w.Messages(id), 5)
}

func queueSetStatus(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	_, release := busy(t, w, id)
	set := func(eventID string, status event.ItemStatus) event.Item {
		it, err := w.Threads.SetStatus(w.Ctx(), id, signals.SetStatus{EventID: eventID, Status: status, By: "ann", Reason: "by hand"})
		require.NoError(t, err)
		require.Equal(t, status, it.Status)
		return it
	}
	all := []event.ItemStatus{event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten}
	for _, status := range all {
		add(w, id, check.Message(id, string(status), "set to "+string(status)))
	}
	add(w, id, check.Message(id, "last", "last"))
	for _, status := range all {
		set(string(status), status)
	}
	release()
	require.Equal(t, "last", check.Wholly(w, id, w.Await(id, "last")).Message.Content)
	for _, status := range all {
		require.Equal(t, status, check.ItemOf(w, id, string(status)).Status)
		require.Equal(t, "by hand", check.ItemOf(w, id, string(status)).Error)
		require.NotContains(t, eventIDs(d.Asked(id, "first")), string(status), "it is never processed")
	}
	by := 0
	for _, r := range check.OfType(w, id, event.TypeStatus) {
		if harness.Payload[event.StatusChange](w, r).By == "ann" {
			by++
		}
	}
	require.Equal(t, len(all), by, "who did it is kept")
	blocked := []string{"set to completed", "set to expired", "set to overwritten"}
	requireBlocked(w, id, append(blocked, "set to failed"), "last")

	edited := queueEdit(t, w, id)
	require.Contains(t, eventIDs(d.Asked(id, "first")), edited, "hooks decide on the edited text")

	set("failed", event.ItemPending)
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "failed")).Status)
	require.Equal(t, "failed", w.Messages(id)[len(w.Messages(id))-1].ReplyToMessageID, "what is pending again is processed")
	require.Contains(t, eventIDs(d.Asked(id, "first")), "failed")
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, "failed").Status)
	requireBlocked(w, id, blocked, "set to failed")

	for name, c := range map[string]signals.SetStatus{
		"eventId":              {Status: event.ItemCompleted, By: "ann"},
		"by":                   {EventID: "last", Status: event.ItemFailed},
		"cannot be set":        {EventID: "last", Status: event.ItemProcessing, By: "ann"},
		"is not one of":        {EventID: "last", Status: "lost", By: "ann"},
		"is completed already": {EventID: "last", Status: event.ItemCompleted, By: "ann"},
		"it has ended":         {EventID: "last", Status: event.ItemPending, By: "ann"},
		"neither queued nor a recently ended event": {EventID: "nobody", Status: event.ItemCompleted, By: "ann"},
	} {
		before := len(w.Records(id))
		_, err := w.Threads.SetStatus(w.Ctx(), id, c)
		require.ErrorIs(t, err, signals.ErrRefused, name)
		require.ErrorContains(t, err, name)
		require.Len(t, w.Records(id), before)
	}
}

// queueEdit edits a message that waits, and returns its event. What its turn answers is the new text.
func queueEdit(t *testing.T, w *harness.Harness, id string) string {
	_, release := busy(t, w, id)
	add(w, id, check.Message(id, "edited", "to production"))
	change := signals.SetStatus{EventID: "edited", Status: event.ItemPending, Content: "to staging", By: "bob"}
	_, err := w.Threads.SetStatus(w.Ctx(), id, change)
	require.ErrorIs(t, err, signals.ErrRefused)
	require.ErrorContains(t, err, `can be changed by its sender "ann" only`)
	change.By = "ann"
	it, err := w.Threads.SetStatus(w.Ctx(), id, change)
	require.NoError(t, err)
	require.Contains(t, string(it.Payload), "to staging")
	release()
	require.Equal(t, "to staging", check.Wholly(w, id, w.Await(id, "edited")).Message.Content)
	require.NotContains(t, w.Transcript(id), "to production")
	_, err = w.Threads.SetStatus(w.Ctx(), id, change)
	require.ErrorIs(t, err, signals.ErrRefused)
	return "edited"
}

func queueSetProcessing(t *testing.T, w *harness.Harness) {
	id := w.Open("assistant")
	gate := w.Provider.Block(0)
	t.Cleanup(gate.Release)
	add(w, id, check.Message(id, "e1", "hello"))
	<-gate.Reached()
	set := func(eventID string, status event.ItemStatus) {
		_, err := w.Threads.SetStatus(w.Ctx(), id, signals.SetStatus{EventID: eventID, Status: status, By: "ann"})
		require.NoError(t, err)
	}
	set("e1", event.ItemPending)
	require.Eventually(t, func() bool {
		it, err := w.Threads.Item(w.Ctx(), id, "e1")
		return err == nil && it.Status == event.ItemCompleted
	}, testenv.Patience, testenv.Tick, "it is processed again")
	require.Equal(t, "hello", check.Wholly(w, id, w.Await(id, "e1")).Message.Content)
	require.Equal(t, []string{"ann: hello", "assistant: hello"}, check.SaidIn(w, id), "with one effect")

	_, release := busy(t, w, id)
	now, _, err := w.Threads.Processing(w.Ctx(), id)
	require.NoError(t, err)
	set(now.ID, event.ItemFailed)
	require.Eventually(t, func() bool {
		it, err := w.Threads.Item(w.Ctx(), id, now.ID)
		return err == nil && it.Status == event.ItemFailed
	}, testenv.Patience, testenv.Tick)
	release()
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, "go on").Status)
	require.Equal(t, []string{now.ID}, idsOf(queueOf(w, id).Failed), "it waits for somebody to retry it")
}

// queueNamespaces has threads of one name in two namespaces, both served by one worker.
func queueNamespaces(t *testing.T, w *harness.Harness) {
	id := w.Open("assistant")
	other, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue + "-b", TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	require.NoError(t, other.Open(w.Ctx(), id, signals.Start{Agents: []string{"assistant"}}, nil))
	_, release := busy(t, w, id)
	gate := w.Provider.Block(0)
	t.Cleanup(gate.Release)
	_, err = other.Post(w.Ctx(), id, check.Message(id, "theirs", "theirs"))
	require.NoError(t, err)
	<-gate.Reached()
	add(w, id, check.Message(id, "a1", "ours"))
	urgent := check.Message(id, "b1", "theirs, urgently")
	urgent.Priority = 100
	_, err = other.Post(w.Ctx(), id, urgent)
	require.NoError(t, err)

	next, _, err := w.Threads.Next(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, "a1", next.ID)
	require.Equal(t, w.TaskQueue, next.Namespace)
	next, _, err = other.Next(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, "b1", next.ID)
	require.Equal(t, w.TaskQueue+"-b", next.Namespace)
	require.Equal(t, []string{"a1"}, idsOf(queueOf(w, id).Items))
	_, err = other.Item(w.Ctx(), id, "a1")
	require.ErrorIs(t, err, signals.ErrEventNotFound)
	_, err = other.SetStatus(w.Ctx(), id, signals.SetStatus{EventID: "a1", Status: event.ItemFailed, By: "eve"})
	require.ErrorIs(t, err, signals.ErrRefused)
	gate.Release()
	release()
	require.Equal(t, "ours", check.Wholly(w, id, w.Await(id, "a1")).Message.Content)
	require.NotContains(t, w.Transcript(id), "theirs")
	ours := w.Provider.Calls()
	requireBlocked(w, id, nil, "ours")
	for _, call := range check.ModelCalls(w)[ours:] {
		if strings.Contains(call.Raw, "ours") {
			require.NotContains(t, call.Raw, "theirs")
		}
	}
}
