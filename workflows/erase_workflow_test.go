package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// erasing are the steps of an erasure of a tree of threads.
type erasing struct {
	mu       sync.Mutex
	subs     map[string][]string
	found    map[string]int
	deleted  []string
	steps    int // of the run
	finished *job.EraseFinish
	early    bool // a thread was deleted before all were stopped
}

func (e *erasing) find(_ context.Context, in job.EraseStep) (job.EraseFound, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps++
	e.found[in.ThreadID]++
	e.early = e.early || e.found[in.ThreadID] == 1 && len(e.deleted) > 0
	return job.EraseFound{Counts: signals.ErasedCounts{Records: 2}, Threads: e.subs[in.ThreadID], Workflows: []string{"delegate " + in.ThreadID}}, nil
}

func (e *erasing) delete(_ context.Context, in job.EraseDelete) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in.Found.Workflows == nil {
		return errors.New("what is to be deleted is missing")
	}
	e.deleted = append(e.deleted, in.ThreadID)
	return nil
}

func (e *erasing) finish(_ context.Context, in job.EraseFinish) (signals.Erasure, error) {
	e.finished = &in
	return signals.Erasure{ThreadID: in.ThreadID}, nil
}

// run runs the erasure through all its runs, and returns how many there were.
func (e *erasing) run(t *testing.T, in job.EraseInput) (runs int) {
	t.Helper()
	for {
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(testenv.Patience)
		env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
		(&workflows.Workflows{}).Register(env)
		for name, do := range map[string]any{job.ActivityEraseFind: e.find, job.ActivityEraseDelete: e.delete, job.ActivityEraseFinish: e.finish} {
			env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
		}
		e.steps = 0
		env.ExecuteWorkflow(job.EraseWorkflow, in)
		require.True(t, env.IsWorkflowCompleted())
		require.LessOrEqual(t, e.steps, 250, "a run has a bounded history")
		runs++
		again, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
		if !ok {
			require.NoError(t, env.GetWorkflowError())
			return runs
		}
		in = job.EraseInput{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	}
}

// TestEraseManyThreads: an erasure of hundreds of threads continues as new, and forgets none.
func TestEraseManyThreads(t *testing.T) {
	e := &erasing{subs: map[string][]string{}, found: map[string]int{}}
	want := []string{"t1"}
	for i := range 40 {
		sub := fmt.Sprintf("t1.%d", i)
		e.subs["t1"], want = append(e.subs["t1"], sub), append(want, sub)
		for k := range 9 {
			e.subs[sub] = append(e.subs[sub], fmt.Sprintf("%s.%d", sub, k))
		}
		e.subs[sub] = append(e.subs[sub], "t1") // a circle
		want = append(want, e.subs[sub][:9]...)
	}
	runs := e.run(t, job.EraseInput{EraseStep: job.EraseStep{Namespace: "ns", ThreadID: "t1", By: "ann"}})
	require.Equal(t, 4, runs)
	require.False(t, e.early, "all are stopped before the first is deleted")
	require.ElementsMatch(t, want, e.deleted)
	require.Equal(t, "ann", e.finished.By)
	require.Equal(t, e.deleted, e.finished.Progress.Threads)
	require.Equal(t, 2*len(want), e.finished.Progress.Erased.Records, "what was found is counted once")
	require.Len(t, e.finished.Progress.Workflows, len(want))
	require.NotZero(t, e.finished.Progress.RequestedAt)
	require.Empty(t, e.finished.Progress.Beyond)
}

// TestEraseTooManyThreads: a thread that does not fit into an erasure is named.
func TestEraseTooManyThreads(t *testing.T) {
	e := &erasing{subs: map[string][]string{"last": {"t1", "one more", "two more"}}, found: map[string]int{}}
	progress := job.EraseProgress{Threads: []string{"t1"}, Stopped: job.MaxErasedThreads - 1, Deleted: job.MaxErasedThreads - 1}
	for len(progress.Threads) < job.MaxErasedThreads-1 {
		progress.Threads = append(progress.Threads, fmt.Sprintf("t1.%d", len(progress.Threads)))
	}
	progress.Threads = append(progress.Threads, "last")
	e.run(t, job.EraseInput{EraseStep: job.EraseStep{Namespace: "ns", ThreadID: "t1"}, Progress: &progress})
	require.Equal(t, []string{"last"}, e.deleted)
	require.Len(t, e.finished.Progress.Threads, job.MaxErasedThreads)
	require.Equal(t, "one more", e.finished.Progress.Beyond)
}
