package localsteps

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// guarded is a thread with a hook on the messages of people.
type guarded struct {
	*harness.Harness
	id string

	// begun receives each call for a message "wait". It ends when the test closes release, or its context ends.
	begun   chan struct{}
	release chan struct{}
	calls   atomic.Int64
	fails   atomic.Bool
}

// newGuarded returns a thread whose hook has been quick.
func newGuarded(t *testing.T) *guarded {
	t.Parallel()
	g := &guarded{begun: make(chan struct{}, 10), release: make(chan struct{})}
	g.Harness = harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		c.Hooks = []hook.Hook{{Name: "guard", Timeout: testenv.Patience, Filter: hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}, Func: g.guard}}
	}})
	g.id = g.Open()
	check.Paced(g.Harness, g.id, func() { g.SayBySignal(g.id, "hello") })
	require.Eventually(t, func() bool {
		g.Say(g.id, "hello")
		run := g.lastRun()
		return len(check.LocalSteps(run)) > 0 && !check.Scheduled(run)
	}, testenv.Patience, testenv.Tick)
	g.calls.Store(0)
	return g
}

func (g *guarded) guard(ctx context.Context, e event.Event) (hook.Result, error) {
	g.calls.Add(1)
	switch content := e.(event.MessageEvent).Message.Content; {
	case content == "wait":
		g.begun <- struct{}{}
		select {
		case <-g.release:
			if g.fails.Load() && hook.DepsOf(ctx).Context.Attempt == 1 {
				return hook.Result{}, errors.New("failed once")
			}
			return hook.Respond(hook.Response{Content: "released"}), nil
		case <-ctx.Done():
			return hook.Result{}, ctx.Err()
		}
	case strings.HasPrefix(content, "fail") && hook.DepsOf(ctx).Context.Attempt == 1:
		return hook.Result{}, errors.New("failed once")
	}
	return hook.Pass(), nil
}

// fill adds events to the thread's history until the workflow knows of so many.
func (g *guarded) fill(events int) {
	g.T.Helper()
	require.Eventually(g.T, func() bool {
		for range 20 {
			require.NoError(g.T, g.Temporal.SignalWorkflow(g.Ctx(), signals.WorkflowID(g.TaskQueue, g.id), "", "nothing", nil))
		}
		all := check.HistoryOf(g.Harness, g.id, "")
		return len(all) > events && has(all[events:], enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	}, testenv.Patience, testenv.Tick)
}

// lastRun returns the history of the thread's last hook workflow.
func (g *guarded) lastRun() []*history.HistoryEvent {
	g.T.Helper()
	var id string
	for _, e := range check.HistoryOf(g.Harness, g.id, "") {
		if started := e.GetChildWorkflowExecutionStartedEventAttributes(); started != nil {
			id = started.GetWorkflowExecution().GetWorkflowId()
		}
	}
	events, err := check.RunHistory(g.Ctx(), g.Temporal, id, "")
	require.NoError(g.T, err)
	return events
}

// TestLocalHooks: hook functions that are usually quick run as local activities of the hook workflow.
func TestLocalHooks(t *testing.T) {
	t.Run("one that takes longer goes on in its process, and Temporal sees it", func(t *testing.T) {
		g := newGuarded(t)
		posted := g.Post(g.id, "wait")
		check.Arrives(t, g.begun, "the hook")
		require.Eventually(t, func() bool { return check.Scheduled(g.lastRun()) }, testenv.Patience, testenv.Tick)
		close(g.release)
		require.Equal(t, signals.TurnCompleted, g.Await(g.id, posted).Status)
		require.EqualValues(t, 1, g.calls.Load(), "it was not called again")
		require.True(t, strings.HasPrefix(queueOf(g.lastRun()), g.TaskQueue+"/"), "on the task queue of the process")

		g.Say(g.id, "hello")
		require.Empty(t, check.LocalSteps(g.lastRun()), "the hook is not quick any more")
	})
	t.Run("one that an interrupt stops is not called again", func(t *testing.T) {
		g := newGuarded(t)
		posted := g.Post(g.id, "wait")
		check.Arrives(t, g.begun, "the hook")
		require.NoError(t, g.Threads.Control(g.Ctx(), g.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, g.Await(g.id, posted).Status)
		require.Eventually(t, func() bool { return has(g.lastRun(), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED) }, testenv.Patience, testenv.Tick)
		require.EqualValues(t, 1, g.calls.Load())
	})
	t.Run("one during which the thread would continue as new is called once", func(t *testing.T) {
		g := newGuarded(t)
		const rollover = 1000 // events
		g.fill(rollover - 120)
		posted := g.Post(g.id, "wait")
		check.Arrives(t, g.begun, "the hook")
		g.fill(rollover)
		close(g.release)
		require.Equal(t, signals.TurnCompleted, g.Await(g.id, posted).Status)
		require.EqualValues(t, 1, g.calls.Load())
	})
	t.Run("one that fails after a while is not quick", func(t *testing.T) {
		g := newGuarded(t)
		posted := g.Post(g.id, "wait")
		check.Arrives(t, g.begun, "the hook")
		require.Eventually(t, func() bool { return check.Scheduled(g.lastRun()) }, testenv.Patience, testenv.Tick)
		g.fails.Store(true)
		close(g.release)
		require.Equal(t, signals.TurnCompleted, g.Await(g.id, posted).Status)
		g.Say(g.id, "hello")
		require.Empty(t, check.LocalSteps(g.lastRun()))
	})
	t.Run("one that fails is retried by an activity", func(t *testing.T) {
		g := newGuarded(t)
		posted := g.Post(g.id, "fail")
		require.Equal(t, signals.TurnCompleted, g.Await(g.id, posted).Status)
		require.Len(t, check.LocalSteps(g.lastRun()), 1)
		require.True(t, check.Scheduled(g.lastRun()))
		require.EqualValues(t, 2, g.calls.Load())
	})
}
