package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// byContent is an inline hook that follows instructions in people's messages.
func byContent(name string) hook.Hook {
	h := hook.Inline(name, func(c hook.Context, e event.Event) (hook.Result, error) {
		m := e.(event.MessageEvent)
		switch m.Message.Content {
		case "respond":
			return hook.Respond(hook.Response{Content: "no", SenderType: event.CreatedBySystem}), nil
		case "replace":
			m.Message.Content = "replaced by " + c.Hook
			return hook.Replace(m), nil
		case "fail":
			return hook.Result{}, errors.New("it broke")
		case "panic":
			panic("oh")
		}
		return hook.Pass(), nil
	})
	h.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
	return h
}

func TestInlineHooks(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{byContent("guard")}))
	for _, id := range []string{"respond", "replace", "pass", "fail", "respond2", "pass2", "panic"} {
		w.then(func() { w.post(id, strings.TrimRight(id, "2")) })
	}
	w.run(workflows.Input{})
	require.Equal(t, []string{"respond: responded", "replace: replaced", "fail: failed", "respond2: responded", "panic: failed"}, w.heard(),
		"S0-11 a pass leaves no record; each event has the decision on it, and on no other")
	var asked []string
	for _, in := range w.models {
		asked = append(asked, in.EventID)
	}
	require.Equal(t, []string{"replace", "pass", "pass2"}, asked, "S0-15 S0-23")
	answers := 0
	for _, m := range w.messages() {
		if strings.HasSuffix(m, ": no") {
			answers++
		}
	}
	require.Equal(t, 2, answers, "S0-24 a response is not made again for a later event")
	decisions := stored[event.Interception](w.fakes, event.TypeHook)
	require.Equal(t, "replaced by guard", decisions[1].Message.Content, "S0-12")
	require.Empty(t, decisions[1].Produced)
	require.Equal(t, "hook guard failed: it broke", decisions[2].Error)
	require.Contains(t, decisions[4].Error, "it panicked: oh")
	require.Empty(t, w.names(), "they run in the thread's workflow, and cost nothing")
}

func TestInlineHooksOneAfterTheOther(t *testing.T) {
	open := byContent("open")
	open.OnFailure = hook.FailOpen
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{open, byContent("second")}))
	w.then(func() { w.post("e1", "replace") })
	w.then(func() { w.post("e2", "fail") })
	w.run(workflows.Input{})
	decisions := stored[event.Interception](w.fakes, event.TypeHook)
	require.Equal(t, "replaced by open", decisions[0].Message.Content)
	require.Equal(t, []event.HookOutcome{{Name: "open", Outcome: event.OutcomeReplaced}, {Name: "second", Outcome: event.OutcomePassed}}, decisions[0].Hooks, "the second sees what the first has returned")
	require.Equal(t, []event.HookOutcome{{Name: "open", Outcome: event.OutcomeFailed, Error: "it broke"}, {Name: "second", Outcome: event.OutcomeFailed, Error: "it broke"}}, decisions[1].Hooks)
	require.Equal(t, "hook second failed: it broke", decisions[1].Error, "S2-35 the failure of the first is recorded, and does no more")
}

// TestInlineBesideOthers: together with others, an inline hook runs in the hook workflow.
func TestInlineBesideOthers(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{byContent("guard"), function("other", event.TypeMessage)}))
	w.then(func() { w.post("e1", "respond") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: guard, other", "e1.0.1: other"}, w.names(), "S2-33")
}

// TestInlineHooksOfSteps: the activities that create replies and results run inline hooks, and the
// thread applies their decisions.
func TestInlineHooksOfSteps(t *testing.T) {
	guard := hook.Inline("guard", func(hook.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil })
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByAgent, event.CreatedByTool}
	f := newFakes(t)
	w := hookedWorld(t, f, setOf(t, []hook.Hook{guard}))
	replaced := func(e event.Event) *step.HookDecision {
		return &step.HookDecision{Outcome: event.OutcomeReplaced, Hooks: []event.HookOutcome{{Name: "guard", Outcome: event.OutcomeReplaced}}, Event: rawOf(t, e)}
	}
	pass := &step.HookDecision{Outcome: event.OutcomePassed, Silent: true}
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		require.Equal(t, "guard", thread.Names(in.Inline))
		require.False(t, in.Gated, "nothing waits for hooks that are asked at once")
		if in.Step == 1 {
			out := reply(in, "", plain("c1"), plain("c2"))
			out.MessageDecision, out.CallsDecision, out.Gated = pass, replaced(event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "note"}}}}), true
			return out, nil
		}
		out := reply(in, "done")
		out.MessageDecision, out.CallsDecision, out.Gated = replaced(message(event.CreatedByAgent, "assistant", "well done")), pass, true
		return out, nil
	}
	w.result = func(in step.Tool) *step.HookDecision {
		require.Equal(t, "guard", thread.Names(in.Inline))
		return replaced(message(event.CreatedByTool, "note", "[gone]"))
	}
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.run(workflows.Input{})
	require.Equal(t, []string{"c1"}, w.tools, "S0-13")
	require.Equal(t, []string{"e1.0.1.calls: replaced", "c1.result: replaced", "e1.0.2: replaced"}, w.heard())
	require.Equal(t, "well done", turn.result.(signals.TurnResult).Message.Content)
	require.Len(t, stored[event.Final](f, event.TypeFinal), 1, "S1-23")
	require.Empty(t, w.names())
}
