package faults

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// killed is a world whose workers a test kills.
type killed struct{ *killing.World }

type guards struct{ killing.Worker }

// TestFaultsOfHooks kills the worker with SIGKILL at every point of a turn with hooks: each
// decision counts once, and has one effect.
func TestFaultsOfHooks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"S2-51 before the hooks are asked":         killedBefore,
		"S2-51 while they are asked, and later on": killedMeanwhile,
		"S2-51 between decision and thread":        killedBetween,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// guarded is a kind of worker: it has hooks for messages of people and for results of tools.
func guarded(w killing.Worker, c *threadmill.Config) error {
	g := guards{w}
	guard := hook.Hook{Name: "guard", Timeout: testenv.Patience, Filter: hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByUser}}, Func: g.guard}
	seal := hook.Hook{Name: "seal", Timeout: testenv.Patience, Filter: hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByTool}}, Func: g.seal}
	c.Hooks = append([]hook.Hook{guard, seal}, c.Hooks...)
	return nil
}

// guard rejects events on request, and hides secrets.
func (g guards) guard(ctx context.Context, e event.Event) (hook.Result, error) {
	if err := g.Tell(ctx, "guard", hook.DepsOf(ctx).Context.Key()); err != nil {
		return hook.Result{}, err
	}
	m, ok := e.(event.MessageEvent)
	switch {
	case ok && strings.HasPrefix(m.Message.Content, "refuse"):
		return hook.Respond(hook.Response{Content: "refused", SenderType: event.CreatedBySystem, SenderID: "guard"}), nil
	case ok && strings.Contains(m.Message.Content, "secret"):
		// Assembled here, so that no other data of the process contains the text.
		m.Message.Content = strings.ReplaceAll(m.Message.Content, "secret", strings.Repeat("hidden", 2))
		return hook.Replace(m), nil
	}
	return hook.Pass(), nil
}

// seal marks the results of tools.
func (g guards) seal(ctx context.Context, e event.Event) (hook.Result, error) {
	m, ok := e.(event.MessageEvent)
	if !ok {
		return hook.Pass(), nil
	}
	m.Message.Content += " (sealed)"
	return hook.Replace(m), g.Tell(ctx, "seal", hook.DepsOf(ctx).Context.Key())
}

// hookKey is the key of a worker's hook in reports on an event.
func (k killed) hookKey(thread, eventID, name string) string {
	return hook.Context{Namespace: k.TaskQueue, ThreadID: thread, EventID: eventID, Hook: name}.Key()
}

// awaitHookEvent waits until the hook workflow of an event has an event of a kind.
func (k killed) awaitHookEvent(thread, eventID string, kind enumspb.EventType) {
	k.T.Helper()
	require.Eventually(k.T, func() bool {
		events, err := check.RunHistory(k.Ctx(), k.Temporal, k.HooksOf(thread, eventID), "")
		return err == nil && slices.ContainsFunc(events, func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
	}, testenv.Patience, testenv.Tick)
}

// requireGuarded checks that the guard has decided once on a message with a secret, and that the
// model saw this decision.
func (k killed) requireGuarded(t *testing.T, thread, eventID, want string, asked int) {
	t.Helper()
	require.Equal(t, want, k.Ends(thread, eventID).Message.Content)
	require.Equal(t, asked, k.Asked("guard", k.hookKey(thread, eventID, "guard")))
	made := harness.Payload[event.Interception](k.Harness, check.Only(t, check.OfType(k.Harness, thread, event.TypeHook)))
	require.Equal(t, eventID, made.EventID)
	require.Equal(t, event.OutcomeReplaced, made.Outcome)
	require.Equal(t, want, made.Message.Content)
	require.Len(t, k.Messages(thread), 2)
}

func killedBefore(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "guarded")}
	idle := k.Worker
	idle.Idle = true
	k.StartAs(idle)
	id := k.Open()
	k.PostMessage(id, "e1", "a secret")
	k.awaitHookEvent(id, "e1", enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	k.Kill()
	require.Empty(t, k.Messages(id), "nothing has happened yet")
	require.Zero(t, k.Asked("guard", k.hookKey(id, "e1", "guard")))
	k.Start()
	k.requireGuarded(t, id, "e1", "a hiddenhidden", 1)
}

// killedBetween kills the worker when Temporal has the decision of the hooks, but the thread has
// not seen it.
func killedBetween(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "guarded")}
	p := proc.NewProxy(t, k.Worker.Temporal)
	behind := k.Worker
	behind.Temporal = p.Addr
	k.StartAs(behind)
	held := p.HoldAnswerTo("hiddenhidden")
	id := k.Open()
	k.PostMessage(id, "e1", "a secret")
	check.Arrives(t, held, "the decision")
	k.awaitHookEvent(id, "e1", enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	k.Kill()
	require.Zero(t, k.Provider.Calls())
	k.Start()
	k.requireGuarded(t, id, "e1", "a hiddenhidden", 1)
	require.Equal(t, 1, k.Provider.Calls())
}

// killedMeanwhile kills one worker while each of several threads is at another point.
func killedMeanwhile(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "guarded")}
	k.Start()
	at := func(thread, content string, reached <-chan struct{}) {
		t.Helper()
		require.NoError(t, k.Threads.Open(k.Ctx(), thread, signals.Start{}, nil))
		k.PostMessage(thread, thread+"-1", content)
		check.Arrives(t, reached, thread)
	}
	at("asked", "a secret", k.Hold("guard", k.hookKey("asked", "asked-1", "guard")))
	at("refused", "refuse this", k.Hold("guard", k.hookKey("refused", "refused-1", "guard")))
	at("tool", `use act {"how":"slowly"}`, k.Hold("act", "slowly"))
	at("sealing", `use act {"how":"quickly"}`, k.Hold("seal", ""))
	gate := k.Provider.Block(0)
	defer gate.Release()
	at("decided", "the secret", gate.Reached())
	k.Kill()
	gate.Release()
	k.Start()

	t.Run("S2-51 while the hook is asked", func(t *testing.T) {
		k.requireGuarded(t, "asked", "asked-1", "a hiddenhidden", 2)
	})
	t.Run("S2-51 while it answers in place of the agent", func(t *testing.T) {
		require.Equal(t, "refused", k.Ends("refused", "refused-1").Message.Content)
		require.Equal(t, 2, k.Asked("guard", k.hookKey("refused", "refused-1", "guard")))
		require.Equal(t, "user ann: refuse this\nsystem guard: refused\n", k.Transcript("refused"), "one answer")
	})
	t.Run("S2-51 after it has decided, during the model call", func(t *testing.T) {
		k.requireGuarded(t, "decided", "decided-1", "the hiddenhidden", 1)
	})
	t.Run("S2-51 during a tool whose result has a hook", func(t *testing.T) {
		k.Ends("tool", "tool-1")
		require.Equal(t, 1, k.Asked("act", "slowly"), "what may have run is not run again")
		result := k.requireSealed(t, "tool", 1)
		require.Contains(t, result.Content, "outcome is unknown")
	})
	t.Run("S2-51 while the hook on a result is asked", func(t *testing.T) {
		k.Ends("sealing", "sealing-1")
		require.Equal(t, 1, k.Asked("act", "quickly"), "the tool has run, and does not again")
		result := k.requireSealed(t, "sealing", 2)
		require.Equal(t, "acted: quickly (sealed)", result.Content)
	})
}

// requireSealed checks how often the hook on a tool's result ran, with one decision, which the
// model saw. It returns the decision.
func (k killed) requireSealed(t *testing.T, id string, asked int) event.Message {
	t.Helper()
	messages := k.Messages(id)
	require.Len(t, messages, 4)
	call := check.Only(t, messages[1].ToolCalls)
	resultID := recordid.Result(call.ID)
	require.Equal(t, resultID, messages[2].ID)
	require.Equal(t, asked, k.Asked("seal", k.hookKey(id, resultID, "seal")))
	var made []event.Interception
	for _, r := range check.OfType(k.Harness, id, event.TypeHook) {
		if r.ID == recordid.Interception(resultID) {
			made = append(made, harness.Payload[event.Interception](k.Harness, r))
		}
	}
	require.Equal(t, event.OutcomeReplaced, check.Only(t, made).Outcome)
	require.Contains(t, messages[3].Content, made[0].Message.Content, "the stand-in repeats what it was shown")
	return *made[0].Message
}
