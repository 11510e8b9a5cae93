package tests

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/queueowner"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// seeing returns a hook that counts the messages of people that it sees.
func seeing(name string, n *atomic.Int64) hook.Hook {
	return hook.OnMessage(name, func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		if m.CreatedBy == event.CreatedByUser {
			n.Add(1)
		}
		return hook.Pass(), nil
	})
}

// running runs a second runtime of a task queue until stop is called, which returns its error.
func running(t *testing.T, r *threadmill.Runtime) (stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan error, 1)
	go func() { out <- r.Run(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-out
	}, out
}

// TestTaskQueueIsOfOneProgram: beside a program whose hook sees each message, nothing with another name or another store polls, with or
// without the same hook.
func TestTaskQueueIsOfOneProgram(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*testing.T, *threadmill.Config){
		"another program":                func(_ *testing.T, c *threadmill.Config) { c.Program = "example.com/other" },
		"another program without a hook": func(_ *testing.T, c *threadmill.Config) { c.Program, c.Hooks = "example.com/other", nil },
		"another store":                  func(t *testing.T, c *threadmill.Config) { c.Store = emptyStore(t) },
		"another store without a hook":   func(t *testing.T, c *threadmill.Config) { c.Store, c.Hooks = emptyStore(t), nil },
		"another program, store and hook": func(t *testing.T, c *threadmill.Config) {
			c.Program, c.Store, c.Hooks = "example.com/other", emptyStore(t), nil
		},
		"another build of another program": func(_ *testing.T, c *threadmill.Config) {
			c.Program, c.Hooks, c.Deployment = "example.com/other", nil, threadmill.Deployment{Build: "b2"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.Hooks = []hook.Hook{seeing("sees", &seen)} }})
			thread := w.Open()
			check.Say(w, thread, "first")
			other := w.Beside(func(c *threadmill.Config) { configure(t, c) })
			_, ended := running(t, other)
			err := <-ended
			require.ErrorIs(t, err, queueowner.ErrForeign)
			require.ErrorContains(t, err, `task queue "`+w.TaskQueue+`" is that of program `+queueowner.Program()+" with store ")
			require.ErrorContains(t, err, "; this is program ")
			require.ErrorContains(t, err, "--take-task-queue")
			for i := range 5 {
				check.Say(w, thread, fmt.Sprint("message ", i))
			}
			require.EqualValues(t, 6, seen.Load())
		})
	}
}

func emptyStore(t *testing.T) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "other.db")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTaskQueueOfOpenThreads: a queue without a worker remains its program's while threads are open there, unless it is taken.
func TestTaskQueueOfOpenThreads(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{NoWorker: true})
	stop := w.StartWorker()
	thread := w.Open()
	check.Say(w, thread, "first")
	stop()
	other := w.Beside(func(c *threadmill.Config) { c.Program = "example.com/other" })
	_, ended := running(t, other)
	require.ErrorContains(t, <-ended, "this is program example.com/other with store ")

	heir := w.Beside(func(c *threadmill.Config) { c.Program, c.TakeTaskQueue = "example.com/other", true })
	stopHeir, _ := running(t, heir)
	check.Say(w, thread, "second")
	check.Closed(t, w, thread)
	require.NoError(t, stopHeir())

	back, ended := running(t, w.Runtime)
	w.Threads = w.Runtime.Client()
	thread = w.Open()
	select {
	case err := <-ended:
		require.NoError(t, err, "nothing of the other program was left")
	default:
	}
	check.Say(w, thread, "third")
	require.NoError(t, back())
}

// TestTaskQueueOfNewConfiguration: a program that is configured anew takes its queue over, the workers before it pause and tell so, and
// continue when the first configuration comes back.
func TestTaskQueueOfNewConfiguration(t *testing.T) {
	t.Parallel()
	var old, later atomic.Int64
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.Hooks = []hook.Hook{seeing("old", &old)} }})
	thread := w.Open()
	check.Say(w, thread, "first")
	next := w.Beside(func(c *threadmill.Config) { c.Hooks = []hook.Hook{seeing("later", &later)} })
	stopNext, _ := running(t, next)
	ready := func() (any, any) {
		status, health := check.Request(t, w, http.MethodGet, "/readyz", nil)
		require.Equal(t, http.StatusOK, status)
		problem, _ := health["components"].(map[string]any)["taskQueue"]
		return health["status"], problem
	}
	require.Eventually(t, func() bool {
		status, problem := ready()
		return status == "degraded" && problem != nil
	}, testenv.Patience, testenv.Tick)
	_, problem := ready()
	require.Contains(t, problem, "the workers of this process pause")
	before := old.Load()
	for i := range 5 {
		check.Say(w, thread, fmt.Sprint("message ", i))
	}
	require.Equal(t, before, old.Load(), "the first configuration decides no more")
	require.EqualValues(t, 5, later.Load())

	check.Closed(t, w, thread)
	require.NoError(t, stopNext())
	require.Eventually(t, func() bool {
		status, problem := ready()
		return status == "ok" && problem == nil
	}, testenv.Patience, testenv.Tick)
	check.Say(w, w.Open(), "last")
	require.Equal(t, before+1, old.Load())
}

// TestTaskQueueOfStrangers: a worker that does not ask whose the queue is, is told of by the checks.
func TestTaskQueueOfStrangers(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	found := func() (status, detail string) {
		_, answer := check.Request(t, w, http.MethodGet, "/v1/checks", nil)
		for _, f := range answer["findings"].([]any) {
			if one := f.(map[string]any); one["check"] == "task queue" {
				return one["status"].(string), one["detail"].(string)
			}
		}
		return "", ""
	}
	check.Say(w, w.Open(), "first")
	status, detail := found()
	require.Equal(t, string(doctor.OK), status, detail)
	require.Contains(t, detail, "belongs to program "+queueowner.Program())
	stranger := worker.New(w.Temporal, w.TaskQueue, worker.Options{Identity: "stranger"})
	stranger.RegisterWorkflow(func(workflow.Context) error { return nil })
	require.NoError(t, stranger.Start())
	t.Cleanup(stranger.Stop)
	require.Eventually(t, func() bool {
		status, detail = found()
		return status == string(doctor.Failed)
	}, testenv.Patience, testenv.Tick)
	require.Contains(t, detail, "is also polled by stranger: ")
	_, health := check.Request(t, w, http.MethodGet, "/readyz", nil)
	require.Equal(t, "degraded", health["status"])
	require.Contains(t, health["components"].(map[string]any)["taskQueue"], "is also polled by stranger: ")
}
