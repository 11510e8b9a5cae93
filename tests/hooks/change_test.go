package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestHooksChangeEvents replaces events.
//
//ci:replayed only
func TestHooksChangeEvents(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}},
		[]hook.Hook{d.Hook("first"), d.Inline("between"), d.Hook("second"), d.Hook("models", event.TypeLLMCall)},
		d.Processor("tickets", "ticket.opened"))

	inline := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.Inline("inline")})
	for name, w := range map[string]*harness.Harness{"first": w, "inline": inline} {
		t.Run("S0-12 S0-T1 new content of a message, by "+name, func(t *testing.T) { hooksRewrite(t, d, w, name) })
		t.Run("S0-13 S0-T3 edited arguments, and fewer calls, by "+name, func(t *testing.T) { hooksEditCalls(t, d, w, spied, name) })
		t.Run("S0-13 a person is asked about edited arguments, by "+name, func(t *testing.T) { hooksEditAsked(t, d, w, name) })
	}
	t.Run("S0-12 what agents and tools say", func(t *testing.T) {
		id := w.Open("assistant")
		d.Set(id, "first", check.Saying(event.CreatedByTool, "noted", "written down"))
		d.Set(id, "second", check.Saying(event.CreatedByAgent, "milk", "bread"))
		out := check.Say(w, id, "use note {\"text\":\"milk\"}")
		require.Equal(t, "note returned: written down: bread", out.Message.Content, "the turn's result is what holds")
		shown := check.ModelsOf(w, "written down: milk")
		require.NotEmpty(t, shown, "the model is told what the hook made of the result")
		require.Empty(t, check.ModelsOf(w, "noted: milk"))
		check.Say(w, id, "what was that")
		require.NotEmpty(t, check.ModelsOf(w, "note returned: written down: bread"), "and of its own words")
		require.Empty(t, check.ModelsOf(w, "note returned: written down: milk"))
	})
	t.Run("S0-14 a message becomes a tool call", func(t *testing.T) {
		id := w.Open("assistant")
		d.Set(id, "first", check.OnMessage(event.CreatedByUser, func(_ event.MessageEvent) hook.Result {
			return hook.Replace(event.ToolCallEvent{ThreadID: id, AgentName: "assistant", ToolCalls: []event.ToolCall{
				{ID: "mine", Function: event.Function{Name: "note", Arguments: `{"text":"instead"}`}},
			}})
		}))
		before := w.Provider.Calls()
		out := check.Say(w, id, "remember this")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, before+1, w.Provider.Calls(), "no model was asked what to do")
		check.RequireSettled(t, w, id)
		for _, m := range check.Results(w, id) {
			require.Equal(t, "noted: instead", m.Content)
		}
		require.Len(t, check.ToolLogs(w, id), 1)
		require.Equal(t, "note returned: noted: instead", strings.TrimSpace(strings.TrimPrefix(out.Message.Content, "remember this")), "the agent goes on with the result")
		check.RequireAnswered(t, check.ModelCalls(w)[before].Messages)
		d.Set(id, "first", nil)
		requireBlocked(w, id, []string{"remember this"}, "noted: instead")
	})
	t.Run("S0-14 a tool call becomes a message", func(t *testing.T) {
		id, ran := w.Open("assistant"), len(spied.Seen())
		d.Set(id, "first", check.OnCalls(func(_ event.ToolCallEvent) hook.Result {
			return hook.Replace(event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: id, Message: event.NewMessage{
				ThreadID: id, SenderID: "guard", SenderType: event.CreatedByUser, Content: "forget the tool",
			}})
		}))
		before := w.Provider.Calls()
		out := check.Say(w, id, "use spied {}")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Len(t, spied.Seen(), ran, "the tool does not run")
		check.RequireSettled(t, w, id)
		require.Equal(t, before+2, w.Provider.Calls(), "the message is answered as any other")
		require.Equal(t, "forget the tool", out.Message.Content)
		require.Equal(t, "guard: forget the tool", check.SaidIn(w, id)[3])
	})
	t.Run("S0-14 a custom event becomes a message", func(t *testing.T) {
		id := w.Open("assistant")
		d.Set(id, "first", func(_ context.Context, e event.Event) (hook.Result, error) {
			if _, ok := e.(event.CustomEvent); !ok {
				return hook.Pass(), nil
			}
			return hook.Replace(event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: id, Message: event.NewMessage{
				ThreadID: id, SenderID: "cron", SenderType: event.CreatedByUser, Content: "it is noon",
			}}), nil
		})
		out := check.Turn(w, id, check.Custom("c1", "clock.struck", 12))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.NotNil(t, out.Message, "the agent is shown it, and answers")
		require.Equal(t, "it is noon", out.Message.Content)
	})
	for what, says := range map[string]string{"message user": "hello", "message agent": "hello", "tool_call": "use spied {}", "message tool": "use note {}"} {
		t.Run("S0-14 S2-33 a custom event in the place of a "+what+" is processed as such", func(t *testing.T) {
			hooksCustomInstead(t, d, w, what, says)
		})
	}
	t.Run("S2-18 a model call with other instructions and another model", func(t *testing.T) { hooksModelCall(t, d, w) })
	t.Run("S2-18 a message that joins a turn", func(t *testing.T) { hooksSteered(t, d, w) })
}

func hooksRewrite(t *testing.T, d *check.Desk, w *harness.Harness, by string) {
	id := w.Open("assistant")
	d.Set(id, by, check.Saying(event.CreatedByUser, "1234", by+"-hidden"))
	before := w.Provider.Calls()
	out := check.Turn(w, id, check.Message(id, "e1", "my pin is 1234"))
	require.Equal(t, "my pin is "+by+"-hidden", out.Message.Content, "what the model was shown")
	for _, call := range check.ModelCalls(w)[before:] {
		require.NotContains(t, call.Raw, "1234", "the old content reaches no model")
	}
	requireBlocked(w, id, []string{"1234"}, "my pin is "+by+"-hidden")
	require.Equal(t, "my pin is 1234", w.Messages(id)[0].Content, "the record stays as it is")
	decided := check.DecisionOn(w, id, "e1")
	require.Equal(t, event.OutcomeReplaced, decided.Outcome)
	require.Equal(t, "my pin is "+by+"-hidden", decided.Message.Content, "and beside it is what holds")
	require.Equal(t, "my pin is "+by+"-hidden", check.MessagesPage(t, w, id)[0]["content"], "which is what people read")
	if by == "first" {
		require.Equal(t, "my pin is first-hidden", d.Asked(id, "second")[0].Event.(event.MessageEvent).Message.Content, "a hook sees what the one before it returned")
	}
}

func hooksEditCalls(t *testing.T, d *check.Desk, w *harness.Harness, spied *check.Spy, by string) {
	id, ran := w.Open("assistant"), len(spied.Seen())
	d.Set(id, by, check.OnCalls(func(c event.ToolCallEvent) hook.Result {
		assert.Len(t, c.ToolCalls, 3)
		c.ToolCalls[0].Function.Arguments = `{"n":"edited"}`
		c.ToolCalls = []event.ToolCall{c.ToolCalls[2], c.ToolCalls[0]}
		return hook.Replace(c)
	}))
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, "use spied {\"n\":1}\nuse spied {\"n\":2}\nuse note {\"text\":\"x\"}").Status)
	require.Equal(t, `{"n":"edited"}`, check.Only(t, spied.Seen()[ran:]).Arguments, "one ran, with these arguments; one never did")
	calls := w.Messages(id)[1].ToolCalls
	require.Equal(t, `{"n":1}`, calls[0].Function.Arguments, "the record stays as it is")
	have := check.Results(w, id)
	require.Len(t, have, 3)
	require.Equal(t, "seen", have[calls[0].ID].Content)
	require.True(t, have[calls[1].ID].IsError)
	require.Equal(t, "Not run: "+by+" took the call out.", have[calls[1].ID].Content)
	require.Equal(t, "noted: x", have[calls[2].ID].Content)
	logs := check.ToolLogs(w, id)
	require.Len(t, logs, 2, "what never ran has no log")
	for _, l := range logs {
		if l.ToolName == "spied" {
			require.JSONEq(t, `{"n":"edited"}`, string(l.Input))
		}
	}
	d.Set(id, by, nil)
	requireBlocked(w, id, nil, "took the call out")
	shown := check.ModelCalls(w)[w.Provider.Calls()-1].Messages
	check.RequireAnswered(t, shown)
	for _, m := range shown {
		for i, call := range m.ToolCalls {
			require.Equal(t, []string{`{"n":"edited"}`, "{}", `{"text":"x"}`}[i], call.Function.Arguments, "as the hook passed them")
		}
	}
}

func hooksEditAsked(t *testing.T, d *check.Desk, w *harness.Harness, by string) {
	edit := func(to string) hook.Func {
		return check.OnCalls(func(c event.ToolCallEvent) hook.Result {
			c.ToolCalls[0].Function.Arguments = to
			return hook.Replace(c)
		})
	}
	id := w.Open("assistant")
	d.Set(id, by, edit(`{"command":"echo edited"}`))
	view := check.Watch(t, w, id, "")
	e := w.Post(id, `use shell_cmd {"command":"echo original"}`)
	asks := w.AwaitApproval(id, 1)[0]
	require.Equal(t, `{"command":"echo edited"}`, asks.Arguments)
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, asks.ToolCallID))
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, check.Await(t, w, id, e)).Status)
	require.Contains(t, check.Results(w, id)[asks.ToolCallID].Content, "edited")
	require.NotContains(t, check.Results(w, id)[asks.ToolCallID].Content, "original")
	requests := 0
	for _, f := range view.Until(t, check.IsFinal) {
		if f.Event.Type == event.EventApprovalRequest {
			requests++
			require.Equal(t, `{"command":"echo edited"}`, f.Event.Request.Arguments, "viewers are shown no other")
		}
	}
	require.Equal(t, 1, requests)
	require.Len(t, check.OfType(w, id, event.TypeApprovalRequest), 1)

	d.Set(id, by, edit(`{"command":7}`))
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, `use shell_cmd {"command":"echo original"}`).Status)
	last := w.Messages(id)[len(w.Messages(id))-2]
	require.True(t, last.IsError, "arguments that do not fit the tool do not run: %s", last.Content)
	require.Len(t, check.OfType(w, id, event.TypeApprovalRequest), 1, "and nobody is asked about them")
}

func hooksCustomInstead(t *testing.T, d *check.Desk, w *harness.Harness, what, says string) {
	id := w.Open("assistant")
	d.Set(id, "first", func(_ context.Context, e event.Event) (hook.Result, error) {
		if (check.Entry{Event: e}).What() != what {
			return hook.Pass(), nil
		}
		return hook.Replace(event.CustomEvent{Type: "ticket.opened", ThreadID: id, Payload: json.RawMessage(`{"n":7}`)}), nil
	})
	var payloads []string
	d.Make(id, "tickets", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		if c, ok := e.(event.CustomEvent); assert.True(t, ok, "%T", e) {
			payloads = append(payloads, string(c.Payload))
		}
		return []hook.Produced{hook.Message(event.CreatedBySystem, "desk", "a ticket was opened")}, nil
	})
	before := w.Provider.Calls()
	out := check.Say(w, id, says)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, []string{`{"n":7}`}, payloads, "its processor gets it, once")
	require.Equal(t, "desk: a ticket was opened", check.SaidIn(w, id)[len(check.SaidIn(w, id))-1])
	want := before + 1
	if what == "message user" {
		want = before
	}
	require.Equal(t, want, w.Provider.Calls(), "the agent does not go on")
	check.RequireSettled(t, w, id)
}

func hooksModelCall(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	d.Set(id, "models", func(_ context.Context, e event.Event) (hook.Result, error) {
		call := e.(event.LLMCallEvent)
		assert.Empty(t, call.Instructions)
		if call.Step == 1 {
			call.Instructions, call.Model = "Be brief.", "openai/other"
			return hook.Replace(call), nil
		}
		return hook.Pass(), nil
	})
	before := w.Provider.Calls()
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, "use note {}").Status)
	calls := check.ModelCalls(w)[before:]
	require.Len(t, calls, 2)
	system := calls[0].Messages[0].Content
	require.Contains(t, system, "You help.")
	require.Contains(t, system, "Be brief.")
	require.Contains(t, calls[0].Raw, `"model":"other"`)
	require.NotContains(t, calls[1].Raw, "Be brief.", "for this one call")
	require.Contains(t, calls[1].Raw, `"model":"stand-in"`)
	record := harness.Payload[event.LLMCall](w, check.OfType(w, id, event.TypeLLMCall)[0])
	require.Equal(t, "openai/other", record.Model)

	d.Set(id, "models", func(_ context.Context, _ event.Event) (hook.Result, error) {
		return hook.Respond(hook.Response{Content: "I am resting."}), nil
	})
	before = w.Provider.Calls()
	out := check.Say(w, id, "hello")
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, before, w.Provider.Calls(), "S0-25 the model is not called")
	require.Equal(t, "assistant: I am resting.", check.SaidIn(w, id)[len(check.SaidIn(w, id))-1])
}

func hooksSteered(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, slow := w.Open("assistant"), check.NewHalt()
	d.Set(id, "first", slow.Before("message tool", check.Saying(event.CreatedByUser, "secret", "…")))
	e := w.Post(id, "use note {}")
	<-slow.Reached
	for n, text := range []string{"the secret", "stop"} {
		p := check.Message(id, fmt.Sprintf("s%d", n), text)
		p.OnBusy = event.OnBusySteer
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
	}
	d.Set(id, "second", check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		if m.Message.Content == "stop" {
			return hook.Respond(hook.Response{Content: "I do not stop.", SenderType: event.CreatedBySystem})
		}
		return hook.Pass()
	}))
	slow.Release()
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, check.Await(t, w, id, e)).Status)
	last := check.ModelCalls(w)[w.Provider.Calls()-1]
	require.Contains(t, last.Raw, "the …")
	require.NotContains(t, last.Raw, "the secret")
	require.Equal(t, event.OutcomeResponded, check.DecisionOn(w, id, "s1").Outcome)
	require.Equal(t, "assistant: I do not stop.", check.SaidIn(w, id)[len(check.SaidIn(w, id))-1])
	want := []string{"message user", "tool_call", "message tool", "message user", "message user", "message agent", "message system"}
	require.Equal(t, want, d.Whats(id, "first"), "S0-24 once each")
}
