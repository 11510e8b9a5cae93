package hooks

import (
	"context"
	"encoding/json"
	"slices"
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

// TestHooksSeeEvents: hooks see all events.
func TestHooksSeeEvents(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}},
		[]hook.Hook{d.Hook("first"), d.Inline("between"), d.Hook("second"), d.Hook("models", event.TypeLLMCall)})
	inline := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.Inline("inline")})
	bare := harness.New(t, harness.Options{Tools: []tool.Tool{spied}, Agents: check.DeskAgents("spied")})

	t.Run("S0-08 S0-11 what returns nothing changes nothing", func(t *testing.T) { hooksPass(t, d, w, inline, bare) })
	t.Run("S0-24 S0-30 S0-33 S2-18 once for each event, in a turn with everything", func(t *testing.T) { hooksOnce(t, d, w) })
	t.Run("S0-24 once also for an event that is posted twice, or retried", func(t *testing.T) { hooksOnceAgain(t, d, w) })
	t.Run("S0-39 however many tokens there are", func(t *testing.T) {
		count := func(says string) int {
			id := w.Open("assistant")
			check.Say(w, id, says)
			return len(d.Asked(id, ""))
		}
		require.Equal(t, count("count 2"), count("count 300"))
	})
	t.Run("S0-35 S0-30 stored, then hooked, then the rest", func(t *testing.T) { hooksBetween(t, d, w, spied) })
	t.Run("S0-35 a response waits in no queue until its hook has returned", func(t *testing.T) { hooksBeforeResponses(t, d, w) })
	t.Run("an interrupt does not wait for a hook", func(t *testing.T) {
		id, stopped := w.Open("assistant"), check.NewHalt()
		d.Set(id, "first", stopped.Before("message user", nil))
		e := w.Post(id, "hello")
		<-stopped.Reached
		calls := w.Provider.Calls()
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Wholly(w, id, check.Await(t, w, id, e)).Status)
		require.Equal(t, calls, w.Provider.Calls())
		d.Set(id, "first", nil)
		require.Equal(t, signals.TurnCompleted, check.Say(w, id, "again").Status)
	})
}

func hooksPass(t *testing.T, d *check.Desk, w, inline, bare *harness.Harness) {
	const says = "hello\nuse spied {\"n\":1}\nuse note {\"text\":\"x\"}"
	plain := bare.Open("assistant")
	check.Say(bare, plain, says)
	require.Empty(t, check.OfType(bare, plain, event.TypeHook), "without hooks there are no decisions")
	// A hook may change its own copy of the event.
	spoil := func(_ context.Context, e event.Event) (hook.Result, error) {
		switch e := e.(type) {
		case event.MessageEvent:
			e.Message.Content = "spoiled"
			if len(e.Message.ToolCalls) > 0 {
				e.Message.ToolCalls[0].Function.Arguments = `{"n":2}`
			}
		case event.ToolCallEvent:
			e.ToolCalls[0].Function.Arguments = `{"n":2}`
		}
		return hook.Pass(), nil
	}
	passes := func(w *harness.Harness, rules ...string) string {
		id, before := w.Open("assistant"), w.Provider.Calls()
		for _, name := range rules {
			d.Set(id, name, spoil)
		}
		require.Equal(t, signals.TurnCompleted, check.Say(w, id, says).Status)
		require.Equal(t, sorted(bare.Transcript(plain)), sorted(w.Transcript(id)))
		here, there := check.ModelCalls(w)[before:], check.ModelCalls(bare)
		require.Len(t, here, len(there))
		require.Equal(t, there[0].Messages, here[0].Messages)
		require.Len(t, here[1].Messages, len(there[1].Messages))
		for _, r := range check.OfType(w, id, event.TypeHook) {
			require.Equal(t, event.OutcomePassed, harness.Payload[event.Interception](w, r).Outcome)
		}
		return id
	}
	passes(w)
	spoiled := passes(w, "first", "between")
	for _, e := range d.Asked(spoiled, "second") {
		raw, err := json.Marshal(e.Event)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "spoiled", "the hooks behind it are given the event as it is")
		require.NotContains(t, string(raw), `"n\":2`)
	}
	require.Empty(t, check.OfType(inline, passes(inline), event.TypeHook), "a pass of an inline hook is not worth a record")
	passes(inline, "inline")
}

// sorted sorts the lines of a transcript: the results of a batch arrive in any order.
func sorted(transcript string) []string {
	return slices.Sorted(strings.Lines(transcript))
}

func hooksOnce(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	require.Equal(t, signals.TurnCompleted, check.Say(w, id, "hello\nuse spied {\"n\":1}\nuse note {}").Status)
	require.Equal(t, signals.TurnUnanswered, check.Turn(w, id, check.Custom("c1", "ticket.opened", map[string]int{"n": 1})).Status)
	want := []string{
		"message user", "message agent", "tool_call", "message tool", "message tool", "message agent", "ticket.opened",
	}
	require.Equal(t, want, d.Whats(id, "first"), "and all of them in the order in which they happen")
	require.Equal(t, want, d.Whats(id, "second"))
	require.Equal(t, []string{"llm_call", "llm_call"}, d.Whats(id, "models"))
	seen := map[string]bool{}
	for _, e := range d.Asked(id, "") {
		require.False(t, seen[e.Key()], "asked twice about %s: %s", e.EventID, e.What())
		seen[e.Key()] = true
		require.Equal(t, 1, e.Attempt)
		decided := check.DecisionOn(w, id, e.EventID)
		require.Equal(t, event.OutcomePassed, decided.Outcome)
		require.Equal(t, e.Event.EventType(), decided.EventType)
	}
	decisions := check.OfType(w, id, event.TypeHook)
	require.Len(t, decisions, len(want)+2, "one decision for each event")
	requireBlocked(w, id, []string{"ticket.opened"}, "hello")
	for _, e := range d.Asked(id, "") {
		require.Equal(t, 1, e.Attempt)
	}
}

func hooksOnceAgain(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	d.Set(id, "first", check.Saying(event.CreatedByUser, "secret", "…"))
	for eventID, says := range map[string]string{"changed": "the secret", "passed": "the news"} {
		w.Provider.Fail(check.Failing400)
		require.Equal(t, signals.TurnFailed, check.Turn(w, id, check.Message(id, eventID, says)).Status)
		require.Equal(t, signals.TurnFailed, check.Turn(w, id, check.Message(id, eventID, says)).Status)
		_, err := w.Threads.Retry(w.Ctx(), id, eventID, "ann")
		require.NoError(t, err)
		out := check.Wholly(w, id, w.Await(id, eventID))
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "first"), eventID), "what was decided on the message stands")
		require.Equal(t, strings.ReplaceAll(says, "secret", "…"), out.Message.Content, "also for the model that is asked again")
	}
	requireBlocked(w, id, []string{"secret"}, "the news")
}

// hooksBetween stops a turn in each of its hooks, and checks its state.
func hooksBetween(t *testing.T, d *check.Desk, w *harness.Harness, spied *check.Spy) {
	id := w.Open("assistant")
	before, ran := w.Provider.Calls(), len(spied.Seen())
	halts := map[string]*check.Halt{}
	var readable hook.Func = func(ctx context.Context, e event.Event) (hook.Result, error) {
		deps := hook.DepsOf(ctx)
		found, err := deps.Store.RecordsByID(ctx, deps.Context.EventID)
		if err != nil {
			return hook.Result{}, err
		}
		if assert.Len(t, found, 1, "the record of %s", e.EventType()) && e.EventType() == event.TypeMessage {
			messages, err := deps.Store.Messages(ctx, 0)
			if err != nil {
				return hook.Result{}, err
			}
			// Not always the last: the result of another call may be stored after it.
			ids := make([]string, len(messages))
			for i, m := range messages {
				ids[i] = m.ID
			}
			assert.Contains(t, ids, deps.Context.EventID)
		}
		return hook.Pass(), nil
	}
	rule := readable
	for _, what := range []string{"message user", "message agent", "tool_call", "message tool"} {
		halts[what] = check.NewHalt()
		rule = halts[what].Before(what, rule)
	}
	d.Set(id, "first", rule)
	e := w.Post(id, "well\nuse shell_cmd {\"command\":\"true\"}\nuse spied {}")

	<-halts["message user"].Reached
	require.Equal(t, before, w.Provider.Calls(), "the model is not called")
	require.Len(t, w.Messages(id), 1)
	require.Empty(t, d.Asked(id, "models"))
	halts["message user"].Release()

	// nothing checks that a reply with calls has had no effect but its records.
	nothing := func(at string) {
		require.Equal(t, before+1, w.Provider.Calls(), at)
		require.Len(t, spied.Seen(), ran, at)
		require.Empty(t, check.ToolLogs(w, id), at)
		require.Empty(t, check.OfType(w, id, event.TypeApprovalRequest), at)
		asks, err := w.Threads.Approvals(w.Ctx(), id)
		require.NoError(t, err)
		require.Empty(t, asks.Approvals, at)
		require.Empty(t, check.OfType(w, id, event.TypeFinal), at)
	}
	<-halts["message agent"].Reached
	nothing("while a hook decides on what the agent says")
	require.NotContains(t, d.Whats(id, "first"), "tool_call", "the calls are an event that follows")
	halts["message agent"].Release()
	<-halts["tool_call"].Reached
	nothing("while a hook decides on its calls")
	require.Equal(t, []string{"tool_call"}, d.Whats(id, "first")[2:])
	halts["tool_call"].Release()

	<-halts["message tool"].Reached
	require.Len(t, check.Results(w, id), 1, "the result is stored")
	require.Len(t, spied.Seen(), ran+1)
	require.Equal(t, before+1, w.Provider.Calls(), "and the model has not heard of it")
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
	halts["message tool"].Release()
	require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, check.Await(t, w, id, e)).Status)
	require.Equal(t, before+2, w.Provider.Calls())
	check.RequireSettled(t, w, id)
}

func hooksBeforeResponses(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, gone := w.Open("assistant"), check.NewHalt()
	no := hook.Response{Content: "no", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueImmediately}
	d.Set(id, "first", gone.Before("message user", check.Responding(event.CreatedByUser, no)))
	e := w.Post(id, "hello")
	<-gone.Reached
	q, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, e, q.Processing.ID)
	require.Empty(t, q.Items)
	require.Len(t, w.Messages(id), 1)
	gone.Release()
	check.Wholly(w, id, check.Await(t, w, id, e))
	require.Equal(t, []string{"ann: hello", "assistant: no"}, check.SaidIn(w, id))
}
