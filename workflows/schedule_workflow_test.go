package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// deliver runs a schedule once, as the workflow with this id.
func deliver(t *testing.T, workflowID string, s signals.Schedule, do func(context.Context, signals.Delivery) (signals.PostResult, error)) (signals.PostResult, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(testenv.Patience)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflowID, TaskQueue: "q"})
	(&workflows.Workflows{}).Register(env)
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: job.ActivityDeliver})
	env.ExecuteWorkflow(job.DeliverWorkflow, s)
	require.True(t, env.IsWorkflowCompleted())
	var out signals.PostResult
	if err := env.GetWorkflowError(); err != nil {
		return out, err
	}
	require.NoError(t, env.GetWorkflowResult(&out))
	return out, nil
}

func TestDeliverWorkflow(t *testing.T) {
	const workflowID = "deliver/acme/daily-2026-01-02T08:00:00Z"
	daily := signals.Schedule{ThreadID: "t1", Open: true, Agents: []string{"bob"}, Message: &event.NewMessage{Content: "good morning"}}
	run := signals.ScheduledRun{Namespace: "acme", ScheduleID: "daily", At: time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)}

	t.Run("posts for its schedule and time", func(t *testing.T) {
		var got signals.Delivery
		out, err := deliver(t, workflowID, daily, func(_ context.Context, d signals.Delivery) (signals.PostResult, error) {
			got = d
			return signals.PostResult{EventID: d.Post.ID, Status: signals.PostDuplicate}, nil
		})
		require.NoError(t, err)
		want, err := daily.Delivery(run)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, signals.PostResult{EventID: run.EventID(), Status: signals.PostDuplicate}, out)
	})
	t.Run("waits out an outage", func(t *testing.T) {
		var tries atomic.Int32
		_, err := deliver(t, workflowID, daily, func(_ context.Context, d signals.Delivery) (signals.PostResult, error) {
			if tries.Add(1) < 10 { // the number of attempts of the test environment
				return signals.PostResult{}, errors.New("nobody answers")
			}
			return signals.PostResult{EventID: d.Post.ID, Status: signals.PostQueued}, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 10, tries.Load())
	})
	t.Run("fails where it can never be delivered", func(t *testing.T) {
		var tries atomic.Int32
		_, err := deliver(t, workflowID, daily, func(context.Context, signals.Delivery) (signals.PostResult, error) {
			tries.Add(1)
			return signals.PostResult{}, temporal.NewNonRetryableApplicationError(`thread "t1" is closed`, signals.ClosedType, nil)
		})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, signals.ClosedType, app.Type())
		require.Equal(t, `thread "t1" is closed`, app.Message())
		require.EqualValues(t, 1, tries.Load())
	})
	for name, c := range map[string]struct {
		workflowID string
		schedule   signals.Schedule
		problem    string
	}{
		"an id without a time": {"deliver/acme/daily", daily, "is not deliver/<namespace>/<schedule id>-<time>"},
		"nothing to post":      {workflowID, signals.Schedule{ThreadID: "t1"}, "event: or message is required"},
		"an impossible thread": {workflowID, signals.Schedule{ThreadID: "a/b", Message: daily.Message}, "threadId"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			_, err := deliver(t, c.workflowID, c.schedule, func(context.Context, signals.Delivery) (signals.PostResult, error) {
				return signals.PostResult{}, errors.New("it was delivered")
			})
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, signals.RefusedType, app.Type())
			require.Contains(t, app.Message(), c.problem)
			require.True(t, app.NonRetryable())
		})
	}
}
