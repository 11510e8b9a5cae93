package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/stream"
)

const (
	// holdFor is how long a step holds the workflow task as a local activity: signals and updates wait for
	// the workflow task. A notice that one of them has arrived ends the hold.
	holdFor = 1500 * time.Millisecond

	// holdInAll is how long the steps of a workflow task, one after the other, hold it.
	holdInAll = 2 * time.Second

	// joinWithin is how long a step that no longer holds the workflow task waits for an activity to join it.
	joinWithin = 30 * time.Second
)

// errNotJoined is the cause when no activity joins a step.
var errNotJoined = errors.New("no activity has joined the step")

// underway contains the steps that began as local activities and have not been told their result yet.
type underway struct {
	mu       sync.Mutex
	steps    map[string]*localStep
	holding  sync.WaitGroup
	unjoined sync.WaitGroup
	draining bool

	// holdFor and joinWithin are the constants of these names, or a test's.
	holdFor, joinWithin time.Duration

	// joinOn is the task queue of this process. Empty = it has none.
	joinOn string
}

// localStep is a step that began as a local activity. An activity joins it if it takes long.
type localStep struct {
	cancel context.CancelCauseFunc

	// letGo is closed when the step must no longer hold the workflow task.
	letGo     chan struct{}
	letGoOnce sync.Once

	// ended is closed when reply and err are the result.
	ended chan struct{}
	reply any
	err   error

	// joined is closed when an activity waits for the result.
	joined     chan struct{}
	joinedOnce sync.Once
}

// release ends the hold of the workflow task.
func (s *localStep) release() { s.letGoOnce.Do(func() { close(s.letGo) }) }

type localStepKey struct{}

// arrived has the step of ctx no longer hold the workflow task, if it does.
func arrived(ctx context.Context) {
	if s, ok := ctx.Value(localStepKey{}).(*localStep); ok {
		s.release()
	}
}

// runStep runs the step of an id as an activity or as a local activity. A local activity returns after
// [holdFor] at the latest, even if the step still runs. The activity of the same step that follows joins it.
func runStep[R any, P interface {
	*R
	Lasts() *step.Underway
}](ctx context.Context, a *Activities, ref step.Ref, in step.Local, id string, run func(context.Context) (R, error)) (reply R, err error) {
	u, key := &a.underway, ref.Namespace+"/"+ref.ThreadID+"/"+id
	timed := func(ctx context.Context) (R, error) {
		reply, err := run(ctx)
		if lasts := P(&reply).Lasts(); lasts.Took == 0 && a.localSteps() {
			lasts.Took = step.TookUnknown
		}
		return reply, err
	}
	if !activity.GetInfo(ctx).IsLocalActivity {
		if s := u.join(key); s != nil {
			return await[R](ctx, u, key, s)
		}
		return timed(ctx)
	}
	if u.joinOn == "" && !in.Quick {
		return reply, temporal.NewApplicationError("Nothing could join the step if it took longer; an activity runs it.", step.ErrTypeRetry)
	}
	s, holds := u.hold(key, func(s *localStep) {
		ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), localStepKey{}, s))
		s.cancel = cancel
		go s.run(ctx, func(ctx context.Context) (any, error) { return timed(ctx) })
	})
	switch {
	case s == nil:
		return reply, temporal.NewApplicationError("The worker is stopping; another one runs the step.", step.ErrTypeRetry)
	case !holds:
		*P(&reply).Lasts() = step.Underway{Running: true, JoinOn: u.joinOn}
		return reply, nil
	}
	defer u.holding.Done()
	late := time.NewTimer(min(u.holdFor, holdInAll-in.Held))
	defer late.Stop()
	select {
	case <-s.ended:
		u.forget(key, s)
		return endOf[R](s)
	case <-s.letGo:
	case <-late.C:
	case <-ctx.Done():
	}
	u.unjoined.Go(func() { u.awaitJoin(key, s) })
	*P(&reply).Lasts() = step.Underway{Running: true, JoinOn: u.joinOn}
	return reply, nil
}

// run runs the step to its end. A panic is its error: it must not end the worker.
func (s *localStep) run(ctx context.Context, run func(context.Context) (any, error)) {
	defer close(s.ended)
	defer func() {
		if problem := recover(); problem != nil {
			s.err = fmt.Errorf("the step panicked: %v\n%s", problem, debug.Stack())
		}
	}()
	s.reply, s.err = run(ctx)
}

// await waits for the result of a step that began as a local activity.
func await[R any](ctx context.Context, u *underway, key string, s *localStep) (reply R, err error) {
	defer u.forget(key, s)
	defer beating(ctx)()
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.cancel(whyCancelled(ctx))
		<-s.ended
	}
	return endOf[R](s)
}

// endOf returns the result of a step that has ended.
func endOf[R any](s *localStep) (R, error) {
	reply, ok := s.reply.(R)
	if !ok && s.err == nil {
		return reply, fmt.Errorf("the step's result is a %T", s.reply) // two steps have one key
	}
	return reply, s.err
}

// hold returns the step of a key, which start starts if it does not run yet, and whether it holds the workflow task. A worker that is
// stopping starts none.
func (u *underway) hold(key string, start func(*localStep)) (s *localStep, holds bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.draining {
		return u.steps[key], false
	}
	u.holding.Add(1)
	if s := u.steps[key]; s != nil {
		return s, true
	}
	s = &localStep{letGo: make(chan struct{}), ended: make(chan struct{}), joined: make(chan struct{})}
	if u.steps == nil {
		u.steps = map[string]*localStep{}
	}
	u.steps[key] = s
	start(s)
	return s, true
}

func (u *underway) join(key string) *localStep {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.steps[key]
	if s != nil {
		s.joinedOnce.Do(func() { close(s.joined) })
	}
	return s
}

func (u *underway) forget(key string, s *localStep) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[key] == s {
		delete(u.steps, key)
	}
}

// awaitJoin waits until an activity joins a step that no longer holds the workflow task. If none does, its thread no longer
// needs it.
func (u *underway) awaitJoin(key string, s *localStep) {
	late := time.NewTimer(u.joinWithin)
	defer late.Stop()
	select {
	case <-s.joined:
	case <-late.C:
		s.cancel(errNotJoined)
		u.forget(key, s)
	}
}

// JoinOn sets a task queue that only this process serves: the activities that join steps which began as local
// activities run there. Without it, steps are activities unless their tools are declared as quick.
// It must be called before a worker runs.
func (a *Activities) JoinOn(queue string) { a.underway.joinOn, a.underway.draining = queue, false }

// Drain has steps run as activities from now on, and waits until no step holds a workflow task. A worker
// that stops earlier loses these workflow tasks: Temporal gives them out again after their timeout.
func (a *Activities) Drain() {
	a.underway.mu.Lock()
	a.underway.draining = true
	a.underway.mu.Unlock()
	a.underway.holding.Wait()
}

// AwaitJoins waits until activities have joined the steps that no longer hold a workflow task, or would have: see
// [step.JoinWithin]. The worker of [Activities.JoinOn] must run until then.
func (a *Activities) AwaitJoins() {
	joined := make(chan struct{})
	go func() {
		a.underway.unjoined.Wait()
		close(joined)
	}()
	late := time.NewTimer(step.JoinWithin)
	defer late.Stop()
	select {
	case <-joined:
	case <-late.C:
	}
}

// attemptsShown returns the highest attempt at a message of which viewers may have seen a part, 0 if there is none.
func (a *Activities) attemptsShown(ctx context.Context, ref step.Ref, messageID string) (highest int) {
	sub, err := a.cfg.Stream.Subscribe(ctx, ref, stream.From{})
	if err != nil {
		a.log.WarnContext(ctx, "reading the live log for earlier attempts", "thread", ref.ThreadID, "error", err)
		return 0
	}
	defer sub.Close()
	for last, at := sub.Start().Last, int64(0); at < last; {
		e, err := sub.Next(ctx)
		if err != nil {
			return highest
		}
		if at = e.Offset; e.Event != nil && e.Event.MessageID == messageID {
			highest = max(highest, e.Event.Attempt)
		}
	}
	return highest
}

// took returns the duration of a step that may run as a local activity, or 0 if none may.
func (a *Activities) took(began time.Time) int64 {
	if !a.localSteps() {
		return 0
	}
	return max(time.Since(began).Milliseconds(), 1)
}

// localSteps reports whether steps may run as local activities because they are quick.
func (a *Activities) localSteps() bool { return !a.cfg.NoLocalSteps && a.underway.joinOn != "" }
