package tests

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

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

// guarded has hooks for messages of people and for results of tools.
func guarded(v *victim) { v.Guarded = true }

// says posts a message under an id.
func (k *killing) says(thread, id, content string) {
	k.T.Helper()
	_, err := k.Threads.PostSignal(k.Ctx(), thread, message(thread, id, content))
	require.NoError(k.T, err)
}

// hookKey is the key of a victim's hook in reports on an event.
func (k *killing) hookKey(thread, eventID, name string) string {
	return hook.Context{Namespace: k.TaskQueue, ThreadID: thread, EventID: eventID, Hook: name}.Key()
}

// awaitHookEvent waits until the hook workflow of an event has an event of a kind.
func (k *killing) awaitHookEvent(thread, eventID string, kind enumspb.EventType) {
	k.T.Helper()
	require.Eventually(k.T, func() bool {
		events, err := runHistory(k.Ctx(), k.Temporal, k.hooksOf(thread, eventID), "")
		return err == nil && slices.ContainsFunc(events, func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
	}, waitLong, waitTick)
}

// ends waits for the end of a turn, and until all of it is stored.
func (k *killing) ends(thread, eventID string) signals.TurnResult {
	k.T.Helper()
	out := k.Await(thread, eventID)
	settle(k.Harness, thread)
	return out
}

// requireGuarded checks that the guard has decided once on a message with a secret, and that the
// model saw this decision.
func (k *killing) requireGuarded(t *testing.T, thread, eventID, want string, asked int) {
	t.Helper()
	require.Equal(t, want, k.ends(thread, eventID).Message.Content)
	require.Equal(t, asked, k.asked("guard", k.hookKey(thread, eventID, "guard")))
	made := harness.Payload[event.Interception](k.Harness, only(t, ofType(k.Harness, thread, event.TypeHook)))
	require.Equal(t, eventID, made.EventID)
	require.Equal(t, event.OutcomeReplaced, made.Outcome)
	require.Equal(t, want, made.Message.Content)
	require.Len(t, k.Messages(thread), 2)
}

func killedBefore(t *testing.T) {
	k := newKilling(t, harness.Options{}, guarded)
	idle := k.victim
	idle.Idle = true
	k.start(idle)
	id := k.Open()
	k.says(id, "e1", "a secret")
	k.awaitHookEvent(id, "e1", enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	k.worker.Kill()
	require.Empty(t, k.Messages(id), "nothing has happened yet")
	require.Zero(t, k.asked("guard", k.hookKey(id, "e1", "guard")))
	k.start(k.victim)
	k.requireGuarded(t, id, "e1", "a hiddenhidden", 1)
}

// killedBetween kills the worker when Temporal has the decision of the hooks, but the thread has
// not seen it.
func killedBetween(t *testing.T) {
	k := newKilling(t, harness.Options{}, guarded)
	p := proc.NewProxy(t, k.victim.Temporal)
	behind := k.victim
	behind.Temporal = p.Addr
	k.start(behind)
	held := p.HoldAnswerTo("hiddenhidden")
	id := k.Open()
	k.says(id, "e1", "a secret")
	arrives(t, held, "the decision")
	k.awaitHookEvent(id, "e1", enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	k.worker.Kill()
	require.Zero(t, k.Provider.Calls())
	k.start(k.victim)
	k.requireGuarded(t, id, "e1", "a hiddenhidden", 1)
	require.Equal(t, 1, k.Provider.Calls())
}

// killedMeanwhile kills one worker while each of several threads is at another point.
func killedMeanwhile(t *testing.T) {
	k := newKilling(t, harness.Options{}, guarded)
	k.start(k.victim)
	at := func(thread, content string, reached <-chan struct{}) {
		t.Helper()
		require.NoError(t, k.Threads.Open(k.Ctx(), thread, signals.Start{}, nil))
		k.says(thread, thread+"-1", content)
		arrives(t, reached, thread)
	}
	at("asked", "a secret", k.hold("guard", k.hookKey("asked", "asked-1", "guard")))
	at("refused", "refuse this", k.hold("guard", k.hookKey("refused", "refused-1", "guard")))
	at("tool", `use act {"how":"slowly"}`, k.hold("act", "slowly"))
	at("sealing", `use act {"how":"quickly"}`, k.hold("seal", ""))
	gate := k.Provider.Block(0)
	defer gate.Release()
	at("decided", "the secret", gate.Reached())
	k.worker.Kill()
	gate.Release()
	k.start(k.victim)

	t.Run("S2-51 while the hook is asked", func(t *testing.T) {
		k.requireGuarded(t, "asked", "asked-1", "a hiddenhidden", 2)
	})
	t.Run("S2-51 while it answers in place of the agent", func(t *testing.T) {
		require.Equal(t, "refused", k.ends("refused", "refused-1").Message.Content)
		require.Equal(t, 2, k.asked("guard", k.hookKey("refused", "refused-1", "guard")))
		require.Equal(t, "user ann: refuse this\nsystem guard: refused\n", k.Transcript("refused"), "one answer")
	})
	t.Run("S2-51 after it has decided, during the model call", func(t *testing.T) {
		k.requireGuarded(t, "decided", "decided-1", "the hiddenhidden", 1)
	})
	t.Run("S2-51 during a tool whose result has a hook", func(t *testing.T) {
		k.ends("tool", "tool-1")
		require.Equal(t, 1, k.asked("act", "slowly"), "what may have run is not run again")
		result := k.requireSealed(t, "tool", 1)
		require.Contains(t, result.Content, "outcome is unknown")
	})
	t.Run("S2-51 while the hook on a result is asked", func(t *testing.T) {
		k.ends("sealing", "sealing-1")
		require.Equal(t, 1, k.asked("act", "quickly"), "the tool has run, and does not again")
		result := k.requireSealed(t, "sealing", 2)
		require.Equal(t, "acted: quickly (sealed)", result.Content)
	})
}

// requireSealed checks how often the hook on a tool's result ran, with one decision, which the
// model saw. It returns the decision.
func (k *killing) requireSealed(t *testing.T, id string, asked int) event.Message {
	t.Helper()
	messages := k.Messages(id)
	require.Len(t, messages, 4)
	call := only(t, messages[1].ToolCalls)
	resultID := recordid.Result(call.ID)
	require.Equal(t, resultID, messages[2].ID)
	require.Equal(t, asked, k.asked("seal", k.hookKey(id, resultID, "seal")))
	var made []event.Interception
	for _, r := range ofType(k.Harness, id, event.TypeHook) {
		if r.ID == recordid.Interception(resultID) {
			made = append(made, harness.Payload[event.Interception](k.Harness, r))
		}
	}
	require.Equal(t, event.OutcomeReplaced, only(t, made).Outcome)
	require.Contains(t, messages[3].Content, made[0].Message.Content, "the stand-in repeats what it was shown")
	return *made[0].Message
}
