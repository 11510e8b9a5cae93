package server_test

import (
	"context"
	"encoding/json"
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
)

// tasksFake are the background tasks of every thread. end answers attempts to end one.
type tasksFake struct {
	has       []event.Task
	completed []signals.CompleteTask
	cancelled []signals.CancelTask
	end       func() (signals.CompleteTaskResult, error)
}

func (f *threads) Tasks(ctx context.Context, id string) (signals.Tasks, error) {
	if f.state != nil {
		return signals.Tasks{}, f.state(ctx)
	}
	return signals.Tasks{Tasks: f.tasks.has}, f.check(id)
}

func (f *threads) Task(ctx context.Context, id string) (event.Task, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err != nil {
		return event.Task{}, err
	}
	all, err := f.Tasks(ctx, threadID)
	if err != nil {
		return event.Task{}, err
	}
	i := slices.IndexFunc(all.Tasks, func(t event.Task) bool { return t.ID == id })
	if i < 0 {
		return event.Task{}, &threadclient.UnknownTaskError{ThreadID: threadID, TaskID: id}
	}
	return all.Tasks[i], nil
}

func (f *threads) CompleteTask(_ context.Context, c signals.CompleteTask) (signals.CompleteTaskResult, error) {
	if err := c.Validate(); err != nil {
		return signals.CompleteTaskResult{}, err
	}
	f.tasks.completed = append(f.tasks.completed, c)
	return f.endTask(c.TaskID)
}

func (f *threads) CancelTask(_ context.Context, c signals.CancelTask) (signals.CompleteTaskResult, error) {
	if err := c.Validate(); err != nil {
		return signals.CompleteTaskResult{}, err
	}
	f.tasks.cancelled = append(f.tasks.cancelled, c)
	return f.endTask(c.TaskID)
}

func (f *threads) endTask(id string) (signals.CompleteTaskResult, error) {
	threadID, _, err := signals.ParseTaskID(id)
	if err == nil {
		err = f.check(threadID)
	}
	if err != nil {
		return signals.CompleteTaskResult{}, err
	}
	return f.tasks.end()
}

func (f *tasksFake) answers(outcome signals.TaskOutcome, task event.Task) {
	f.end = func() (signals.CompleteTaskResult, error) {
		return signals.CompleteTaskResult{Result: outcome, Task: task}, nil
	}
}

var (
	taskStart = time.Unix(1700000000, 0).UTC()
	taskEnd   = taskStart.Add(time.Minute)
	building  = event.Task{
		ID: "t1~t1", Title: "nightly build", State: event.TaskRunning, Tool: "build", Agent: "bot", ToolCallID: "call_1", TraceID: "e1",
		Detached: true, StartedAt: taskStart, Deadline: taskStart.Add(time.Hour),
	}
	asking = event.Task{
		ID: "t1~t2", State: event.TaskFailed, Agent: "bot", ToolCallID: "call_2", TraceID: "e1", SubAgent: "scout", ThreadID: "t1.scout",
		StartedAt: taskStart, Deadline: taskStart.Add(time.Hour), EndedAt: &taskEnd, By: "ci", Error: "no disk",
	}
)

const (
	buildingJSON = `{"id":"t1~t1","title":"nightly build","state":"running","tool":"build","agent":"bot","toolCallId":"call_1","traceId":"e1",
		"detached":true,"startedAt":"2023-11-14T22:13:20Z","deadline":"2023-11-14T23:13:20Z"}`
	askingJSON = `{"id":"t1~t2","state":"failed","agent":"bot","toolCallId":"call_2","traceId":"e1","subAgent":"scout","threadId":"t1.scout",
		"startedAt":"2023-11-14T22:13:20Z","deadline":"2023-11-14T23:13:20Z","endedAt":"2023-11-14T22:14:20Z","by":"ci","error":"no disk"}`
)

// toldJSON is askingJSON with the id of the event that tells its agent how it has ended.
var toldJSON = strings.TrimSuffix(askingJSON, "}") + `,"endEventId":"` + signals.TaskEndEventID("default", "t1~t2") + `"}`

func taskWorld(t *testing.T, change ...func(*server.Config)) *world {
	w := newWorld(t, change...)
	w.open("t1")
	w.threads.known["gone"] = false
	w.threads.tasks.has = []event.Task{building, asking}
	return w
}

func TestTasks(t *testing.T) {
	w := taskWorld(t)
	t.Run("S3-54 every field of every task", func(t *testing.T) {
		got := w.call("GET", "/v1/threads/t1/tasks", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, `{"tasks":[`+buildingJSON+","+toldJSON+`]}`, got.text)
	})
	for name, path := range map[string]string{"as it is": "/v1/tasks/t1~t1", "escaped": "/v1/tasks/t1%7Et1"} {
		t.Run("S3-54 one, its id "+name, func(t *testing.T) {
			got := w.call("GET", path, nil).ok(t, http.StatusOK)
			assert.JSONEq(t, buildingJSON, got.text)
		})
	}
	for path, problem := range map[string]string{
		"/v1/threads/nobody/tasks": `there is no thread "nobody"`,
		"/v1/threads/a%2Fb/tasks":  "there is no thread",
		"/v1/tasks/nobody~t1":      `there is no thread "nobody"`,
		"/v1/tasks/t1~t9":          `does not know task "t1~t9"`,
		"/v1/tasks/t1":             `there is no task "t1"`,
		"/v1/tasks/t1~t0":          `there is no task "t1~t0"`,
		"/v1/tasks/a%2Fb~t1":       `there is no task "a/b~t1"`,
	} {
		t.Run("not there: "+path, func(t *testing.T) {
			w.call("GET", path, nil).refused(t, http.StatusNotFound, problem)
		})
	}
	t.Run("S3-54 one that the thread has forgotten, or Temporal the thread", func(t *testing.T) {
		w := taskWorld(t)
		w.threads.tasks.has = nil
		w.put("t1", taskRecord("t1~t2", building), taskRecord("t1~t2.ended", asking))
		got := w.call("GET", "/v1/tasks/t1~t2", nil).ok(t, http.StatusOK)
		assert.JSONEq(t, toldJSON, got.text)
		delete(w.threads.known, "t1")
		assert.JSONEq(t, toldJSON, w.call("GET", "/v1/tasks/t1~t2", nil).text)
		w.call("GET", "/v1/tasks/t1~t3", nil).problem(t, http.StatusNotFound)
	})
	t.Run("S3-54 a detached task that has ended after its thread was closed", func(t *testing.T) {
		w := taskWorld(t)
		ended := building
		ended.State, ended.EndedAt = event.TaskCompleted, &taskEnd
		w.put("t1", taskRecord("t1~t1", building))
		assert.Equal(t, "running", w.call("GET", "/v1/tasks/t1~t1", nil).body["state"])
		w.put("t1", taskRecord("t1~t1.ended", ended))
		assert.Equal(t, "completed", w.call("GET", "/v1/tasks/t1~t1", nil).body["state"])
		list := w.call("GET", "/v1/threads/t1/tasks", nil).body["tasks"].([]any)
		require.Len(t, list, 2)
		assert.Equal(t, "completed", list[0].(object)["state"])
	})
	t.Run("none is a list", func(t *testing.T) {
		w.threads.tasks.has = nil
		assert.JSONEq(t, `{"tasks":[]}`, w.call("GET", "/v1/threads/t1/tasks", nil).text)
	})
	t.Run("no worker", func(t *testing.T) {
		w := taskWorld(t, func(c *server.Config) { c.AnswerWithin = 20 * time.Millisecond })
		w.threads.state = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for _, path := range []string{"/v1/threads/t1/tasks", "/v1/tasks/t1~t1"} {
			got := w.call("GET", path, nil)
			got.problem(t, http.StatusServiceUnavailable)
			assert.NotEmpty(t, got.header.Get("Retry-After"))
		}
	})
}

func TestCompleteTask(t *testing.T) {
	w := taskWorld(t)
	const path = "/v1/tasks/t1~t1/complete"
	w.threads.tasks.answers(signals.TaskAccepted, asking)
	for name, c := range map[string]struct {
		body string
		want signals.CompleteTask
	}{
		"with a result": {`{"result":{"n":12345678901234567890},"by":"ci"}`, signals.CompleteTask{Result: json.RawMessage(`{"n":12345678901234567890}`), By: "ci"}},
		"with a text":   {`{"result":"done"}`, signals.CompleteTask{Result: json.RawMessage(`"done"`), By: "api"}},
		"with false":    {`{"result":false}`, signals.CompleteTask{Result: json.RawMessage(`false`), By: "api"}},
		"with nothing":  {`{}`, signals.CompleteTask{By: "api"}},
		"with null":     {`{"result":null,"error":"no disk"}`, signals.CompleteTask{Error: "no disk", By: "api"}},
		"with an error": {`{"error":"no disk"}`, signals.CompleteTask{Error: "no disk", By: "api"}},
	} {
		t.Run("S3-54 "+name, func(t *testing.T) {
			w.threads.tasks.completed = nil
			got := w.call("POST", path, c.body).ok(t, http.StatusOK)
			assert.JSONEq(t, `{"result":"accepted","task":`+askingJSON+`}`, got.text)
			c.want.TaskID = "t1~t1"
			assert.Equal(t, []signals.CompleteTask{c.want}, w.threads.tasks.completed)
		})
	}
	for name, c := range map[string]struct {
		body     any
		status   int
		location string
	}{
		"both":             {object{"result": 1, "error": "no"}, 422, "body.error"},
		"long error":       {object{"error": strings.Repeat("x", signals.MaxTaskError+1)}, 422, "body.error"},
		"wide error":       {object{"error": strings.Repeat("é", signals.MaxTaskError)}, 422, "body.error"},
		"long name":        {object{"by": strings.Repeat("x", 201)}, 422, "body.by"},
		"unknown field":    {object{"output": 1}, 422, "body.output"},
		"result too large": {object{"result": strings.Repeat("x", signals.MaxPayload)}, 413, "body.result"},
		"not JSON":         {`hello`, 400, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			w.threads.tasks.completed = nil
			got := w.call("POST", path, c.body)
			assert.Equal(t, []string{c.location}, got.problem(t, c.status), got.text)
			assert.Empty(t, w.threads.tasks.completed)
			assert.Less(t, len(got.text), 2000, "what was sent is not sent back")
		})
	}
}

func TestCancelTask(t *testing.T) {
	w := taskWorld(t)
	const path = "/v1/tasks/t1~t1/cancel"
	w.threads.tasks.answers(signals.TaskAccepted, asking)
	got := w.call("POST", path, object{"by": "ann", "reason": "too slow"}).ok(t, http.StatusOK)
	assert.JSONEq(t, `{"result":"accepted","task":`+askingJSON+`}`, got.text)
	assert.Equal(t, []signals.CancelTask{{TaskID: "t1~t1", By: "ann", Reason: "too slow"}}, w.threads.tasks.cancelled)
	for name, c := range map[string]struct {
		body     any
		location string
	}{
		"who is required": {object{"reason": "too slow"}, "body.by"},
		"nobody":          {object{"by": ""}, "body.by"},
		"long reason":     {object{"by": "ann", "reason": strings.Repeat("x", 4097)}, "body.reason"},
		"unknown field":   {object{"by": "ann", "force": true}, "body.force"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, []string{c.location}, w.call("POST", path, c.body).problem(t, 422))
			assert.Len(t, w.threads.tasks.cancelled, 1)
		})
	}
}

func TestOutcomesOfTask(t *testing.T) {
	for verb, body := range map[string]object{"complete": {"result": 1}, "cancel": {"by": "ann"}} {
		t.Run(verb, func(t *testing.T) {
			w := taskWorld(t)
			end := func(id string) answer { return w.call("POST", "/v1/tasks/"+id+"/"+verb, body) }

			w.threads.tasks.answers(signals.TaskAlreadyEnded, asking)
			got := end("t1~t2")
			require.Equal(t, http.StatusOK, got.status, got.text)
			assert.Equal(t, "already_ended", got.body["result"], "S3-54 again changes nothing")

			w.threads.tasks.answers(signals.TaskConflict, asking)
			got = end("t1~t2")
			got.problem(t, http.StatusConflict)
			assert.Equal(t, "conflict", got.body["result"])
			assert.Contains(t, got.body["detail"], "it is failed")
			raw, err := json.Marshal(got.body["task"])
			require.NoError(t, err)
			assert.JSONEq(t, askingJSON, string(raw))

			w.threads.tasks.answers(signals.TaskNotFound, event.Task{})
			got = end("t1~t9")
			got.problem(t, http.StatusNotFound)
			assert.Equal(t, "not_found", got.body["result"])
			assert.NotContains(t, got.body, "task")

			got = end("gone~t1")
			got.problem(t, http.StatusConflict)
			assert.Contains(t, got.body["detail"], `thread "gone" is closed`)
			for _, id := range []string{"nobody~t1", "t1", "a%2Fb~t1"} {
				end(id).problem(t, http.StatusNotFound)
			}
			w.threads.tasks.answers("maybe", building)
			end("t1~t1").problem(t, http.StatusInternalServerError)
		})
	}
}

func TestEndTaskOfClosedThread(t *testing.T) {
	w := taskWorld(t)
	ended := building
	ended.ID, ended.State, ended.EndedAt = "gone~t1", event.TaskCompleted, &taskEnd
	running := building
	running.ID = "gone~t2"
	w.put("gone", taskRecord("gone~t1", building), taskRecord("gone~t1.ended", ended), taskRecord("gone~t2", running))
	for body, want := range map[string]struct {
		status int
		result any
	}{
		`{"result":1}`:   {http.StatusOK, "already_ended"},
		`{"error":"no"}`: {http.StatusConflict, "conflict"},
	} {
		got := w.call("POST", "/v1/tasks/gone~t1/complete", body)
		assert.Equal(t, want.status, got.status, got.text)
		assert.Equal(t, want.result, got.body["result"], "S3-54 the store knows how it ended")
		assert.Equal(t, "completed", got.body["task"].(object)["state"])
	}
	got := w.call("POST", "/v1/tasks/gone~t1/cancel", object{"by": "ann"})
	got.problem(t, http.StatusConflict)
	assert.Equal(t, "conflict", got.body["result"])
	for _, id := range []string{"gone~t2", "gone~t3"} {
		got := w.call("POST", "/v1/tasks/"+id+"/complete", `{"result":1}`).refused(t, http.StatusConflict, `thread "gone" is closed`)
		assert.NotContains(t, got.body, "result")
	}
}

// taskRecord is the record of a task as it stands.
func taskRecord(id string, task event.Task) event.Record {
	return event.NewRecord(id, event.TypeTask, task.TraceID, "", taskStart, task)
}
