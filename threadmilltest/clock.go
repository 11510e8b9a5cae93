package threadmilltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/threadmill/threadmill/signals"
)

// Advance lets time pass for a thread, and returns when everything that was due in that time has
// happened: requests for approval and client calls expire and are reminded of, debounced events are
// handled, queued messages expire, model calls and steps are retried, tasks reach their deadlines. The
// hook workflows, sub-agents and background tasks of the thread go along. Steps run in real time in
// between: a step that the test holds, such as a reply at a gate, fails the test after two minutes.
//
// Every thread has its own clock, and other threads do not move. These are not affected: schedules (use
// TriggerSchedule of the client), the timeouts of running steps, [llm.Fallback].ReturnAfter, times that
// the store assigns, and what tools and models take from time.Now.
//
// While a hook workflow, a sub-agent or a background task is open, only its own clock moves: the thread's
// own moves on with what is left when it has ended. The test fails if something of the thread itself was
// due meanwhile, since that cannot happen.
//
// It needs the Temporal server of this package, or one with frontend.WorkflowTimeSkippingEnabled.
func (r *Runtime) Advance(threadID string, d time.Duration) {
	r.t.Helper()
	r.threads.add(threadID)
	if d <= 0 {
		r.fatal(threadID, "Advance by %s: must be positive", d)
	}
	ctx, cancel := r.ctx()
	defer cancel()
	p := &passage{r: r, distance: d, at: map[string]time.Duration{}}
	if _, err := p.pass(ctx, signals.WorkflowID(r.Client().Namespace(), threadID), 0); err != nil {
		r.fatal(threadID, "Advance by %s: %v", d, err)
	}
}

// passage lets a time pass for a workflow and its children, with the server's time skipping. The server
// does not skip time for a workflow with open children, so those go first.
type passage struct {
	r        *Runtime
	distance time.Duration

	// at are the places, between 0 and distance, that open children have reached.
	at map[string]time.Duration
}

// maxSkips bounds the timers that fire in one passage.
const maxSkips = 1000

// pass takes a workflow from a place to the end of the passage, or to its own end, whose place it
// returns. The place is negative if the workflow is still open.
func (p *passage) pass(ctx context.Context, id string, from time.Duration) (closedAt time.Duration, err error) {
	for from < p.distance {
		began, err := p.skip(ctx, id, p.distance-from)
		if err != nil {
			return 0, err
		}
		d, children, err := p.follow(ctx, id)
		if err != nil {
			return 0, err
		}
		from += max(0, now(d).Sub(began))
		switch {
		case !open(d):
			return min(from, p.distance), nil
		case len(children) == 0:
			if left := p.distance - from; left > 0 {
				return 0, fmt.Errorf("workflow %s has skipped time %d times, with %s left: it never rests", id, maxSkips, left)
			}
			return -1, nil
		}
		// Blocked: from here on, the children decide.
		if err := p.stop(ctx, id); err != nil {
			return 0, err
		}
		ended, err := p.children(ctx, children, from)
		if err != nil {
			return 0, err
		}
		if ended < 0 {
			return -1, p.missed(ctx, id, p.distance-from)
		}
		from = max(from, ended)
		if err := p.released(ctx, id, len(children)); err != nil {
			return 0, err
		}
	}
	return -1, nil
}

// children takes the children to the end of the passage, and returns the place of the first that has
// ended before, or a negative one.
func (p *passage) children(ctx context.Context, children []*workflowpb.PendingChildExecutionInfo, from time.Duration) (time.Duration, error) {
	first := time.Duration(-1)
	for _, c := range children {
		id := c.GetWorkflowId()
		at, known := p.at[id]
		if !known {
			at = from
		}
		ended, err := p.pass(ctx, id, at)
		if err != nil {
			return 0, err
		}
		p.at[id] = p.distance
		if ended >= 0 && (first < 0 || ended < first) {
			first = ended
		}
	}
	return first, nil
}

// follow waits until a workflow has reached its goal or its end, or waits for children that wait
// themselves, which it returns.
func (p *passage) follow(ctx context.Context, id string) (d *description, blocking []*workflowpb.PendingChildExecutionInfo, err error) {
	for {
		d, err := p.settle(ctx, id)
		if err != nil || !open(d) || !skipping(d) {
			return d, nil, err
		}
		if children := d.GetPendingChildren(); len(children) > 0 {
			rest, err := p.allRest(ctx, children)
			if err != nil {
				return nil, nil, err
			}
			again, err := p.describe(ctx, id)
			if err != nil {
				return nil, nil, err
			}
			if rest && resting(again) && again.GetWorkflowExecutionInfo().GetHistoryLength() == d.GetWorkflowExecutionInfo().GetHistoryLength() {
				return again, children, nil
			}
		}
		if err := sleep(ctx); err != nil {
			return nil, nil, fmt.Errorf("workflow %s does not come to rest: its children run", id)
		}
	}
}

// settle waits until a workflow has ended, or has done what is due by its clock.
func (p *passage) settle(ctx context.Context, id string) (*description, error) {
	doing := "it has not been asked"
	for {
		d, err := p.describe(ctx, id)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("workflow %s does not come to rest: %s", id, doing)
		case err != nil:
			return nil, err
		}
		doing = busy(d)
		if !open(d) {
			return d, nil
		}
		if doing == "" && skipping(d) {
			return d, nil
		}
		if doing == "" {
			// The server fires a timer a moment after the clock has got there.
			left, err := p.untilTimer(ctx, id, d)
			if err != nil {
				return nil, err
			}
			if left > 0 {
				return d, nil
			}
			doing = "a timer is due"
		}
		if err := sleep(ctx); err != nil {
			return nil, fmt.Errorf("workflow %s does not come to rest: %s", id, doing)
		}
	}
}

// allRest reports whether all children are open and wait, and so do theirs.
func (p *passage) allRest(ctx context.Context, children []*workflowpb.PendingChildExecutionInfo) (bool, error) {
	for _, c := range children {
		d, err := p.describe(ctx, c.GetWorkflowId())
		if _, begins := errors.AsType[*serviceerror.NotFound](err); begins {
			return false, nil
		}
		if err != nil || !open(d) || !resting(d) {
			return false, err
		}
		if rest, err := p.allRest(ctx, d.GetPendingChildren()); err != nil || !rest {
			return false, err
		}
	}
	return true, nil
}

// released waits until a workflow has heard that one of its children has ended.
func (p *passage) released(ctx context.Context, id string, children int) error {
	for {
		d, err := p.describe(ctx, id)
		if err != nil {
			return err
		}
		if !open(d) || len(d.GetPendingChildren()) < children || !resting(d) {
			return nil
		}
		if err := sleep(ctx); err != nil {
			return fmt.Errorf("workflow %s does not continue after its child", id)
		}
	}
}

type description = workflowservice.DescribeWorkflowExecutionResponse

func (p *passage) describe(ctx context.Context, id string) (*description, error) {
	d, err := p.r.world.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, fmt.Errorf("describing workflow %s: %w", id, err)
	}
	return d, nil
}

func open(d *description) bool {
	return d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// skipping reports whether a workflow has not reached its goal.
func skipping(d *description) bool {
	return d.GetWorkflowExtendedInfo().GetTimeSkippingInfo().GetEffectiveConfig().GetEnabled()
}

// now is the time of a workflow's own clock, or that of its end.
func now(d *description) time.Time {
	if end := d.GetWorkflowExecutionInfo().GetCloseTime(); end != nil {
		return end.AsTime()
	}
	if at := d.GetWorkflowExtendedInfo().GetTimeSkippingInfo().GetCurrentTime(); at != nil {
		return at.AsTime()
	}
	return time.Now()
}

// resting reports whether a workflow waits for time, people or children only.
func resting(d *description) bool { return busy(d) == "" }

// busy says what a workflow is busy with.
func busy(d *description) string {
	if d.GetWorkflowExecutionInfo().GetHistoryLength() < 2 {
		// A child has no workflow task for a moment: it would skip the time without its timers.
		return "it starts"
	}
	if d.GetPendingWorkflowTask() != nil {
		return "it runs"
	}
	for _, a := range d.GetPendingActivities() {
		if next := a.GetNextAttemptScheduleTime(); next == nil || !next.AsTime().After(now(d)) {
			return "step " + a.GetActivityType().GetName() + " runs"
		}
	}
	return ""
}

// skip makes the server skip time for a workflow that has come to rest, and returns the time of its clock before.
func (p *passage) skip(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	before, err := p.settle(ctx, id)
	if err != nil || !open(before) {
		return now(before), err
	}
	return now(before), p.configure(ctx, id, &commonpb.TimeSkippingConfig{
		Enabled: true, DisablePropagation: true, MaxSessionSkipCount: maxSkips,
		FastForwardConfig: &commonpb.FastForwardConfig{Id: signals.NewID(), Duration: durationpb.New(d)},
	})
}

// stop ends the skipping of time. The clock stays where it is.
func (p *passage) stop(ctx context.Context, id string) error {
	return p.configure(ctx, id, &commonpb.TimeSkippingConfig{DisablePropagation: true})
}

func (p *passage) configure(ctx context.Context, id string, cfg *commonpb.TimeSkippingConfig) error {
	_, err := p.r.world.temporal.WorkflowService().UpdateWorkflowExecutionOptions(ctx, &workflowservice.UpdateWorkflowExecutionOptionsRequest{
		Namespace:                p.r.temporalNamespace(),
		WorkflowExecution:        &commonpb.WorkflowExecution{WorkflowId: id},
		WorkflowExecutionOptions: &workflowpb.WorkflowExecutionOptions{TimeSkippingConfig: cfg},
		UpdateMask:               &fieldmaskpb.FieldMask{Paths: []string{"time_skipping_config"}},
	})
	if err != nil {
		if d, gone := p.describe(ctx, id); gone == nil && !open(d) {
			return nil // it has ended meanwhile
		}
		return fmt.Errorf("skipping time for workflow %s: %w", id, err)
	}
	return nil
}

// missed reports a timer of a workflow that was due while its children kept the clock from moving.
func (p *passage) missed(ctx context.Context, id string, within time.Duration) error {
	d, err := p.describe(ctx, id)
	if err != nil {
		return err
	}
	wait, err := p.untilTimer(ctx, id, d)
	if err != nil || wait > within {
		return err
	}
	return errors.New("a timer of the thread is due after " + wait.Round(time.Second).String() + ", but its clock stands while a hook workflow, sub-agent or background task is open: end that first")
}

// untilTimer returns the time until the first timer of a workflow is due, by its own clock.
func (p *passage) untilTimer(ctx context.Context, id string, d *description) (time.Duration, error) {
	timers := map[string]time.Time{}
	events := p.r.world.temporal.GetWorkflowHistory(ctx, id, d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return 0, fmt.Errorf("reading the timers of workflow %s: %w", id, err)
		}
		follow(timers, e)
	}
	first := time.Duration(math.MaxInt64)
	for _, due := range timers {
		first = min(first, due.Sub(now(d)))
	}
	return first, nil
}

// follow keeps the timers that run.
func follow(timers map[string]time.Time, e *history.HistoryEvent) {
	if a := e.GetTimerStartedEventAttributes(); a != nil {
		timers[a.GetTimerId()] = e.GetEventTime().AsTime().Add(a.GetStartToFireTimeout().AsDuration())
	}
	delete(timers, e.GetTimerFiredEventAttributes().GetTimerId())
	delete(timers, e.GetTimerCanceledEventAttributes().GetTimerId())
}
