package events

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// scheduled creates a schedule, by default one that posts a message each second and skips none. It
// ends with the test.
func scheduled(w *harness.Harness, thread string, change ...func(*signals.Schedule)) string {
	w.T.Helper()
	s := signals.Schedule{ThreadID: thread, Every: signals.Duration(time.Second), Missed: signals.MissedAll, Message: &event.NewMessage{Content: "tick"}}
	for _, c := range change {
		c(&s)
	}
	made, err := w.Threads.CreateSchedule(w.Ctx(), s)
	require.NoError(w.T, err)
	w.T.Cleanup(func() {
		if err := w.Threads.DeleteSchedule(w.Ctx(), made.ID); err != nil {
			require.ErrorIs(w.T, err, signals.ErrScheduleNotFound)
		}
	})
	return made.ID
}

// awaitView waits until a schedule meets a condition, and returns it.
func awaitView(w *harness.Harness, id string, ok func(signals.ScheduleView) bool) (view signals.ScheduleView) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		var err error
		view, err = w.Threads.Schedule(context.Background(), id)
		return err == nil && ok(view)
	}, testenv.Patience, testenv.Tick)
	return view
}

func viewOf(w *harness.Harness, id string) signals.ScheduleView {
	w.T.Helper()
	view, err := w.Threads.Schedule(w.Ctx(), id)
	require.NoError(w.T, err)
	return view
}

// trigger starts a run by hand, in a second without another run: two runs in the same second post
// once.
func trigger(w *harness.Harness, id string) {
	w.T.Helper()
	var last time.Time
	if recent := viewOf(w, id).Recent; len(recent) > 0 {
		last = recent[len(recent)-1].ScheduledAt
	}
	require.Eventually(w.T, func() bool { return time.Since(last) >= time.Second }, testenv.Patience, testenv.Tick)
	require.NoError(w.T, w.Threads.TriggerSchedule(w.Ctx(), id))
}

// ticks are the messages that schedules have posted to a thread.
func ticks(w *harness.Harness, thread string) []event.Message {
	w.T.Helper()
	var out []event.Message
	for _, m := range w.Messages(thread) {
		if m.SenderID == signals.ScheduleSender {
			out = append(out, m)
		}
	}
	return out
}

// awaitTicks waits until a thread has n messages of schedules.
func awaitTicks(w *harness.Harness, thread string, n int) []event.Message {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		records, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeMessage}})
		found := 0
		for _, r := range records {
			var m event.Message
			if json.Unmarshal(r.Payload, &m) == nil && m.SenderID == signals.ScheduleSender {
				found++
			}
		}
		return err == nil && found >= n
	}, testenv.Patience, testenv.Tick)
	return ticks(w, thread)
}

// timeOf is the time of the run that posted a message.
func timeOf(t *testing.T, m event.Message) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, m.Metadata[signals.MetadataScheduledAt].(string))
	require.NoError(t, err)
	return at
}

// requireEachSecond checks that messages have consecutive seconds, each with the id of its run.
func requireEachSecond(t *testing.T, w *harness.Harness, id string, messages []event.Message) {
	t.Helper()
	for i, m := range messages {
		require.Equal(t, id, m.Metadata[signals.MetadataScheduleID])
		at := timeOf(t, m)
		require.Equal(t, signals.ScheduledRun{Namespace: w.TaskQueue, ScheduleID: id, At: at}.EventID(), m.ID)
		if i > 0 {
			require.Equal(t, time.Second, at.Sub(timeOf(t, messages[i-1])), "in order, and none is missing")
		}
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	t.Run("each second, until it is paused, and by hand", func(t *testing.T) { scheduleRuns(t, w) })
	t.Run("so many runs and no more", func(t *testing.T) { scheduleEnds(t, w) })
	t.Run("daily, where the people are", func(t *testing.T) { scheduleDaily(t, w) })
	t.Run("replaced", func(t *testing.T) { scheduleReplaced(t, w) })
	t.Run("to a thread that is closed, or not there", func(t *testing.T) { scheduleFails(t, w) })
	t.Run("S3-03 S3-55 an environment event", func(t *testing.T) { scheduleEvent(t, w) })
	t.Run("listed by namespace", func(t *testing.T) { scheduleNamespaces(t, w) })
	t.Run("made by any Temporal client", func(t *testing.T) { schedulePlain(t, w) })
	t.Run("over HTTP", func(t *testing.T) { scheduleHTTP(t, w) })
}

func scheduleRuns(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	id := scheduled(w, thread)
	requireEachSecond(t, w, id, awaitTicks(w, thread, 3))

	require.NoError(t, w.Threads.PauseSchedule(w.Ctx(), id, "enough"))
	paused := viewOf(w, id)
	require.True(t, paused.Paused)
	require.Equal(t, "enough", paused.Note)
	before := awaitTicks(w, thread, paused.Runs)
	require.Len(t, before, paused.Runs)
	require.Never(t, func() bool {
		view, err := w.Threads.Schedule(context.Background(), id)
		return err != nil || view.Runs != paused.Runs
	}, 2500*time.Millisecond, 10*testenv.Tick)

	trigger(w, id)
	after := awaitTicks(w, thread, paused.Runs+1)
	require.Len(t, after, paused.Runs+1)
	require.Greater(t, timeOf(t, after[paused.Runs]).Sub(timeOf(t, after[paused.Runs-1])), time.Second, "while it is paused")
	require.True(t, viewOf(w, id).Paused, "and it stays so")

	t.Run("whatever is run again posts nothing", func(t *testing.T) { scheduleTwice(t, w, id, thread, after) })

	require.NoError(t, w.Threads.ResumeSchedule(w.Ctx(), id, ""))
	require.Equal(t, "enough", viewOf(w, id).Note)
	awaitTicks(w, thread, len(after)+1)
	require.NoError(t, w.Threads.DeleteSchedule(w.Ctx(), id))
	_, err := w.Threads.Schedule(w.Ctx(), id)
	require.ErrorIs(t, err, signals.ErrScheduleNotFound)
}

// scheduleTwice makes Temporal repeat the runs of a paused schedule, and starts one of them by
// hand.
func scheduleTwice(t *testing.T, w *harness.Harness, id, thread string, before []event.Message) {
	view := viewOf(w, id)
	first, last := timeOf(t, before[0]), timeOf(t, before[len(before)-2])
	handle := w.Temporal.ScheduleClient().GetHandle(w.Ctx(), signals.ScheduleID(w.TaskQueue, id))
	require.NoError(t, handle.Backfill(w.Ctx(), client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{
		{Start: first, End: last, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL},
	}}))
	again := int(last.Sub(first)/time.Second) + 1
	awaitView(w, id, func(v signals.ScheduleView) bool { return v.Runs == view.Runs+again })

	run, err := w.Temporal.ExecuteWorkflow(w.Ctx(), client.StartWorkflowOptions{
		ID:        job.DeliverWorkflowID(w.TaskQueue, id) + "-" + first.Format(time.RFC3339),
		TaskQueue: w.TaskQueue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, job.DeliverWorkflow, view.Schedule)
	require.NoError(t, err)
	var result signals.PostResult
	require.NoError(t, run.Get(w.Ctx(), &result))
	require.Equal(t, signals.PostResult{EventID: before[0].ID, Status: signals.PostDuplicate}, result)
	awaitView(w, id, func(v signals.ScheduleView) bool {
		return !slices.ContainsFunc(v.Recent, func(r signals.ScheduleRun) bool { return r.Status != "completed" })
	})
	require.Equal(t, signals.TurnCompleted, w.Say(thread, "it comes behind all others").Status)
	require.Len(t, ticks(w, thread), len(before))
}

func scheduleEnds(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	id := scheduled(w, thread, func(s *signals.Schedule) { s.Remaining = 2 })
	requireEachSecond(t, w, id, awaitTicks(w, thread, 2))
	view := awaitView(w, id, func(v signals.ScheduleView) bool { return v.Done })
	require.Empty(t, view.Next)
	require.Equal(t, 2, view.Runs)
	trigger(w, id)
	require.Len(t, awaitTicks(w, thread, 3), 3)
}

func scheduleDaily(t *testing.T, w *harness.Harness) {
	there, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	asked := time.Now().In(there)
	id := scheduled(w, w.Open(), func(s *signals.Schedule) {
		s.Every, s.Cron, s.Timezone, s.Missed = 0, []string{"30 8 * * *"}, there.String(), signals.MissedOnce
	})
	view := viewOf(w, id)
	require.Equal(t, []string{"30 8 * * *"}, view.Cron, "as it was given")
	require.Empty(t, view.Recent)
	require.False(t, view.Done)
	want := time.Date(asked.Year(), asked.Month(), asked.Day(), 8, 30, 0, 0, there)
	if !want.After(asked) {
		want = want.AddDate(0, 0, 1)
	}
	require.Len(t, view.Next, 10)
	for i, next := range view.Next {
		require.True(t, next.Equal(want.AddDate(0, 0, i)), "%s, not %s", next, want.AddDate(0, 0, i))
	}
}

func scheduleReplaced(t *testing.T, w *harness.Harness) {
	first, second := w.Open(), w.Open()
	id := scheduled(w, first, func(s *signals.Schedule) { s.Paused, s.Note = true, "not yet" })
	_, err := w.Threads.CreateSchedule(w.Ctx(), signals.Schedule{ID: id, ThreadID: first, Cron: []string{"@daily"}, Message: &event.NewMessage{Content: "hi"}})
	require.ErrorIs(t, err, signals.ErrScheduleExists)
	made, err := w.Threads.UpdateSchedule(w.Ctx(), signals.Schedule{
		ID: id, ThreadID: second, Every: signals.Duration(time.Second), Missed: signals.MissedAll, Message: &event.NewMessage{Content: "tock"},
	})
	require.NoError(t, err)
	got := awaitTicks(w, second, 2)
	require.Equal(t, "tock", got[0].Content)
	requireEachSecond(t, w, id, got)
	view := viewOf(w, id)
	require.Equal(t, made, view.Schedule)
	require.False(t, view.UpdatedAt.IsZero())
	require.Empty(t, ticks(w, first))
}

func scheduleFails(t *testing.T, w *harness.Harness) {
	closed := w.Open()
	require.NoError(t, w.Threads.Control(w.Ctx(), closed, signals.Control{Action: signals.ControlClose, By: "ann"}))
	require.Eventually(t, func() bool {
		state, err := w.Threads.State(context.Background(), closed)
		return err == nil && state.Status == signals.ThreadClosed
	}, testenv.Patience, testenv.Tick)
	paused := func(open bool) func(s *signals.Schedule) {
		return func(s *signals.Schedule) { s.Paused, s.Open = true, open }
	}
	ends := func(id string) signals.ScheduleRun {
		trigger(w, id)
		view := awaitView(w, id, func(v signals.ScheduleView) bool { return len(v.Recent) == 1 && v.Recent[0].Status != "running" })
		return view.Recent[0]
	}
	for _, open := range []bool{false, true} {
		run := ends(scheduled(w, closed, paused(open)))
		require.Equal(t, "failed", run.Status)
		require.Contains(t, run.Error, "the thread is closed")
	}
	run := ends(scheduled(w, "nowhere", paused(false)))
	require.Equal(t, "failed", run.Status)
	require.Contains(t, run.Error, "no such thread; a schedule with open makes it")

	run = ends(scheduled(w, "somewhere", paused(true), func(s *signals.Schedule) {
		s.Agents, s.Title = []string{"assistant"}, "Ticking"
	}))
	require.Equal(t, "completed", run.Status)
	require.Equal(t, run.EventID, awaitTicks(w, "somewhere", 1)[0].ID)
	state, err := w.Threads.State(w.Ctx(), "somewhere")
	require.NoError(t, err)
	require.Equal(t, []string{"assistant"}, state.Agents)
	require.Equal(t, "Ticking", state.Title)
}

func scheduleEvent(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	id := scheduled(w, thread, func(s *signals.Schedule) {
		s.Message, s.Remaining = nil, 1
		s.Event = &event.EnvEvent{Type: "day.begun", Payload: json.RawMessage(`{"n":1}`)}
	})
	require.Eventually(t, func() bool {
		found, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeEnv}})
		return err == nil && len(found) == 1
	}, testenv.Patience, testenv.Tick)
	record := check.OfType(w, thread, event.TypeEnv)[0]
	run := viewOf(w, id).Recent[0]
	require.Equal(t, run.EventID, record.ID)
	got := harness.Payload[event.EnvEvent](w, record)
	require.Equal(t, "day.begun", got.Type)
	require.Equal(t, run.ScheduledAt.UnixMilli(), got.Timestamp)
	require.Equal(t, thread, got.Metadata.TriggerSessionID)
	require.Equal(t, event.SourceSystem, got.Metadata.Source)
	require.JSONEq(t, `"`+id+`"`, string(got.Metadata.Extra[signals.MetadataScheduleID]))
	require.JSONEq(t, `{"n":1}`, string(got.Payload))
}

func scheduleNamespaces(t *testing.T, w *harness.Harness) {
	// In a visibility query, "_" might match any character.
	other, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue + "_", TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	third, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue + "x", TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	for _, c := range []*threadclient.Client{other, third} {
		s := signals.Schedule{ID: "nightly", ThreadID: "t1", Cron: []string{"@daily"}, Message: &event.NewMessage{Content: "in " + c.Namespace()}}
		_, err := c.CreateSchedule(w.Ctx(), s)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.DeleteSchedule(w.Ctx(), "nightly")) })
	}
	for _, c := range []*threadclient.Client{other, third} {
		var all []signals.ScheduleView
		require.Eventually(t, func() bool {
			var err error
			all, err = c.Schedules(context.Background(), 0)
			return err == nil && len(all) > 0
		}, testenv.Patience, testenv.Tick)
		require.Len(t, all, 1)
		require.Equal(t, "nightly", all[0].ID)
		require.Equal(t, "in "+c.Namespace(), all[0].Message.Content)
	}
}

func schedulePlain(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	handle, err := w.Temporal.ScheduleClient().Create(w.Ctx(), client.ScheduleOptions{
		ID:   "schedule/" + w.TaskQueue + "/plain",
		Spec: client.ScheduleSpec{CronExpressions: []string{"@yearly"}},
		Action: &client.ScheduleWorkflowAction{
			ID: "deliver/" + w.TaskQueue + "/plain", Workflow: "deliver", TaskQueue: w.TaskQueue,
			Args: []any{map[string]any{"threadId": thread, "message": map[string]any{"content": "tick"}}},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, handle.Delete(w.Ctx())) })
	trigger(w, "plain")
	require.Equal(t, "plain", awaitTicks(w, thread, 1)[0].Metadata[signals.MetadataScheduleID])
	require.Equal(t, thread, viewOf(w, "plain").ThreadID)
}

func scheduleHTTP(t *testing.T, w *harness.Harness) {
	call := func(method, path, body string, out any) int {
		req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+"/v1/schedules"+path, bytes.NewBufferString(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		if out != nil {
			require.NoError(t, json.NewDecoder(res.Body).Decode(out))
		}
		return res.StatusCode
	}
	var view struct {
		ID   string      `json:"id"`
		Next []time.Time `json:"next"`
		Runs int         `json:"runs"`
	}
	require.Equal(t, http.StatusCreated, call("POST", "", `{"id": "weekly", "threadId": "http", "open": true, "cron": ["0 9 * * mon"], "message": {"content": "tick"}}`, &view))
	require.Equal(t, "weekly", view.ID)
	require.Len(t, view.Next, 10)
	require.Equal(t, time.Monday, view.Next[0].Weekday())
	require.Equal(t, http.StatusConflict, call("POST", "", `{"id": "weekly", "threadId": "http", "cron": ["@daily"], "message": {"content": "tick"}}`, nil))
	require.Equal(t, http.StatusAccepted, call("POST", "/weekly/trigger", "", nil))
	require.Len(t, awaitTicks(w, "http", 1), 1)
	require.Equal(t, http.StatusOK, call("GET", "/weekly", "", &view))
	require.Equal(t, 1, view.Runs)
	require.Equal(t, http.StatusNoContent, call("DELETE", "/weekly", "", nil))
	require.Equal(t, http.StatusNotFound, call("GET", "/weekly", "", nil))

	t.Run("what Temporal returns is the version that was stored", func(t *testing.T) {
		var made struct {
			Version int `json:"version"`
		}
		for i, body := range []string{
			`{"id": "full", "threadId": "http", "cron": ["0 9 * * mon"], "startAt": "2030-01-02T09:00:00+01:00", "every": "90m", "jitter": "1m30s", "note": "n", "remaining": 3,
				"event": {"type": "day.begun", "metadata": {"team": {"b": 1.50, "a": "<&>"}}, "payload": {"n":  12345678901234567890, "at": "é\u00e9"}}}`,
			`{"id": "plain", "threadId": "http", "cron": ["0 9 * * mon"], "event": {"type": "day.begun"}}`,
			`{"id": "said", "threadId": "http", "cron": ["0 9 * * mon"], "paused": true, "message": {"content": "<b>", "sender": "ann", "metadata": {"n": 1e21, "list": []}}}`,
		} {
			require.Equal(t, http.StatusCreated, call("POST", "", body, &made))
			require.Equal(t, 1, made.Version)
			id := []string{"full", "plain", "said"}[i]
			require.Equal(t, http.StatusOK, call("GET", "/"+id, "", &made))
			require.Equal(t, 1, made.Version, id)
			require.Equal(t, http.StatusOK, call("PUT", "/"+id+"?ifVersion=1", body, &made))
			require.Equal(t, 1, made.Version, "%s: the same again is no version", id)
		}
	})
}

// TestScheduleOutage: schedules run while there is no worker.
func TestScheduleOutage(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	one, every := w.Open(), w.Open()
	once := scheduled(w, one, func(s *signals.Schedule) { s.Missed = signals.MissedOnce })
	all := scheduled(w, every)
	waiting := awaitView(w, once, func(v signals.ScheduleView) bool { return v.OverlappedRuns >= 2 })
	require.Equal(t, 1, waiting.Runs, "one waits, and the others are left out")
	require.Equal(t, "running", waiting.Recent[0].Status)
	require.Empty(t, ticks(w, one))

	w.StartWorker()
	t.Run("once delivers the first that was missed", func(t *testing.T) {
		got := awaitTicks(w, one, 2)
		require.Equal(t, waiting.Recent[0].EventID, got[0].ID)
		require.Greater(t, timeOf(t, got[1]).Sub(timeOf(t, got[0])), 2*time.Second, "those between are not made up for")
	})
	t.Run("all delivers each, in order", func(t *testing.T) {
		requireEachSecond(t, w, all, awaitTicks(w, every, 5))
	})
}
