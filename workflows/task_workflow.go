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
	j := &job{redactor: redactor{r: w.Redact}, in: in}
	j.show(ctx, "runs")
	j.listen(ctx)
	reply, err := j.work(ctx)
	if j.settled {
		// The thread already knows.
		j.show(ctx, "ended elsewhere")
		return reply, err
	}
	j.show(ctx, "reports")
	// A cancelled task reports too, since someone other than the thread may have cancelled it.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if lost := j.report(ctx, reply); lost != nil {
		return reply, lost
	}
	return reply, err
}

// job is a background task in its workflow.
type job struct {
	redactor redactor

	in step.Task

	// done is the result that was reported from outside. settled means that the thread knows that
	// the task has ended.
	done    *step.TaskReply
	settled bool
}

func (j *job) show(ctx workflow.Context, doing string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** `%s`: %s\n\n- thread `%s`, tool `%s` of %s\n- deadline %s",
		j.in.Task.Title, j.in.Task.ID, doing, j.in.Thread.ThreadID, j.in.Task.Tool, j.in.Task.Agent, j.in.Task.Deadline.UTC().Format(time.RFC3339)))
}

// listen handles the completion of the task from outside, which the thread or, if the thread is
// closed, a client reports.
func (j *job) listen(ctx workflow.Context) {
	workflow.GoNamed(ctx, "thread", func(ctx workflow.Context) {
		workflow.GetSignalChannel(ctx, signals.SignalTaskReport).Receive(ctx, nil)
		j.settled = true
	})
	workflow.GoNamed(ctx, "outside", func(ctx workflow.Context) {
		for j.done == nil {
			var c signals.CompleteTask
			workflow.GetSignalChannel(ctx, signals.SignalCompleteTask).Receive(ctx, &c)
			c = redacted(ctx, &j.redactor, c)
			if c.Validate() == nil && c.TaskID == j.in.Task.ID {
				j.done = &step.TaskReply{Result: c.Result, Error: c.Error, By: cmp.Or(c.By, "outside")}
			}
		}
	})
}

// over reports whether the task was completed from outside.
func (j *job) over() bool { return j.done != nil || j.settled }

// work runs the tool, and waits for the completion from outside if the tool requires it.
func (j *job) work(ctx workflow.Context) (step.TaskReply, error) {
	left := j.in.Task.Deadline.Sub(workflow.Now(ctx))
	running, stop := workflow.WithCancel(ctx)
	defer stop()
	ran := workflow.ExecuteActivity(onQueue(activity(running, j.in.Task.Title), j.in.TaskQueue), signals.ActivityRunTask, j.in)
	inTime, err := workflow.AwaitWithTimeout(ctx, left, func() bool { return j.over() || ran.IsReady() })
	if err != nil {
		// The activity's context is cancelled too.
		_ = ran.Get(ctx, nil)
		return cancelled, err
	}
	if j.over() || !inTime {
		stop()
		disconnected, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		_ = ran.Get(disconnected, nil)
		return j.ended(), nil
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
	j.show(ctx, "waits to be completed from outside")
	left = j.in.Task.Deadline.Sub(workflow.Now(ctx))
	if _, err := workflow.AwaitWithTimeout(ctx, left, j.over); err != nil {
		return cancelled, err
	}
	return j.ended(), nil
}

// cancelled is the result of a task whose workflow was cancelled.
var cancelled = step.TaskReply{Cancelled: true, Error: "the task was cancelled"}

// ended returns the result of a task that was completed from outside or missed its deadline.
func (j *job) ended() step.TaskReply {
	if j.done != nil {
		return *j.done
	}
	return step.TaskReply{Error: fmt.Sprintf("it had not completed by its deadline, %s", j.in.Task.Deadline.UTC().Format(time.RFC3339))}
}

// report sends the result to the thread. If the thread is closed, it stores the records of the
// task's end instead.
func (j *job) report(ctx workflow.Context, reply step.TaskReply) error {
	to := signals.WorkflowID(j.in.Thread.Namespace, j.in.Thread.ThreadID)
	rep := step.TaskReport{TaskID: j.in.Task.ID, TaskReply: reply, Task: &j.in.Task}
	err := workflow.SignalExternalWorkflow(ctx, to, "", signals.SignalTaskReport, rep).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &gone) {
		return err
	}
	records := thread.TaskRecords(j.in.Thread, j.in.Task, reply, workflow.Now(ctx))
	input := step.Record{Thread: j.in.Thread, Flush: step.Flush{Records: records}}
	return workflow.ExecuteActivity(activity(ctx, "store the result"), signals.ActivityRecord, input).Get(ctx, nil)
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
