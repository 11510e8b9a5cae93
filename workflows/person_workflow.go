package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

const (
	// maxPersonSteps is the number of threads and pages after which the erasure of a person continues as new.
	maxPersonSteps = 250

	// quickPasses is the number of looks at all threads without a pause: the last one has to find nothing, and a person may go on writing.
	quickPasses = 10
	passPause   = time.Minute

	// waitPause is the first pause before an erasure comes back to threads that it could not finish, and longestWait the longest one.
	waitPause   = time.Second
	longestWait = 15 * time.Minute

	// maxWaiting bounds the threads that wait: they are part of the input of the next run. With more, a pass goes on when some are finished.
	maxWaiting = 1000

	// forgetAttempts is the number of attempts at a thread, and eraseWithin the time for erasing one, after which the others go on.
	forgetAttempts = 5
	eraseWithin    = 5 * time.Minute
)

// changeWaiting is the version of runs that do not wait for the erasure of a thread for as long as it takes.
const changeWaiting = "person-erasure-waiting"

// erasePerson erases a person in all threads of a namespace: the person is replaced, and
// threads in which nobody else wrote are erased. It ends when a look at all threads finds nothing.
func (w *Workflows) erasePerson(ctx workflow.Context, in job.ErasePersonInput) (signals.PersonErasure, error) {
	if err := in.Validate(); err != nil {
		return signals.PersonErasure{}, temporal.NewNonRetryableApplicationError("erasing a person: "+err.Error(), signals.RefusedType, err)
	}
	ctx = w.context(ctx)
	e := personErasure{step: in.PersonStep}
	if in.Progress != nil {
		e.ErasePersonProgress = *in.Progress
	} else {
		e.RequestedAt = workflow.Now(ctx).UTC()
	}
	for e.steps < maxPersonSteps {
		done, err := e.page(ctx)
		if err != nil {
			return signals.PersonErasure{}, err
		}
		if done {
			var out signals.PersonErasure
			in := job.PersonFinish{PersonStep: e.step, Progress: e.ErasePersonProgress}
			err := workflow.ExecuteActivity(activity(ctx, "delete what belongs to no thread, and store the receipt"), job.ActivityPersonFinish, in).Get(ctx, &out)
			return out, err
		}
	}
	return signals.PersonErasure{}, workflow.NewContinueAsNewError(ctx, job.ErasePersonWorkflow, job.ErasePersonInput{PersonStep: e.step, Progress: &e.ErasePersonProgress})
}

// personErasure is the erasure of a person in its workflow.
type personErasure struct {
	job.ErasePersonProgress
	step  job.PersonStep
	steps int
}

// page handles the threads of the next page. done reports whether a whole pass has found nothing.
func (e *personErasure) page(ctx workflow.Context) (done bool, err error) {
	in := e.step
	in.ThreadID = e.After
	var found job.FoundPerson
	if err := workflow.ExecuteActivity(activity(ctx, "look for threads"), job.ActivityPersonFind, in).Get(ctx, &found); err != nil {
		return false, err
	}
	e.steps++
	for _, id := range found.Threads {
		if err := e.forget(ctx, id); err != nil {
			return false, err
		}
	}
	e.Changed += len(found.Threads) + found.Schedules
	e.Counts.Schedules += found.Schedules
	e.show(ctx)
	if e.After = found.Next; e.After != "" {
		if len(e.Waiting) < maxWaiting {
			return false, nil
		}
		return false, e.comeBack(ctx)
	}
	if e.Changed == 0 && len(e.Waiting) == 0 {
		return true, nil
	}
	e.Pass, e.Changed = e.Pass+1, 0
	switch {
	case len(e.Waiting) > 0:
		return false, e.comeBack(ctx)
	case e.Pass >= quickPasses:
		workflow.SetCurrentDetails(ctx, "The person goes on writing: revoke their keys.")
		return false, sleep(ctx, passPause, "before the next pass")
	}
	return false, nil
}

// show describes the erasure in Temporal's Web UI.
func (e *personErasure) show(ctx workflow.Context) {
	details := fmt.Sprintf("%d threads are erased, and the person is replaced in %d", len(e.Erased), len(e.Forgot))
	if n := len(e.Waiting); n > 0 {
		details += fmt.Sprintf("; %d others wait, the first of them is %s", n, e.Waiting[0].ThreadID)
	}
	workflow.SetCurrentDetails(ctx, details)
}

// comeBack handles the threads that wait again, after a pause that grows.
func (e *personErasure) comeBack(ctx workflow.Context) error {
	if err := sleep(ctx, min(waitPause<<min(e.Pass, 10), longestWait), "before threads that could not be finished"); err != nil {
		return err
	}
	for _, w := range slices.Clone(e.Waiting) {
		if err := e.forget(ctx, w.ThreadID); err != nil {
			return err
		}
	}
	e.show(ctx)
	return nil
}

// wait notes that the erasure comes back to a thread.
func (e *personErasure) wait(id string, erasing bool) {
	e.Waiting = append(e.Waiting, job.WaitingThread{ThreadID: id, Erasing: erasing})
}

// waited returns what is noted of a thread that waits, and removes it.
func (e *personErasure) waited(id string) (w job.WaitingThread) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(one job.WaitingThread) bool {
		if one.ThreadID == id {
			w = one
		}
		return one.ThreadID == id
	})
	return w
}

// erase erases a thread. What takes long goes on beside the other threads.
func (e *personErasure) erase(ctx workflow.Context, id string) error {
	e.steps++
	in := job.EraseStep{Namespace: e.step.Namespace, ThreadID: id, By: e.step.By, Part: true}
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: job.EraseWorkflowID(in.Namespace, in.ThreadID), ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON, StaticSummary: "erase thread " + id,
	})
	erased := workflow.ExecuteChildWorkflow(child, job.EraseWorkflow, job.EraseInput{EraseStep: in})
	waits := workflow.GetVersion(ctx, changeWaiting, workflow.DefaultVersion, 1) != workflow.DefaultVersion
	if waits {
		ended, err := awaitFor(ctx, eraseWithin, "before the other threads go on", erased.IsReady)
		if err != nil {
			return err
		}
		if !ended {
			e.wait(id, true)
			return nil
		}
	}
	err := erased.Get(ctx, nil)
	switch {
	case err == nil:
		e.Erased = noted(e.Erased, id)
	case ctx.Err() != nil:
	case waits: // somebody else has asked for it, or it has failed: its receipt tells when it has ended
		e.wait(id, true)
		return nil
	case temporal.IsWorkflowExecutionAlreadyStartedError(err):
		return nil
	}
	return err
}

// forget replaces the person in a thread, and erases it if nobody else wrote there. A thread that cannot be finished waits: the others go on.
func (e *personErasure) forget(ctx workflow.Context, id string) error {
	e.steps++
	in := e.step
	in.ThreadID = id
	before := e.waited(id)
	var out job.ForgotPerson
	err := workflow.ExecuteActivity(forgetting(ctx, id), job.ActivityPersonForget, in).Get(ctx, &out)
	var app *temporal.ApplicationError
	switch {
	case ctx.Err() != nil, errors.As(err, &app) && app.Type() == step.ErrTypeConfig:
		return err
	case err != nil:
		e.wait(id, before.Erasing)
	case out.Alone:
		e.Counts = e.Counts.Add(out.Counts)
		return e.erase(ctx, id)
	case before.Erasing:
		e.Erased = noted(e.Erased, id)
	default:
		e.Counts = e.Counts.Add(out.Counts)
		e.Forgot = noted(e.Forgot, id)
	}
	return nil
}

// forgetting returns the options of replacing the person in a thread.
func forgetting(ctx workflow.Context, id string) workflow.Context {
	ctx = activity(ctx, "replace the person in "+id)
	opts := workflow.GetActivityOptions(ctx)
	policy := *retry
	policy.MaximumAttempts, policy.NonRetryableErrorTypes = forgetAttempts, []string{step.ErrTypeLeft}
	opts.RetryPolicy = &policy
	return workflow.WithActivityOptions(ctx, opts)
}

// noted adds an id, once. A receipt has a bound.
func noted(ids []string, id string) []string {
	if len(ids) < job.MaxErasedThreads && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}
