package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// canceller is one way for a person to cancel a task.
type canceller func(t *testing.T, w *harness.Harness, c signals.CancelTask) signals.TaskOutcome

var cancellers = map[string]canceller{
	"an update of a plain client": func(t *testing.T, w *harness.Harness, c signals.CancelTask) signals.TaskOutcome {
		thread, _, _ := strings.Cut(c.TaskID, "~")
		out, err := plainClient(w).Update(w.Ctx(), thread, "cancel_task", asObject(t, c))
		require.NoError(t, err)
		return signals.TaskOutcome(out["result"].(string))
	},
	"the Go client": func(t *testing.T, w *harness.Harness, c signals.CancelTask) signals.TaskOutcome {
		out, err := w.Threads.CancelTask(w.Ctx(), c)
		require.NoError(t, err)
		return out.Result
	},
	"HTTP": func(t *testing.T, w *harness.Harness, c signals.CancelTask) signals.TaskOutcome {
		status, out := check.Request(t, w, http.MethodPost, "/v1/tasks/"+c.TaskID+"/cancel", map[string]any{"by": c.By, "reason": c.Reason})
		result, _ := out["result"].(string)
		require.Equal(t, map[string]int{"accepted": 200, "already_ended": 200, "conflict": 409}[result], status, out)
		return signals.TaskOutcome(result)
	},
	"the command line": func(t *testing.T, w *harness.Harness, c signals.CancelTask) signals.TaskOutcome {
		printed, _, problem := w.Starter("task", "cancel", c.TaskID, "--by", c.By, "--reason", c.Reason, "--json")
		var out signals.CompleteTaskResult
		require.NoError(t, json.Unmarshal([]byte(printed), &out), problem)
		return out.Result
	},
}

// maxTasks is the maximum number of running tasks in a thread.
const maxTasks = 100

// TestTaskCancelled cancels tasks in every way.
//
//ci:replayed only
func TestTaskCancelled(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, work.Tool("build", tool.Background()), check.HandsOver("order", tool.Background()))
	for by, cancel := range cancellers {
		t.Run("X4 by "+by, func(t *testing.T) {
			t.Parallel()
			id := w.Open()
			task := check.StartTask(t, w, id, check.Use("build", by))
			work.Of(by).Begins(t)
			c := signals.CancelTask{TaskID: task.ID, By: "ann", Reason: "too slow"}
			require.Equal(t, signals.TaskAccepted, cancel(t, w, c))
			got := check.AwaitTold(t, w, task)
			require.Equal(t, event.TypeBackgroundTaskFailed, got.Event.Type)
			require.Equal(t, "cancelled by ann: too slow", got.End.Error)
			require.Equal(t, signals.TurnCompleted, got.Turn.Status)
			check.Arrives(t, work.Of(by).Stopped, "the tool is stopped")
			awaitEnd(t, w, task, "Canceled")
			ended := requireEnded(t, w, task, event.TaskCancelled)
			require.Equal(t, "ann", ended.By)
			require.Equal(t, "cancelled by ann: too slow", ended.Error)
			require.Equal(t, signals.TaskAlreadyEnded, cancel(t, w, c))
			check.Settle(w, id)
			require.Equal(t, ended, check.TaskOf(w, task.ID))
			require.Len(t, check.TaskEvents(w, id), 1)

			done := check.StartTask(t, w, id, "use order {}")
			_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: done.ID})
			require.NoError(t, err)
			require.Equal(t, "null", string(check.AwaitTold(t, w, done).End.Result))
			c.TaskID = done.ID
			require.Equal(t, signals.TaskConflict, cancel(t, w, c), "what has completed cannot be cancelled")
			requireEnded(t, w, done, event.TaskCompleted)
		})
	}
	for how, name := range map[string]func(string) string{"whole": func(id string) string { return id }, "short": shortTaskID} {
		t.Run("S3-54 by the agent, by its "+how+" id", func(t *testing.T) {
			t.Parallel()
			thread := w.Open()
			task := check.StartTask(t, w, thread, check.Use("build", how))
			work.Of(how).Begins(t)
			says := fmt.Sprintf(`use cancel_task {"taskId":%q}`, name(task.ID))
			require.Contains(t, check.Say(w, thread, says).Message.Content, "Task "+task.ID+" was cancelled.")
			require.Equal(t, "assistant", requireEnded(t, w, task, event.TaskCancelled).By)
			require.Contains(t, check.Say(w, thread, says).Message.Content, "has ended already: it is cancelled")
			check.Arrives(t, work.Of(how).Stopped, "the tool is stopped")
			awaitEnd(t, w, task, "Canceled")
			check.Settle(w, thread)
			require.Empty(t, check.TaskEvents(w, thread), "it knows, and is not told again")
		})
	}
}

// shortTaskID is the id of a task without its thread, as agents may write it.
func shortTaskID(id string) string {
	_, short, _ := strings.Cut(id, "~")
	return short
}

func taskNumber(t *testing.T, task event.Task) int {
	t.Helper()
	_, number, err := signals.ParseTaskID(task.ID)
	require.NoError(t, err)
	return number
}

// TestTaskTools: an agent manages its tasks.
func TestTaskTools(t *testing.T) {
	t.Parallel()
	w := check.OpenTasks(t, harness.Options{}, check.HandsOver("order", tool.Background()))
	id := w.Open()
	require.Contains(t, check.Say(w, id, "use list_tasks {}").Message.Content, `{"tasks":[]}`)
	first := check.StartTask(t, w, id, "use order {}")
	second := check.StartTask(t, w, id, `use task {"tool":"order","title":"more of it"}`)
	shown := func(says string) string {
		t.Helper()
		check.Say(w, id, says)
		messages := w.Messages(id)
		require.False(t, messages[len(messages)-2].IsError)
		return messages[len(messages)-2].Content
	}
	require.Equal(t, []event.Task{first, second}, check.Decode[signals.Tasks](t, []byte(shown("use list_tasks {}"))).Tasks)
	one := func(id string) event.Task {
		return check.Decode[event.Task](t, []byte(shown(fmt.Sprintf(`use get_task {"taskId":%q}`, id))))
	}
	require.Equal(t, second, one(shortTaskID(second.ID)))
	require.Equal(t, first, one(first.ID))

	_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: second.ID, Error: "no stock", By: "shop"})
	require.NoError(t, err)
	check.AwaitTold(t, w, second)
	ended := requireEnded(t, w, second, event.TaskFailed)
	require.Equal(t, []event.Task{ended, first}, check.Decode[signals.Tasks](t, []byte(shown("use list_tasks {}"))).Tasks)
	require.Equal(t, ended, one(shortTaskID(second.ID)))

	t.Run("people see the same over HTTP and at the command line", func(t *testing.T) {
		status, out := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/tasks", nil)
		require.Equal(t, http.StatusOK, status)
		shown := ended
		shown.EndEventID = signals.TaskEndEventID(w.TaskQueue, ended.ID)
		require.Equal(t, asObject(t, signals.Tasks{Tasks: []event.Task{shown, first}}), out)
		_, events := check.Request(t, w, http.MethodGet, "/v1/threads/"+id+"/events?limit=1&event="+shown.EndEventID, nil)
		require.Equal(t, "no stock", events["events"].([]any)[0].(map[string]any)["event"].(map[string]any)["payload"].(map[string]any)["error"], "the id leads to the event of the end")
		status, out = check.Request(t, w, http.MethodGet, "/v1/tasks/"+second.ID, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, asObject(t, shown), out)
		status, _ = check.Request(t, w, http.MethodGet, "/v1/tasks/"+signals.TaskID(id, 9), nil)
		require.Equal(t, http.StatusNotFound, status)
		printed, code, problem := w.Starter("task", "list", id, "--json")
		require.Zero(t, code, problem)
		require.Equal(t, []event.Task{ended, first}, check.Decode[signals.Tasks](t, []byte(printed)).Tasks)
		printed, code, problem = w.Starter("task", "show", second.ID)
		require.Zero(t, code, problem)
		require.Contains(t, printed, "no stock")
	})
	t.Run("a plain client sees them by query", func(t *testing.T) {
		out, err := plainClient(w).Query(w.Ctx(), id, "tasks")
		require.NoError(t, err)
		require.Equal(t, asObject(t, signals.Tasks{Tasks: []event.Task{ended, first}}), out)
		state, err := plainClient(w).Query(w.Ctx(), id, "state")
		require.NoError(t, err)
		require.InDelta(t, 1, state["tasks"], 0)
	})
}

// TestTooManyTasks starts more tasks than a thread may have.
func TestTooManyTasks(t *testing.T) {
	t.Parallel()
	w := check.OpenTasks(t, harness.Options{}, check.HandsOver("order", tool.Background(), tool.Idempotent()))
	id := w.Open()
	for _, n := range []int{agent.DefaultMaxToolCalls, maxTasks + 1 - agent.DefaultMaxToolCalls} {
		out := check.Say(w, id, strings.TrimSpace(strings.Repeat("use order {}\n", n)))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	}
	tasks := check.TasksOf(w, id)
	require.Len(t, tasks, maxTasks)
	refused := slices.DeleteFunc(w.Messages(id), func(m event.Message) bool { return !m.IsError })
	require.Equal(t, "Error: 100 background tasks run in this thread, the limit. Wait for one of them, or cancel one.", check.Only(t, refused).Content)
	check.RequireSettled(t, w, id)

	_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: tasks[41].ID, Result: json.RawMessage(`41`)})
	require.NoError(t, err)
	require.Equal(t, "41", string(check.AwaitTold(t, w, tasks[41]).End.Result))
	require.Contains(t, check.Say(w, id, "use order {}\nuse order {}").Message.Content, "the limit", "there is room for one")
	tasks = check.TasksOf(w, id)
	require.Len(t, tasks, maxTasks+1, "one has ended")
	require.Equal(t, taskNumber(t, tasks[1])+maxTasks, taskNumber(t, tasks[maxTasks]), "numbers go up by one")

	t.Run("S3-54 all of them end, and the agent is told of each", func(t *testing.T) {
		for _, task := range tasks[1:] {
			require.NoError(t, plainClient(w).Signal(w.Ctx(), id, "complete_task", map[string]any{"taskId": task.ID, "result": task.ID}))
		}
		require.Eventually(t, func() bool { return len(check.TaskEvents(w, id)) == maxTasks+1 }, testenv.Patience, testenv.Tick)
		for _, task := range tasks[1:] {
			e := harness.Payload[event.EnvEvent](w, check.RecordOf(w, id, check.EndEventID(w, task.ID)))
			require.Equal(t, fmt.Sprintf("%q", task.ID), string(check.Decode[event.TaskEnd](t, e.Payload).Result))
		}
		check.Settle(w, id)
		require.Len(t, check.TasksOf(w, id), 50, "of those that have ended the thread keeps some")
		status, ended := check.Request(t, w, http.MethodGet, "/v1/tasks/"+tasks[1].ID, nil)
		require.Equal(t, http.StatusOK, status, "and the store has all")
		require.Equal(t, "completed", ended["state"])
	})
}
