package workflows_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// retaining is a namespace with threads that are due.
type retaining struct {
	*testsuite.TestWorkflowEnvironment
	mu      sync.Mutex
	closed  []string
	checked []job.RetainCheck
	passes  []signals.Retained
}

func newRetaining(t *testing.T, found job.RetainFound) *retaining {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	r := &retaining{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	r.SetTestTimeout(testenv.Patience)
	r.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
	(&workflows.Workflows{}).Register(r)
	for name, do := range map[string]any{
		job.ActivityRetainFind: func(context.Context, job.RetainStep) (out job.RetainFound, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			out, found = found, job.RetainFound{}
			return out, nil
		},
		job.ActivityRetainClose: func(_ context.Context, in job.RetainClose) (bool, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.closed = append(r.closed, in.ThreadID)
			return true, nil
		},
		job.ActivityRetainCheck: func(_ context.Context, in job.RetainCheck) (bool, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.checked = append(r.checked, in)
			return in.ClosedThreads < 1000*time.Hour, nil
		},
		job.ActivityRetainDone: func(_ context.Context, in job.RetainStep) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.passes = append(r.passes, in.Pass)
			return nil
		},
	} {
		r.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	return r
}

// erases lets the erasures of threads take these times.
func (r *retaining) erases(takes map[string]time.Duration) {
	r.OnWorkflow(job.EraseWorkflow, mock.Anything, mock.Anything).Return(func(ctx workflow.Context, in job.EraseInput) (signals.Erasure, error) {
		if in.By != "retention" || takes[in.ThreadID] == 0 {
			return signals.Erasure{}, temporal.NewNonRetryableApplicationError("this thread is to be left alone", "", nil)
		}
		return signals.Erasure{Erased: signals.ErasedCounts{Records: 5}}, workflow.Sleep(ctx, takes[in.ThreadID])
	})
}

func (r *retaining) run(t *testing.T) {
	t.Helper()
	limits := job.RetainLimits{ClosedThreads: 100 * time.Hour, IdleThreads: 90 * time.Hour, Every: time.Hour}
	r.ExecuteWorkflow(job.RetainWorkflow, job.RetainStep{Namespace: "ns", Limits: limits})
	require.True(t, r.IsWorkflowCompleted())
}

// TestRetainGoesOn: an erasure that does not end keeps no other thread.
func TestRetainGoesOn(t *testing.T) {
	r := newRetaining(t, job.RetainFound{Erase: []string{"stuck", "t2", "t3"}})
	r.erases(map[string]time.Duration{"stuck": 10_000 * time.Hour, "t2": time.Minute, "t3": time.Minute})
	r.run(t)
	require.NotEmpty(t, r.passes)
	first := r.passes[0]
	require.Equal(t, 2, first.Erased)
	require.Equal(t, 1, first.Failed)
	require.Equal(t, 10, first.Contents.Records)
}

// TestRetainObeys: new limits apply to the next thread, and not to the next batch.
func TestRetainObeys(t *testing.T) {
	for name, c := range map[string]struct {
		limits job.RetainLimits
		checks int
	}{
		"off":    {job.RetainLimits{}, 1},
		"higher": {job.RetainLimits{ClosedThreads: 2000 * time.Hour, Every: time.Hour}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetaining(t, job.RetainFound{Erase: []string{"t1", "t2", "t3"}})
			r.erases(map[string]time.Duration{"t1": 5 * time.Minute})
			r.RegisterDelayedCallback(func() { r.SignalWorkflow(job.SignalRetain, c.limits) }, time.Minute)
			r.run(t)
			require.Equal(t, 1, r.passes[0].Erased)
			require.Zero(t, r.passes[0].Failed)
			require.Len(t, r.checked, c.checks, "the others are left alone, or asked for by the new limits")
			for _, in := range r.checked[1:] {
				require.Equal(t, c.limits.ClosedThreads, in.ClosedThreads)
			}
		})
	}
}
