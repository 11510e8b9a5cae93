package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// tasks handles the ends of background tasks.
type tasks struct{ *conversation }

func (t tasks) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalCompleteTask, t.completeTask),
		onSignal(t.conversation, step.SignalTaskReport, t.taskReported),
		onUpdate(t.conversation, signals.UpdateCompleteTask, "complete a background task", signals.CompleteTask.Validate, t.updateCompleteTask),
		onUpdate(t.conversation, signals.UpdateCancelTask, "cancel a background task", signals.CancelTask.Validate, t.updateCancelTask),
		onQuery(signals.QueryTasks, "the background tasks", func(workflow.Context) signals.Tasks { return t.state.Tasks.View() }),
	}
}

// startTask starts a background task and sets the result of its call immediately.
func (t *activeTurn) startTask(ctx workflow.Context, c *thread.Call) {
	s := t.state
	if refusal := s.Tasks.CheckLimit(); refusal != "" {
		c.Refused(workflow.Now(ctx), refusal)
		return
	}
	if c.Plan.SubAgent != nil {
		t.delegateTask(ctx, c)
		return
	}
	if c.Rewritten() && s.Outbox.Unstored() {
		// The task's activity reads the decision of hooks from the store.
		t.record(ctx)
	}
	input := c.StartTask(workflow.Now(ctx))
	// The task continues when the turn is interrupted: cancelling ctx must not cancel it.
	own, _ := workflow.NewDisconnectedContext(ctx)
	child := workflow.ExecuteChildWorkflow(taskOptions(own, input), signals.TaskWorkflow, input)
	if err := child.GetChildWorkflowExecution().Get(own, nil); err != nil {
		c.TaskNotStarted(workflow.Now(ctx), input.Task, reason(err))
		return
	}
	c.TaskStarted(workflow.Now(ctx), input.Task)
	t.watchTask(ctx, child, input.Task)
}

// watchTask handles the end of a task's workflow without a report, for example because it was
// terminated. The next run of the thread does not watch it: there, the task fails when it is
// overdue.
func (t *conversation) watchTask(ctx workflow.Context, child workflow.Future, task event.Task) {
	// The turn may end before the task.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(ctx, "task", func(ctx workflow.Context) {
		err := child.Get(ctx, nil)
		if err == nil {
			return
		}
		// Handle the signals that it sent before it ended.
		t.drain(ctx)
		why := "its workflow ended without a report: " + reason(err)
		// A failure means that the task ended long ago.
		_ = t.state.TaskReported(workflow.Now(ctx), step.TaskReport{TaskID: task.ID, TaskReply: step.TaskReply{Error: why}})
		t.state.ForgetSubAgent(workflow.Now(ctx), task.ThreadID)
	})
}

// answer sets the result of a call that the thread itself answers.
func (t *activeTurn) answer(ctx workflow.Context, c *thread.Call) {
	if stop := c.Answer(workflow.Now(ctx), t.specs(ctx)...); stop != nil {
		t.stopTask(ctx, *stop)
	}
}

// stopTask cancels the workflow of a task. It ignores one that has already ended.
func (t *conversation) stopTask(ctx workflow.Context, task event.Task) {
	if task.ThreadID != "" {
		t.state.ForgetSubAgent(workflow.Now(ctx), task.ThreadID)
		t.cancelThread(ctx, task.ThreadID)
		return
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	_ = t.awaitSent(ctx, workflow.RequestCancelExternalWorkflow(ctx, signals.TaskWorkflowID(t.state.Namespace, task.ID), ""))
}

func (t tasks) taskReported(ctx workflow.Context, name string, rep step.TaskReport) {
	if err := t.state.TaskReported(workflow.Now(ctx), rep); err != nil {
		t.state.Reject(workflow.Now(ctx), name, rep, err)
	}
}

func (t tasks) completeTask(ctx workflow.Context, name string, c signals.CompleteTask) {
	err := c.Validate()
	if err == nil {
		switch out := t.state.CompleteTask(workflow.Now(ctx), c); out.Result {
		case signals.TaskAccepted:
			t.dismissTask(ctx, out.Task)
		case signals.TaskAlreadyEnded:
		case signals.TaskConflict, signals.TaskNotFound:
			err = errors.New(string(out.Result))
		}
	}
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, c, err)
	}
}

func (t tasks) updateCompleteTask(ctx workflow.Context, c signals.CompleteTask) (signals.CompleteTaskResult, error) {
	out := t.state.CompleteTask(workflow.Now(ctx), c)
	if out.Result == signals.TaskAccepted {
		t.dismissTask(ctx, out.Task)
	}
	return out, nil
}

func (t tasks) updateCancelTask(ctx workflow.Context, c signals.CancelTask) (signals.CompleteTaskResult, error) {
	out := t.state.CancelTask(workflow.Now(ctx), c, true)
	if out.Result == signals.TaskAccepted {
		t.stopTask(ctx, out.Task)
	}
	return out, nil
}

// dismissTask tells the workflow of a task that the task was completed from outside.
func (t *conversation) dismissTask(ctx workflow.Context, task event.Task) {
	if task.ThreadID != "" {
		t.stopTask(ctx, task)
		return
	}
	to := signals.TaskWorkflowID(t.state.Namespace, task.ID)
	// A failure means that the workflow has ended.
	_ = t.awaitSent(ctx, workflow.SignalExternalWorkflow(ctx, to, "", step.SignalTaskReport, step.TaskReport{TaskID: task.ID}))
}
