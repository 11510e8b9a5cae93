package hooks

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
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// panics panics on messages of people.
var panics = check.OnMessage(event.CreatedByUser, func(event.MessageEvent) hook.Result { panic("at the disco") })

// invalidAnswers are results that hooks must not return, and their errors.
var invalidAnswers = map[string]struct {
	rule    hook.Func
	problem string
}{
	"another thread's message": {check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		m.ThreadID = "elsewhere"
		return hook.Replace(m)
	}), "threadId"},
	"a message without content": {check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		m.Message.Content = ""
		return hook.Replace(m)
	}), "content: is required"},
	"a model call for a message": {check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		return hook.Replace(event.LLMCallEvent{ThreadID: m.ThreadID, AgentName: "assistant"})
	}), "cannot become an llm_call"},
	"a type of the thread's own": {check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		return hook.Replace(event.CustomEvent{Type: event.TypeFinal, ThreadID: m.ThreadID})
	}), "is not a custom type"},
	"too much": {check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
		m.Message.Content = strings.Repeat("x", hook.MaxEvent)
		return hook.Replace(m)
	}), "at most 262144"},
	"an empty response": {check.Responding(event.CreatedByUser, hook.Response{}), "responses[0].content: is required"},
	"a response at no known time": {
		check.Responding(event.CreatedByUser, hook.Response{Content: "x", EnqueueAfter: "later"}), `enqueueAfter: "later"`,
	},
	"a response from nobody known": {
		check.Responding(event.CreatedByUser, hook.Response{Content: "x", SenderType: "ghost"}), `senderType: "ghost"`,
	},
	"a call that the model did not make": {check.OnCalls(func(c event.ToolCallEvent) hook.Result {
		c.ToolCalls = append(c.ToolCalls, event.ToolCall{ID: "mine", Function: event.Function{Name: "spied", Arguments: "{}"}})
		return hook.Replace(c)
	}), "is not one of the event's calls"},
	"a call of another tool": {check.OnCalls(func(c event.ToolCallEvent) hook.Result {
		c.ToolCalls[0].Function.Name = "note"
		return hook.Replace(c)
	}), "cannot be changed"},
	"another agent's calls": {check.OnCalls(func(c event.ToolCallEvent) hook.Result {
		c.AgentName = "bob"
		return hook.Replace(c)
	}), "agentName"},
}

// failsOn fails on events of one kind.
func failsOn(what string) hook.Func {
	return func(_ context.Context, e event.Event) (hook.Result, error) {
		if (check.Entry{Event: e}).What() == what {
			return hook.Result{}, errors.New("no way")
		}
		return hook.Pass(), nil
	}
}

// TestHooksFail covers every failure of hooks.
//
//ci:replayed only
func TestHooksFail(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	with := func(h hook.Hook, attempts int, mode hook.FailureMode) hook.Hook {
		h.MaxAttempts, h.OnFailure = attempts, mode
		return h
	}
	brief := with(d.Hook("brief", "time.taken"), 1, hook.FailClosed)
	brief.Timeout = 20 * time.Millisecond
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{
		d.Hook("first"), with(d.Inline("inline-open", "message"), 0, hook.FailOpen),
		with(d.Hook("open"), 1, hook.FailOpen), brief, with(d.Hook("patient"), 2, ""),
		with(d.Hook("strict"), 1, ""), with(d.Hook("strict-models", event.TypeLLMCall), 1, ""), d.Hook("last"),
	})
	inline := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{
		d.Inline("strict"), with(d.Inline("inline-open"), 0, hook.FailOpen), d.Inline("last"), d.Inline("strict-models", event.TypeLLMCall),
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
		id, wait := w.Open("assistant"), check.NewHalt()
		d.Set(id, "first", wait.Before("message tool", nil))
		d.Set(id, "strict", onMessageErr(event.CreatedByUser, func(m event.MessageEvent) error {
			if m.Message.Content == "psst" {
				return errors.New("no way")
			}
			return nil
		}))
		add(w, id, check.Message(id, "e1", "use note {}"))
		<-wait.Reached
		joins := check.Message(id, "e2", "psst")
		joins.OnBusy = event.OnBusySteer
		add(w, id, joins)
		wait.Release()
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "e1")).Status)
		require.Contains(t, check.FailedEvent(w, id, "e2").Error, "hook strict failed: no way")
		d.Set(id, "strict", nil)
		_, err := w.Threads.Retry(w.Ctx(), id, "e2", "ann")
		require.NoError(t, err)
		require.Equal(t, "psst", check.Wholly(w, id, w.Await(id, "e2")).Message.Content)
	})
	t.Run("S0-23 a hook that takes too long has failed", func(t *testing.T) {
		id := w.Open("assistant")
		d.Set(id, "brief", check.NewHalt().Before("time.taken", nil))
		out := check.Turn(w, id, check.Custom("e1", "time.taken", 1))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "hook brief failed: it took longer than its limit of 20ms")
		require.Contains(t, check.FailedEvent(w, id, "e1").Error, "20ms")
	})
	t.Run("S0-23 S2-35 a hook that panics has failed, and the worker lives", func(t *testing.T) {
		for _, w := range []*harness.Harness{w, inline} {
			id := w.Open("assistant")
			d.Set(id, "strict", panics)
			out := check.Turn(w, id, check.Message(id, "e1", "hello"))
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "hook strict failed: it panicked: at the disco")
			require.Len(t, w.Messages(id), 1)
			d.Set(id, "strict", nil)
			requireBlocked(w, id, []string{"hello"})
			_, err := w.Threads.Retry(w.Ctx(), id, "", "ann")
			require.NoError(t, err)
			require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "e1")).Status)
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
			id, ran := w.Open("assistant"), len(spied.Seen())
			d.Set(id, "strict", tt.rule)
			out := check.Turn(w, id, check.Message(id, "e1", "use spied {}"))
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "hook strict failed")
			require.Contains(t, out.Error, tt.problem)
			require.Len(t, spied.Seen(), ran)
			check.RequireSettled(t, w, id)
		})
	}
}

// hooksFailOpen makes one of several hooks of a message fail.
func hooksFailOpen(t *testing.T, d *check.Desk, w *harness.Harness, name string, rule hook.Func, hooks int) {
	t.Helper()
	id := w.Open("assistant")
	d.Set(id, name, rule)
	d.Set(id, "last", check.Saying(event.CreatedByUser, "hello", "good day"))
	out := check.Turn(w, id, check.Message(id, "e1", "hello"))
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "good day", out.Message.Content, "with what the next one has made of it")
	decided := check.DecisionOn(w, id, "e1")
	require.Equal(t, event.OutcomeReplaced, decided.Outcome)
	outcomes := map[string]event.HookOutcome{}
	for _, h := range decided.Hooks {
		outcomes[h.Name] = h
	}
	require.Len(t, outcomes, hooks, "each is there")
	require.Equal(t, event.OutcomeFailed, outcomes[name].Outcome)
	require.NotEmpty(t, outcomes[name].Error)
	require.Equal(t, event.OutcomeReplaced, outcomes["last"].Outcome)
	require.Empty(t, check.OfType(w, id, event.TypeError))
}

func hooksFailClosed(t *testing.T, d *check.Desk, w *harness.Harness, spied *check.Spy, what, says string) {
	const why = "no way"
	name, id := "strict", w.Open("assistant")
	if what == "llm_call" {
		name = "strict-models"
	}
	d.Set(id, name, failsOn(what))
	view := check.Watch(t, w, id, "")
	calls, ran := w.Provider.Calls(), len(spied.Seen())
	post := check.Message(id, "e1", says)
	if says == "" {
		post = check.Custom("e1", what, 1)
	}
	out := check.Turn(w, id, post)
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "hook "+name+" failed: "+why)
	it := check.FailedEvent(w, id, "e1")
	require.Equal(t, out.Error, it.Error)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, it, check.Only(t, state.Failed))
	failure := harness.Payload[event.Failure](w, check.Only(t, check.OfType(w, id, event.TypeError)))
	require.Equal(t, "e1", failure.EventID)
	require.Equal(t, out.Error, failure.Error)
	require.True(t, failure.Retryable)
	shown := view.Until(t, func(f check.Frame) bool { return f.Event.Terminal() })
	require.Equal(t, event.EventError, shown[len(shown)-1].Event.Type)
	require.Equal(t, out.Error, shown[len(shown)-1].Event.Error)

	// The following steps did not run.
	wantCalls := map[string]int{"message agent": 1, "tool_call": 1, "message tool": 1}[what]
	wantRuns := map[string]int{"message tool": 1}[what]
	require.Equal(t, calls+wantCalls, w.Provider.Calls())
	require.Len(t, spied.Seen(), ran+wantRuns)
	check.RequireSettled(t, w, id)

	// The thread continues, and the event stays.
	d.Set(id, name, nil)
	require.Equal(t, signals.TurnUnanswered, check.Turn(w, id, check.Custom("e2", "thread.lives", 1)).Status)
	require.Equal(t, it, check.FailedEvent(w, id, "e1"))
	seen := 0
	d.Set(id, name, func(context.Context, event.Event) (hook.Result, error) {
		seen++
		return hook.Pass(), nil
	})
	retried, err := w.Threads.Retry(w.Ctx(), id, "e1", "ann")
	require.NoError(t, err)
	require.Equal(t, event.ItemPending, retried.Status)
	out = check.Wholly(w, id, check.Await(t, w, id, "e1"))
	if says == "" {
		require.Equal(t, signals.TurnUnanswered, out.Status)
	} else {
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.NotNil(t, out.Message)
	}
	require.NotZero(t, seen, "the hook is asked again")
	done := check.ItemOf(w, id, "e1")
	require.Equal(t, event.ItemCompleted, done.Status)
	require.Empty(t, done.Error)
	require.Equal(t, 1, done.Attempt)
	require.Len(t, w.Records(id), len(uniqueIDs(w.Records(id))))
	check.RequireSettled(t, w, id)
	if says != "" {
		check.RequireAnswered(t, check.ModelCalls(w)[w.Provider.Calls()-1].Messages)
	}
}

func uniqueIDs(records []event.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		out[r.ID] = true
	}
	return out
}

func hooksTriedAgain(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	failures := 1
	d.Set(id, "first", check.Saying(event.CreatedByUser, "hello", "good day"))
	d.Set(id, "patient", onMessageErr(event.CreatedByUser, func(m event.MessageEvent) error {
		if m.Message.Content != "good day" {
			return errors.New("it was not told what the first one did: " + m.Message.Content)
		}
		if failures > 0 {
			failures--
			return errors.New("not yet")
		}
		return nil
	}))
	require.Equal(t, signals.TurnCompleted, check.Turn(w, id, check.Message(id, "e1", "hello")).Status)
	require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "first"), "e1"))
	require.Equal(t, []int{1, 2}, attemptsOn(d.Asked(id, "patient"), "e1"))
	require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "last"), "e1"))
	for _, h := range check.DecisionOn(w, id, "e1").Hooks {
		want := map[string]int{"patient": 2}[h.Name]
		require.Equal(t, max(want, 1), h.Attempts, h.Name)
		require.Empty(t, h.Error)
	}

	failures = 10
	out := check.Turn(w, id, check.Message(id, "e2", "hello"))
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Equal(t, "hook patient failed: not yet (gave up after 2 attempts)", out.Error)
	require.Equal(t, []int{1, 2}, attemptsOn(d.Asked(id, "patient"), "e2"), "as often as it says, and no more")
	require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "first"), "e2"))
	require.Empty(t, attemptsOn(d.Asked(id, "last"), "e2"), "the hooks behind it are not asked")
	keys := map[string]bool{}
	for _, e := range d.Asked(id, "patient") {
		if e.EventID == "e2" {
			keys[e.Key()] = true
		}
	}
	require.Len(t, keys, 1, "every attempt has the same key")
	require.Equal(t, "hello", w.Messages(id)[len(w.Messages(id))-1].Content, "S0-23 nor is it answered")
}

func onMessageErr(by event.CreatedBy, rule func(event.MessageEvent) error) hook.Func {
	return func(_ context.Context, e event.Event) (hook.Result, error) {
		if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == by {
			return hook.Pass(), rule(m)
		}
		return hook.Pass(), nil
	}
}

// attemptsOn are the attempts of the calls for one event.
func attemptsOn(book []check.Entry, eventID string) (out []int) {
	for _, e := range book {
		if e.EventID == eventID {
			out = append(out, e.Attempt)
		}
	}
	return out
}
