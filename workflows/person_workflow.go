package workflows

import (
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/signals"
)

const (
	// maxPersonSteps is the number of threads and pages after which the erasure of a person continues as new.
	maxPersonSteps = 250

	// quickPasses is the number of looks at all threads without a pause: the last one has to find nothing, and a person may go on writing.
	quickPasses = 10
	passPause   = time.Minute
)

// erasePerson erases a person in all threads of a namespace: the person is replaced, and
// threads in which nobody else wrote are erased. It ends when a look at all threads finds nothing.
func (w *Workflows) erasePerson(ctx workflow.Context, in signals.ErasePersonInput) (signals.PersonErasure, error) {
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
			step := signals.PersonFinish{PersonStep: e.step, Progress: e.ErasePersonProgress}
			err := workflow.ExecuteActivity(activity(ctx, "delete what belongs to no thread, and store the receipt"), signals.ActivityPersonFinish, step).Get(ctx, &out)
			return out, err
		}
	}
	return signals.PersonErasure{}, workflow.NewContinueAsNewError(ctx, signals.ErasePersonWorkflow, signals.ErasePersonInput{PersonStep: e.step, Progress: &e.ErasePersonProgress})
}

// personErasure is the erasure of a person in its workflow.
type personErasure struct {
	signals.ErasePersonProgress
	step  signals.PersonStep
	steps int
}

// page handles the threads of the next page. done reports whether a whole pass has found nothing.
func (e *personErasure) page(ctx workflow.Context) (done bool, err error) {
	step := e.step
	step.ThreadID = e.After
	var found signals.FoundPerson
	if err := workflow.ExecuteActivity(activity(ctx, "look for threads"), signals.ActivityPersonFind, step).Get(ctx, &found); err != nil {
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
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%d threads are erased, and the person is replaced in %d", len(e.Erased), len(e.Forgot)))
	if e.After = found.Next; e.After != "" {
		return false, nil
	}
	if e.Changed == 0 {
		return true, nil
	}
	if e.Pass, e.Changed = e.Pass+1, 0; e.Pass >= quickPasses {
		workflow.SetCurrentDetails(ctx, "The person goes on writing: revoke their keys.")
		return false, sleep(ctx, passPause, "before the next pass")
	}
	return false, nil
}

// erase erases a thread.
func (e *personErasure) erase(ctx workflow.Context, id string) error {
	e.steps++
	in := signals.EraseStep{Namespace: e.step.Namespace, ThreadID: id, By: e.step.By, Part: true}
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: signals.EraseWorkflowID(in.Namespace, in.ThreadID), ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON, StaticSummary: "erase thread " + id,
	})
	err := workflow.ExecuteChildWorkflow(child, signals.EraseWorkflow, signals.EraseInput{EraseStep: in}).Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil // somebody else has asked for it: the next pass does not find the thread
	}
	if err == nil {
		e.Erased = noted(e.Erased, id)
	}
	return err
}

// forget replaces the person in a thread, and erases it if nobody else wrote there.
func (e *personErasure) forget(ctx workflow.Context, id string) error {
	e.steps++
	step := e.step
	step.ThreadID = id
	var out signals.ForgotPerson
	if err := workflow.ExecuteActivity(activity(ctx, "replace the person in "+id), signals.ActivityPersonForget, step).Get(ctx, &out); err != nil {
		return err
	}
	e.Counts = e.Counts.Add(out.Counts)
	if out.Alone {
		return e.erase(ctx, id)
	}
	e.Forgot = noted(e.Forgot, id)
	return nil
}

// noted adds an id, once. A receipt has a bound.
func noted(ids []string, id string) []string {
	if len(ids) < signals.MaxErasedThreads && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}
