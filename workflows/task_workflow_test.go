package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

const (
	taskID         = "t1~t1"
	taskWorkflowID = "task/ns/t1~t1"
)

// gone is the error of a signal to a workflow that has ended.
var gone = &temporal.UnknownExternalWorkflowExecutionError{}

// taskWorld is a world with the workflow of a task only. reports are its reports to the thread; err
// is their result.
func taskWorld(t *testing.T, err error) (w *fixture, reports *inbox[step.TaskReport]) {
	t.Helper()
	w = newFixture(t)
	w.alone(taskWorkflowID)
	return w, box[step.TaskReport](w, signals.WorkflowID("ns", "t1"), step.SignalTaskReport, err)
}

// runTaskFor runs the workflow of a task with this deadline.
func (w *fixture) runTaskFor(deadline time.Duration) (step.TaskReply, error) {
	w.t.Helper()
	w.ExecuteWorkflow(signals.TaskWorkflow, step.Task{Thread: step.Ref{Namespace: "ns", ThreadID: "t1"}, MessageID: "e1.0.1", Task: event.Task{
		ID: taskID, Title: "Build it", Tool: "build", Agent: "alice", ToolCallID: "c1", TraceID: "e1", StartedAt: w.Now(), Deadline: w.Now().Add(deadline),
	}})
	require.True(w.t, w.IsWorkflowCompleted())
	if err := w.GetWorkflowError(); err != nil {
		return step.TaskReply{}, err
	}
	var out step.TaskReply
	require.NoError(w.t, w.GetWorkflowResult(&out))
	return out, nil
}

// told are the reports without the task, which is the same in all of them.
func told(t *testing.T, reports *inbox[step.TaskReport]) []step.TaskReport {
	t.Helper()
	all := reports.all()
	for i := range all {
		require.NotNil(t, all[i].Task)
		require.Equal(t, taskID, all[i].Task.ID)
		all[i].Task = nil
	}
	return all
}

func (w *fixture) complete(c signals.CompleteTask) { w.SignalWorkflow(signals.SignalCompleteTask, c) }

func TestTaskWorkflow(t *testing.T) {
	for _, tc := range []struct {
		name string
		work func(context.Context, step.Task) (step.TaskReply, error)
		want step.TaskReply
	}{
		{"S3-54 it completes", nil, step.TaskReply{Result: json.RawMessage(`"done"`)}},
		{
			"the tool fails", func(context.Context, step.Task) (step.TaskReply, error) {
				return step.TaskReply{Error: "disk full"}, nil
			},
			step.TaskReply{Error: "disk full"},
		},
		{
			"it cannot run", func(context.Context, step.Task) (step.TaskReply, error) {
				return step.TaskReply{}, notConfigured("there is no such call")
			},
			step.TaskReply{Error: "there is no such call"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, reports := taskWorld(t, nil)
			w.work = tc.work
			reply, err := w.runTaskFor(time.Hour)
			require.NoError(t, err)
			require.Equal(t, tc.want, reply)
			require.Equal(t, []step.TaskReport{{TaskID: taskID, TaskReply: tc.want}}, told(t, reports), "the thread is told once")
			require.Equal(t, "c1", w.worked[0].Task.ToolCallID)
		})
	}
}

func TestTaskIsRunAgain(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = func(context.Context, step.Task) (step.TaskReply, error) {
		if len(w.worked) < 4 {
			return step.TaskReply{}, failing("the store is away")
		}
		return step.TaskReply{}, nil
	}
	_, err := w.runTaskFor(time.Hour)
	require.NoError(t, err)
	require.Len(t, w.worked, 4)
	require.Len(t, reports.all(), 1)
}

// pendingTask is a task that is completed from outside.
func pendingTask(context.Context, step.Task) (step.TaskReply, error) {
	return step.TaskReply{Pending: true}, nil
}

// TestDeadlineOfATask: it fails if it is not completed for a year.
func TestDeadlineOfATask(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = pendingTask
	began := w.Now()
	reply, err := w.runTaskFor(365 * day)
	require.NoError(t, err)
	require.Equal(t, 365*day, w.Now().Sub(began).Round(time.Minute))
	require.Equal(t, "it had not completed by its deadline, "+began.Add(365*day).UTC().Format(time.RFC3339), reply.Error)
	require.Len(t, reports.all(), 1)
}

// TestDeadlineWhileTheToolRuns: the tool is cancelled, and the task fails.
func TestDeadlineWhileTheToolRuns(t *testing.T) {
	w, reports := taskWorld(t, nil)
	stopped := make(chan struct{})
	w.work = func(context.Context, step.Task) (step.TaskReply, error) {
		<-stopped
		return step.TaskReply{}, temporal.NewCanceledError()
	}
	w.SetOnActivityCanceledListener(func(*activity.Info) { close(stopped) })
	reply, err := w.runTaskFor(50 * time.Millisecond)
	require.NoError(t, err)
	require.Contains(t, reply.Error, "it had not completed by its deadline")
	require.Len(t, reports.all(), 1)
}

func TestTaskThatIsLate(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = pendingTask
	_, err := w.runTaskFor(-time.Hour)
	require.NoError(t, err)
	require.Contains(t, reports.all()[0].Error, "it had not completed by its deadline", "its worker was away for longer")
}

// TestCompletedFromOutside: by a signal to the task's own workflow, as after its thread was closed.
func TestCompletedFromOutside(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = pendingTask
	w.then(func() {
		w.complete(signals.CompleteTask{TaskID: "t1~t9"})
		w.complete(signals.CompleteTask{TaskID: taskID, Error: "x", Result: json.RawMessage(`1`)})
		w.SignalWorkflow(signals.SignalCompleteTask, "nonsense")
	})
	w.then(func() {
		w.complete(signals.CompleteTask{TaskID: taskID, Result: json.RawMessage(`{"ok":true}`), By: "ci"})
	})
	w.then(func() { w.complete(signals.CompleteTask{TaskID: taskID, Error: "late"}) })
	began := w.Now()
	reply, err := w.runTaskFor(365 * day)
	require.NoError(t, err)
	require.Equal(t, step.TaskReply{Result: json.RawMessage(`{"ok":true}`), By: "ci"}, reply)
	require.Equal(t, []step.TaskReport{{TaskID: taskID, TaskReply: reply}}, told(t, reports))
	require.Equal(t, 2*time.Minute, w.Now().Sub(began).Round(time.Minute), "what does not fit completes nothing")
}

// TestCompletedWhileTheToolRuns: the completion from outside wins, and the tool is cancelled.
func TestCompletedWhileTheToolRuns(t *testing.T) {
	w, reports := taskWorld(t, nil)
	stopped := make(chan struct{})
	w.work = func(context.Context, step.Task) (step.TaskReply, error) {
		w.complete(signals.CompleteTask{TaskID: taskID, Error: "given up"})
		<-stopped
		return step.TaskReply{Result: json.RawMessage(`"too late"`)}, nil
	}
	w.SetOnActivityCanceledListener(func(*activity.Info) { close(stopped) })
	reply, err := w.runTaskFor(time.Hour)
	require.NoError(t, err)
	require.Equal(t, step.TaskReply{Error: "given up", By: "outside"}, reply)
	require.Len(t, reports.all(), 1)
}

// TestThreadHasSettledTheTask: the task sends no report.
func TestThreadHasSettledTheTask(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = pendingTask
	w.then(func() { w.SignalWorkflow(step.SignalTaskReport, step.TaskReport{TaskID: taskID}) })
	_, err := w.runTaskFor(365 * day)
	require.NoError(t, err)
	require.Empty(t, reports.all())
	require.Empty(t, w.types())
}

// TestTaskIsCancelled: a cancellation that did not come from the thread is reported to it.
func TestTaskIsCancelled(t *testing.T) {
	w, reports := taskWorld(t, nil)
	w.work = pendingTask
	w.then(w.CancelWorkflow)
	_, err := w.runTaskFor(365 * day)
	require.ErrorContains(t, err, "canceled")
	require.Equal(t, []step.TaskReport{{TaskID: taskID, TaskReply: step.TaskReply{Cancelled: true, Error: "the task was cancelled"}}}, told(t, reports))
}

// TestTaskOutlivesItsThread: the records of the closed thread still get the task's end.
func TestTaskOutlivesItsThread(t *testing.T) {
	w, _ := taskWorld(t, gone)
	reply, err := w.runTaskFor(time.Hour)
	require.NoError(t, err)
	require.JSONEq(t, `"done"`, string(reply.Result))
	require.Equal(t, event.TaskCompleted, stored[event.Task](w.fakes, event.TypeTask)[0].State)
	told := stored[event.EnvEvent](w.fakes, event.TypeEnv)
	require.Len(t, told, 1)
	require.Equal(t, event.TypeBackgroundTaskCompleted, told[0].Type, "S3-54")
}

func TestReportOfATaskFails(t *testing.T) {
	w, _ := taskWorld(t, errors.New("too many signals"))
	_, err := w.runTaskFor(time.Hour)
	require.ErrorContains(t, err, "too many signals", "operators see it")
	require.Empty(t, w.types())
}
