package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func TestHookRespondsInsteadOfTheAgent(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeMessage)}))
	w.hook = func(in step.Hook, _ string) said {
		if in.EventID == "e1" {
			return said{responses: []hook.Response{{Content: "1", SenderType: event.CreatedBySystem}, {Content: "2", SenderType: event.CreatedBySystem}}}
		}
		return said{}
	}
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")); w.post("e2", "waits") })
	w.run(workflows.Input{})
	require.Len(t, w.models, 1, "S0-15 S0-41 the model is not called")
	require.Equal(t, "e2", w.models[0].EventID)
	said := w.messages()
	require.Equal(t, "e1: hello", said[0])
	require.True(t, strings.HasSuffix(said[1], ": 1") && strings.HasSuffix(said[2], ": 2"), "S0-20 %v", said)
	require.Equal(t, "e2: waits", said[3], "S0-20 ahead of what came later")
	require.Len(t, w.heard(), 5, "S0-19 the responses and the reply pass the hook, too")
	out := turn.result.(signals.TurnResult)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "2", out.Message.Content, "who waits for the turn gets its last word")
}

func TestHookReplacesTheMessage(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeMessage)}))
	w.hook = func(in step.Hook, _ string) said {
		if in.EventID == "e1" {
			return said{event: message(event.CreatedByUser, "ann", "@bob hello")}
		}
		return said{}
	}
	w.then(func() { w.post("e1", "@alice hello") })
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice", "bob"}}})
	require.Len(t, w.models, 1)
	require.Equal(t, "bob", w.models[0].Agent, "S0-14")
	require.Equal(t, []string{"e1: replaced", "e1.0.1: passed"}, w.heard())
	require.Equal(t, []string{"e1.hook"}, ids(w.models[0].Flush.Records), "S0-12 the model finds the decision in the store; the message is there already")
}

func ids(records []event.Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

func TestClosedHookFailsTheEvent(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeMessage)}))
	broken := true
	w.hook = func(step.Hook, string) said {
		if broken {
			return said{failed: "it broke"}
		}
		return said{}
	}
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		require.Equal(t, "hook guard failed: it broke (gave up after 3 attempts)", w.state().Failed[0].Error, "S2-16")
		require.Equal(t, signals.ThreadIdle, w.state().Status)
		require.Empty(t, w.models)
		broken = false
		w.control(signals.ControlRetry)
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: failed", "e1: passed", "e1~1.0.1: passed"}, w.heard(), "S0-23 S2-17")
	require.Len(t, w.models, 1)
}

// TestHookWorkflowIsLost: an error of the hook workflow itself fails closed hooks.
func TestHookWorkflowIsLost(t *testing.T) {
	for mode, models := range map[hook.FailureMode]int{hook.FailClosed: 0, hook.FailOpen: 1} {
		guard := function("guard", event.TypeMessage)
		guard.Filter.CreatedBy, guard.OnFailure = []event.CreatedBy{event.CreatedByUser}, mode
		w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{guard}))
		w.hook = func(step.Hook, string) said { return said{err: notConfigured("event e1 is not in the store")} }
		w.then(func() { w.post("e1", "hello") })
		w.then(func() {
			require.Len(t, w.models, models)
			require.Len(t, w.state().Failed, 1-models)
		})
		w.run(workflows.Input{})
		rec := stored[event.Interception](w.fakes, event.TypeHook)[0]
		require.Equal(t, "the hook workflow ended without a decision: event e1 is not in the store", rec.Hooks[0].Error, "S0-23")
	}
}

func TestToolCallsAreEdited(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeToolCall)}))
	w.model = script(plain("c1"), plain("c2"), plain("c3"))
	var steps []step.Tool
	w.tool = func(_ context.Context, in step.Tool) (step.ToolReply, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		steps = append(steps, in)
		return step.ToolReply{}, nil
	}
	w.hook = func(in step.Hook, _ string) said {
		require.Equal(t, "e1.0.1.calls", in.EventID)
		return said{event: event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant", ToolCalls: []event.ToolCall{
			{ID: "c1", Function: event.Function{Name: "note", Arguments: `{"text":"other"}`}}, {ID: "c3", Function: event.Function{Name: "note"}},
		}}}
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"c1", "c3"}, w.planned[0].Only, "S0-13")
	require.Contains(t, ids(w.planned[0].Flush.Records), "e1.0.1.calls.hook")
	require.ElementsMatch(t, []string{"c1", "c3"}, w.tools, "S0-13 the call that was taken out does not run")
	for _, input := range steps {
		require.True(t, input.Edited)
	}
	require.Contains(t, w.messages(), "c2.result: Not run: guard took the call out.", "S4-71")
	require.Len(t, w.models, 2, "S0-34")
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 1)
}

func TestOneCallIsRefused(t *testing.T) {
	for name, calls := range map[string][]string{"one of two": {"c1", "c2"}, "the only one": {"c1"}} {
		t.Run(name, func(t *testing.T) {
			w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeToolCall)}))
			var plans []step.PlannedCall
			for _, id := range calls {
				plans = append(plans, plain(id))
			}
			w.model = script(plans...)
			w.hook = func(step.Hook, string) said {
				e := event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant"}
				for _, id := range calls {
					e.ToolCalls = append(e.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "note"}})
				}
				e.Refuse("c1", "refunded on May 3")
				return said{event: e}
			}
			w.then(func() { w.post("e1", "go") })
			w.run(workflows.Input{})
			require.Equal(t, calls[1:], append([]string{}, w.tools...), "the others run")
			require.Contains(t, w.messages(), "c1.result: Not run: refunded on May 3")
			require.Equal(t, []event.Refusal{{ID: "c1", Reason: "refunded on May 3"}}, stored[event.Interception](w.fakes, event.TypeHook)[0].Refused)
			require.Len(t, w.models, 2, "the agent continues")
		})
	}
}

func TestToolCallIsDenied(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeToolCall)}))
	w.model = script(plain("c1"), asks("c2"))
	w.hook = func(step.Hook, string) said {
		return said{responses: []hook.Response{{Content: "not in this thread", SenderType: event.CreatedBySystem}}}
	}
	w.then(func() { w.post("e1", "go") })
	w.then(func() { require.Empty(t, w.approvals().Approvals, "nobody is asked about what does not run") })
	w.run(workflows.Input{})
	require.Empty(t, w.tools, "S0-16 S0-42")
	require.Len(t, w.models, 1, "S0-22 the agent is not run again")
	said := w.messages()
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: Not run: guard answered in place of the tool.", "c2.result: Not run: guard answered in place of the tool."}, said[:4])
	require.True(t, strings.HasSuffix(said[4], ": not in this thread"))
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 1, "S1-23")
}

// TestApprovalAfterHooks: people are asked about the calls as hooks have changed them.
func TestApprovalAfterHooks(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeToolCall)}))
	w.model = script(asks("c1"))
	w.plan = func(in step.Plan) (step.PlanReply, error) {
		p := asks("c1")
		p.Arguments = `{"command":"edited"}`
		return step.PlanReply{Agent: in.Agent, MaxSteps: 5, Calls: []step.PlannedCall{p}}, nil
	}
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		require.Equal(t, `{"command":"edited"}`, w.approvals().Approvals[0].Arguments)
		w.decide("c1", event.DecisionApprove, "")
	})
	w.run(workflows.Input{})
	require.Len(t, w.planned, 1)
	require.Equal(t, []string{"c1"}, w.tools)
}

func TestPlanningFails(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("guard", event.TypeToolCall)}))
	w.model = script(asks("c1"))
	w.plan = func(step.Plan) (step.PlanReply, error) {
		return step.PlanReply{}, notConfigured("no such agent")
	}
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadIdle, s.Status)
		require.Equal(t, "no such agent", s.Failed[0].Error)
	})
	w.run(workflows.Input{})
	require.Len(t, w.planned, 2, "as a local activity, then as an activity")
	require.Contains(t, w.messages(), "c1.result: Error: no such agent", "S4-71")
}

// TestResultsPassHooks: each result is an event; the agent continues after the last.
func TestResultsPassHooks(t *testing.T) {
	guard := function("guard", event.TypeMessage)
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByTool}
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{guard}))
	atSecondCall := []string{}
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.Step == 2 {
			atSecondCall = w.heard()
		}
		return script(plain("c1"), quick("c2"))(ctx, in)
	}
	w.hook = func(in step.Hook, _ string) said {
		if in.EventID == "c1.result" {
			return said{event: message(event.CreatedByTool, "note", "[gone]")}
		}
		return said{}
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.ElementsMatch(t, []string{"c1.result: replaced", "c2.result: passed"}, w.heard(), "S0-33")
	for _, d := range stored[event.Interception](w.fakes, event.TypeHook) {
		if d.EventID == "c1.result" {
			require.Equal(t, "[gone]", d.Message.Content)
			require.Equal(t, "c1", d.Message.ToolCallID)
		}
	}
	require.Len(t, w.models, 2, "S2-13")
	require.Len(t, atSecondCall, 2, "S0-35 the model sees them as hooks have left them")
}

// TestLargeResults: replaced results that exceed the input of one step are stored before it.
func TestLargeResults(t *testing.T) {
	guard := function("guard", event.TypeMessage)
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByTool}
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{guard}))
	var calls []step.PlannedCall
	for i := range 12 {
		calls = append(calls, plain(fmt.Sprintf("c%d", i)))
	}
	w.model = script(calls...)
	w.hook = func(step.Hook, string) said {
		return said{event: message(event.CreatedByTool, "note", strings.Repeat("x", 200<<10))}
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Len(t, w.heard(), 12)
	require.Len(t, w.models, 2)
	for _, input := range w.models {
		raw, err := json.Marshal(input)
		require.NoError(t, err)
		require.Less(t, len(raw), 2<<20, "what a step is given has a limit")
	}
	for _, input := range w.asked {
		raw, err := json.Marshal(input)
		require.NoError(t, err)
		require.Less(t, len(raw), 2<<20)
	}
}

func TestModelCallIsTuned(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("tune", event.TypeLLMCall)}))
	w.model = script(plain("c1"))
	w.hook = func(in step.Hook, _ string) said {
		require.NotNil(t, in.Event, "it has no record yet")
		if in.EventID == "e1.0.1.llm" {
			return said{event: event.LLMCallEvent{ThreadID: "t1", AgentName: "assistant", Step: 1, Instructions: "Be brief.", Model: "demo/small"}}
		}
		return said{responses: []hook.Response{{Content: "that is enough", SenderType: event.CreatedBySystem}}}
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Len(t, w.models, 1, "S2-18")
	require.Equal(t, "Be brief.", w.models[0].Instructions)
	require.Equal(t, "demo/small", w.models[0].Model)
	require.Equal(t, []string{"e1.0.1.llm: replaced", "e1.0.2.llm: responded"}, w.heard())
}

// TestMessageBecomesCalls: a hook that creates tool calls replaces the model.
func TestMessageBecomesCalls(t *testing.T) {
	guard := function("route", event.TypeMessage)
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{guard}))
	w.hook = func(step.Hook, string) said {
		return said{event: event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant", ToolCalls: []event.ToolCall{{ID: "x", Function: event.Function{Name: "note"}}}}}
	}
	w.then(func() { w.post("e1", "note this") })
	w.run(workflows.Input{})
	require.Equal(t, "e1.0.0", w.planned[0].MessageID)
	require.Equal(t, w.planned[0].Only, w.tools)
	require.Len(t, w.models, 1, "S0-34 the agent goes on with the result")
	require.Equal(t, "e1.0.1", w.models[0].MessageID)
}

// TestOneTurnAtATimeWhileHooksDecide: posts wait while a hook decides.
func TestOneTurnAtATimeWhileHooksDecide(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{personHook("person", event.TypeMessage)}))
	people := (&persons{}).register(w)
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		w.post("e2", "waits")
		s := w.state()
		require.Equal(t, signals.ThreadRunning, s.Status)
		require.Equal(t, "hook/ns/t1/e1", s.Turn.Deciding[0].WorkflowID)
	})
	w.at += 10 * 24 * time.Hour
	w.then(func() {
		require.Equal(t, 1, w.state().QueueLength)
		require.Equal(t, "hello", asMessage(t, people.requests[0].Event))
		w.says("person", hook.Verdict{Event: rawOf(t, message(event.CreatedByUser, "ann", "other"))})
	})
	w.then(func() { w.saysOn("e1.0.1", "person", hook.Verdict{}) })
	w.then(func() { w.saysOn("e2", "person", hook.Verdict{}) })
	w.then(func() { w.saysOn("e2.0.1", "person", hook.Verdict{}) })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: replaced", "e1.0.1: passed", "e2: passed", "e2.0.1: passed"}, w.heard())
	require.Equal(t, []string{"e1: hello", "e1.0.1: ok", "e2: waits", "e2.0.1: ok"}, w.messages(), "S0-T6")
}

// TestSteerWhileHooksDecide: a caller can wait for the turn of a message that is about to join
// another one.
func TestSteerWhileHooksDecide(t *testing.T) {
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{personHook("person", event.TypeMessage)}))
	people := (&persons{}).register(w)
	w.model = script(asks("c1"))
	var first, again *answer
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.says("person", hook.Verdict{}) })
	steer := says("e2", "and mind the gap")
	steer.OnBusy = event.OnBusySteer
	w.then(func() { first = w.update(signals.UpdateTurn, steer) })
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.then(func() { w.saysOn("c1.result", "person", hook.Verdict{}) })
	w.then(func() {
		require.Len(t, people.requests, 3)
		require.False(t, first.done, "it waits for the turn that it joins")
		again = w.update(signals.UpdateTurn, steer)
	})
	w.then(func() {
		require.NoError(t, again.rejected)
		w.saysOn("e2.steer.e1", "person", hook.Verdict{Event: rawOf(t, message(event.CreatedByUser, "ann", "mind the gap"))})
	})
	w.then(func() { w.saysOn("e1.0.2", "person", hook.Verdict{}) })
	w.run(workflows.Input{})
	for _, a := range []*answer{first, again} {
		require.NoError(t, a.err)
		require.Equal(t, signals.TurnCompleted, a.result.(signals.TurnResult).Status)
	}
	require.Equal(t, "e2", w.models[1].ReplyTo)
	require.Contains(t, w.heard(), "e2: replaced")
}
