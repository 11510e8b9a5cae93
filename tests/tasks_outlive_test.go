package tests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTaskOutlivesTurn interrupts the turn that has started a task.
//
//ci:replayed
func TestTaskOutlivesTurn(t *testing.T) {
	t.Parallel()
	work, slow := newJobs(), newGate("slow")
	w := openTasks(t, harness.Options{}, work.tool("build", tool.Background()), slow)
	t.Run("S3-01 an interrupt ends the turn, and not the task", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, use("build", "a")+"\nuse slow {}")
		call := work.of("a").begins(t)
		arrives(t, slow.reached, "the tool in the foreground")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, wholly(w, id, w.Await(id, posted)).Status)
		task := taskOf(w, call.TaskID)
		require.Equal(t, event.TaskRunning, task.State)
		have := results(w, id)
		require.Contains(t, have[task.ToolCallID].Content, "Started in the background as task "+task.ID)
		require.Empty(t, work.of("a").stopped)

		work.of("a").returns(`{"built":true}`)
		got := awaitTold(t, w, task)
		require.JSONEq(t, `{"built":true}`, string(got.end.Result))
		require.Equal(t, signals.TurnCompleted, got.turn.Status)
		requireEnded(t, w, task, event.TaskCompleted)
		requireSettled(t, w, id)
	})
	t.Run("S3-01 nor does an interrupt of a later turn", func(t *testing.T) {
		id := w.Open()
		task := startTask(t, w, id, use("build", "b"))
		work.of("b").begins(t)
		half := w.Provider.Block(2)
		defer half.Release()
		posted := w.Post(id, "count 5")
		arrives(t, half.Reached(), "the middle of the reply")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, w.Await(id, posted).Status)
		require.Empty(t, work.of("b").stopped)
		work.of("b").returns("1")
		require.Equal(t, "1", string(awaitTold(t, w, task).end.Result))
	})
	t.Run("S3-01 the turn in which the agent is told can be interrupted, and retried", func(t *testing.T) {
		id := w.Open()
		task := startTask(t, w, id, use("build", "c"))
		half := w.Provider.Block(1)
		defer half.Release()
		work.of("c").returns("1")
		arrives(t, half.Reached(), "the agent is asked")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, awaitTold(t, w, task).turn.Status)
		requireEnded(t, w, task, event.TaskCompleted)
		require.Len(t, taskEvents(w, id), 1)
		require.Equal(t, "hello", say(w, id, "hello").Message.Content, "the thread goes on")
	})
	t.Run("S3-01 the model fails when it is told, and the event can be retried", func(t *testing.T) {
		id := w.Open()
		task := startTask(t, w, id, use("build", "d"))
		w.Provider.Fail(failing400)
		work.of("d").returns("1")
		require.Equal(t, signals.TurnFailed, awaitTold(t, w, task).turn.Status)
		require.Equal(t, endEventID(w, task.ID), failedEvent(w, id, endEventID(w, task.ID)).ID)
		_, err := w.Threads.Retry(w.Ctx(), id, endEventID(w, task.ID), "ann")
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, wholly(w, id, w.Await(id, endEventID(w, task.ID))).Status)
		require.Len(t, taskEvents(w, id), 1)
	})
}

// TestTaskOutlivesRuns continues the thread of tasks as new.
//
//ci:replayed
func TestTaskOutlivesRuns(t *testing.T) {
	t.Parallel()
	work := newJobs()
	w := openTasks(t, harness.Options{Dynamic: often}, work.tool("build", tool.Background()), handsOver("order", tool.Background()))
	id := w.Open()
	built, ordered := startTask(t, w, id, use("build", "a")), startTask(t, w, id, "use order {}")
	cancelled := startTask(t, w, id, "use order {}")
	work.of("a").begins(t)
	for i := range 4 {
		for before := run(w, id); run(w, id) == before; {
			require.Equal(t, "on and on", say(w, id, "on and on").Message.Content, "turn %d", i)
		}
	}
	require.Equal(t, []event.Task{built, ordered, cancelled}, tasksOf(w, id), "the thread has moved, and they run")

	work.of("a").returns(`{"built":true}`)
	require.JSONEq(t, `{"built":true}`, string(awaitTold(t, w, built).end.Result))
	out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: ordered.ID, Result: json.RawMessage(`"a kettle"`)})
	require.NoError(t, err)
	require.Equal(t, signals.TaskAccepted, out.Result)
	require.Equal(t, `"a kettle"`, string(awaitTold(t, w, ordered).end.Result))
	out, err = w.Threads.CancelTask(w.Ctx(), signals.CancelTask{TaskID: cancelled.ID, By: "ann"})
	require.NoError(t, err)
	require.Equal(t, signals.TaskAccepted, out.Result)
	awaitTold(t, w, cancelled)
	for before := run(w, id); run(w, id) == before; {
		say(w, id, "on and on")
	}
	t.Run("how they have ended is remembered, and told once", func(t *testing.T) {
		requireEnded(t, w, built, event.TaskCompleted)
		requireEnded(t, w, ordered, event.TaskCompleted)
		requireEnded(t, w, cancelled, event.TaskCancelled)
		require.Len(t, taskEvents(w, id), 3)
		out, err := w.Threads.CompleteTask(w.Ctx(), signals.CompleteTask{TaskID: ordered.ID})
		require.NoError(t, err)
		require.Equal(t, signals.TaskAlreadyEnded, out.Result)
		next := startTask(t, w, id, "use order {}")
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
	work := newJobs()
	o := harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) { c.StopTimeout = 10 * time.Millisecond }}
	w := openTasks(t, o, work.tool("build", tool.Background()), work.tool("again", tool.Background(), tool.Idempotent(5)),
		handsOver("order", tool.Background()))
	stop := w.StartWorker()
	id := w.Open()
	once, again := startTask(t, w, id, use("build", "a")), startTask(t, w, id, use("again", "b"))
	ordered := startTask(t, w, id, "use order {}")
	work.of("a").begins(t)
	first := work.of("b").begins(t)
	stop()
	arrives(t, work.of("a").stopped, "the end of the run")
	require.NoError(t, plainClient(w).Signal(w.Ctx(), id, "complete_task", map[string]any{"taskId": ordered.ID, "result": "a kettle"}))
	w.StartWorker()

	t.Run("S2-51 what may have had an effect is not run again", func(t *testing.T) {
		require.Contains(t, awaitTold(t, w, once).end.Error, "outcome is unknown")
		requireEnded(t, w, once, event.TaskFailed)
		require.Empty(t, work.of("a").begun)
	})
	t.Run("S2-51 an idempotent tool is", func(t *testing.T) {
		second := work.of("b").begins(t)
		require.Equal(t, first.ID, second.ID)
		require.Equal(t, first.TaskID, second.TaskID)
		require.Greater(t, second.Attempt, first.Attempt)
		work.of("b").returns("done")
		require.Equal(t, `"done"`, string(awaitTold(t, w, again).end.Result))
	})
	t.Run("S2-51 what came when nobody worked is not lost", func(t *testing.T) {
		require.Equal(t, `"a kettle"`, string(awaitTold(t, w, ordered).end.Result))
	})
	settle(w, id)
	require.Len(t, taskEvents(w, id), 3)
	requireSettled(t, w, id)
}
