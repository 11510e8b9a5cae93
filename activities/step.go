package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/stream"
)

var (
	// errInterrupted is the cause of an interrupt.
	errInterrupted = errors.New("interrupted")
	// errShutdown is the cause when the worker stops; another worker retries the step.
	errShutdown = errors.New("the worker is shutting down")
	// errTimeout is the cause when the step exceeds its own time limit.
	errTimeout = errors.New("time limit reached")
	// errSlow is the cause when no part of a model's reply arrives in time.
	errSlow = errors.New("no part of the reply in time")
	// errTooLarge is the cause when a model's reply exceeds its limit.
	errTooLarge = errors.New("the reply is too large")
)

// step is a running model call or tool call. Its context is cancelled with one of the causes above.
type runningStep struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   func()
}

// begin starts a step: it sends heartbeats while the step runs, and cancels it on a notice from the
// live stream, on cancellation by the server, and after timeout.
func (a *Activities) begin(ctx context.Context, ref step.Ref, traceID string, timeout time.Duration) *runningStep {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopListening, err := a.cfg.Stream.Listen(ctx, ref, func(n stream.Notice) {
		switch {
		case n.Arrived:
			arrived(ctx)
		case n.TraceID == "" || n.TraceID == traceID:
			cancel(errInterrupted)
		}
	})
	if err != nil {
		// Without notices, cancellation arrives later, with a heartbeat.
		a.log.WarnContext(ctx, "listening for interrupts", "thread", ref.ThreadID, "error", err)
		stopListening = func() {}
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(ctx, cancel, timeout, ended) })
	return &runningStep{ctx: inner, cancel: cancel, done: func() {
		close(ended)
		watching.Wait()
		stopListening()
		cancel(nil)
	}}
}

// within cancels the step unless began is called within limit. 0 = no limit.
func (s *runningStep) within(limit time.Duration) (began func()) {
	if limit == 0 {
		return func() {}
	}
	late := time.AfterFunc(limit, func() { s.cancel(errSlow) })
	return func() { late.Stop() }
}

func (a *Activities) watch(ctx context.Context, cancel context.CancelCauseFunc, timeout time.Duration, ended <-chan struct{}) {
	beat := time.NewTicker(HeartbeatEvery)
	defer beat.Stop()
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	cancelled, stopping := ctx.Done(), activity.GetWorkerStopChannel(ctx)
	var stopped <-chan time.Time
	for {
		select {
		case <-ended:
			return
		case <-beat.C:
			if !activity.GetInfo(ctx).IsLocalActivity {
				activity.RecordHeartbeat(ctx)
			}
		case <-limit.C:
			cancel(errTimeout)
		case <-stopping:
			// The worker cancels ctx in the end, but then does not wait, and the result of the step
			// would be lost.
			stopping = nil
			drained := time.NewTimer(a.cfg.StopTimeout)
			defer drained.Stop()
			stopped = drained.C
		case <-stopped:
			cancel(errShutdown)
		case <-cancelled:
			cancelled = nil
			cancel(whyCancelled(ctx))
		}
	}
}

// whyCancelled distinguishes an interrupt from a worker that stops and from an attempt that the
// server has given up.
func whyCancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errShutdown), errors.Is(cause, errNotJoined):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return errTimeout
	case activity.GetInfo(ctx).IsLocalActivity, temporal.IsCanceledError(cause):
		return errInterrupted
	}
	return errShutdown
}

// beating sends heartbeats with these details until it is stopped. Local activities have none.
func beating(ctx context.Context, details ...any) (stop func()) {
	if activity.GetInfo(ctx).IsLocalActivity {
		return func() {}
	}
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		beat := time.NewTicker(HeartbeatEvery)
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
				activity.RecordHeartbeat(ctx, details...)
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		done.Wait()
	}
}
