package agents

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTaskOutlivesTurn interrupts the turn that has started a task.
//
//ci:replayed
func TestTaskOutlivesTurn(t *testing.T) {
	t.Parallel()
	work, slow := check.NewJobs(), check.NewGate("slow")
	calm := func(c *threadmill.Config) { c.StaleAfter = check.Calm }
	w := check.OpenTasks(t, harness.Options{Configure: calm}, work.Tool("build", tool.Background()), slow)
	t.Run("S3-01 an interrupt ends the turn, and not the task", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, check.Use("build", "a")+"\nuse slow {}")
		call := work.Of("a").Begins(t)
		check.Arrives(t, slow.Reached, "the tool in the foreground")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Wholly(w, id, w.Await(id, posted)).Status)
		task := check.TaskOf(w, call.TaskID)
		require.Equal(t, event.TaskRunning, task.State)
		have := check.Results(w, id)
		require.Contains(t, have[task.ToolCallID].Content, "Started in the background as task "+task.ID)
		require.Empty(t, work.Of("a").Stopped)

		work.Of("a").Returns(`{"built":true}`)
		got := check.AwaitTold(t, w, task)
		require.JSONEq(t, `{"built":true}`, string(got.End.Result))
		require.Equal(t, signals.TurnCompleted, got.Turn.Status)
		requireEnded(t, w, task, event.TaskCompleted)
		check.RequireSettled(t, w, id)
	})
	t.Run("S3-01 nor does an interrupt of a later turn", func(t *testing.T) {
		id := w.Open()
		task := check.StartTask(t, w, id, check.Use("build", "b"))
		work.Of("b").Begins(t)
		half := w.Provider.Block(2)
		defer half.Release()
		posted := w.Post(id, "count 5")
		check.Arrives(t, half.Reached(), "the middle of the reply")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, w.Await(id, posted).Status)
		require.Empty(t, work.Of("b").Stopped)
		work.Of("b").Returns("1")
		require.Equal(t, "1", string(check.AwaitTold(t, w, task).End.Result))
	})
	t.Run("S3-01 the turn in which the agent is told can be interrupted, and retried", func(t *testing.T) {
		id := w.Open()
		task := check.StartTask(t, w, id, check.Use("build", "c"))
		half := w.Provider.Block(1)
		defer half.Release()
		work.Of("c").Returns("1")
		check.Arrives(t, half.Reached(), "the agent is asked")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.AwaitTold(t, w, task).Turn.Status)
		requireEnded(t, w, task, event.TaskCompleted)
		require.Len(t, check.TaskEvents(w, id), 1)
		require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content, "the thread goes on")
	})
	t.Run("S3-01 the model fails when it is told, and the event can be retried", func(t *testing.T) {
		id := w.Open()
		task := check.StartTask(t, w, id, check.Use("build", "d"))
		w.Provider.Fail(check.Failing400)
		work.Of("d").Returns("1")
		require.Equal(t, signals.TurnFailed, check.AwaitTold(t, w, task).Turn.Status)
		require.Equal(t, check.EndEventID(w, task.ID), check.FailedEvent(w, id, check.EndEventID(w, task.ID)).ID)
		_, err := w.Threads.Retry(w.Ctx(), id, check.EndEventID(w, task.ID), "ann")
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, check.EndEventID(w, task.ID))).Status)
		require.Len(t, check.TaskEvents(w, id), 1)
	})
}

// TestTaskOutlivesRuns continues the thread of tasks as new.
//
//ci:replayed
func TestTaskOutlivesRuns(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	w := check.OpenTasks(t, harness.Options{Dynamic: check.MovesOften}, work.Tool("build", tool.Background()), check.HandsOver("order", tool.Background()))
	id := w.Open()
	built, ordered := check.StartTask(t, w, id, check.Use("build", "a")), check.StartTask(t, w, id, "use order {}")
	cancelled := check.StartTask(t, w, id, "use order {}")
	work.Of("a").Begins(t)
	for i := range 4 {
		for before := check.CurrentRun(w, id); check.CurrentRun(w, id) == before; {
			require.Equal(t, "on and on", check.Say(w, id, "on and on").Message.Content, "turn %d", i)
		}
	}
	require.Equal(t, []event.Task{built, ordered, cancelled}, check.TasksOf(w, id), "the thread has moved, and they run")

	work.Of("a").Returns(`{"built":true}`)
	require.JSONEq(t, `{"built":true}`, string(check.AwaitTold(t, w, built).End.Result))
	out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: ordered.ID, Result: json.RawMessage(`"a kettle"`)})
	require.NoError(t, err)
	require.Equal(t, signals.TaskAccepted, out.Result)
	require.Equal(t, `"a kettle"`, string(check.AwaitTold(t, w, ordered).End.Result))
	out, err = w.Threads.CancelTask(w.Ctx(), signals.CancelTask{TaskID: cancelled.ID, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, signals.TaskAccepted, out.Result)
	check.AwaitTold(t, w, cancelled)
	for before := check.CurrentRun(w, id); check.CurrentRun(w, id) == before; {
		check.Say(w, id, "on and on")
	}
	t.Run("how they have ended is remembered, and told once", func(t *testing.T) {
		requireEnded(t, w, built, event.TaskCompleted)
		requireEnded(t, w, ordered, event.TaskCompleted)
		requireEnded(t, w, cancelled, event.TaskCancelled)
		require.Len(t, check.TaskEvents(w, id), 3)
		out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: ordered.ID})
		require.NoError(t, err)
		require.Equal(t, signals.TaskAlreadyEnded, out.Result)
		next := check.StartTask(t, w, id, "use order {}")
		require.Equal(t, taskNumber(t, cancelled)+1, taskNumber(t, next), "numbers go on")
	})
	for task, status := range map[string]string{built.ID: "Completed", ordered.ID: "Completed", cancelled.ID: "Canceled"} {
		awaitEnd(t, w, event.Task{ID: task}, status)
	}
}

// TestTaskOutlivesWorkers stops the worker while tasks run, and starts another.
//
//ci:replayed
func TestTaskOutlivesWorkers(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	o := harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) { c.StopTimeout = 10 * time.Millisecond }}
	w := check.OpenTasks(t, o, work.Tool("build", tool.Background()), work.Tool("again", tool.Background(), tool.Idempotent(), tool.MaxAttempts(5)),
		check.HandsOver("order", tool.Background()))
	stop := w.StartWorker()
	id := w.Open()
	once, again := check.StartTask(t, w, id, check.Use("build", "a")), check.StartTask(t, w, id, check.Use("again", "b"))
	ordered := check.StartTask(t, w, id, "use order {}")
	work.Of("a").Begins(t)
	first := work.Of("b").Begins(t)
	stop()
	check.Arrives(t, work.Of("a").Stopped, "the end of the run")
	require.NoError(t, plainClient(w).Signal(w.Ctx(), id, "complete_task", map[string]any{"taskId": ordered.ID, "result": "a kettle"}))
	w.StartWorker()

	t.Run("S2-51 what may have had an effect is not run again", func(t *testing.T) {
		require.Contains(t, check.AwaitTold(t, w, once).End.Error, "outcome is unknown")
		requireEnded(t, w, once, event.TaskFailed)
		require.Empty(t, work.Of("a").Begun)
	})
	t.Run("S2-51 an idempotent tool is", func(t *testing.T) {
		second := work.Of("b").Begins(t)
		require.Equal(t, first.ID, second.ID)
		require.Equal(t, first.TaskID, second.TaskID)
		require.Greater(t, second.Attempt, first.Attempt)
		work.Of("b").Returns("done")
		require.Equal(t, `"done"`, string(check.AwaitTold(t, w, again).End.Result))
	})
	t.Run("S2-51 what came when nobody worked is not lost", func(t *testing.T) {
		require.Equal(t, `"a kettle"`, string(check.AwaitTold(t, w, ordered).End.Result))
	})
	check.Settle(w, id)
	require.Len(t, check.TaskEvents(w, id), 3)
	check.RequireSettled(t, w, id)
}
