package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

const (
	// longestStep is above every limit that an agent or a tool may have: the activity
	// itself keeps to those.
	longestStep = 25 * time.Hour

	// localTimeout bounds a local activity and its retries; what takes longer becomes
	// an activity.
	localTimeout = 5 * time.Second
)

// retry has no limit on attempts: an outage is waited out, and an activity that
// must not go on says so with an error that is not retryable.
var retry = &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}

func (t *activeTurn) callModel(ctx workflow.Context, r *thread.Run, step thread.ModelStep) (thread.ModelReply, error) {
	who := r.Agent
	if who == "" {
		who = "default agent"
	}
	summary := fmt.Sprintf("%s · step %d", who, step.Step)
	if r.Model != "" {
		summary = fmt.Sprintf("%s · %s · step %d · %d tokens so far", who, r.Model, step.Step, t.state.Usage.InputTokens+t.state.Usage.OutputTokens)
	}
	defer t.step()()
	var reply thread.ModelReply
	err := workflow.ExecuteActivity(activity(ctx, summary), signals.ActivityCallModel, step).Get(ctx, &reply)
	return reply, err
}

func (t *activeTurn) runTool(ctx workflow.Context, c *thread.Call, step thread.ToolStep) (thread.ToolReply, error) {
	defer t.step()()
	var reply thread.ToolReply
	summary := fmt.Sprintf("%s · %s", step.Agent, c.Plan.Name)
	if c.Plan.Quick {
		err := workflow.ExecuteLocalActivity(local(ctx, summary), signals.ActivityRunTool, step).Get(ctx, &reply)
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
	}
	err := workflow.ExecuteActivity(activity(ctx, summary), signals.ActivityRunTool, step).Get(ctx, &reply)
	return reply, err
}

// planCalls plans the calls that hooks have changed or made.
func (t *activeTurn) planCalls(ctx workflow.Context, r *thread.Run, step thread.PlanStep) (thread.PlanReply, error) {
	defer t.step()()
	var reply thread.PlanReply
	summary := fmt.Sprintf("%s · plan %d calls", r.Agent, len(step.Only))
	err := workflow.ExecuteLocalActivity(local(ctx, summary), signals.ActivityPlanCalls, step).Get(ctx, &reply)
	if err != nil && ctx.Err() == nil {
		err = workflow.ExecuteActivity(activity(ctx, summary), signals.ActivityPlanCalls, step).Get(ctx, &reply)
	}
	return reply, err
}

// step counts a step that has taken along what waited to be stored. The caller calls end when
// the step has ended.
func (t *conversation) step() (end func()) {
	t.stepsUnderWay++
	return func() { t.stepsUnderWay-- }
}

// storeOverdue stores at once what people wait to see, and what is more than should wait,
// whatever the thread is waiting for.
func (t *conversation) storeOverdue(ctx workflow.Context) {
	workflow.GoNamed(ctx, "overdue", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		due := func() bool { return t.state.Overdue(t.stepsUnderWay, t.rollover(ctx)) || t.state.Heavy() }
		for workflow.Await(ctx, due) == nil {
			t.show(ctx)
			t.record(ctx)
		}
	})
}

// record stores what no other activity will. It waits out any outage of the store.
func (t *conversation) record(ctx workflow.Context) {
	for more := true; more; {
		step := thread.RecordStep{Thread: t.state.Ref(), Flush: t.state.Flush()}
		more = len(step.Flush.Records) < len(t.state.Pending)
		err := workflow.ExecuteLocalActivity(local(ctx, "store records"), signals.ActivityRecord, step).Get(ctx, nil)
		if err != nil {
			err = workflow.ExecuteActivity(activity(ctx, "store records"), signals.ActivityRecord, step).Get(ctx, nil)
		}
		if err != nil {
			return
		}
		t.state.Flushed(step.Flush)
	}
}

// flushIfOverloaded stores what waits for it, when that is more than the next step takes.
func (t *conversation) flushIfOverloaded(ctx workflow.Context) {
	for t.state.Overloaded() && ctx.Err() == nil {
		t.record(ctx)
	}
}

// notify tells the running step to stop at once. Cancellation tells it too, with
// its next heartbeat, so a failure here only costs time.
func (t *activeTurn) notify(ctx workflow.Context) {
	step := thread.NotifyStep{Thread: t.state.Ref(), TraceID: t.turn.Item.TraceID, Reason: t.turn.Interrupted.Reason}
	if err := workflow.ExecuteLocalActivity(local(ctx, "stop running steps"), signals.ActivityNotify, step).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("telling running steps to stop", "thread", t.state.ThreadID, "error", err)
	}
}

// brief keeps a summary within what the server takes: names may come from a model.
func brief(summary string) string {
	const limit = 200 // bytes; the server takes 400
	if len(summary) > limit {
		summary = summary[:limit] + "…"
	}
	return strings.ToValidUTF8(summary, "")
}

func activity(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: longestStep,
		HeartbeatTimeout:    workflow.GetActivityOptions(ctx).HeartbeatTimeout,
		RetryPolicy:         retry,
		WaitForCancellation: true,
		Summary:             brief(summary),
	})
}

// bounded is for an activity that is given up when it fails for long: somebody waits to hear
// of it.
func bounded(ctx workflow.Context, summary string) workflow.Context {
	ctx = activity(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.ScheduleToCloseTimeout = boundedTime
	return workflow.WithActivityOptions(ctx, opts)
}

const boundedTime = time.Minute

// lowPriorityOptions is for an activity that gives way to all others on its task queue.
func lowPriorityOptions(ctx workflow.Context, summary string) workflow.Context {
	ctx = activity(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.Priority = temporal.Priority{PriorityKey: lowestPriority}
	opts.StartToCloseTimeout = titleTime
	opts.RetryPolicy = &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 5}
	return workflow.WithActivityOptions(ctx, opts)
}

const (
	// lowestPriority is Temporal's.
	lowestPriority = 5

	// titleTime is above what the activity takes by itself.
	titleTime = 2 * time.Minute
)

// staleAfter sets how long a dead worker goes unnoticed. Activities beat more often
// (activities.HeartbeatEvery).
func staleAfter(ctx workflow.Context, limit time.Duration) workflow.Context {
	if limit == 0 {
		limit = DefaultStaleAfter
	}
	return workflow.WithHeartbeatTimeout(ctx, limit)
}

func local(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: localTimeout,
		RetryPolicy:            retry,
		Summary:                brief(summary),
	})
}
