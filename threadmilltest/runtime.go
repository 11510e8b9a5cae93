package threadmilltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream/memory"
)

const (
	// patience bounds every wait, far above its duration on a busy machine.
	patience = 2 * time.Minute
	tick     = 5 * time.Millisecond

	// stopTimeout is short: what still runs when a test ends is of no use any more.
	stopTimeout = 100 * time.Millisecond

	// staleAfter is longer than a busy machine stalls, so that no step counts as lost and asks the
	// script twice.
	staleAfter = 40 * time.Second
)

// Runtime is a [threadmill.Runtime] with a running worker, for one test. Its methods wait for
// conditions and never for time, and fail the test with the transcript of the thread.
type Runtime struct {
	*threadmill.Runtime

	t       testing.TB
	log     *testLog
	world   *world
	threads *threads
}

// world is what the runtimes of a test share, see [Runtime.For].
type world struct {
	cfg      threadmill.Config
	temporal client.Client
	feed     *feed.Feed
}

// threads are the threads that a test has named, in order. The transcript of each is printed once if
// the test fails.
type threads struct {
	mu  sync.Mutex
	ids []string
}

// add adds a thread unless it was there.
func (s *threads) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.ids, id) {
		s.ids = append(s.ids, id)
	}
}

// take returns the threads and forgets them.
func (s *threads) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids
	s.ids = nil
	return ids
}

// New returns the runtime of a test, with a worker that runs until the test ends. The test fails if
// the configuration is invalid.
//
// These fields get other defaults than in [threadmill.New]: Temporal is a server in memory, which the
// tests of a binary share; Store is SQLite in memory; Namespace and TaskQueue are the test's own, so
// that parallel tests may use the same thread ids; Logger writes warnings and errors to the log of the
// test; Stream is one in memory; StopTimeout is 100 ms, and StaleAfter 40 s. Tests that set the same
// Namespace need thread ids of their own.
//
// If Models has a [scripted.Model], the test fails when the model is asked for what the script does not
// have, or ends without all of it.
//
// When the test ends, the worker stops, and New terminates all workflows and deletes all schedules of
// the runtime, whatever they wait for.
func New(t testing.TB, cfg threadmill.Config) *Runtime {
	t.Helper()
	name := "test-" + signals.NewID()
	cfg.Namespace, cfg.TaskQueue = cmp.Or(cfg.Namespace, name), cmp.Or(cfg.TaskQueue, name)
	cfg.StopTimeout, cfg.StaleAfter = cmp.Or(cfg.StopTimeout, stopTimeout), cmp.Or(cfg.StaleAfter, staleAfter)
	log := newTestLog(t)
	if cfg.Logger == nil {
		cfg.Logger = log.logger()
	}
	if cfg.Temporal == nil {
		cfg.Temporal = dial(t, cfg.Logger)
	}
	if cfg.Store == nil {
		s, err := sqlite.Open(context.WithoutCancel(t.Context()), sqlite.Config{})
		if err != nil {
			t.Fatalf("threadmilltest: opening a store in memory: %v", err)
		}
		t.Cleanup(func() { _ = s.Close() })
		cfg.Store = s
	}
	if cfg.Stream == nil {
		s := memory.New(memory.Config{})
		t.Cleanup(func() { _ = s.Close() })
		cfg.Stream = s
	}
	made, err := threadmill.New(cfg)
	if err != nil {
		t.Fatalf("threadmilltest: %v", err)
	}
	shown, err := feed.New(feed.Config{Store: cfg.Store, Stream: cfg.Stream, Logger: cfg.Logger})
	if err != nil {
		t.Fatalf("threadmilltest: %v", err)
	}
	r := &Runtime{Runtime: made, t: t, log: log, world: &world{cfg, cfg.Temporal, shown}, threads: &threads{}}
	r.run()
	r.follow()
	return r
}

// For returns the runtime for a test within the test, such as a subtest: its methods fail that one.
// The worker runs until the outer test ends.
func (r *Runtime) For(t testing.TB) *Runtime {
	inner := *r
	inner.t = t
	return &inner
}

// run runs the worker until the test ends.
func (r *Runtime) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		if r.t.Failed() {
			for _, id := range r.threads.take() {
				r.t.Logf("thread %q:\n\n%s", id, r.transcriptOrError(id))
			}
		}
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("threadmilltest: the worker: %v", err)
		}
		if err := r.clear(); err != nil {
			r.t.Errorf("threadmilltest: ending the threads of the test: %v", err)
		}
	})
}

// clear ends what the test has left: workflows and schedules.
func (r *Runtime) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	schedules, err := r.Client().Schedules(ctx, 0)
	for _, s := range schedules {
		err = errors.Join(err, r.Client().DeleteSchedule(ctx, s.ID))
	}
	if err != nil {
		return err
	}
	query := fmt.Sprintf("TaskQueue = %q AND ExecutionStatus = 'Running'", r.world.cfg.TaskQueue)
	for {
		open, err := r.world.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if err != nil || len(open.GetExecutions()) == 0 {
			return err
		}
		for _, w := range open.GetExecutions() {
			id := w.GetExecution()
			err := r.world.temporal.TerminateWorkflow(ctx, id.GetWorkflowId(), id.GetRunId(), "the test has ended")
			var gone *serviceerror.NotFound
			if err != nil && !errors.As(err, &gone) {
				return err
			}
		}
		if err := sleep(ctx); err != nil {
			return err // the list lags behind
		}
	}
}

// ctx returns a context that ends with the test, or after patience.
func (r *Runtime) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.t.Context(), patience)
}

// key is the key of a thread in the store.
func (r *Runtime) key(threadID string) store.Key {
	return store.Key{Namespace: r.Client().Namespace(), ThreadID: threadID}
}

// until waits until a condition holds, and otherwise fails the test.
func (r *Runtime) until(threadID, what string, holds func(ctx context.Context) (bool, error)) {
	r.t.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	var last error
	for {
		ok, err := holds(ctx)
		if ok && err == nil {
			return
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		if sleep(ctx) != nil {
			break
		}
	}
	if last != nil {
		what = fmt.Sprintf("%s: %v", what, last)
	}
	r.fatal(threadID, "waited in vain for %s", what)
}

func sleep(ctx context.Context) error {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fatal fails the test with a message and the transcript of the thread.
func (r *Runtime) fatal(threadID, format string, args ...any) {
	r.t.Helper()
	r.threads.take()
	r.t.Fatalf("thread %q: %s\n\n%s", threadID, fmt.Sprintf(format, args...), r.transcriptOrError(threadID))
}

// temporalNamespace is the runtime's namespace at Temporal.
func (r *Runtime) temporalNamespace() string {
	return cmp.Or(r.world.cfg.TemporalNamespace, client.DefaultNamespace)
}
