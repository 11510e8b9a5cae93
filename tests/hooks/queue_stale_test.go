package hooks

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// stepsOnly is a worker without workflows.
type stepsOnly struct{ worker.Worker }

// TestStaleAfter checks the bounds of the setting.
func TestStaleAfter(t *testing.T) {
	t.Parallel()
	var base threadmill.Config
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { base = *c }})
	for _, tt := range []struct {
		limit time.Duration
		fits  bool
	}{{0, true}, {10 * time.Second, true}, {5 * time.Minute, true}, {9 * time.Second, false}, {-time.Second, false}} {
		t.Run("S2-49 "+tt.limit.String(), func(t *testing.T) {
			cfg := base
			cfg.StaleAfter = tt.limit
			_, err := threadmill.New(cfg)
			if tt.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "Config.StaleAfter is "+tt.limit.String()+", must be at least 10s")
		})
	}
	t.Run("S2-49 by default", func(t *testing.T) {
		id := w.Open()
		check.Say(w, id, "hello")
		require.Equal(t, []time.Duration{12 * time.Second}, silences(w, id))
	})
}

// silences are the heartbeat timeouts of a thread's steps.
func silences(w *harness.Harness, id string) (out []time.Duration) {
	for _, e := range check.HistoryOf(w, id, "") {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			out = append(out, a.GetHeartbeatTimeout().AsDuration())
		}
	}
	return out
}

func (stepsOnly) RegisterWorkflowWithOptions(any, workflow.RegisterOptions) {}

// workOnSteps runs a worker for activities only, until stop is called or the test ends.
func workOnSteps(t *testing.T, r *threadmill.Runtime, c client.Client, queue string) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{DisableWorkflowWorker: true})
	r.Register(stepsOnly{w})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// TestStaleSteps loses a worker during two steps: one with a short timeout and one with a long one.
func TestStaleSteps(t *testing.T) {
	t.Parallel()
	asked, letGo := make(chan hook.Context, 100), make(chan struct{})
	defer close(letGo)
	var lost atomic.Bool
	slow := hook.OnEvent("slow", func(ctx context.Context, _ event.Event) (hook.Result, error) {
		asked <- hook.DepsOf(ctx).Context
		if !lost.Load() {
			<-letGo
		}
		return hook.Pass(), nil
	})
	slow.Filter.CreatedBy, slow.Timeout = []event.CreatedBy{event.CreatedByUser}, time.Hour
	var base threadmill.Config
	w := harness.New(t, harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) {
		c.Hooks = []hook.Hook{slow}
		base = *c
	}})
	proxy := proc.NewProxy(t, w.Server.Addr())
	doomed, err := client.Dial(client.Options{
		HostPort: proxy.Addr, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience},
	})
	require.NoError(t, err)
	t.Cleanup(doomed.Close)

	runtimes := map[string]*threadmill.Runtime{}
	for name, limit := range map[string]time.Duration{"soon": 10 * time.Second, "late": time.Hour} {
		cfg := base
		cfg.StaleAfter, cfg.TaskQueue = limit, base.TaskQueue+"-"+name
		r, err := threadmill.New(cfg)
		require.NoError(t, err)
		turns := worker.New(w.Temporal, cfg.TaskQueue, worker.Options{LocalActivityWorkerOnly: true})
		r.Register(turns)
		require.NoError(t, turns.Start())
		t.Cleanup(turns.Stop)
		workOnSteps(t, r, doomed, cfg.TaskQueue)
		runtimes[name] = r
		require.NoError(t, r.Client().Open(w.Ctx(), name, signals.Start{}, nil))
		for _, eventID := range []string{"e1", "e2"} {
			_, err := r.Client().Post(w.Ctx(), name, check.Message(name, eventID, eventID))
			require.NoError(t, err)
		}
	}
	first := map[string]hook.Context{}
	for range runtimes {
		c := <-asked
		first[c.ThreadID] = c
	}
	require.Len(t, first, 2, "the worker is at work on both")
	proxy.Cut()
	lost.Store(true)
	for name, r := range runtimes {
		workOnSteps(t, r, w.Temporal, base.TaskQueue+"-"+name)
	}

	t.Run("S2-48 S2-50 a step whose worker is lost is run again, and the thread goes on", func(t *testing.T) {
		again := <-asked
		require.Equal(t, first["soon"].Key(), again.Key(), "the same step")
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, "soon", w.Await("soon", "e2")).Status)
		require.Equal(t, []string{"ann: e1", "assistant: e1", "ann: e2", "assistant: e2"}, check.SaidIn(w, "soon"), "S2-51 with one effect")
		require.Len(t, check.OfType(w, "soon", event.TypeHook), 2)
	})
	t.Run("S2-50 one that is younger than that is left alone", func(t *testing.T) {
		for len(asked) > 0 {
			require.Equal(t, "soon", (<-asked).ThreadID)
		}
		it, processing, err := runtimes["late"].Client().Processing(w.Ctx(), "late")
		require.NoError(t, err)
		require.True(t, processing)
		require.Equal(t, "e1", it.ID)
	})
	t.Run("S2-49 as configured", func(t *testing.T) {
		for name, want := range map[string]time.Duration{"soon": 10 * time.Second, "late": time.Hour} {
			var limits []time.Duration
			events, err := check.RunHistory(w.Ctx(), w.Temporal, signals.HookWorkflowID(w.TaskQueue, name, "e1"), "")
			require.NoError(t, err)
			for _, e := range events {
				if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
					limits = append(limits, a.GetHeartbeatTimeout().AsDuration())
				}
			}
			require.Equal(t, []time.Duration{want}, limits, name)
		}
	})
	t.Run("S2-50 nor does it hold up its thread for good", func(t *testing.T) {
		require.NoError(t, runtimes["late"].Client().Control(w.Ctx(), "late", signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		out, err := runtimes["late"].Client().Turn(w.Ctx(), "late", signals.Post{ID: "e2"})
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "e2", out.Message.Content)
	})
	requireBlocked(w, "soon", nil, "e1", "e2")
	requireBlocked(w, "late", nil, "e2")
}
