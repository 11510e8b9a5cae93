package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// background is a call that starts a background task.
func background(id string, detached bool) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "build", By: step.ByTask, Task: &step.TaskPlan{Tool: "build", Deadline: 365 * day, Detached: detached}}
}

// inBackground is a world whose agent starts a task on "go".
func inBackground(t *testing.T, f *fakes, detached bool) *fixture {
	t.Helper()
	w := fixtureWith(t, f)
	w.SetDetachedChildWait(false)
	w.forward(step.SignalTaskReport)
	w.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, "").Return(gone).Maybe()
	f.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "go" && in.Step == 1 {
			return reply(in, "", background("c1", detached)), nil
		}
		return reply(in, "ok"), nil
	}
	return w
}

func TestBackgroundTask(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		require.Equal(t, signals.ThreadIdle, w.state().Status, "S3-01 the turn does not wait for it")
		require.Equal(t, 1, w.state().Tasks)
		require.Equal(t, event.TaskRunning, w.tasks().Tasks[0].State)
		require.Len(t, w.models, 2)
		require.Contains(t, w.messages()[2], "c1.result: Started in the background as task t1~t1.")
		require.Equal(t, []string{taskID}, w.idsOf(event.TypeTask))
		require.NoError(t, w.SignalWorkflowByID(taskWorkflowID, signals.SignalCompleteTask, signals.CompleteTask{TaskID: taskID, Result: json.RawMessage(`1`)}))
	})
	w.then(func() {
		require.Equal(t, event.TaskCompleted, w.tasks().Tasks[0].State)
		require.Zero(t, w.state().Tasks)
	})
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice"}}})
	require.Len(t, w.models, 3)
	woken := w.models[2]
	require.Equal(t, event.TypeBackgroundTaskCompleted, woken.Observe.Type, "S3-02 S3-54 nobody has said anything meanwhile")
	require.Contains(t, woken.Instructions, "background task expert", "S3-28")
	require.Equal(t, "go", woken.TraceID, "S2-40")
	require.Equal(t, "alice", woken.Agent)
	require.Equal(t, []string{taskID, taskID + ".ended"}, w.idsOf(event.TypeTask))
}

// TestTaskGoesOnWhenTheTurnIsInterrupted: an interrupt does not cancel a started task.
func TestTaskGoesOnWhenTheTurnIsInterrupted(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	f.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "go" && in.Step == 1 {
			return reply(in, "", background("c1", false), asks("c2")), nil
		}
		return reply(in, "ok"), nil
	}
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.then(func() {
		require.Equal(t, event.TaskRunning, w.tasks().Tasks[0].State)
		w.complete(signals.CompleteTask{TaskID: taskID, Error: "no"})
	})
	w.run(workflows.Input{})
	require.Equal(t, event.TypeBackgroundTaskFailed, w.models[1].Observe.Type, "X4")
	require.Len(t, w.models, 2)
}

func TestEndTaskByUpdate(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	done := signals.CompleteTask{TaskID: taskID, Result: json.RawMessage(`1`), By: "ci"}
	var refused, accepted, again, conflict, cancelled, missing *answer
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		refused = w.update(signals.UpdateCompleteTask, signals.CompleteTask{TaskID: "nonsense"})
		missing = w.update(signals.UpdateCancelTask, signals.CancelTask{TaskID: "t1~t9", By: "ann"})
		accepted = w.update(signals.UpdateCompleteTask, done)
	})
	w.then(func() {
		again = w.update(signals.UpdateCompleteTask, done)
		conflict = w.update(signals.UpdateCompleteTask, signals.CompleteTask{TaskID: taskID, Error: "no"})
		cancelled = w.update(signals.UpdateCancelTask, signals.CancelTask{TaskID: taskID, By: "ann"})
		w.complete(done)
		w.complete(signals.CompleteTask{TaskID: taskID, Error: "no"})
	})
	w.run(workflows.Input{})
	requireRefused(t, signals.RefusedType, refused.rejected)
	for a, want := range map[*answer]signals.TaskOutcome{
		accepted: signals.TaskAccepted, again: signals.TaskAlreadyEnded, conflict: signals.TaskConflict,
		cancelled: signals.TaskConflict, missing: signals.TaskNotFound,
	} {
		require.NoError(t, a.err)
		require.Equal(t, want, a.result.(signals.CompleteTaskResult).Result)
	}
	require.Equal(t, "ci", accepted.result.(signals.CompleteTaskResult).Task.By)
	require.Len(t, w.heardOf(), 1, "its agent is told once")
	rejected := stored[event.Rejected](f, event.TypeRejected)
	require.Len(t, rejected, 1, "the same again is no mistake; another end is")
	require.Equal(t, "conflict", rejected[0].Problem)
}

func TestCancelTaskByUpdate(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		w.update(signals.UpdateCancelTask, signals.CancelTask{TaskID: taskID, By: "ann", Reason: "too slow"})
	})
	w.then(func() {
		require.Equal(t, event.TaskCancelled, w.tasks().Tasks[0].State)
		require.Error(t, w.SignalWorkflowByID(taskWorkflowID, "x", nil), "its workflow has ended")
	})
	w.run(workflows.Input{})
	require.Len(t, w.heardOf(), 1, "the agent did not do it itself, so it is told")
	require.Equal(t, "cancelled by ann: too slow", stored[event.Task](f, event.TypeTask)[1].Error)
}

// TestAgentCancelsItsTask: the result reports the end, without another event. The cancellation
// comes in a later turn, after the task's activity has returned: the SDK's test environment still
// delivers results to a cancelled workflow.
func TestAgentCancelsItsTask(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	started := f.model
	f.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "stop" && in.Step == 1 {
			return reply(in, "", step.PlannedCall{ID: "c2", Name: thread.ToolCancelTask, By: step.ByThread, TaskID: "t1"}), nil
		}
		return started(ctx, in)
	}
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.post("stop", "stop") })
	w.then(func() { require.Error(t, w.SignalWorkflowByID(taskWorkflowID, "x", nil), "its workflow has ended") })
	w.run(workflows.Input{})
	require.Contains(t, w.messages(), "c2.result: Task t1~t1 was cancelled.")
	require.Len(t, w.models, 4)
	require.Empty(t, w.heardOf())
}

// TestTasksOfAClosedThread: closing the thread cancels its tasks, unless they are detached.
func TestTasksOfAClosedThread(t *testing.T) {
	for name, detached := range map[string]bool{"attached": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w := inBackground(t, f, detached)
			f.work = pendingTask
			w.then(func() { w.post("go", "go") })
			w.run(workflows.Input{})
			require.Equal(t, !detached, w.has(taskID+".ended"))
			require.Empty(t, w.heardOf(), "nobody is woken")
		})
	}
}

// TestTaskAcrossContinueAsNew: the next run receives the end of the task.
func TestTaskAcrossContinueAsNew(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.suggestWith(signals.SignalPost, says("m1", "hello")) })
	next := w.leave(workflows.Input{})
	require.Len(t, next.State.Tasks.Running, 1)

	w = inBackground(t, f, false)
	dismissed := box[step.TaskReport](w, taskWorkflowID, step.SignalTaskReport, nil)
	w.then(func() { w.complete(signals.CompleteTask{TaskID: taskID, Result: json.RawMessage(`1`)}) })
	w.then(func() {
		require.Len(t, dismissed.all(), 1, "its workflow waits no more")
		w.SignalWorkflow(step.SignalTaskReport, step.TaskReport{TaskID: taskID, TaskReply: step.TaskReply{Error: "late"}})
		w.SignalWorkflow(step.SignalTaskReport, step.TaskReport{TaskID: "t1~t9"})
	})
	w.run(next)
	require.Len(t, f.heardOf(), 1)
	rejected := stored[event.Rejected](f, event.TypeRejected)
	require.Len(t, rejected, 1)
	require.Contains(t, rejected[0].Problem, `no background task "t1~t9"`)
}

// TestTooManyTasks: the result of the rejected call has the reason.
func TestTooManyTasks(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	w.OnWorkflow(signals.TaskWorkflow, mock.Anything, mock.Anything).Return(step.TaskReply{}, nil)
	f.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Step > 1 {
			return reply(in, "ok"), nil
		}
		var calls []step.PlannedCall
		for range 101 {
			calls = append(calls, background("c"+signals.NewID(), false))
		}
		return reply(in, "", calls...), nil
	}
	w.then(func() { w.post("go", "go") })
	w.run(workflows.Input{})
	refused := 0
	for _, m := range stored[event.Message](f, event.TypeMessage) {
		if m.IsError {
			require.Contains(t, m.Content, "100 background tasks run in this thread, the limit.")
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Len(t, f.models, 2)
}

// TestTaskEndsWithoutAReport: for example because its workflow was terminated.
func TestTaskEndsWithoutAReport(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	w.OnWorkflow(signals.TaskWorkflow, mock.Anything, mock.Anything).Return(step.TaskReply{}, notConfigured("it is gone"))
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		require.Equal(t, event.TaskFailed, w.tasks().Tasks[0].State)
		require.Equal(t, "its workflow ended without a report: it is gone", w.tasks().Tasks[0].Error)
	})
	w.run(workflows.Input{})
	require.Len(t, f.heardOf(), 1, "its agent is told, and nobody waits for ever")
}

// TestOverdueTask: a run of the thread that did not start the task does not see its end, but knows
// its deadline.
func TestOverdueTask(t *testing.T) {
	f := newFakes(t)
	w := inBackground(t, f, false)
	f.work = pendingTask
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.suggestWith(signals.SignalPost, says("m1", "hello")) })
	next := w.leave(workflows.Input{})
	deadline := next.State.Tasks.Running[0].Deadline

	w = inBackground(t, f, false)
	w.SetStartTime(deadline.Add(-day))
	w.at = day - 2*time.Minute
	w.then(func() { require.Equal(t, event.TaskRunning, w.tasks().Tasks[0].State) })
	w.at += time.Hour
	w.then(func() { require.Equal(t, event.TaskFailed, w.tasks().Tasks[0].State) })
	w.run(next)
	require.Len(t, f.heardOf(), 1)
}
