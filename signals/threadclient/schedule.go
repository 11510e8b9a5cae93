package threadclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/redaction"
	"github.com/threadmill/threadmill/signals"
)

// ScheduleError means that a schedule does not exist, or exists already. It wraps
// [signals.ErrScheduleNotFound] or [signals.ErrScheduleExists].
type ScheduleError struct {
	ID  string
	Err error
}

func (e *ScheduleError) Error() string {
	if errors.Is(e.Err, signals.ErrScheduleExists) {
		return fmt.Sprintf("schedule %q already exists", e.ID)
	}
	return fmt.Sprintf("there is no schedule %.128q", e.ID)
}

// Unwrap returns signals.ErrScheduleNotFound or signals.ErrScheduleExists.
func (e *ScheduleError) Unwrap() error { return e.Err }

// CreateSchedule creates a schedule and returns it with its id and defaults. The error is an
// [*event.FieldError], or a [*ScheduleError] if the id exists.
func (c *Client) CreateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error) {
	s = redaction.Payload(c.redact, s.WithDefaults())
	if err := s.Validate(); err != nil {
		return s, err
	}
	if err := c.refuseErased(ctx, s.ThreadID); err != nil {
		return s, err
	}
	t := c.temporalSchedule(s)
	_, err := c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: signals.ScheduleID(c.namespace, s.ID), Spec: *t.Spec, Action: t.Action,
		Overlap: t.Policy.Overlap, CatchupWindow: t.Policy.CatchupWindow,
		Note: t.State.Note, Paused: t.State.Paused, RemainingActions: t.State.RemainingActions,
	})
	return s, explainSchedule("creating", s.ID, err)
}

// UpdateSchedule replaces a schedule: omitted fields get their defaults, and a paused schedule
// resumes unless s is paused. Its past runs are kept. The error is an [*event.FieldError], or a
// [*ScheduleError] if the schedule does not exist. The last of concurrent updates wins.
func (c *Client) UpdateSchedule(ctx context.Context, s signals.Schedule) (signals.Schedule, error) {
	if s.ID == "" {
		return s, event.FieldErrorf("id", "is required: the id of the schedule to replace")
	}
	s = redaction.Payload(c.redact, s.WithDefaults())
	if err := s.Validate(); err != nil {
		return s, err
	}
	err := c.schedule(ctx, s.ID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			return &client.ScheduleUpdate{Schedule: c.temporalSchedule(s)}, nil
		},
	})
	return s, explainSchedule("replacing", s.ID, err)
}

// Schedule returns a schedule with the outcomes of its last runs.
func (c *Client) Schedule(ctx context.Context, id string) (signals.ScheduleView, error) {
	view, err := c.describe(ctx, id)
	if err != nil {
		return view, err
	}
	for i := range view.Recent {
		if err := c.outcome(ctx, &view.Recent[i]); err != nil {
			return view, fmt.Errorf("asking for the runs of schedule %q: %w", id, err)
		}
	}
	if view.Failing, err = c.failing(ctx, view.Recent); err != nil {
		return view, fmt.Errorf("asking for the last run of schedule %q: %w", id, err)
	}
	return view, nil
}

// PauseSchedule pauses a schedule. An empty note keeps the current one.
func (c *Client) PauseSchedule(ctx context.Context, id, note string) error {
	note, err := c.note(ctx, id, note, "paused")
	if err != nil {
		return err
	}
	return explainSchedule("pausing", id, c.schedule(ctx, id).Pause(ctx, client.SchedulePauseOptions{Note: note}))
}

// ResumeSchedule resumes a paused schedule. It does not make up for runs whose time has passed. An
// empty note keeps the current one.
func (c *Client) ResumeSchedule(ctx context.Context, id, note string) error {
	note, err := c.note(ctx, id, note, "resumed")
	if err != nil {
		return err
	}
	return explainSchedule("resuming", id, c.schedule(ctx, id).Unpause(ctx, client.ScheduleUnpauseOptions{Note: note}))
}

// note returns the note for Temporal, which must not be empty.
func (c *Client) note(ctx context.Context, id, note, fallback string) (string, error) {
	if err := signals.ValidateID("id", id); err != nil {
		return "", err
	}
	if err := signals.ValidateNote(note); err != nil || note != "" {
		return c.redact.Text(note), err
	}
	view, err := c.describe(ctx, id)
	if view.Note != "" {
		fallback = view.Note
	}
	return fallback, err
}

// TriggerSchedule starts a run now, even of a schedule that is paused or has no runs left. It waits
// for a run in progress. Two runs in the same second count as one.
func (c *Client) TriggerSchedule(ctx context.Context, id string) error {
	if err := signals.ValidateID("id", id); err != nil {
		return err
	}
	err := c.schedule(ctx, id).Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL})
	return explainSchedule("triggering", id, err)
}

// DeleteSchedule deletes a schedule. A run in progress continues.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	if err := signals.ValidateID("id", id); err != nil {
		return err
	}
	return explainSchedule("deleting", id, c.schedule(ctx, id).Delete(ctx))
}

func (c *Client) schedule(ctx context.Context, id string) client.ScheduleHandle {
	return c.temporal.ScheduleClient().GetHandle(ctx, signals.ScheduleID(c.namespace, id))
}

// temporalSchedule converts a schedule to Temporal's form.
func (c *Client) temporalSchedule(s signals.Schedule) *client.Schedule {
	spec := &client.ScheduleSpec{
		CronExpressions: s.Cron, TimeZoneName: s.Timezone, Jitter: time.Duration(s.Jitter), StartAt: s.StartAt, EndAt: s.EndAt,
	}
	if s.Every != 0 {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: time.Duration(s.Every), Offset: time.Duration(s.Offset)}}
	}
	state := &client.ScheduleState{Note: s.Note, Paused: s.Paused, LimitedActions: s.Remaining != 0, RemainingActions: s.Remaining}
	// Temporal changes these fields, so the input of the runs omits them.
	s.Note, s.Paused, s.Remaining = "", false, 0
	action := &client.ScheduleWorkflowAction{
		ID: job.DeliverWorkflowID(c.namespace, s.ID), Workflow: job.DeliverWorkflow, Args: []any{s}, TaskQueue: c.taskQueue,
		StaticSummary: fmt.Sprintf("schedule %s to thread %s", s.ID, s.ThreadID),
	}
	policy := &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: signals.CatchUpWindow}
	switch s.Missed {
	case signals.MissedSkip:
		policy.CatchupWindow, action.WorkflowExecutionTimeout = signals.SkipWindow, signals.SkipWindow
	case signals.MissedAll:
		policy.Overlap = enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
	case signals.MissedOnce:
	}
	return &client.Schedule{Action: action, Spec: spec, Policy: policy, State: state}
}

// explainSchedule converts an error of Temporal to one of this package.
func explainSchedule(doing, id string, err error) error {
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return nil
	case is[*serviceerror.NotFound](err):
		return &ScheduleError{id, signals.ErrScheduleNotFound}
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return &ScheduleError{id, signals.ErrScheduleExists}
	case errors.As(err, &invalid):
		return fmt.Errorf("%s schedule %q: %w by Temporal: %s", doing, id, signals.ErrRefused, invalid.Message)
	}
	return fmt.Errorf("%s schedule %q: %w", doing, id, err)
}

// Limits of Client.Schedules.
const (
	DefaultScheduleLimit = 100
	MaxScheduleLimit     = 1000
)

// Schedules returns the schedules of the client's namespace, ordered by id: at most limit, by default
// [DefaultScheduleLimit]. Each has its last run if that failed. They come from Temporal's visibility,
// which may lag by seconds.
func (c *Client) Schedules(ctx context.Context, limit int) ([]signals.ScheduleView, error) {
	if limit == 0 {
		limit = DefaultScheduleLimit
	}
	if limit < 0 || limit > MaxScheduleLimit {
		return nil, event.FieldErrorf("limit", "is %d, must be 1 to %d", limit, MaxScheduleLimit)
	}
	ids, err := c.scheduleIDs(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("listing schedules of namespace %q: %w", c.namespace, err)
	}
	slices.Sort(ids)
	return c.describeAll(ctx, ids)
}
