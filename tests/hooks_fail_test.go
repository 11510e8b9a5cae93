package tests

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// failsOn fails on events of one kind.
func failsOn(what string) hook.Func {
	return func(_ context.Context, e event.Event, _ hook.Respond) (event.Event, error) {
		if (entry{event: e}).what() == what {
			return nil, errors.New("no way")
		}
		return nil, nil
	}
}

// panics panics on messages of people.
var panics = onMessage(event.CreatedByUser, func(event.MessageEvent, hook.Respond) event.Event { panic("at the disco") })

// TestHooksFail covers every failure of hooks.
//
//ci:replayed
func TestHooksFail(t *testing.T) {
	t.Parallel()
	d, spied := newDesk(), newSpy("spied")
	with := func(h hook.Hook, attempts int, mode hook.FailureMode) hook.Hook {
		h.MaxAttempts, h.OnFailure = attempts, mode
		return h
	}
	brief := with(d.hook("brief", "time.taken"), 1, hook.FailClosed)
	brief.Timeout = 20 * time.Millisecond
	w := d.open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{
		d.hook("first"), with(d.inline("inline-open", "message"), 0, hook.FailOpen),
		with(d.hook("open"), 1, hook.FailOpen), brief, with(d.hook("patient"), 2, ""),
		with(d.hook("strict"), 1, ""), with(d.hook("strict-models", event.TypeLLMCall), 1, ""), d.hook("last"),
	})
	inline := d.open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{
		d.inline("strict"), with(d.inline("inline-open"), 0, hook.FailOpen), d.inline("last"), d.inline("strict-models", event.TypeLLMCall),
	})
	for what, says := range map[string]string{
		"message user": "hello", "llm_call": "hello", "message agent": "hello\nuse spied {}",
		"tool_call": "use spied {}", "message tool": "use spied {}", "ticket.opened": "",
	} {
		t.Run("S0-23 S2-16 S2-17 "+what+" fails, and is retried by hand", func(t *testing.T) {
			hooksFailClosed(t, d, w, spied, what, says)
		})
		t.Run("S0-23 S2-16 S2-17 "+what+" fails inline, and is retried by hand", func(t *testing.T) {
			hooksFailClosed(t, d, inline, spied, what, says)
		})
	}
	t.Run("S0-23 S0-24 a hook that fails is tried again, no other is", func(t *testing.T) { hooksTriedAgain(t, d, w) })
	t.Run("S0-23 a message that was to join a turn fails, and the turn goes on", func(t *testing.T) {
		id, wait := w.Open("assistant"), newHalt()
		d.set(id, "first", wait.before("message tool", nil))
		d.set(id, "strict", onMessageErr(event.CreatedByUser, func(m event.MessageEvent) error {
			if m.Message.Content == "psst" {
				return errors.New("no way")
			}
			return nil
		}))
		add(w, id, message(id, "e1", "use note {}"))
		<-wait.reached
		joins := message(id, "e2", "psst")
		joins.OnBusy = signals.OnBusySteer
		add(w, id, joins)
		wait.release()
		require.Equal(t, signals.TurnCompleted, wholly(w, id, w.Await(id, "e1")).Status)
		require.Contains(t, failedEvent(w, id, "e2").Error, "hook strict failed: no way")
		d.set(id, "strict", nil)
		_, err := w.Threads.Retry(w.Ctx(), id, "e2", "ann")
		require.NoError(t, err)
		require.Equal(t, "psst", wholly(w, id, w.Await(id, "e2")).Message.Content)
	})
	t.Run("S0-23 a hook that takes too long has failed", func(t *testing.T) {
		id := w.Open("assistant")
		d.set(id, "brief", newHalt().before("time.taken", nil))
		out := turn(w, id, custom("e1", "time.taken", 1))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "hook brief failed: it took longer than its limit of 20ms")
		require.Contains(t, failedEvent(w, id, "e1").Error, "20ms")
	})
	t.Run("S0-23 S2-35 a hook that panics has failed, and the worker lives", func(t *testing.T) {
		for _, w := range []*harness.Harness{w, inline} {
			id := w.Open("assistant")
			d.set(id, "strict", panics)
			out := turn(w, id, message(id, "e1", "hello"))
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "hook strict failed: it panicked: at the disco")
			require.Len(t, w.Messages(id), 1)
			d.set(id, "strict", nil)
			requireBlocked(w, id, []string{"hello"})
			_, err := w.Threads.Retry(w.Ctx(), id, "", "ann")
			require.NoError(t, err)
			require.Equal(t, signals.TurnCompleted, wholly(w, id, w.Await(id, "e1")).Status)
		}
	})
	t.Run("S2-35 an open hook that fails is recorded, and the next one runs", func(t *testing.T) {
		hooksFailOpen(t, d, w, "open", panics, 6)
		hooksFailOpen(t, d, w, "inline-open", failsOn("message user"), 6)
		hooksFailOpen(t, d, inline, "inline-open", panics, 3)
		hooksFailOpen(t, d, inline, "inline-open", failsOn("message user"), 3)
	})
	for name, tt := range invalidAnswers {
		t.Run("S0-23 S0-07 a hook that returns "+name+" has failed", func(t *testing.T) {
			id, ran := w.Open("assistant"), len(spied.seen())
			d.set(id, "strict", tt.rule)
			out := turn(w, id, message(id, "e1", "use spied {}"))
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "hook strict failed")
			require.Contains(t, out.Error, tt.problem)
			require.Len(t, spied.seen(), ran)
			requireSettled(t, w, id)
		})
	}
}

// hooksFailOpen makes one of several hooks of a message fail.
func hooksFailOpen(t *testing.T, d *desk, w *harness.Harness, name string, rule hook.Func, hooks int) {
	t.Helper()
	id := w.Open("assistant")
	d.set(id, name, rule)
	d.set(id, "last", saying(event.CreatedByUser, "hello", "good day"))
	out := turn(w, id, message(id, "e1", "hello"))
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "good day", out.Message.Content, "with what the next one has made of it")
	decided := decisionOn(w, id, "e1")
	require.Equal(t, event.OutcomeReplaced, decided.Outcome)
	outcomes := map[string]event.HookOutcome{}
	for _, h := range decided.Hooks {
		outcomes[h.Name] = h
	}
	require.Len(t, outcomes, hooks, "each is there")
	require.Equal(t, event.OutcomeFailed, outcomes[name].Outcome)
	require.NotEmpty(t, outcomes[name].Error)
	require.Equal(t, event.OutcomeReplaced, outcomes["last"].Outcome)
	require.Empty(t, ofType(w, id, event.TypeError))
}

func hooksFailClosed(t *testing.T, d *desk, w *harness.Harness, spied *spy, what, says string) {
	const why = "no way"
	name, id := "strict", w.Open("assistant")
	if what == "llm_call" {
		name = "strict-models"
	}
	d.set(id, name, failsOn(what))
	view := watch(t, w, id, "")
	calls, ran := w.Provider.Calls(), len(spied.seen())
	post := message(id, "e1", says)
	if says == "" {
		post = custom("e1", what, 1)
	}
	out := turn(w, id, post)
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "hook "+name+" failed: "+why)
	it := failedEvent(w, id, "e1")
	require.Equal(t, out.Error, it.Error)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, it, only(t, state.Failed))
	failure := harness.Payload[event.Failure](w, only(t, ofType(w, id, event.TypeError)))
	require.Equal(t, "e1", failure.EventID)
	require.Equal(t, out.Error, failure.Error)
	require.True(t, failure.Retryable)
	shown := view.until(t, func(f frame) bool { return f.event.Terminal() })
	require.Equal(t, event.EventError, shown[len(shown)-1].event.Type)
	require.Equal(t, out.Error, shown[len(shown)-1].event.Error)

	// The following steps did not run.
	wantCalls := map[string]int{"message agent": 1, "tool_call": 1, "message tool": 1}[what]
	wantRuns := map[string]int{"message tool": 1}[what]
	require.Equal(t, calls+wantCalls, w.Provider.Calls())
	require.Len(t, spied.seen(), ran+wantRuns)
	requireSettled(t, w, id)

	// The thread continues, and the event stays.
	d.set(id, name, nil)
	require.Equal(t, signals.TurnUnanswered, turn(w, id, custom("e2", "thread.lives", 1)).Status)
	require.Equal(t, it, failedEvent(w, id, "e1"))
	seen := 0
	d.set(id, name, func(context.Context, event.Event, hook.Respond) (event.Event, error) {
		seen++
		return nil, nil
	})
	retried, err := w.Threads.Retry(w.Ctx(), id, "e1", "ann")
	require.NoError(t, err)
	require.Equal(t, event.ItemPending, retried.Status)
	out = wholly(w, id, await(t, w, id, "e1"))
	if says == "" {
		require.Equal(t, signals.TurnUnanswered, out.Status)
	} else {
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.NotNil(t, out.Message)
	}
	require.NotZero(t, seen, "the hook is asked again")
	done := itemOf(w, id, "e1")
	require.Equal(t, event.ItemCompleted, done.Status)
	require.Empty(t, done.Error)
	require.Equal(t, 1, done.Attempt)
	require.Len(t, w.Records(id), len(uniqueIDs(w.Records(id))))
	requireSettled(t, w, id)
	if says != "" {
		requireAnswered(t, modelCalls(w)[w.Provider.Calls()-1].Messages)
	}
}

func uniqueIDs(records []event.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		out[r.ID] = true
	}
	return out
}

func hooksTriedAgain(t *testing.T, d *desk, w *harness.Harness) {
	id := w.Open("assistant")
	failures := 1
	d.set(id, "first", saying(event.CreatedByUser, "hello", "good day"))
	d.set(id, "patient", onMessageErr(event.CreatedByUser, func(m event.MessageEvent) error {
		if m.Message.Content != "good day" {
			return errors.New("it was not told what the first one did: " + m.Message.Content)
		}
		if failures > 0 {
			failures--
			return errors.New("not yet")
		}
		return nil
	}))
	require.Equal(t, signals.TurnCompleted, turn(w, id, message(id, "e1", "hello")).Status)
	require.Equal(t, []int{1}, attemptsOn(d.asked(id, "first"), "e1"))
	require.Equal(t, []int{1, 2}, attemptsOn(d.asked(id, "patient"), "e1"))
	require.Equal(t, []int{1}, attemptsOn(d.asked(id, "last"), "e1"))
	for _, h := range decisionOn(w, id, "e1").Hooks {
		want := map[string]int{"patient": 2}[h.Name]
		require.Equal(t, max(want, 1), h.Attempts, h.Name)
		require.Empty(t, h.Error)
	}

	failures = 10
	out := turn(w, id, message(id, "e2", "hello"))
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Equal(t, "hook patient failed: not yet (gave up after 2 attempts)", out.Error)
	require.Equal(t, []int{1, 2}, attemptsOn(d.asked(id, "patient"), "e2"), "as often as it says, and no more")
	require.Equal(t, []int{1}, attemptsOn(d.asked(id, "first"), "e2"))
	require.Empty(t, attemptsOn(d.asked(id, "last"), "e2"), "the hooks behind it are not asked")
	keys := map[string]bool{}
	for _, e := range d.asked(id, "patient") {
		if e.EventID == "e2" {
			keys[e.Key()] = true
		}
	}
	require.Len(t, keys, 1, "every attempt has the same key")
	require.Equal(t, "hello", w.Messages(id)[len(w.Messages(id))-1].Content, "S0-23 nor is it answered")
}

func onMessageErr(by event.CreatedBy, rule func(event.MessageEvent) error) hook.Func {
	return func(_ context.Context, e event.Event, _ hook.Respond) (event.Event, error) {
		if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == by {
			return nil, rule(m)
		}
		return nil, nil
	}
}

// attemptsOn are the attempts of the calls for one event.
func attemptsOn(book []entry, eventID string) (out []int) {
	for _, e := range book {
		if e.EventID == eventID {
			out = append(out, e.Attempt)
		}
	}
	return out
}

// invalidAnswers are results that hooks must not return, and their errors.
var invalidAnswers = map[string]struct {
	rule    hook.Func
	problem string
}{
	"another thread's message": {onMessage(event.CreatedByUser, func(m event.MessageEvent, _ hook.Respond) event.Event {
		m.ThreadID = "elsewhere"
		return m
	}), "threadId"},
	"a message without content": {onMessage(event.CreatedByUser, func(m event.MessageEvent, _ hook.Respond) event.Event {
		m.Message.Content = ""
		return m
	}), "content: is required"},
	"a model call for a message": {onMessage(event.CreatedByUser, func(m event.MessageEvent, _ hook.Respond) event.Event {
		return event.LLMCallEvent{ThreadID: m.ThreadID, AgentName: "assistant"}
	}), "cannot become an llm_call"},
	"a type of the thread's own": {onMessage(event.CreatedByUser, func(m event.MessageEvent, _ hook.Respond) event.Event {
		return event.CustomEvent{Type: event.TypeFinal, ThreadID: m.ThreadID}
	}), "is not a custom type"},
	"too much": {onMessage(event.CreatedByUser, func(m event.MessageEvent, _ hook.Respond) event.Event {
		m.Message.Content = strings.Repeat("x", hook.MaxEvent)
		return m
	}), "at most 262144"},
	"an empty response": {responding(event.CreatedByUser, hook.Response{}), "responses[0].content: is required"},
	"a response at no known time": {
		responding(event.CreatedByUser, hook.Response{Content: "x", EnqueueAfter: "later"}), `enqueueAfter: "later"`,
	},
	"a response from nobody known": {
		responding(event.CreatedByUser, hook.Response{Content: "x", SenderType: "ghost"}), `senderType: "ghost"`,
	},
	"a call that the model did not make": {onCalls(func(c event.ToolCallEvent, _ hook.Respond) event.Event {
		c.ToolCalls = append(c.ToolCalls, event.ToolCall{ID: "mine", Function: event.Function{Name: "spied", Arguments: "{}"}})
		return c
	}), "is not one of the event's calls"},
	"a call of another tool": {onCalls(func(c event.ToolCallEvent, _ hook.Respond) event.Event {
		c.ToolCalls[0].Function.Name = "note"
		return c
	}), "cannot be changed"},
	"another agent's calls": {onCalls(func(c event.ToolCallEvent, _ hook.Respond) event.Event {
		c.AgentName = "bob"
		return c
	}), "agentName"},
}
