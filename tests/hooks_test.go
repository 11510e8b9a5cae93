package tests

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
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestHooksSeeEvents: hooks see all events.
func TestHooksSeeEvents(t *testing.T) {
	t.Parallel()
	d, spied := newDesk(), newSpy("spied")
	w := d.open(t, harness.Options{Tools: []tool.Tool{spied}},
		[]hook.Hook{d.hook("first"), d.inline("between"), d.hook("second"), d.hook("models", event.TypeLLMCall)})
	inline := d.open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.inline("inline")})
	bare := harness.New(t, harness.Options{Tools: []tool.Tool{spied}, Agents: deskAgents("spied")})

	t.Run("S0-08 S0-11 what returns nothing changes nothing", func(t *testing.T) { hooksPass(t, d, w, inline, bare) })
	t.Run("S0-24 S0-30 S0-33 S2-18 once for each event, in a turn with everything", func(t *testing.T) { hooksOnce(t, d, w) })
	t.Run("S0-24 once also for an event that is posted twice, or retried", func(t *testing.T) { hooksOnceAgain(t, d, w) })
	t.Run("S0-39 however many tokens there are", func(t *testing.T) {
		count := func(says string) int {
			id := w.Open("assistant")
			say(w, id, says)
			return len(d.asked(id, ""))
		}
		require.Equal(t, count("count 2"), count("count 300"))
	})
	t.Run("S0-35 S0-30 stored, then hooked, then the rest", func(t *testing.T) { hooksBetween(t, d, w, spied) })
	t.Run("S0-35 a response waits in no queue until its hook has returned", func(t *testing.T) { hooksBeforeResponses(t, d, w) })
	t.Run("an interrupt does not wait for a hook", func(t *testing.T) {
		id, stopped := w.Open("assistant"), newHalt()
		d.set(id, "first", stopped.before("message user", nil))
		e := w.Post(id, "hello")
		<-stopped.reached
		calls := w.Provider.Calls()
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, wholly(w, id, await(t, w, id, e)).Status)
		require.Equal(t, calls, w.Provider.Calls())
		d.set(id, "first", nil)
		require.Equal(t, signals.TurnCompleted, say(w, id, "again").Status)
	})
}

func hooksPass(t *testing.T, d *desk, w, inline, bare *harness.Harness) {
	const says = "hello\nuse spied {\"n\":1}\nuse note {\"text\":\"x\"}"
	plain := bare.Open("assistant")
	say(bare, plain, says)
	require.Empty(t, ofType(bare, plain, event.TypeHook), "without hooks there are no decisions")
	// A hook may change its own copy of the event.
	spoil := func(_ context.Context, e event.Event, _ hook.Respond) (event.Event, error) {
		switch e := e.(type) {
		case event.MessageEvent:
			e.Message.Content = "spoiled"
			if len(e.Message.ToolCalls) > 0 {
				e.Message.ToolCalls[0].Function.Arguments = `{"n":2}`
			}
		case event.ToolCallEvent:
			e.ToolCalls[0].Function.Arguments = `{"n":2}`
		}
		return nil, nil
	}
	passes := func(w *harness.Harness, rules ...string) string {
		id, before := w.Open("assistant"), w.Provider.Calls()
		for _, name := range rules {
			d.set(id, name, spoil)
		}
		require.Equal(t, signals.TurnCompleted, say(w, id, says).Status)
		require.Equal(t, sorted(bare.Transcript(plain)), sorted(w.Transcript(id)))
		here, there := modelCalls(w)[before:], modelCalls(bare)
		require.Len(t, here, len(there))
		require.Equal(t, there[0].Messages, here[0].Messages)
		require.Len(t, here[1].Messages, len(there[1].Messages))
		for _, r := range ofType(w, id, event.TypeHook) {
			require.Equal(t, event.OutcomePassed, harness.Payload[event.Interception](w, r).Outcome)
		}
		return id
	}
	passes(w)
	spoiled := passes(w, "first", "between")
	for _, e := range d.asked(spoiled, "second") {
		raw, err := json.Marshal(e.event)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "spoiled", "the hooks behind it are given the event as it is")
		require.NotContains(t, string(raw), `"n\":2`)
	}
	require.Empty(t, ofType(inline, passes(inline), event.TypeHook), "a pass of an inline hook is not worth a record")
	passes(inline, "inline")
}

// sorted sorts the lines of a transcript: the results of a batch arrive in any order.
func sorted(transcript string) []string {
	return slices.Sorted(strings.Lines(transcript))
}

func hooksOnce(t *testing.T, d *desk, w *harness.Harness) {
	id := w.Open("assistant")
	require.Equal(t, signals.TurnCompleted, say(w, id, "hello\nuse spied {\"n\":1}\nuse note {}").Status)
	require.Equal(t, signals.TurnUnanswered, turn(w, id, custom("c1", "ticket.opened", map[string]int{"n": 1})).Status)
	want := []string{
		"message user", "message agent", "tool_call", "message tool", "message tool", "message agent", "ticket.opened",
	}
	require.Equal(t, want, d.whats(id, "first"), "and all of them in the order in which they happen")
	require.Equal(t, want, d.whats(id, "second"))
	require.Equal(t, []string{"llm_call", "llm_call"}, d.whats(id, "models"))
	seen := map[string]bool{}
	for _, e := range d.asked(id, "") {
		require.False(t, seen[e.Key()], "asked twice about %s: %s", e.EventID, e.what())
		seen[e.Key()] = true
		require.Equal(t, 1, e.Attempt)
		decided := decisionOn(w, id, e.EventID)
		require.Equal(t, event.OutcomePassed, decided.Outcome)
		require.Equal(t, e.event.EventType(), decided.EventType)
	}
	decisions := ofType(w, id, event.TypeHook)
	require.Len(t, decisions, len(want)+2, "one decision for each event")
	requireBlocked(w, id, []string{"ticket.opened"}, "hello")
	for _, e := range d.asked(id, "") {
		require.Equal(t, 1, e.Attempt)
	}
}

func hooksOnceAgain(t *testing.T, d *desk, w *harness.Harness) {
	id := w.Open("assistant")
	d.set(id, "first", saying(event.CreatedByUser, "secret", "…"))
	for eventID, says := range map[string]string{"changed": "the secret", "passed": "the news"} {
		w.Provider.Fail(failing400)
		require.Equal(t, signals.TurnFailed, turn(w, id, message(id, eventID, says)).Status)
		require.Equal(t, signals.TurnFailed, turn(w, id, message(id, eventID, says)).Status)
		_, err := w.Threads.Retry(w.Ctx(), id, eventID, "ann")
		require.NoError(t, err)
		out := wholly(w, id, w.Await(id, eventID))
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, []int{1}, attemptsOn(d.asked(id, "first"), eventID), "what was decided on the message stands")
		require.Equal(t, strings.ReplaceAll(says, "secret", "…"), out.Message.Content, "also for the model that is asked again")
	}
	requireBlocked(w, id, []string{"secret"}, "the news")
}

// hooksBetween stops a turn in each of its hooks, and checks its state.
func hooksBetween(t *testing.T, d *desk, w *harness.Harness, spied *spy) {
	id := w.Open("assistant")
	before, ran := w.Provider.Calls(), len(spied.seen())
	halts := map[string]*halt{}
	var readable hook.Func = func(ctx context.Context, e event.Event, _ hook.Respond) (event.Event, error) {
		deps := hook.DepsOf(ctx)
		found, err := deps.Store.RecordsByID(ctx, deps.Context.EventID)
		if err != nil {
			return nil, err
		}
		if assert.Len(t, found, 1, "the record of %s", e.EventType()) && e.EventType() == event.TypeMessage {
			messages, err := deps.Store.Messages(ctx, 0)
			if err != nil {
				return nil, err
			}
			// Not always the last: the result of another call may be stored after it.
			ids := make([]string, len(messages))
			for i, m := range messages {
				ids[i] = m.ID
			}
			assert.Contains(t, ids, deps.Context.EventID)
		}
		return nil, nil
	}
	rule := readable
	for _, what := range []string{"message user", "message agent", "tool_call", "message tool"} {
		halts[what] = newHalt()
		rule = halts[what].before(what, rule)
	}
	d.set(id, "first", rule)
	e := w.Post(id, "well\nuse shell_cmd {\"command\":\"true\"}\nuse spied {}")

	<-halts["message user"].reached
	require.Equal(t, before, w.Provider.Calls(), "the model is not called")
	require.Len(t, w.Messages(id), 1)
	require.Empty(t, d.asked(id, "models"))
	halts["message user"].release()

	// nothing checks that a reply with calls has had no effect but its records.
	nothing := func(at string) {
		require.Equal(t, before+1, w.Provider.Calls(), at)
		require.Len(t, spied.seen(), ran, at)
		require.Empty(t, toolLogs(w, id), at)
		require.Empty(t, ofType(w, id, event.TypeApprovalRequest), at)
		asks, err := w.Threads.Approvals(w.Ctx(), id)
		require.NoError(t, err)
		require.Empty(t, asks.Approvals, at)
		require.Empty(t, ofType(w, id, event.TypeFinal), at)
	}
	<-halts["message agent"].reached
	nothing("while a hook decides on what the agent says")
	require.NotContains(t, d.whats(id, "first"), "tool_call", "the calls are an event that follows")
	halts["message agent"].release()
	<-halts["tool_call"].reached
	nothing("while a hook decides on its calls")
	require.Equal(t, []string{"tool_call"}, d.whats(id, "first")[2:])
	halts["tool_call"].release()

	<-halts["message tool"].reached
	require.Len(t, results(w, id), 1, "the result is stored")
	require.Len(t, spied.seen(), ran+1)
	require.Equal(t, before+1, w.Provider.Calls(), "and the model has not heard of it")
	require.Equal(t, signals.DecideAccepted, approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
	halts["message tool"].release()
	require.Equal(t, signals.TurnCompleted, wholly(w, id, await(t, w, id, e)).Status)
	require.Equal(t, before+2, w.Provider.Calls())
	requireSettled(t, w, id)
}

func hooksBeforeResponses(t *testing.T, d *desk, w *harness.Harness) {
	id, gone := w.Open("assistant"), newHalt()
	said := make(chan struct{})
	d.set(id, "first", func(ctx context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		if m, ok := e.(event.MessageEvent); !ok || m.CreatedBy != event.CreatedByUser {
			return nil, nil
		}
		respond(hook.Response{Content: "no", SenderType: event.CreatedBySystem, EnqueueAfter: hook.EnqueueImmediately})
		close(said)
		return gone.before("message user", nil)(ctx, e, respond)
	})
	e := w.Post(id, "hello")
	<-said
	<-gone.reached
	q, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, e, q.Processing.ID)
	require.Empty(t, q.Items)
	require.Len(t, w.Messages(id), 1)
	gone.release()
	wholly(w, id, await(t, w, id, e))
	require.Equal(t, []string{"ann: hello", "assistant: no"}, saidIn(w, id))
}
