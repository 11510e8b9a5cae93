package agents

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTaskOfClosedThread closes threads with running tasks.
func TestTaskOfClosedThread(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{}, work.Tool("build", tool.Background()), work.Tool("keep", tool.Background(), tool.Detached()),
		check.HandsOver("order", tool.Background()), check.HandsOver("await", tool.Background(), tool.Detached()),
		check.HandsOver("brief", tool.Background(), tool.Detached(), tool.Deadline(time.Second)))
	t.Run("cancelled, and stopped", func(t *testing.T) {
		t.Parallel()
		id := w.Open()
		building, ordered := check.StartTask(t, w, id, check.Use("build", "a")), check.StartTask(t, w, id, "use order {}")
		work.Of("a").Begins(t)
		check.Closed(t, w, id)
		check.Arrives(t, work.Of("a").Stopped, "the tool is stopped")
		for _, task := range []event.Task{building, ordered} {
			awaitEnd(t, w, task, "Canceled")
			require.Equal(t, "the thread was closed", requireEnded(t, w, task, event.TaskCancelled).Error)
			status, out := check.Request(t, w, http.MethodGet, "/v1/tasks/"+task.ID, nil)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "cancelled", out["state"])
			_, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: task.ID})
			require.ErrorIs(t, err, signals.ErrThreadClosed)
			status, _ = check.Request(t, w, http.MethodPost, "/v1/tasks/"+task.ID+"/complete", map[string]any{"result": 7})
			require.Equal(t, http.StatusConflict, status)
		}
		require.Empty(t, check.TaskEvents(w, id), "there is nobody to be told")
	})
	t.Run("detached, it goes on, and its result is stored", func(t *testing.T) {
		t.Parallel()
		id := w.Open()
		task := check.StartTask(t, w, id, check.Use("keep", "b"))
		require.True(t, task.Detached)
		work.Of("b").Begins(t)
		before := closeQuietly(t, w, id)
		require.Empty(t, work.Of("b").Stopped)
		status, out := check.Request(t, w, http.MethodGet, "/v1/tasks/"+task.ID, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "running", out["state"])
		work.Of("b").Returns(`{"kept":true}`)
		end := requireOutlived(t, w, task, event.TaskCompleted, before)
		require.JSONEq(t, `{"kept":true}`, string(end.Result))
	})
	for by, complete := range completers {
		if by == "a signal of a plain client" || by == "an update of a plain client" {
			// These are sent to the thread, which is closed.
			continue
		}
		t.Run("detached, it is completed from outside, by "+by, func(t *testing.T) {
			t.Parallel()
			id := w.Open()
			task := check.StartTask(t, w, id, "use await {}")
			before := closeQuietly(t, w, id)
			c := signals.CompleteTask{TaskID: task.ID, Result: json.RawMessage(`"late"`), By: "ci"}
			require.Equal(t, signals.TaskAccepted, complete(t, w, c))
			require.Equal(t, `"late"`, string(requireOutlived(t, w, task, event.TaskCompleted, before).Result))
			awaitEnd(t, w, task, "Completed")
			if by == "HTTP" {
				require.Equal(t, signals.TaskAlreadyEnded, complete(t, w, c))
				c.Result, c.Error = nil, "no"
				require.Equal(t, signals.TaskConflict, complete(t, w, c))
			}
		})
	}
	t.Run("detached, it is completed by a plain client, which tells the task itself", func(t *testing.T) {
		t.Parallel()
		id := w.Open()
		task := check.StartTask(t, w, id, "use await {}")
		before := closeQuietly(t, w, id)
		c := map[string]any{"taskId": task.ID, "error": "no stock"}
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), "task/"+w.TaskQueue+"/"+task.ID, "", "complete_task", c))
		require.Equal(t, "no stock", requireOutlived(t, w, task, event.TaskFailed, before).Error)
	})
	t.Run("detached, it is cancelled", func(t *testing.T) {
		t.Parallel()
		id := w.Open()
		task := check.StartTask(t, w, id, check.Use("keep", "c"))
		work.Of("c").Begins(t)
		before := closeQuietly(t, w, id)
		out, err := w.Threads.CancelTask(w.Ctx(), signals.CancelTask{TaskID: task.ID, By: "ann"})
		require.NoError(t, err)
		require.Equal(t, signals.TaskAccepted, out.Result)
		requireOutlived(t, w, task, event.TaskCancelled, before)
		check.Arrives(t, work.Of("c").Stopped, "the tool is stopped")
		awaitEnd(t, w, task, "Canceled")
	})
	t.Run("detached, it has its deadline still", func(t *testing.T) {
		t.Parallel()
		id := w.Open()
		task := check.StartTask(t, w, id, "use brief {}")
		before := closeQuietly(t, w, id)
		require.Contains(t, requireOutlived(t, w, task, event.TaskFailed, before).Error, "had not completed by its deadline")
	})
}

// closeQuietly closes a thread and returns the number of its messages.
func closeQuietly(t *testing.T, w *harness.Harness, id string) int {
	t.Helper()
	check.Closed(t, w, id)
	return len(w.Messages(id))
}

// requireOutlived waits until the end of a task is stored after its thread was closed. No agent
// handles it.
func requireOutlived(t *testing.T, w *harness.Harness, task event.Task, state event.TaskState, messages int) event.TaskEnd {
	t.Helper()
	id := taskThread(t, task)
	require.Eventually(t, func() bool { return len(check.TaskEvents(w, id)) == 1 }, testenv.Patience, testenv.Tick)
	ended := harness.Payload[event.Task](w, check.RecordOf(w, id, task.ID+".ended"))
	require.Equal(t, state, ended.State)
	require.NotNil(t, ended.EndedAt)
	require.Len(t, w.Messages(id), messages)
	status, out := check.Request(t, w, http.MethodGet, "/v1/tasks/"+task.ID, nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, string(state), out["state"])
	e := check.TaskEvents(w, id)[0]
	require.Equal(t, check.EndEventID(w, task.ID), e.ID)
	require.Equal(t, state == event.TaskCompleted, e.Type == event.TypeBackgroundTaskCompleted)
	return check.Decode[event.TaskEnd](t, e.Payload)
}

// TestTaskEndedByOperator ends the workflows of tasks like an operator.
func TestTaskEndedByOperator(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	tools := []tool.Tool{work.Tool("build", tool.Background()), check.HandsOver("order", tool.Background())}
	w := check.OpenTasks(t, harness.Options{}, tools...)
	for what, says := range map[string]string{"runs": check.Use("build", "a"), "waits to be completed from outside": "use order {}"} {
		t.Run("X4 one that "+what+" is cancelled", func(t *testing.T) {
			id := w.Open()
			task := check.StartTask(t, w, id, says)
			require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.TaskWorkflowID(w.TaskQueue, task.ID), ""))
			got := check.AwaitTold(t, w, task)
			require.Equal(t, event.TypeBackgroundTaskFailed, got.Event.Type)
			require.Equal(t, "the task was cancelled", got.End.Error)
			requireEnded(t, w, task, event.TaskCancelled)
			awaitEnd(t, w, task, "Canceled")
		})
	}
	t.Run("X4 one is terminated", func(t *testing.T) {
		task := check.StartTask(t, w, w.Open(), "use order {}")
		require.NoError(t, w.Temporal.TerminateWorkflow(w.Ctx(), signals.TaskWorkflowID(w.TaskQueue, task.ID), "", "it hangs"))
		require.Contains(t, check.AwaitTold(t, w, task).End.Error, "its workflow ended without a report: ")
		requireEnded(t, w, task, event.TaskFailed)
	})
	t.Run("X4 one is terminated after its thread has moved, and can be cancelled", func(t *testing.T) {
		w := check.OpenTasks(t, harness.Options{Dynamic: check.MovesOften}, tools...)
		id := w.Open()
		task := check.StartTask(t, w, id, "use order {}")
		for before := check.CurrentRun(w, id); check.CurrentRun(w, id) == before; {
			check.Say(w, id, "on and on")
		}
		require.NoError(t, w.Temporal.TerminateWorkflow(w.Ctx(), signals.TaskWorkflowID(w.TaskQueue, task.ID), "", "it hangs"))
		out, err := w.Threads.CancelTask(w.Ctx(), signals.CancelTask{TaskID: task.ID, By: "ann"})
		require.NoError(t, err)
		require.Equal(t, signals.TaskAccepted, out.Result)
		require.Equal(t, "cancelled by ann", check.AwaitTold(t, w, task).End.Error)
		requireEnded(t, w, task, event.TaskCancelled)
	})
}
