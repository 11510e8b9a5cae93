package threadclient

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
)

// dailyDescribed is schedule "daily" as Temporal describes it.
func dailyDescribed(t *testing.T) *client.ScheduleDescription {
	t.Helper()
	run := func(at string, started time.Time) client.ScheduleActionResult {
		return client.ScheduleActionResult{
			ScheduleTime: listStart.Add(time.Second), ActualTime: started,
			StartWorkflowResult: &client.ScheduleWorkflowExecution{WorkflowID: "deliver/acme/daily-" + at, FirstExecutionRunID: "r-" + at},
		}
	}
	return &client.ScheduleDescription{
		Schedule: client.Schedule{
			Action: &client.ScheduleWorkflowAction{Workflow: job.DeliverWorkflow, Args: []any{payload(t, daily())}},
			Spec:   &client.ScheduleSpec{},
			State:  &client.ScheduleState{Note: "for the team", Paused: true, LimitedActions: true, RemainingActions: 2},
		},
		Info: client.ScheduleInfo{
			NumActions: 5, NumActionsMissedCatchupWindow: 1, NumActionsSkippedOverlap: 3,
			NextActionTimes: []time.Time{listStart.Add(time.Hour)},
			RecentActions: []client.ScheduleActionResult{
				run("2026-01-02T03:00:00Z", listStart), run("2026-01-02T04:00:00Z", listStart.Add(time.Hour)), run("2026-01-02T05:00:00Z", listStart.Add(2*time.Hour)),
			},
			CreatedAt: listStart, LastUpdateAt: time.Unix(0, 0).UTC(),
		},
	}
}

func TestSchedule(t *testing.T) {
	c, m, schedules := scheduleClient(t)
	handleOf(t, schedules).On("Describe", mock.Anything).Return(dailyDescribed(t), nil)
	for at, status := range map[string]enumspb.WorkflowExecutionStatus{
		"2026-01-02T04:00:00Z": enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, "2026-01-02T05:00:00Z": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	} {
		m.On("DescribeWorkflowExecution", mock.Anything, "deliver/acme/daily-"+at, "r-"+at).Return(
			&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil).Once()
	}
	m.On("DescribeWorkflowExecution", mock.Anything, "deliver/acme/daily-2026-01-02T03:00:00Z", mock.Anything).Return(nil, serviceerror.NewNotFound("forgotten")).Once()
	failed := mocks.NewWorkflowRun(t)
	failed.On("Get", mock.Anything, nil).Return(temporal.NewNonRetryableApplicationError(`thread "t1" is closed`, signals.ClosedType, nil)).Once()
	m.On("GetWorkflow", mock.Anything, "deliver/acme/daily-2026-01-02T04:00:00Z", "r-2026-01-02T04:00:00Z").Return(failed).Once()

	got, err := c.Schedule(t.Context(), "daily")
	require.NoError(t, err)
	want := daily(func(s *signals.Schedule) { s.Note, s.Paused, s.Remaining = "for the team", true, 2 })
	runAt := func(hour int) signals.ScheduleRun {
		r := signals.ScheduledRun{Namespace: "acme", ScheduleID: "daily", At: time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC)}
		text := r.At.Format(time.RFC3339)
		return signals.ScheduleRun{
			ScheduledAt: r.At, StartedAt: listStart.Add(time.Duration(hour-3) * time.Hour), EventID: r.EventID(),
			WorkflowID: "deliver/acme/daily-" + text, RunID: "r-" + text,
		}
	}
	forgotten, closed, runs := runAt(3), runAt(4), runAt(5)
	closed.Status, closed.Error, runs.Status = "failed", `thread "t1" is closed`, "running"
	require.Equal(t, signals.ScheduleView{
		Schedule: want, Next: []time.Time{listStart.Add(time.Hour)}, Recent: []signals.ScheduleRun{forgotten, closed, runs},
		Failing: &closed, Runs: 5, LateRuns: 1, OverlappedRuns: 3, CreatedAt: listStart,
	}, got)
}

func TestScheduleWithoutRuns(t *testing.T) {
	c, _, schedules := scheduleClient(t)
	d := dailyDescribed(t)
	d.Info.NextActionTimes, d.Info.RecentActions, d.Info.LastUpdateAt = nil, nil, listStart
	handleOf(t, schedules).On("Describe", mock.Anything).Return(d, nil)
	got, err := c.Schedule(t.Context(), "daily")
	require.NoError(t, err)
	require.True(t, got.Done)
	require.NotNil(t, got.Next, "a list in JSON too")
	require.NotNil(t, got.Recent, "a list in JSON too")
	require.Equal(t, listStart, got.UpdatedAt)
}

func TestForeignSchedule(t *testing.T) {
	for name, action := range map[string]client.ScheduleAction{
		"another workflow": &client.ScheduleWorkflowAction{Workflow: "backup", Args: []any{payload(t, daily())}},
		"no input":         &client.ScheduleWorkflowAction{Workflow: job.DeliverWorkflow},
		"another input":    &client.ScheduleWorkflowAction{Workflow: job.DeliverWorkflow, Args: []any{payload(t, []int{1})}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, schedules := scheduleClient(t)
			d := dailyDescribed(t)
			d.Schedule.Action = action
			handleOf(t, schedules).On("Describe", mock.Anything).Return(d, nil)
			_, err := c.Schedule(t.Context(), "daily")
			require.ErrorContains(t, err, `reading schedule "daily": it is not one of Threadmill's`)
		})
	}
}

func TestSchedules(t *testing.T) {
	entries := func(t *testing.T, schedules *mocks.ScheduleClient, ids ...string) *client.ScheduleListOptions {
		t.Helper()
		it, left := mocks.NewScheduleListIterator(t), ids
		it.On("HasNext").Return(func() bool { return len(left) > 0 })
		it.On("Next").Return(func() (*client.ScheduleListEntry, error) {
			next := &client.ScheduleListEntry{ID: left[0]}
			left = left[1:]
			return next, nil
		}).Maybe()
		asked := &client.ScheduleListOptions{}
		schedules.On("List", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
			*asked = args.Get(1).(client.ScheduleListOptions)
		}).Return(it, nil).Once()
		return asked
	}
	there := func(t *testing.T, schedules *mocks.ScheduleClient, id string, d *client.ScheduleDescription, err error) {
		t.Helper()
		h := mocks.NewScheduleHandle(t)
		h.On("Describe", mock.Anything).Return(d, err).Once()
		schedules.On("GetHandle", mock.Anything, "schedule/acme/"+id).Return(h).Once()
	}
	ended := func(m *mocks.Client, status enumspb.WorkflowExecutionStatus) {
		m.On("DescribeWorkflowExecution", mock.Anything, "deliver/acme/daily-2026-01-02T05:00:00Z", mock.Anything).Return(
			&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil)
	}
	t.Run("those of the namespace, by their ids", func(t *testing.T) {
		c, m, schedules := scheduleClient(t)
		ended(m, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT)
		asked := entries(t, schedules, "schedule/acme/b", "schedule/acme_2/x", "schedule/acme/gone", "schedule/acme/foreign", "schedule/acme/a", "nightly")
		foreign := dailyDescribed(t)
		foreign.Schedule.Action = &client.ScheduleWorkflowAction{Workflow: "backup"}
		there(t, schedules, "a", dailyDescribed(t), nil)
		there(t, schedules, "b", dailyDescribed(t), nil)
		there(t, schedules, "gone", nil, noSchedule)
		there(t, schedules, "foreign", foreign, nil)
		got, err := c.Schedules(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Equal(t, "a", got[0].ID)
		require.Equal(t, "b", got[1].ID)
		require.Equal(t, "timed_out", got[0].Failing.Status)
		require.Equal(t, got[0].Recent[2].RunID, got[0].Failing.RunID)
		require.Empty(t, got[0].Recent[2].Status)
		require.Equal(t, `ScheduleId STARTS_WITH "schedule/acme/"`, asked.Query)
		require.Equal(t, DefaultScheduleLimit, asked.PageSize)
	})
	t.Run("up to a limit", func(t *testing.T) {
		c, m, schedules := scheduleClient(t)
		ended(m, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
		var ids []string
		for i := range 30 {
			ids = append(ids, "schedule/acme/s"+strconv.Itoa(i))
		}
		asked := entries(t, schedules, ids...)
		for i := range 20 {
			there(t, schedules, "s"+strconv.Itoa(i), dailyDescribed(t), nil)
		}
		got, err := c.Schedules(t.Context(), 20)
		require.NoError(t, err)
		require.Len(t, got, 20)
		require.Nil(t, got[19].Failing, "the last run that has ended did not fail")
		require.Equal(t, 20, asked.PageSize)
	})
	t.Run("none", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		entries(t, schedules)
		got, err := c.Schedules(t.Context(), 0)
		require.NoError(t, err)
		require.NotNil(t, got, "a list in JSON too")
		require.Empty(t, got)
	})
	t.Run("one cannot be asked", func(t *testing.T) {
		c, _, schedules := scheduleClient(t)
		entries(t, schedules, "schedule/acme/a")
		broken := errors.New("broken")
		there(t, schedules, "a", nil, broken)
		_, err := c.Schedules(t.Context(), 0)
		require.ErrorIs(t, err, broken)
	})
}
