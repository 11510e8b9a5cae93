package agents

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/bare"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// completer is one way to complete a task from outside. It returns the outcome, or nothing without
// a response.
type completer func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome

var completers = map[string]completer{
	"a signal of a plain client": func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome {
		thread, _, _ := strings.Cut(c.TaskID, "~")
		require.NoError(t, plainClient(w).Signal(w.Ctx(), thread, "complete_task", asObject(t, c)))
		return ""
	},
	"an update of a plain client": func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome {
		thread, _, _ := strings.Cut(c.TaskID, "~")
		out, err := plainClient(w).Update(w.Ctx(), thread, "complete_task", asObject(t, c))
		require.NoError(t, err)
		return signals.TaskOutcome(out["result"].(string))
	},
	"the Go client": func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome {
		out, err := w.Threads.CompleteTask(w.Ctx(), c)
		require.NoError(t, err)
		return out.Result
	},
	"HTTP": func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome {
		body := asObject(t, c)
		delete(body, "taskId")
		status, out := check.Request(t, w, http.MethodPost, "/v1/tasks/"+c.TaskID+"/complete", body)
		result, _ := out["result"].(string)
		require.Equal(t, map[string]int{"accepted": 200, "already_ended": 200, "conflict": 409, "not_found": 404}[result], status, out)
		return signals.TaskOutcome(result)
	},
	"the command line": func(t *testing.T, w *harness.Harness, c signals.CompleteTask) signals.TaskOutcome {
		args := []string{"task", "complete", c.TaskID, "--by", c.By, "--json"}
		if c.Error != "" {
			args = append(args, "--error", c.Error)
		} else {
			args = append(args, "--result", string(c.Result))
		}
		var out signals.CompleteTaskResult
		printed, code, problem := w.Starter(args...)
		require.NoError(t, json.Unmarshal([]byte(printed), &out), problem)
		require.Equal(t, out.Result != signals.TaskAccepted && out.Result != signals.TaskAlreadyEnded, code != 0, problem)
		return out.Result
	},
}

func plainClient(w *harness.Harness) bare.Client {
	return bare.Client{Temporal: w.Temporal, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue}
}

// asObject is the payload of a client that knows only the names of fields.
func asObject(t *testing.T, v any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return check.Decode[map[string]any](t, raw)
}

// TestTaskCompletedFromOutside ends tasks whose work is done elsewhere.
func TestTaskCompletedFromOutside(t *testing.T) {
	t.Parallel()
	w := check.OpenTasks(t, harness.Options{}, check.HandsOver("order", tool.Background(), tool.Idempotent()))
	for by, complete := range completers {
		t.Run("S3-54 X4 by "+by, func(t *testing.T) {
			t.Parallel()
			t.Run("with a result", func(t *testing.T) {
				completedOnce(t, w, complete, signals.CompleteTask{Result: json.RawMessage(`{"url":"https://example.com/7"}`), By: "ci"})
			})
			t.Run("with an error", func(t *testing.T) {
				completedOnce(t, w, complete, signals.CompleteTask{Error: "the disk is full", By: "ci"})
			})
		})
	}
}

// completedOnce ends a task in one way, again in the same way, and then in the other.
func completedOnce(t *testing.T, w *harness.Harness, complete completer, c signals.CompleteTask) {
	id := w.Open()
	task := check.StartTask(t, w, id, "use order {}")
	c.TaskID = task.ID
	unanswered := false
	expect := func(c signals.CompleteTask, want signals.TaskOutcome) {
		t.Helper()
		got := complete(t, w, c)
		if unanswered = got == ""; !unanswered {
			require.Equal(t, want, got)
		}
	}
	expect(c, signals.TaskAccepted)
	got := check.AwaitTold(t, w, task)
	typ, state := event.TypeBackgroundTaskCompleted, event.TaskCompleted
	other := signals.CompleteTask{TaskID: task.ID, Error: "no, it failed", By: "ops"}
	if c.Error != "" {
		typ, state = event.TypeBackgroundTaskFailed, event.TaskFailed
		other.Result, other.Error = json.RawMessage(`7`), ""
	}
	require.Equal(t, typ, got.Event.Type)
	require.Equal(t, signals.TurnCompleted, got.Turn.Status)
	require.Equal(t, c.Error, got.End.Error)
	require.Equal(t, string(c.Result), string(got.End.Result))
	ended := requireEnded(t, w, task, state)
	require.Equal(t, "ci", ended.By)
	require.Equal(t, c.Error, ended.Error)

	expect(c, signals.TaskAlreadyEnded)
	check.Settle(w, id)
	require.Empty(t, check.OfType(w, id, event.TypeRejected), "there is nothing wrong with saying it twice")
	expect(other, signals.TaskConflict)
	check.Settle(w, id)
	if unanswered {
		require.Eventually(t, func() bool { return len(check.OfType(w, id, event.TypeRejected)) == 1 }, testenv.Patience, testenv.Tick)
	}
	require.Equal(t, ended, check.TaskOf(w, task.ID), "the first stands")
	require.Len(t, check.TaskEvents(w, id), 1, "and the agent is told once")
	awaitEnd(t, w, task, "Completed")
}

// awaitEnd waits until the workflow of a task has ended.
func awaitEnd(t *testing.T, w *harness.Harness, task event.Task, status string) {
	t.Helper()
	require.Eventually(t, func() bool {
		d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.TaskWorkflowID(w.TaskQueue, task.ID), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus().String() == status
	}, testenv.Patience, testenv.Tick)
}

// TestTaskCompletedFromOutsideWhileItRuns ends tasks whose tools are still running.
func TestTaskCompletedFromOutsideWhileItRuns(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, work.Tool("build", tool.Background()))
	id := w.Open()
	task := check.StartTask(t, w, id, check.Use("build", "a"))
	work.Of("a").Begins(t)
	out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: task.ID, Result: json.RawMessage(`"found in the cache"`), By: "cache"})
	require.NoError(t, err)
	require.Equal(t, signals.TaskAccepted, out.Result)
	require.Equal(t, event.TaskCompleted, out.Task.State)
	require.Equal(t, `"found in the cache"`, string(check.AwaitTold(t, w, task).End.Result), "at once: the tool is not waited for")
	check.Arrives(t, work.Of("a").Stopped, "the tool hears that it is not needed")
	awaitEnd(t, w, task, "Completed")
	require.Equal(t, "cache", requireEnded(t, w, task, event.TaskCompleted).By)
	require.Len(t, check.TaskEvents(w, id), 1)
}

// TestTaskIsLate lets tasks reach their deadlines.
//
//ci:replayed only
func TestTaskIsLate(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, check.HandsOver("order", tool.Background(), tool.Deadline(time.Second)),
		// The tool has started by then, even on a busy machine.
		work.Tool("build", tool.Background(), tool.Deadline(10*time.Second), tool.Timeout(time.Hour)),
		work.Tool("brief", tool.Background(), tool.Timeout(200*time.Millisecond)))
	t.Run("X4 nobody has completed it by its deadline", func(t *testing.T) {
		id := w.Open()
		task := check.StartTask(t, w, id, "use order {}")
		require.Equal(t, task.StartedAt.Add(time.Second), task.Deadline)
		got := check.AwaitTold(t, w, task)
		require.Equal(t, event.TypeBackgroundTaskFailed, got.Event.Type)
		require.Contains(t, got.End.Error, "had not completed by its deadline, "+task.Deadline.Format(time.RFC3339))
		require.False(t, requireEnded(t, w, task, event.TaskFailed).EndedAt.Before(task.Deadline))
		out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: task.ID, Result: json.RawMessage(`7`)})
		require.NoError(t, err)
		require.Equal(t, signals.TaskConflict, out.Result, "it is too late")
		require.Len(t, check.TaskEvents(w, id), 1)
	})
	t.Run("X4 the tool has not returned by the deadline", func(t *testing.T) {
		task := check.StartTask(t, w, w.Open(), check.Use("build", "a"))
		work.Of("a").Begins(t)
		require.Contains(t, check.AwaitTold(t, w, task).End.Error, "had not completed by its deadline")
		check.Arrives(t, work.Of("a").Stopped, "the tool hears of it")
	})
	t.Run("X4 a run takes longer than the tool allows", func(t *testing.T) {
		task := check.StartTask(t, w, w.Open(), check.Use("brief", "b"))
		work.Of("b").Begins(t)
		require.Contains(t, check.AwaitTold(t, w, task).End.Error, "took longer than its limit of 200ms")
		requireEnded(t, w, task, event.TaskFailed)
	})
}

// TestTaskNotCompleted: invalid completions end no task.
func TestTaskNotCompleted(t *testing.T) {
	t.Parallel()
	w := check.OpenTasks(t, harness.Options{}, check.HandsOver("order", tool.Background()), check.HandsOver("now"))
	id := w.Open()
	task := check.StartTask(t, w, id, "use order {}")
	t.Run("a task that the thread does not have", func(t *testing.T) {
		for by, complete := range completers {
			if got := complete(t, w, signals.CompleteTask{TaskID: signals.TaskID(id, 7), Result: json.RawMessage(`7`), By: "ci"}); got != "" {
				require.Equal(t, signals.TaskNotFound, got, by)
			}
		}
	})
	t.Run("what is wrong is refused, and named", func(t *testing.T) {
		for field, c := range map[string]map[string]any{
			"taskId": {"taskId": "t1", "result": 7},
			"result": {"taskId": task.ID, "result": strings.Repeat("x", signals.MaxPayload)},
			"error":  {"taskId": task.ID, "result": 7, "error": "no"},
			"by":     {"taskId": task.ID, "by": strings.Repeat("x", 201)},
		} {
			_, err := plainClient(w).Update(w.Ctx(), id, "complete_task", c)
			require.ErrorContains(t, err, field)
			require.NoError(t, plainClient(w).Signal(w.Ctx(), id, "complete_task", c))
		}
		status, out := check.Request(t, w, http.MethodPost, "/v1/tasks/"+task.ID+"/complete", map[string]any{"result": 7, "error": "no"})
		require.Equal(t, http.StatusUnprocessableEntity, status, out)
		want := []string{"by", "error", "not_found", "result", "taskId"}
		require.Eventually(t, func() bool { return len(check.OfType(w, id, event.TypeRejected)) == len(want) }, testenv.Patience, testenv.Tick)
		var problems []string
		for _, r := range check.OfType(w, id, event.TypeRejected) {
			field, _, _ := strings.Cut(harness.Payload[event.Rejected](w, r).Problem, ":")
			problems = append(problems, field)
		}
		require.ElementsMatch(t, want, problems, "a signal leaves word of it")
	})
	t.Run("it goes on", func(t *testing.T) {
		require.Equal(t, event.TaskRunning, check.TaskOf(w, task.ID).State)
		require.Empty(t, check.TaskEvents(w, id))
	})
	t.Run("in the foreground a tool cannot hand its work over", func(t *testing.T) {
		id := w.Open()
		require.Contains(t, check.Say(w, id, "use now {}").Message.Content, "does not run as a background task: declare the tool with tool.Background()")
		require.True(t, w.Messages(id)[2].IsError)
		require.Empty(t, check.TasksOf(w, id))
	})
}
