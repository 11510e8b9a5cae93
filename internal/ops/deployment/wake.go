package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/threadmill/threadmill/signals"
)

const (
	// wakeEvery is the pause between two threads: waking them must not slow down those that people talk to.
	wakeEvery = 20 * time.Millisecond

	// A thread that stays although it was woken, such as one that does not yet know the new routing, is woken again after
	// firstPause, and after ever longer pauses: each time adds to its history.
	firstPause = 10 * time.Second
	lastPause  = time.Hour
)

// Waker wakes the idle threads of a build, so that they move. It is for one goroutine.
type Waker struct {
	Deployment Deployment
	Build      string

	woken map[string]attempt // by run
}

type attempt struct {
	again time.Time
	pause time.Duration
}

// Wake wakes each idle thread on the build, which then moves to the build on which it belongs. It leaves alone those with
// running steps, which move when these end, and those that an operator has pinned. It returns how many it has woken.
func (w *Waker) Wake(ctx context.Context) (woken int, err error) {
	if w.woken == nil {
		w.woken = map[string]attempt{}
	}
	seen := map[string]attempt{}
	for info, err := range w.Deployment.Threads(ctx, w.Build) {
		if err != nil {
			return woken, err
		}
		run := info.GetExecution().GetRunId()
		last, known := w.woken[run]
		seen[run] = last
		if known && time.Now().Before(last.again) {
			continue
		}
		did, err := w.wake(ctx, info)
		if err != nil {
			return woken, err
		}
		if !did {
			continue
		}
		woken++
		last.pause = min(max(firstPause, 2*last.pause), lastPause)
		last.again = time.Now().Add(last.pause)
		seen[run] = last
	}
	w.woken = seen
	return woken, nil
}

// wake wakes one thread, unless it runs a step or has gone.
func (w *Waker) wake(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) (bool, error) {
	select {
	case <-time.After(wakeEvery):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	id, run := info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId()
	d, err := w.Deployment.Client.DescribeWorkflowExecution(ctx, id, run)
	switch {
	case gone(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("describing workflow %q: %w", id, err)
	case len(d.GetPendingActivities()) > 0 || d.GetPendingWorkflowTask() != nil:
		return false, nil
	case d.GetWorkflowExecutionInfo().GetVersioningInfo().GetVersioningOverride() != nil:
		return false, nil
	}
	return true, w.Deployment.signal(ctx, id, run)
}

// signal wakes a workflow, unless it has gone.
func (d Deployment) signal(ctx context.Context, id, run string) error {
	if err := d.Client.SignalWorkflow(ctx, id, run, signals.SignalWake, nil); err != nil && !gone(err) {
		return fmt.Errorf("waking workflow %q: %w", id, err)
	}
	return nil
}

// gone reports whether a run has ended.
func gone(err error) bool {
	_, missing := errors.AsType[*serviceerror.NotFound](err)
	return missing
}

// lookEvery is how often, on average, a worker looks whether its build is the current one, or idle threads should leave it.
const lookEvery = 20 * time.Second

// lookKey is the key of another interval in a context.
type lookKey struct{}

// LookEvery returns a context whose workers look at the deployment at another interval, for tests that wait for it.
func LookEvery(ctx context.Context, every time.Duration) context.Context {
	return context.WithValue(ctx, lookKey{}, every)
}

// Follow looks at the deployment at intervals until ctx ends. It calls became whenever the build has become the current one, and
// moves idle threads away while the build gets no more of them. All workers of the build do, at different times: those that come
// late find less.
func (w *Waker) Follow(ctx context.Context, became func(), log *slog.Logger) {
	every, set := ctx.Value(lookKey{}).(time.Duration)
	if !set {
		every = lookEvery
	}
	// Another build may have been the current one between two looks.
	for since := (time.Time{}); ; {
		status, err := w.Deployment.Describe(ctx)
		switch {
		case errors.Is(err, ErrNotFound):
			err = nil // no worker of this build has polled yet
		case err == nil:
			if status.Current == w.Build && !status.Since.Equal(since) {
				since = status.Since
				became()
			}
			if status.Left(w.Build) {
				var n int
				if n, err = w.Wake(ctx); n > 0 {
					log.Info("idle threads move to another build", "threads", n, "build", w.Build, "current", status.Current)
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("this build looks at the deployment again: threads may stay on it that belong elsewhere", "build", w.Build, "error", err)
		}
		select {
		case <-time.After(every/2 + rand.N(every)):
		case <-ctx.Done():
			return
		}
	}
}
