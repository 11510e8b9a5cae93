package threadclient

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

// scheduleClient is a client over mocks of Temporal's schedules.
func scheduleClient(t *testing.T) (*Client, *mocks.Client, *mocks.ScheduleClient) {
	t.Helper()
	c, m := listClient(t)
	schedules := mocks.NewScheduleClient(t)
	m.On("ScheduleClient").Return(schedules).Maybe()
	return c, m, schedules
}

// handleOf is the handle of schedule "daily".
func handleOf(t *testing.T, schedules *mocks.ScheduleClient) *mocks.ScheduleHandle {
	t.Helper()
	h := mocks.NewScheduleHandle(t)
	schedules.On("GetHandle", mock.Anything, "schedule/acme/daily").Return(h)
	return h
}

func daily(change ...func(*signals.Schedule)) signals.Schedule {
	s := signals.Schedule{
		ID: "daily", ThreadID: "t1", Cron: []string{"0 8 * * 1-5"}, Timezone: "Europe/Berlin",
		Message: &event.NewMessage{Content: "What is on today?"},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

var noSchedule = serviceerror.NewNotFound("schedule not found")

func TestCreateSchedule(t *testing.T) {
	create := func(t *testing.T, s signals.Schedule) (signals.Schedule, client.ScheduleOptions) {
		t.Helper()
		c, _, schedules := scheduleClient(t)
		var asked client.ScheduleOptions
		schedules.On("Create", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			asked = args.Get(1).(client.ScheduleOptions)
		}).Return(nil, nil).Once()
		made, err := c.CreateSchedule(t.Context(), s)
		require.NoError(t, err)
		return made, asked
	}
	t.Run("with its defaults", func(t *testing.T) {
		made, asked := create(t, daily())
		require.Equal(t, daily().WithDefaults(), made)
		require.Equal(t, "schedule/acme/daily", asked.ID)
		require.Equal(t, client.ScheduleSpec{CronExpressions: []string{"0 8 * * 1-5"}, TimeZoneName: "Europe/Berlin"}, asked.Spec)
		action := asked.Action.(*client.ScheduleWorkflowAction)
		require.Equal(t, job.DeliverWorkflow, action.Workflow)
		require.Equal(t, "deliver/acme/daily", action.ID)
		require.Equal(t, signals.DefaultTaskQueue, action.TaskQueue)
		require.Equal(t, []any{made}, action.Args)
		require.False(t, asked.Paused)
		require.Zero(t, asked.RemainingActions)
	})
	t.Run("with everything", func(t *testing.T) {
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		_, asked := create(t, daily(func(s *signals.Schedule) {
			s.Every, s.Offset, s.Jitter = signals.Duration(time.Hour), signals.Duration(time.Minute), signals.Duration(time.Second)
			s.StartAt, s.EndAt, s.Remaining = begin, begin.AddDate(1, 0, 0), 7
			s.Paused, s.Note = true, "not yet"
		}))
		require.Equal(t, client.ScheduleSpec{
			CronExpressions: []string{"0 8 * * 1-5"}, TimeZoneName: "Europe/Berlin",
			Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour, Offset: time.Minute}}, Jitter: time.Second,
			StartAt: begin, EndAt: begin.AddDate(1, 0, 0),
		}, asked.Spec)
		require.True(t, asked.Paused)
		require.Equal(t, "not yet", asked.Note)
		require.Equal(t, 7, asked.RemainingActions)
		input := asked.Action.(*client.ScheduleWorkflowAction).Args[0].(signals.Schedule)
		require.False(t, input.Paused, "what changes is not in the input of the runs")
		require.Empty(t, input.Note)
		require.Zero(t, input.Remaining)
	})
	t.Run("without an id", func(t *testing.T) {
		made, asked := create(t, daily(func(s *signals.Schedule) { s.ID = "" }))
		require.Len(t, made.ID, 26)
		require.Equal(t, "schedule/acme/"+made.ID, asked.ID)
	})
	for missed, want := range map[signals.Missed]struct {
		overlap enumspb.ScheduleOverlapPolicy
		window  time.Duration
		timeout time.Duration
	}{
		signals.MissedSkip: {enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, time.Minute, time.Minute},
		signals.MissedOnce: {enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, 365 * 24 * time.Hour, 0},
		signals.MissedAll:  {enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, 365 * 24 * time.Hour, 0},
	} {
		t.Run("missed "+string(missed), func(t *testing.T) {
			_, asked := create(t, daily(func(s *signals.Schedule) { s.Missed = missed }))
			require.Equal(t, want.overlap, asked.Overlap)
			require.Equal(t, want.window, asked.CatchupWindow)
			require.Equal(t, want.timeout, asked.Action.(*client.ScheduleWorkflowAction).WorkflowExecutionTimeout)
		})
	}
}

func TestScheduleErrors(t *testing.T) {
	var field *event.FieldError
	t.Run("a field is wrong", func(t *testing.T) {
		c, _, _ := scheduleClient(t)
		wrong := daily(func(s *signals.Schedule) { s.Cron = []string{"daily"} })
		_, err := c.CreateSchedule(t.Context(), wrong)
		require.ErrorAs(t, err, &field)
		require.Equal(t, "cron[0]", field.Field)
		_, err = c.UpdateSchedule(t.Context(), wrong)
		require.ErrorAs(t, err, &field)
		_, err = c.UpdateSchedule(t.Context(), daily(func(s *signals.Schedule) { s.ID = "" }))
		require.ErrorAs(t, err, &field)
		require.Equal(t, "id", field.Field)
		require.ErrorAs(t, c.PauseSchedule(t.Context(), "daily", string(make([]byte, signals.MaxNote+1))), &field)
		require.Equal(t, "note", field.Field)
		_, err = c.Schedules(t.Context(), MaxScheduleLimit+1)
		require.ErrorAs(t, err, &field)
		require.Equal(t, "limit", field.Field)
	})
	t.Run("an id is none", func(t *testing.T) {
		c, _, _ := scheduleClient(t)
		for name, do := range changes(c) {
			require.ErrorAs(t, do(t.Context(), "../daily"), &field, name)
			require.Equal(t, "id", field.Field)
		}
	})
	t.Run("it exists", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		schedules.On("Create", mock.Anything, mock.Anything).Return(nil, temporal.ErrScheduleAlreadyRunning)
		_, err := c.CreateSchedule(t.Context(), daily())
		require.ErrorIs(t, err, signals.ErrScheduleExists)
		require.EqualError(t, err, `schedule "daily" already exists`)
	})
	t.Run("it is not there", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		h := handleOf(t, schedules)
		h.On("Update", mock.Anything, mock.Anything).Return(noSchedule)
		h.On("Describe", mock.Anything).Return(nil, noSchedule)
		h.On("Trigger", mock.Anything, mock.Anything).Return(noSchedule)
		h.On("Delete", mock.Anything).Return(noSchedule)
		_, err := c.UpdateSchedule(t.Context(), daily())
		require.ErrorIs(t, err, signals.ErrScheduleNotFound)
		for name, do := range changes(c) {
			err := do(t.Context(), "daily")
			require.ErrorIs(t, err, signals.ErrScheduleNotFound, name)
			require.EqualError(t, err, `there is no schedule "daily"`)
			var which *ScheduleError
			require.ErrorAs(t, err, &which)
			require.Equal(t, "daily", which.ID)
		}
	})
	t.Run("Temporal refuses it", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		schedules.On("Create", mock.Anything, mock.Anything).Return(nil, serviceerror.NewInvalidArgument("Invalid schedule spec: unknown time zone"))
		_, err := c.CreateSchedule(t.Context(), daily())
		require.ErrorIs(t, err, signals.ErrRefused)
		require.ErrorContains(t, err, `creating schedule "daily": refused by Temporal: Invalid schedule spec`)
	})
	t.Run("Temporal is not there", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		broken := serviceerror.NewUnavailable("down")
		h := handleOf(t, schedules)
		h.On("Delete", mock.Anything).Return(broken)
		schedules.On("List", mock.Anything, mock.Anything).Return(nil, broken)
		require.ErrorIs(t, c.DeleteSchedule(t.Context(), "daily"), broken)
		_, err := c.Schedules(t.Context(), 0)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, `listing schedules of namespace "acme"`)
	})
}

// changes are what can be done with a schedule that is there.
func changes(c *Client) map[string]func(ctx context.Context, id string) error {
	return map[string]func(ctx context.Context, id string) error{
		"get":     func(ctx context.Context, id string) error { _, err := c.Schedule(ctx, id); return err },
		"pause":   func(ctx context.Context, id string) error { return c.PauseSchedule(ctx, id, "") },
		"resume":  func(ctx context.Context, id string) error { return c.ResumeSchedule(ctx, id, "") },
		"trigger": c.TriggerSchedule,
		"delete":  c.DeleteSchedule,
	}
}

func TestChangeSchedule(t *testing.T) {
	t.Run("replace", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		h := handleOf(t, schedules)
		var asked *client.ScheduleUpdate
		h.On("Update", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			var err error
			asked, err = args.Get(1).(client.ScheduleUpdateOptions).DoUpdate(client.ScheduleUpdateInput{Description: *dailyDescribed(t)})
			require.NoError(t, err)
		}).Return(nil)
		s := daily(func(s *signals.Schedule) { s.Cron, s.Missed, s.Remaining = []string{"@hourly"}, signals.MissedAll, 9 })
		made, err := c.UpdateSchedule(t.Context(), s)
		require.NoError(t, err)
		require.Equal(t, s.WithDefaults(), made)
		require.Equal(t, []string{"@hourly"}, asked.Schedule.Spec.CronExpressions)
		require.Equal(t, &client.ScheduleState{LimitedActions: true, RemainingActions: 9}, asked.Schedule.State, "the note and the pause of before are gone")
		require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, asked.Schedule.Policy.Overlap)
	})
	for name, c := range map[string]struct {
		given, before, want string
	}{
		"with a note":          {"holidays", "for the team", "holidays"},
		"without one":          {"", "for the team", "for the team"},
		"without any, to stop": {"", "", "paused"},
	} {
		t.Run("pause "+name, func(t *testing.T) {
			cl, _, schedules := scheduleClient(t)
			h, d := handleOf(t, schedules), dailyDescribed(t)
			d.Schedule.State.Note = c.before
			h.On("Describe", mock.Anything).Return(d, nil).Maybe()
			h.On("Pause", mock.Anything, client.SchedulePauseOptions{Note: c.want}).Return(nil).Once()
			require.NoError(t, cl.PauseSchedule(t.Context(), "daily", c.given))
		})
	}
	t.Run("resume", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		h := handleOf(t, schedules)
		h.On("Describe", mock.Anything).Return(dailyDescribed(t), nil)
		h.On("Unpause", mock.Anything, client.ScheduleUnpauseOptions{Note: "for the team"}).Return(nil).Once()
		require.NoError(t, c.ResumeSchedule(t.Context(), "daily", ""))
		h.On("Unpause", mock.Anything, client.ScheduleUnpauseOptions{Note: "back"}).Return(nil).Once()
		require.NoError(t, c.ResumeSchedule(t.Context(), "daily", "back"))
	})
	t.Run("trigger waits behind a run in progress", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		handleOf(t, schedules).On("Trigger", mock.Anything, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL}).Return(nil).Once()
		require.NoError(t, c.TriggerSchedule(t.Context(), "daily"))
	})
	t.Run("delete", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		handleOf(t, schedules).On("Delete", mock.Anything).Return(nil).Once()
		require.NoError(t, c.DeleteSchedule(t.Context(), "daily"))
	})
}
