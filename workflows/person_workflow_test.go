package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// people are the steps of the erasure of a person. left are the threads that have something of the person.
type people struct {
	left     map[string]bool // alone or not
	writes   int             // how many looks find that the person has written again
	looks    int
	finished []job.PersonFinish

	// fails are the errors of the next attempts at threads, and slow is how long the erasure of a whole thread takes. done are the threads
	// that were handled, in their order, and attempts counts the attempts.
	fails    map[string][]error
	slow     time.Duration
	done     []string
	attempts map[string]int
}

func (p *people) find(_ context.Context, in job.PersonStep) (out job.FoundPerson, err error) {
	p.looks++
	if p.looks <= p.writes {
		p.left["again"] = false
	}
	var ids []string
	for id := range p.left {
		if id > in.ThreadID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > 100 {
		ids = ids[:100]
		out.Next = ids[99]
	}
	out.Threads = ids
	return out, nil
}

func (p *people) forget(_ context.Context, in job.PersonStep) (job.ForgotPerson, error) {
	if p.attempts == nil {
		p.attempts = map[string]int{}
	}
	p.attempts[in.ThreadID]++
	if fails := p.fails[in.ThreadID]; len(fails) > 0 {
		p.fails[in.ThreadID] = fails[1:]
		return job.ForgotPerson{}, fails[0]
	}
	p.done = append(p.done, in.ThreadID)
	alone := p.left[in.ThreadID]
	if !alone {
		delete(p.left, in.ThreadID)
	}
	return job.ForgotPerson{Counts: signals.PersonCounts{Records: 2}, Alone: alone}, nil
}

func (p *people) finish(_ context.Context, in job.PersonFinish) (signals.PersonErasure, error) {
	p.finished = append(p.finished, in)
	return signals.PersonErasure{ID: in.ID}, nil
}

func (p *people) run(t *testing.T) (runs int, err error) {
	t.Helper()
	in := job.ErasePersonInput{PersonStep: job.PersonStep{Namespace: "ns", ID: "e1", By: "carol"}}
	for {
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(testenv.Patience)
		env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
		env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in job.EraseInput) (signals.Erasure, error) {
			delete(p.left, in.ThreadID)
			return signals.Erasure{}, workflow.Sleep(ctx, p.slow)
		}, workflow.RegisterOptions{Name: job.EraseWorkflow})
		(&workflows.Workflows{}).Register(without{env, job.EraseWorkflow})
		for name, do := range map[string]any{job.ActivityPersonFind: p.find, job.ActivityPersonForget: p.forget, job.ActivityPersonFinish: p.finish} {
			env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
		}
		env.ExecuteWorkflow(job.ErasePersonWorkflow, in)
		require.True(t, env.IsWorkflowCompleted())
		runs++
		again, ok := errors.AsType[*workflow.ContinueAsNewError](env.GetWorkflowError())
		if !ok {
			return runs, env.GetWorkflowError()
		}
		in = job.ErasePersonInput{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	}
}

// without registers all workflows but one.
type without struct {
	workflows.Registrar
	name string
}

func (r without) RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions) {
	if options.Name != r.name {
		r.Registrar.RegisterWorkflowWithOptions(w, options)
	}
}

// TestErasePersonInManyThreads: the erasure of a person continues as new, forgets no thread, and ends when a look at all finds nothing.
func TestErasePersonInManyThreads(t *testing.T) {
	p := &people{left: map[string]bool{}}
	for i := range 700 {
		p.left[fmt.Sprintf("t%04d", i)] = i%7 == 0
	}
	runs, err := p.run(t)
	require.NoError(t, err)
	require.Equal(t, 3, runs)
	require.Empty(t, p.left)
	require.Len(t, p.finished, 1)
	done := p.finished[0].Progress
	require.Len(t, done.Erased, 100)
	require.Len(t, done.Forgot, 600)
	require.Equal(t, 1400, done.Counts.Records, "what was found is counted once")
	require.NotZero(t, done.RequestedAt)
	require.Equal(t, "carol", p.finished[0].By)
}

// TestErasePersonWhoWrites: the erasure of a person who goes on writing ends when that ends.
func TestErasePersonWhoWrites(t *testing.T) {
	p := &people{left: map[string]bool{}, writes: 30}
	_, err := p.run(t)
	require.NoError(t, err)
	require.Equal(t, 31, p.looks)
	require.Equal(t, []string{"again"}, p.finished[0].Progress.Forgot)
}

// TestErasePersonGoesOn: a thread that cannot be finished lets the others go on, and is finished later; so is one whose erasure takes long.
// There is no receipt before.
func TestErasePersonGoesOn(t *testing.T) {
	left := temporal.NewApplicationError("its task runs", step.ErrTypeLeft)
	broken := errors.New("a record cannot be read")
	p := &people{
		left: map[string]bool{"a": false, "b": false, "c": true, "d": false}, slow: time.Hour,
		fails: map[string][]error{"a": {left, left, left}, "b": {broken, broken, broken, broken, broken, broken}, "c": nil},
	}
	_, err := p.run(t)
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, p.done[:2], "they do not wait for the others")
	require.Equal(t, map[string]int{"a": 4, "b": 7, "c": 2, "d": 1}, p.attempts, "the others are tried again a few times at once, and then later")
	require.Len(t, p.finished, 1)
	done := p.finished[0].Progress
	require.ElementsMatch(t, []string{"a", "b", "d"}, done.Forgot)
	require.Equal(t, []string{"c"}, done.Erased)
	require.Empty(t, done.Waiting)
	require.Equal(t, 8, done.Counts.Records, "what was found is counted once")

	p = &people{left: map[string]bool{"a": false}, fails: map[string][]error{"a": {temporal.NewNonRetryableApplicationError("no histories", step.ErrTypeConfig, nil)}}}
	_, err = p.run(t)
	require.ErrorContains(t, err, "no histories", "what the configuration lacks ends the erasure")
}
