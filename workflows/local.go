package workflows

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/step"
)

// holdLimit is how long steps may have held a workflow task when another one runs as a local activity.
// Signals and updates wait for the workflow task.
const holdLimit = time.Second

// stopsWithin is the time within which a step that was told to stop ends.
const stopsWithin = 2 * time.Second

// holder decides which steps run as local activities. It tells workflow tasks apart by the length of the history at their
// beginning: the time moves on within a task.
type holder struct {
	// task is the current workflow task, and held the time for which steps have held it.
	task int
	held time.Duration

	// first is the first workflow task that this process has run and not replayed.
	first int

	// accepted is the last workflow task in which the thread accepted an update, plus 1. answered is the last one in which it
	// answered an update that an earlier one had accepted.
	accepted, answered int
}

// accept notes that the workflow task has accepted an update. Temporal keeps the update when the task ends. Until then, nothing
// that follows from it may be stored, shown or done: if Temporal or the sender fails together with the worker, there never was an
// update.
func (h *holder) accept(ctx workflow.Context) {
	h.accepted = workflow.GetInfo(ctx).GetCurrentHistoryLength() + 1
}

// causeKept reports whether all that the thread knows is in its history, so that local activities may act on it.
func (h *holder) causeKept(ctx workflow.Context) bool {
	return h.accepted != workflow.GetInfo(ctx).GetCurrentHistoryLength()+1
}

// answerSoon notes that the workflow task answers an update that waited. Its sender gets the answer when the task ends.
func (h *holder) answerSoon(ctx workflow.Context) {
	h.answered = workflow.GetInfo(ctx).GetCurrentHistoryLength() + 1
}

// mayHold reports whether another step may run as a local activity.
func (h *holder) mayHold(ctx workflow.Context) bool {
	if task := workflow.GetInfo(ctx).GetCurrentHistoryLength(); task != h.task {
		h.task, h.held = task, 0
	}
	return h.held < holdLimit && h.causeKept(ctx) && h.answered != h.task+1
}

// newHistory is the length of a history in the first workflow task of a thread that was started with one signal.
const newHistory = 4

// mayBeRepeated reports whether the workflow task may have been run before and been lost: it is the first one of the thread that
// this process runs. It may differ between replays, so only inputs may depend on it.
func (h *holder) mayBeRepeated(ctx workflow.Context) bool {
	task := workflow.GetInfo(ctx).GetCurrentHistoryLength()
	if h.first == 0 && !workflow.IsReplaying(ctx) {
		h.first = task
	}
	return h.first == task && task > newHistory
}

// lasting is the result of a step that may run as a local activity.
type lasting interface {
	Lasts() *step.Underway

	// Failure says why what the step did has failed, although the step has a result.
	Failure() string
}

// localStep is a step that runs as a local activity if it is quick.
type localStep struct {
	kind, activity, summary string

	// shown says whose step it is, and of what, in the type of a local activity.
	shown string

	// declared is set if the step is declared as quick, and quick if those of its kind were.
	declared, quick bool

	// input returns the step's input. reply receives its result.
	input func(step.Local) any
	reply lasting
}

// quickly runs a step as a local activity if the thread knows that the steps of its kind are quick.
func (t *conversation) quickly(ctx workflow.Context, s localStep, options workflow.Context) error {
	s.quick = t.state.Pace.Quick(s.kind)
	err := t.holder.quickly(ctx, s, options)
	if err == nil {
		t.share(ctx, s.kind, s.reply.Lasts().Took)
	}
	return err
}

// share tells the threads of the group how long a step took.
func (t *conversation) share(ctx workflow.Context, kind string, ms int64) {
	if !workflow.IsReplaying(ctx) {
		t.paces.took(t.group, t.state.Roster.FirstKind(kind), ms)
	}
}

// quickly runs a step as a local activity if it is quick, or as an activity with these options. An activity also follows a
// local one that fails or takes too long.
func (h *holder) quickly(ctx workflow.Context, s localStep, options workflow.Context) error {
	local, err := h.runStep(ctx, s, options)
	why := s.reply.Failure()
	if err != nil && local && final(err) {
		why, _ = explain(err)
	}
	if why != "" {
		showFailure(ctx, s, why)
	}
	return err
}

// runStep runs a step, and reports whether its result is that of a local activity.
func (h *holder) runStep(ctx workflow.Context, s localStep, options workflow.Context) (local bool, err error) {
	here := step.Local{Shown: h.mayBeRepeated(ctx)}
	if ctx.Err() == nil && h.mayHold(ctx) && (s.declared || s.quick) {
		// The step ends soon. If ctx is cancelled meanwhile, it still has its say.
		own, _ := workflow.NewDisconnectedContext(ctx)
		here.Now, here.Held, here.Quick = workflow.Now(ctx), h.held, s.declared
		err = executeLocal(once(own, s.summary), s.activity, s.shown, s.input(here)).Get(own, s.reply)
		lasts := s.reply.Lasts()
		h.held += time.Duration(max(lasts.Took, 0)) * time.Millisecond
		switch {
		case err == nil && !lasts.Running, err != nil && final(err):
			return true, err
		case err == nil:
			if err = join(ctx, s); err == nil || ctx.Err() != nil || final(err) {
				return false, err
			}
		}
		if stopped(err) && sleep(ctx, time.Second, "hooks were told to stop") != nil {
			return false, ctx.Err()
		}
		here = step.Local{Shown: true, Repeated: true}
	}
	return false, workflow.ExecuteActivity(options, s.activity, s.input(here)).Get(ctx, s.reply)
}

// join runs the activity that joins a step which no longer holds the workflow task.
func join(ctx workflow.Context, s localStep) error {
	own, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	lasts := s.reply.Lasts()
	on := joining(own, s.summary, lasts.JoinOn)
	*lasts = step.Underway{}
	joined := workflow.ExecuteActivity(on, s.activity, s.input(step.Local{Shown: true, Repeated: true}))
	if workflow.Await(ctx, joined.IsReady) != nil {
		// The step has been told to stop, and has its say. Temporal would drop an activity that is cancelled before it
		// begins.
		waits, leave := workflow.NewDisconnectedContext(ctx)
		_, _ = awaitFor(waits, stopsWithin, "a step was told to stop", joined.IsReady)
		leave()
		cancel()
	}
	return joined.Get(own, s.reply)
}

// final reports whether an error is that of a model which must not be called again. Another worker may succeed with what
// this one is not configured for.
func final(err error) bool {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && app.NonRetryable() && strings.HasPrefix(app.Type(), step.ErrTypeModel)
}

// stopped reports whether an error means that hooks were told to stop. The workflow will soon know that it is cancelled, and they must not
// run again.
func stopped(err error) bool {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && app.Type() == step.ErrTypeStopped
}

// once returns the options of a local activity that is not retried: an activity follows.
func once(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 2 * localTimeout,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                brief(summary),
	})
}

// joining returns the options of an activity that joins a step in its process. It is not retried: the process may have gone.
func joining(ctx workflow.Context, summary, queue string) workflow.Context {
	ctx = workflow.WithRetryPolicy(activity(ctx, summary), temporal.RetryPolicy{MaximumAttempts: 1})
	if queue == "" {
		return ctx
	}
	return workflow.WithScheduleToStartTimeout(workflow.WithTaskQueue(ctx, queue), step.JoinWithin)
}
