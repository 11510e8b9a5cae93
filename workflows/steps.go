package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

const (
	// longestStep exceeds every limit of an agent or a tool, which the activities enforce
	// themselves.
	longestStep = 25 * time.Hour

	// localTimeout limits a local activity and its retries. A call that takes longer becomes an
	// activity.
	localTimeout = 5 * time.Second
)

// retry does not limit the attempts: activities are retried through an outage, and return a
// non-retryable error if a retry cannot help.
var retry = &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second}

// localFirst runs an activity as a local activity, which is faster and cheaper. If that fails, it
// runs it as an activity with these options: another worker may succeed.
func localFirst(ctx workflow.Context, options func(workflow.Context, string) workflow.Context, summary, name string, input, reply any) error {
	err := workflow.ExecuteLocalActivity(local(ctx, summary), name, input).Get(ctx, reply)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return workflow.ExecuteActivity(options(ctx, summary), name, input).Get(ctx, reply)
}

// effect is localFirst for an activity that stores or shows something: it is no local activity before Temporal has its cause.
func (t *conversation) effect(ctx workflow.Context, options func(workflow.Context, string) workflow.Context, summary, name string, input, reply any) error {
	if t.causeKept(ctx) {
		return localFirst(ctx, options, summary, name, input, reply)
	}
	return workflow.ExecuteActivity(options(ctx, summary), name, input).Get(ctx, reply)
}

// callModel makes the run's next model call.
func (t *activeTurn) callModel(ctx workflow.Context, r *thread.AgentRun) (step.ModelReply, error) {
	t.flushIfOverloaded(ctx)
	input := r.NextModelStep(t.specs(ctx))
	who := cmp.Or(r.Agent, t.state.Roster.Default, "default agent")
	if model := r.NextModel(); model != "" {
		who += " · " + model
	}
	summary := fmt.Sprintf("%s · step %d", who, input.Step)
	if used := t.state.Usage.InputTokens + t.state.Usage.OutputTokens; used > 0 {
		summary += fmt.Sprintf(" · %d tokens so far", used)
	}
	defer t.step()()
	for queue := t.state.ModelQueues[r.Agent]; ; {
		var reply step.ModelReply
		options := onModelQueue(activity(ctx, summary), queue, t.state.Namespace)
		call := localStep{kind: r.ModelKind(queue), activity: step.ActivityCallModel, summary: summary, shown: who, reply: &reply, input: func(local step.Local) any {
			input.Local = local
			return input
		}}
		err := t.quickly(ctx, call, options)
		if queue != "" && unserved(err) {
			// The provider may no longer be limited.
			queue, input.Route = "", nil
			t.state.ModelQueues.Set(r.Agent, queue)
			continue
		}
		if t.stored(input.Flush, err) != nil || reply.Route == nil {
			if reply.Agent != "" {
				t.state.ModelQueues.Set(reply.Agent, queue) // later steps have its registered name
			}
			return reply, err
		}
		queue = reply.Route.TaskQueue
		t.state.ModelQueues.Set(r.Agent, queue)
		input.Route, input.Flush = reply.Route, step.Flush{}
	}
}

// runTool runs a call's tool in an activity.
func (t *activeTurn) runTool(ctx workflow.Context, c *thread.Call) (step.ToolReply, error) {
	t.flushIfOverloaded(ctx)
	input := c.ToolStep(t.specs(ctx))
	defer t.step()()
	var reply step.ToolReply
	summary := fmt.Sprintf("%s · %s", input.Agent, c.Plan.Name)
	shown := summary
	if c.Plan.Invalid { // a model may name any tool
		shown = input.Agent + " · invalid call"
	}
	call := localStep{kind: c.Kind(), declared: c.Plan.Quick, activity: step.ActivityRunTool, summary: summary, shown: shown, reply: &reply, input: func(local step.Local) any {
		input.Local = local
		return input
	}}
	err := t.quickly(ctx, call, onQueue(activity(ctx, summary), c.Plan.TaskQueue))
	return reply, t.stored(input.Flush, err)
}

// planCalls plans the calls of a run, or checks them again.
func (t *conversation) planCalls(ctx workflow.Context, next func() step.Plan) (step.PlanReply, error) {
	t.flushIfOverloaded(ctx)
	input := next()
	defer t.step()()
	var reply step.PlanReply
	summary := fmt.Sprintf("%s · plan %d calls", input.Agent, len(input.Only))
	err := t.effect(ctx, activity, summary, step.ActivityPlanCalls, input, &reply)
	return reply, t.stored(input.Flush, err)
}

// step counts a step that has received the unstored records. The caller must call end when the step
// has ended.
func (t *conversation) step() (end func()) {
	t.stepsUnderWay++
	return func() { t.stepsUnderWay-- }
}

// stored removes the records that a step has stored, unless the step failed. It returns the step's
// error.
func (t *conversation) stored(f step.Flush, err error) error {
	if err == nil {
		t.state.Outbox.Flushed(f)
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == signals.ErasedType {
		t.erased = true
	}
	return err
}

// storeOverdue stores records immediately if viewers wait for them or there are too many, while the
// thread waits for something else.
func (t *conversation) storeOverdue(ctx workflow.Context) {
	workflow.GoNamed(ctx, "overdue", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		due := func() bool {
			return !t.erased && (t.state.Overdue(t.stepsUnderWay, t.rollover(ctx)) || t.state.Outbox.Heavy())
		}
		for workflow.Await(ctx, due) == nil {
			t.show(ctx)
			t.record(ctx)
		}
	})
}

// record stores what no other activity stores. It retries through any outage of the store.
func (t *conversation) record(ctx workflow.Context) {
	for more := true; more; {
		input := step.Record{Thread: t.state.Ref(), Flush: t.state.Outbox.Flush()}
		more = len(input.Flush.Records) < len(t.state.Outbox.Pending)
		err := t.effect(ctx, activity, "store records", step.ActivityRecord, input, nil)
		if t.stored(input.Flush, err) != nil {
			return
		}
	}
}

// flushIfOverloaded stores records first if the next step cannot take all of them.
func (t *conversation) flushIfOverloaded(ctx workflow.Context) {
	for t.state.Outbox.Overloaded() && ctx.Err() == nil && !t.erased {
		t.record(ctx)
	}
}

// notify tells the running step to stop immediately. Cancellation does so too, with its next
// heartbeat, so a failure here only costs time.
func (t *activeTurn) notify(ctx workflow.Context) {
	input := step.Notify{Thread: t.state.Ref(), TraceID: t.turn.Item.TraceID, Reason: t.turn.Interrupted.Reason}
	if err := t.effect(ctx, bounded, "stop running steps", step.ActivityNotify, input, nil); err != nil {
		workflow.GetLogger(ctx).Warn("telling running steps to stop", "thread", t.state.ThreadID, "error", err)
	}
}

// brief cuts a summary to the server's limit, since it may contain names from a model.
func brief(summary string) string {
	const limit = 200 // bytes; the server's limit is 400
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

// unserved reports whether no worker began a step of a model queue in time.
func unserved(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// servedWithin is the time after which a step that waits on a model queue asks again where to run.
const servedWithin = 10 * time.Minute

// onModelQueue sets the task queue of a model call. On a queue of its own, the tenants take turns.
func onModelQueue(ctx workflow.Context, queue, tenant string) workflow.Context {
	if queue == "" {
		return ctx
	}
	ctx = workflow.WithTaskQueue(ctx, queue)
	ctx = workflow.WithScheduleToStartTimeout(ctx, servedWithin)
	priority := workflow.GetActivityOptions(ctx).Priority
	priority.FairnessKey = job.FairnessKey(tenant)
	return workflow.WithPriority(ctx, priority)
}

func queueOf(r *step.Route) string {
	if r == nil {
		return ""
	}
	return r.TaskQueue
}

// onQueue sets the task queue of an activity. Empty = the workflow's.
func onQueue(ctx workflow.Context, queue string) workflow.Context {
	if queue == "" {
		return ctx
	}
	return workflow.WithTaskQueue(ctx, queue)
}

// bounded returns the options of an activity that fails after a while, because a caller waits for
// it.
func bounded(ctx workflow.Context, summary string) workflow.Context {
	ctx = activity(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.ScheduleToCloseTimeout = boundedTime
	return workflow.WithActivityOptions(ctx, opts)
}

const boundedTime = time.Minute

// lowPriorityOptions returns the options of an activity that runs after all others on its task
// queue.
func lowPriorityOptions(ctx workflow.Context, summary string) workflow.Context {
	ctx = activity(ctx, summary)
	opts := workflow.GetActivityOptions(ctx)
	opts.Priority = temporal.Priority{PriorityKey: lowestPriority}
	opts.StartToCloseTimeout = titleTime
	opts.RetryPolicy = &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 5}
	return workflow.WithActivityOptions(ctx, opts)
}

const (
	// lowestPriority is Temporal's lowest priority.
	lowestPriority = 5

	// titleTime exceeds the activity's own limit.
	titleTime = 2 * time.Minute
)

// staleAfter sets the time after which a silent worker counts as lost. Activities send heartbeats
// more often (activities.HeartbeatEvery).
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
