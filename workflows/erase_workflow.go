package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

const (
	// maxEraseSteps is the number of steps after which an erasure continues as new: each is some events of its history.
	maxEraseSteps = 250

	// maxLooked bounds the ids that the last look gets: they are part of its input. Deleting a thread has looked for all of them.
	maxLooked = 1000
)

// erase erases a thread and the threads of its sub-agents. All of them are stopped before the first is deleted, so that they start
// nothing that is not found. A step that fails is retried until it succeeds.
func (w *Workflows) erase(ctx workflow.Context, in job.EraseInput) (signals.Erasure, error) {
	if err := in.Validate(); err != nil {
		return signals.Erasure{}, temporal.NewNonRetryableApplicationError("erasing a thread: "+err.Error(), signals.RefusedType, err)
	}
	ctx = w.context(ctx)
	e := erasure{step: in.EraseStep, known: map[string]bool{}}
	if in.Progress != nil {
		e.EraseProgress = *in.Progress
	} else {
		e.RequestedAt, e.Threads = workflow.Now(ctx).UTC(), []string{in.ThreadID}
	}
	for _, id := range e.Threads {
		e.known[id] = true
	}
	for steps := 0; e.Deleted < len(e.Threads); steps++ {
		if steps == maxEraseSteps || steps > 0 && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return signals.Erasure{}, workflow.NewContinueAsNewError(ctx, job.EraseWorkflow, job.EraseInput{EraseStep: e.step, Progress: &e.EraseProgress})
		}
		next := e.delete
		if e.Stopped < len(e.Threads) {
			next = e.stop
		}
		if err := next(ctx); err != nil {
			return signals.Erasure{}, err
		}
	}
	var out signals.Erasure
	err := workflow.ExecuteActivity(activity(ctx, "look again"), job.ActivityEraseFinish, job.EraseFinish{EraseStep: e.step, Progress: e.EraseProgress}).Get(ctx, &out)
	if err == nil {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d threads are erased", len(e.Threads)))
	}
	return out, err
}

// erasure is an erasure in its workflow.
type erasure struct {
	job.EraseProgress
	step job.EraseStep

	// known are the threads, as a set.
	known map[string]bool
}

// stop stops the next thread, and finds those of its sub-agents.
func (e *erasure) stop(ctx workflow.Context) error {
	_, found, err := e.find(ctx, e.Threads[e.Stopped], "stop ")
	if err != nil {
		return err
	}
	for _, sub := range found.Threads {
		switch {
		case e.known[sub]:
		case len(e.Threads) == job.MaxErasedThreads:
			e.Beyond = cmp.Or(e.Beyond, sub)
		default:
			e.known[sub] = true
			e.Threads = append(e.Threads, sub)
		}
	}
	e.Erased = e.Erased.Add(found.Counts)
	e.Stopped++
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d of %d threads are stopped", e.Stopped, len(e.Threads)))
	return nil
}

// delete deletes the next thread.
func (e *erasure) delete(ctx workflow.Context) error {
	// What belongs to the thread is found again: the state does not have all of it.
	of, found, err := e.find(ctx, e.Threads[e.Deleted], "find ")
	if err != nil {
		return err
	}
	in := job.EraseDelete{EraseStep: of, Found: found}
	if err := workflow.ExecuteActivity(activity(ctx, "delete "+of.ThreadID), job.ActivityEraseDelete, in).Get(ctx, nil); err != nil {
		return err
	}
	for _, id := range found.Workflows {
		e.Workflows = looked(e.Workflows, id)
	}
	for _, id := range found.Schedules {
		e.Schedules = looked(e.Schedules, id)
	}
	e.Deleted++
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d of %d threads are deleted", e.Deleted, len(e.Threads)))
	return nil
}

func (e *erasure) find(ctx workflow.Context, threadID, why string) (of job.EraseStep, found job.EraseFound, err error) {
	of = e.step
	of.ThreadID = threadID
	err = workflow.ExecuteActivity(activity(ctx, why+threadID), job.ActivityEraseFind, of).Get(ctx, &found)
	return of, found, err
}

func looked(ids []string, id string) []string {
	if len(ids) < maxLooked {
		ids = append(ids, id)
	}
	return ids
}

// lateTimeout limits one attempt to begin the erasure of a thread that was started again.
const lateTimeout = 30 * time.Second

// eraseLate ends a thread that the store refuses since it was erased: a client that does not ask the store has started it
// again. The erasure that it begins deletes this run too. While one is running, which may have looked already, it waits.
func (t *conversation) eraseLate(ctx workflow.Context) error {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	in := job.EraseStep{Namespace: t.state.Namespace, ThreadID: t.state.ThreadID, Late: true}
	opts := workflow.ActivityOptions{StartToCloseTimeout: lateTimeout, RetryPolicy: retry, Summary: "the thread was erased"}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), job.ActivityEraseLate, in).Get(ctx, nil); err != nil {
		return err
	}
	return temporal.NewNonRetryableApplicationError(signals.ErrThreadErased.Error(), signals.ErasedType, signals.ErrThreadErased)
}
