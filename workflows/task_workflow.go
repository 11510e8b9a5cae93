package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// task runs one background task and reports its end to the thread. It outlives the turn that
// started it and the workflow runs of the thread.
func (w *Workflows) task(ctx workflow.Context, in step.Task) (step.TaskReply, error) {
	ctx = w.context(ctx)
	t := &taskRun{redactor: redactor{r: w.Redact}, in: in}
	t.show(ctx, "runs")
	t.listen(ctx)
	reply, err := t.work(ctx)
	if t.settled {
		// The thread already knows.
		t.show(ctx, "ended elsewhere")
		return reply, err
	}
	t.show(ctx, "reports")
	// A cancelled task reports too, since someone other than the thread may have cancelled it.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if lost := t.report(ctx, reply); lost != nil {
		return reply, lost
	}
	return reply, err
}

// taskRun is a background task in its workflow.
type taskRun struct {
	redactor redactor

	in step.Task

	// done is the result that was reported from outside. settled means that the thread knows that
	// the task has ended.
	done    *step.TaskReply
	settled bool
}

func (t *taskRun) show(ctx workflow.Context, doing string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** `%s`: %s\n\n- thread `%s`, tool `%s` of %s\n- deadline %s",
		t.in.Task.Title, t.in.Task.ID, doing, t.in.Thread.ThreadID, t.in.Task.Tool, t.in.Task.Agent, t.in.Task.Deadline.UTC().Format(time.RFC3339)))
}

// listen handles the completion of the task from outside, which the thread or, if the thread is
// closed, a client reports.
func (t *taskRun) listen(ctx workflow.Context) {
	workflow.GoNamed(ctx, "thread", func(ctx workflow.Context) {
		workflow.GetSignalChannel(ctx, step.SignalTaskReport).Receive(ctx, nil)
		t.settled = true
	})
	workflow.GoNamed(ctx, "outside", func(ctx workflow.Context) {
		for t.done == nil {
			var c signals.CompleteTask
			workflow.GetSignalChannel(ctx, signals.SignalCompleteTask).Receive(ctx, &c)
			c = redacted(ctx, &t.redactor, c)
			if c.Validate() == nil && c.TaskID == t.in.Task.ID {
				t.done = &step.TaskReply{Result: c.Result, Error: c.Error, By: cmp.Or(c.By, "outside")}
			}
		}
	})
}

// over reports whether the task was completed from outside.
func (t *taskRun) over() bool { return t.done != nil || t.settled }

// work runs the tool, and waits for the completion from outside if the tool requires it.
func (t *taskRun) work(ctx workflow.Context) (step.TaskReply, error) {
	left := t.in.Task.Deadline.Sub(workflow.Now(ctx))
	running, stop := workflow.WithCancel(ctx)
	defer stop()
	ran := workflow.ExecuteActivity(onQueue(activity(running, t.in.Task.Title), t.in.TaskQueue), step.ActivityRunTask, t.in)
	inTime, err := workflow.AwaitWithTimeout(ctx, left, func() bool { return t.over() || ran.IsReady() })
	if err != nil {
		// The activity's context is cancelled too.
		_ = ran.Get(ctx, nil)
		return cancelled, err
	}
	if t.over() || !inTime {
		stop()
		disconnected, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		_ = ran.Get(disconnected, nil)
		return t.ended(), nil
	}
	var reply step.TaskReply
	if err := ran.Get(ctx, &reply); err != nil {
		if temporal.IsCanceledError(err) {
			return cancelled, err
		}
		why, _ := explain(err)
		return step.TaskReply{Error: why}, nil
	}
	if !reply.Pending {
		return reply, nil
	}
	t.show(ctx, "waits to be completed from outside")
	left = t.in.Task.Deadline.Sub(workflow.Now(ctx))
	if _, err := workflow.AwaitWithTimeout(ctx, left, t.over); err != nil {
		return cancelled, err
	}
	return t.ended(), nil
}

// cancelled is the result of a task whose workflow was cancelled.
var cancelled = step.TaskReply{Cancelled: true, Error: "the task was cancelled"}

// ended returns the result of a task that was completed from outside or missed its deadline.
func (t *taskRun) ended() step.TaskReply {
	if t.done != nil {
		return *t.done
	}
	return step.TaskReply{Error: fmt.Sprintf("it had not completed by its deadline, %s", t.in.Task.Deadline.UTC().Format(time.RFC3339))}
}

// report sends the result to the thread. If the thread is closed, it stores the records of the
// task's end instead.
func (t *taskRun) report(ctx workflow.Context, reply step.TaskReply) error {
	to := signals.WorkflowID(t.in.Thread.Namespace, t.in.Thread.ThreadID)
	rep := step.TaskReport{TaskID: t.in.Task.ID, TaskReply: reply, Task: &t.in.Task}
	err := workflow.SignalExternalWorkflow(ctx, to, "", step.SignalTaskReport, rep).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &gone) {
		return err
	}
	records := thread.TaskRecords(t.in.Thread, t.in.Task, reply, workflow.Now(ctx))
	input := step.Record{Thread: t.in.Thread, Flush: step.Flush{Records: records}}
	return workflow.ExecuteActivity(activity(ctx, "store the result"), step.ActivityRecord, input).Get(ctx, nil)
}

func taskOptions(ctx workflow.Context, input step.Task) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: signals.TaskWorkflowID(input.Thread.Namespace, input.Task.ID),
		// The task outlives this run of the thread, and the thread itself if it is detached.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief(fmt.Sprintf("%s · task: %s", input.Task.Agent, input.Task.Title)),
		StaticDetails:     fmt.Sprintf("Runs in the background for thread `%s`.", input.Thread.ThreadID),
	})
}
