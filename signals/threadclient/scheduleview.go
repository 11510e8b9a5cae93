package threadclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

// scheduleIDs returns the ids of the namespace's schedules from visibility. It filters them again,
// since some characters of an id are wildcards in the query.
func (c *Client) scheduleIDs(ctx context.Context, limit int) ([]string, error) {
	query := fmt.Sprintf("ScheduleId STARTS_WITH %q", signals.ScheduleID(c.namespace, ""))
	it, err := c.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: min(limit, listPage), Query: query})
	if err != nil {
		return nil, err
	}
	var ids []string
	for it.HasNext() && len(ids) < limit {
		entry, err := it.Next()
		if err != nil {
			return nil, err
		}
		if namespace, id, err := signals.ParseScheduleID(entry.ID); err == nil && namespace == c.namespace {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// SchedulesOf returns the ids of all schedules that post to threads, by thread. Visibility, which lists schedules, may lag by
// seconds.
func (c *Client) SchedulesOf(ctx context.Context, threads ...string) (map[string][]string, error) {
	found, err := c.SchedulesWhere(ctx, func(s signals.Schedule) bool { return slices.Contains(threads, s.ThreadID) })
	if err != nil {
		return nil, err
	}
	of := map[string][]string{}
	for _, s := range found {
		of[s.ThreadID] = append(of[s.ThreadID], s.ID)
	}
	return of, nil
}

// SchedulesWhere returns all schedules of which is says so, as SchedulesOf finds them.
func (c *Client) SchedulesWhere(ctx context.Context, is func(signals.Schedule) bool) (found []signals.Schedule, err error) {
	ids, err := c.scheduleIDs(ctx, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("listing schedules of namespace %q: %w", c.namespace, err)
	}
	for some := range slices.Chunk(ids, listPage) {
		views, err := describeEach(ctx, some, c.describe)
		if err != nil {
			return nil, err
		}
		for _, s := range views {
			if is(s.Schedule) {
				found = append(found, s.Schedule)
			}
		}
	}
	return found, nil
}

// errForeign means that a schedule was not created by this client.
var errForeign = errors.New("it is not one of Threadmill's")

// describeAll describes schedules. It omits those that were deleted meanwhile, and foreign ones.
func (c *Client) describeAll(ctx context.Context, ids []string) ([]signals.ScheduleView, error) {
	return describeEach(ctx, ids, func(ctx context.Context, id string) (signals.ScheduleView, error) {
		view, err := c.describe(ctx, id)
		if err == nil {
			view.Failing, err = c.failing(ctx, view.Recent)
		}
		return view, err
	})
}

func describeEach(ctx context.Context, ids []string, describe func(context.Context, string) (signals.ScheduleView, error)) ([]signals.ScheduleView, error) {
	type description struct {
		view signals.ScheduleView
		err  error
	}
	out := make([]signals.ScheduleView, 0, len(ids))
	for _, d := range mapped(ids, func(id string) description {
		view, err := describe(ctx, id)
		return description{view, err}
	}) {
		switch {
		case errors.Is(d.err, signals.ErrScheduleNotFound) || errors.Is(d.err, errForeign):
		case d.err != nil:
			return nil, d.err
		default:
			out = append(out, d.view)
		}
	}
	return out, nil
}

// describe returns a schedule without the outcomes of its runs.
func (c *Client) describe(ctx context.Context, id string) (signals.ScheduleView, error) {
	if err := signals.ValidateID("id", id); err != nil {
		return signals.ScheduleView{}, err
	}
	d, err := c.schedule(ctx, id).Describe(ctx)
	if err != nil {
		return signals.ScheduleView{}, explainSchedule("asking for", id, err)
	}
	view := signals.ScheduleView{
		// JSON encodes an empty list and not null.
		Next: append([]time.Time{}, d.Info.NextActionTimes...), Done: len(d.Info.NextActionTimes) == 0,
		Recent: c.runs(d.Info.RecentActions),
		Runs:   d.Info.NumActions, LateRuns: d.Info.NumActionsMissedCatchupWindow, OverlappedRuns: d.Info.NumActionsSkippedOverlap,
		CreatedAt: d.Info.CreatedAt,
	}
	if d.Info.LastUpdateAt.Unix() != 0 { // how no time at all arrives
		view.UpdatedAt = d.Info.LastUpdateAt
	}
	if view.Schedule, err = content(d.Schedule.Action); err != nil {
		return view, fmt.Errorf("reading schedule %q: %w", id, err)
	}
	view.ID, view.Note, view.Paused, view.Remaining = id, d.Schedule.State.Note, d.Schedule.State.Paused, d.Schedule.State.RemainingActions
	return view, nil
}

// content returns the schedule in the input of the runs.
func content(action client.ScheduleAction) (signals.Schedule, error) {
	var s signals.Schedule
	start, ok := action.(*client.ScheduleWorkflowAction)
	if !ok || start.Workflow != job.DeliverWorkflow || len(start.Args) != 1 {
		return s, fmt.Errorf("%w: its action is not workflow %q with one input", errForeign, job.DeliverWorkflow)
	}
	raw, _ := start.Args[0].(*commonpb.Payload)
	if err := converter.GetDefaultDataConverter().FromPayload(raw, &s); err != nil {
		return s, fmt.Errorf("%w: %w", errForeign, err)
	}
	return s, nil
}

func (c *Client) runs(actions []client.ScheduleActionResult) []signals.ScheduleRun {
	out := make([]signals.ScheduleRun, 0, len(actions))
	for _, a := range actions {
		if a.StartWorkflowResult == nil {
			continue
		}
		run := signals.ScheduleRun{
			ScheduledAt: a.ScheduleTime, StartedAt: a.ActualTime,
			WorkflowID: a.StartWorkflowResult.WorkflowID, RunID: a.StartWorkflowResult.FirstExecutionRunID,
		}
		// Temporal's own time includes the jitter.
		if r, err := signals.ParseScheduledRun(run.WorkflowID); err == nil {
			run.ScheduledAt, run.EventID = r.At, r.EventID()
		}
		out = append(out, run)
	}
	return out
}

// failing returns the last run that has ended, if it failed. It does not change the runs.
func (c *Client) failing(ctx context.Context, runs []signals.ScheduleRun) (*signals.ScheduleRun, error) {
	for _, run := range slices.Backward(runs) {
		if run.Status == "" {
			if err := c.outcome(ctx, &run); err != nil {
				return nil, err
			}
		}
		switch run.Status {
		case runStatuses[enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING]:
		case "", runStatuses[enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED]:
			return nil, nil // without a status, Temporal has deleted it and the earlier ones
		default:
			return &run, nil
		}
	}
	return nil, nil
}

// outcome sets the outcome of a run.
func (c *Client) outcome(ctx context.Context, run *signals.ScheduleRun) error {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, run.WorkflowID, run.RunID)
	if is[*serviceerror.NotFound](err) {
		return nil
	}
	if err != nil {
		return err
	}
	status := d.GetWorkflowExecutionInfo().GetStatus()
	run.Status = runStatuses[status]
	if status != enumspb.WORKFLOW_EXECUTION_STATUS_FAILED {
		return nil
	}
	failure := c.temporal.GetWorkflow(ctx, run.WorkflowID, run.RunID).Get(ctx, nil)
	if app, ok := errors.AsType[*temporal.ApplicationError](failure); ok {
		run.Error = app.Message()
	} else if failure != nil {
		run.Error = failure.Error()
	}
	return ctx.Err()
}

// runStatuses maps Temporal's workflow statuses to statuses of a run.
var runStatuses = map[enumspb.WorkflowExecutionStatus]string{
	enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:    "running",
	enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:  "completed",
	enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:     "failed",
	enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:  "timed_out",
	enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:   "canceled",
	enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: "terminated",
}
