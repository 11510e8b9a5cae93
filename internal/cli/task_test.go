package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

func (w *world) Tasks(_ context.Context, id string) (signals.Tasks, error) {
	return signals.Tasks{Tasks: append([]event.Task{}, w.tasks...)}, w.known(id)
}

func (w *world) Task(ctx context.Context, id string) (event.Task, error) {
	thread, _, err := signals.ParseTaskID(id)
	if err != nil {
		return event.Task{}, err
	}
	all, err := w.Tasks(ctx, thread)
	if err != nil {
		return event.Task{}, err
	}
	for _, task := range all.Tasks {
		if task.ID == id {
			return task, nil
		}
	}
	return event.Task{}, &threadclient.UnknownTaskError{ThreadID: thread, TaskID: id}
}

func (w *world) CompleteTask(_ context.Context, c signals.CompleteTask) (signals.CompleteTaskResult, error) {
	state := event.TaskCompleted
	if c.Error != "" {
		state = event.TaskFailed
	}
	return w.endTask(c.TaskID, state, c)
}

func (w *world) CancelTask(_ context.Context, c signals.CancelTask) (signals.CompleteTaskResult, error) {
	return w.endTask(c.TaskID, event.TaskCancelled, c)
}

// endTask records the requested end of a task, and ends it if it is running.
func (w *world) endTask(id string, state event.TaskState, how any) (signals.CompleteTaskResult, error) {
	thread, _, err := signals.ParseTaskID(id)
	if err == nil {
		err = w.known(thread)
	}
	if err != nil {
		return signals.CompleteTaskResult{}, err
	}
	w.taskEnds = append(w.taskEnds, how)
	for i := range w.tasks {
		task := &w.tasks[i]
		switch {
		case task.ID != id:
			continue
		case !task.State.Ended():
			task.State = state
			return signals.CompleteTaskResult{Result: signals.TaskAccepted, Task: *task}, nil
		case task.State == state:
			return signals.CompleteTaskResult{Result: signals.TaskAlreadyEnded, Task: *task}, nil
		}
		return signals.CompleteTaskResult{Result: signals.TaskConflict, Task: *task}, nil
	}
	return signals.CompleteTaskResult{Result: signals.TaskNotFound}, nil
}

func taskWorld(t *testing.T) *world {
	w := newWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	task := func(id string, state event.TaskState) event.Task {
		return event.Task{ID: id, Title: "nightly build", State: state, Tool: "build", Agent: "demo", ToolCallID: "call_1", TraceID: "e1", StartedAt: at, Deadline: at.Add(time.Hour)}
	}
	failed := task("t1~t1", event.TaskFailed)
	failed.Error = "no disk"
	w.tasks = []event.Task{failed, task("t1~t2", event.TaskRunning)}
	return w
}

func TestTaskList(t *testing.T) {
	w := taskWorld(t)
	out := w.ok("task", "list", "t1")
	require.Equal(t, `STATE    TASK   WORKER  AGENT  STARTED              ENDS                    CONTENT
failed   t1~t1  build   demo   2026-01-02 03:04:05  by 2026-01-02 04:04:05  error: no disk
running  t1~t2  build   demo   2026-01-02 03:04:05  by 2026-01-02 04:04:05  nightly build
`, out, "S3-54")
	_, out, _ = w.run("", "task", "list", "t1", "--json")
	var all signals.Tasks
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all.Tasks, 2)
	require.Equal(t, "t1~t2", all.Tasks[1].ID)

	w.tasks = nil
	code, out, errs := w.run("", "task", "list", "t1")
	require.Equal(t, exitOK, code)
	require.Empty(t, out)
	require.Equal(t, `no background tasks in thread "t1"`+"\n", errs)
	_, out, _ = w.run("", "task", "list", "t1", "--json")
	require.JSONEq(t, `{"tasks":[]}`, out)
	w.fails(exitFailed, `there is no thread "gone"`, "task", "list", "gone")
}

func TestTaskShow(t *testing.T) {
	w := taskWorld(t)
	code, out, errs := w.run("", "task", "show", "t1~t1")
	require.Equal(t, exitOK, code, errs)
	require.True(t, strings.HasPrefix(out, "task      t1~t1\ntitle     nightly build\nstate     failed\nerror     no disk\n"), out)
	_, out, _ = w.run("", "task", "show", "t1~t2", "--json")
	var task event.Task
	require.NoError(t, json.Unmarshal([]byte(out), &task))
	require.Equal(t, event.TaskRunning, task.State)

	errs = w.fails(exitFailed, `thread "t1" does not know task "t1~t9"`, "task", "show", "t1~t9")
	require.Contains(t, errs, `"starter task list t1" shows those that it knows`)
	w.fails(exitFailed, `there is no thread "gone"`, "task", "show", "gone~t1")
}

func TestTaskComplete(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  signals.CompleteTask
	}{
		"with a result":          {"", []string{"--result", `{"n": 12345678901234567890}`, "--by", "ci"}, signals.CompleteTask{Result: json.RawMessage(`{"n": 12345678901234567890}`), By: "ci"}},
		"with a result on stdin": {"[1]\n", []string{"--result", "-"}, signals.CompleteTask{Result: json.RawMessage(`[1]`), By: "ann"}},
		"with an error":          {"", []string{"--error", "no disk"}, signals.CompleteTask{Error: "no disk", By: "ann"}},
	} {
		t.Run("S3-54 "+name, func(t *testing.T) {
			w := taskWorld(t)
			code, out, errs := w.run(c.stdin, append([]string{"task", "complete", "t1~t2"}, c.args...)...)
			require.Equal(t, exitOK, code, errs)
			require.Equal(t, "accepted\n", out)
			c.want.TaskID = "t1~t2"
			require.Equal(t, []any{c.want}, w.taskEnds)
		})
	}
	w := taskWorld(t)
	for problem, args := range map[string][]string{
		"either --result or --error": {"t1~t2"},
		"by either --result":         {"t1~t2", "--result", "1", "--error", "no"},
		"the result is not JSON":     {"t1~t2", "--result", "done"},
		"is not the id of a task":    {"t2", "--result", "1"},
		"must be at most 262144":     {"t1~t2", "--result", `"` + strings.Repeat("x", signals.MaxPayload) + `"`},
		"by: is 201 bytes long":      {"t1~t2", "--result", "1", "--by", strings.Repeat("x", 201)},
		"at most 16384 bytes":        {"t1~t2", "--error", strings.Repeat("x", signals.MaxTaskError+1)},
	} {
		t.Run(problem, func(t *testing.T) {
			w.fails(exitUsage, problem, append([]string{"task", "complete"}, args...)...)
			require.Empty(t, w.taskEnds)
		})
	}
}

func TestTaskCancel(t *testing.T) {
	w := taskWorld(t)
	out := w.ok("task", "cancel", "t1~t2", "--reason", "too slow")
	require.Equal(t, "accepted\n", out)
	require.Equal(t, []any{signals.CancelTask{TaskID: "t1~t2", By: "ann", Reason: "too slow"}}, w.taskEnds, "S3-54")
	out = w.ok("task", "cancel", "t1~t2", "--by", "bob", "--json")
	var got signals.CompleteTaskResult
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, signals.TaskAlreadyEnded, got.Result)
	require.Equal(t, event.TaskCancelled, got.Task.State)
	w.fails(exitUsage, "reason: must be at most", "task", "cancel", "t1~t2", "--reason", strings.Repeat("x", 4097))
}

func TestTaskOutcomes(t *testing.T) {
	for _, end := range [][]string{{"complete", "--result", "1"}, {"cancel"}} {
		w := taskWorld(t)
		for id, problem := range map[string]string{
			"t1~t1":     `task "t1~t1" already ended differently: it is failed; "starter task show t1~t1" says more`,
			"t1~t9":     `the thread of task "t1~t9" does not know it, or not any more`,
			"closed~t1": `thread "closed" is closed`,
			"gone~t1":   `there is no thread "gone"`,
		} {
			t.Run(end[0]+" "+id, func(t *testing.T) {
				w.fails(exitFailed, problem, append([]string{"task", end[0], id}, end[1:]...)...)
			})
		}
		code, out, _ := w.run("", append([]string{"task", end[0], "t1~t1", "--json"}, end[1:]...)...)
		require.Equal(t, exitFailed, code)
		require.Contains(t, out, `"result": "conflict"`, "what became of it is printed even so")
	}
}
