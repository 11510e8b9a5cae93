package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestEventHooks: hooks decide on events before rules.
func TestEventHooks(t *testing.T) {
	t.Parallel()
	d, l := check.NewDesk(), newLedger()
	files := wakes("files", "file.*", rule.Agent{Prompt: "Look at the file."})
	files.Function, files.MaxAttempts = l.handle, 1
	slow := l.rule("slow", "slow.*")
	slow.Debounce = 100 * time.Millisecond
	w := d.Open(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}, Configure: func(c *threadmill.Config) {
		c.Rules = []rule.Rule{files, l.rule("moved", "moved.*"), slow}
	}}, []hook.Hook{d.Hook("function", "file.*", "slow.*", "message"), d.Inline("inline", "file.*", "slow.*")})
	for _, name := range []string{"function", "inline"} {
		t.Run(name, func(t *testing.T) {
			t.Run("what it changes holds for rule and agent", func(t *testing.T) { eventChanged(t, w, d, l, name) })
			t.Run("the changed type decides on the rule", func(t *testing.T) { eventRetyped(t, w, d, l, name) })
			t.Run("what it answers is not for rules", func(t *testing.T) { eventTaken(t, w, d, l, name) })
			t.Run("what it changes stays so when the event is retried", func(t *testing.T) { eventChangedOnce(t, w, d, l, name) })
			t.Run("what it changes stays so while the event is held back", func(t *testing.T) { eventChangedHeld(t, w, d, l, name) })
			t.Run("one that fails can be retried", func(t *testing.T) { eventHookFails(t, w, d, l, name) })
		})
	}
	t.Run("a hook sees the message that a user_query becomes", func(t *testing.T) {
		thread := w.Open()
		d.Set(thread, "function", check.Saying(event.CreatedByUser, "hello", "good day"))
		require.Equal(t, "good day", check.Handle(w, thread, userQuery("hello")).Message.Content)
	})
}

// onEnv is a hook's rule for environment events.
func onEnv(change func(e event.EnvEvent) (hook.Result, error)) hook.Func {
	return func(_ context.Context, e event.Event) (hook.Result, error) {
		if env, ok := e.(event.EnvEvent); ok {
			return change(env)
		}
		return hook.Pass(), nil
	}
}

func eventChanged(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread := w.Open()
	d.Set(thread, name, onEnv(func(e event.EnvEvent) (hook.Result, error) {
		e.Payload = json.RawMessage(`{"path":"a.go","token":"[redacted]"}`)
		return hook.Replace(e), nil
	}))
	w.Provider.Reset()
	e := check.Happened("file.changed", map[string]string{"path": "a.go", "token": "hush"})
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
	require.JSONEq(t, `{"path":"a.go","token":"[redacted]"}`, string(check.Only(t, l.calls(thread)).event.Payload))
	require.Equal(t, event.OutcomeReplaced, check.DecisionOn(w, thread, e.ID).Outcome)
	require.JSONEq(t, string(e.Payload), string(check.Only(t, published(w, thread)).Payload), "the record is as it was published")

	d.Set(thread, name, nil)
	out := check.Wholly(w, thread, w.Say(thread, `use get_event_info {"event_ids":["`+e.ID+`"]}`))
	require.Contains(t, out.Message.Content, "[redacted]")
	calls := check.ModelCalls(w)
	require.Len(t, calls, 3)
	for _, c := range calls {
		require.Contains(t, c.Raw, "[redacted]")
		require.NotContains(t, c.Raw, "hush", "no model sees what was taken out")
	}
}

// counting is a hook's rule that counts its calls for an event.
func counting() hook.Func {
	asked := atomic.Int64{}
	return onEnv(func(e event.EnvEvent) (hook.Result, error) {
		e.Payload = fmt.Appendf(nil, `{"asked":%d}`, asked.Add(1))
		return hook.Replace(e), nil
	})
}

func eventChangedOnce(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	d.Set(thread, name, counting())
	l.on(e.ID, func(context.Context, rule.Context, event.EnvEvent) error { return errors.New("not yet") })
	require.Equal(t, signals.TurnFailed, check.Handle(w, thread, e).Status)
	l.on(e.ID, nil)
	_, err := w.Threads.Retry(w.Ctx(), thread, e.ID, "ann")
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, e).Status)
	calls := l.calls(thread)
	require.Len(t, calls, 2)
	require.Equal(t, calls[0].event, calls[1].event)
	shown := harness.Payload[event.Message](w, check.RecordOf(w, thread, "call_"+e.ID+".result")).Content
	require.Contains(t, shown, `"payload":`+string(calls[0].event.Payload))
}

func eventChangedHeld(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread, e := w.Open(), check.Happened("slow.news", nil)
	d.Set(thread, name, onEnv(func(e event.EnvEvent) (hook.Result, error) {
		e.Payload = json.RawMessage(`"changed"`)
		return hook.Replace(e), nil
	}))
	require.Equal(t, signals.TurnHeld, check.Handle(w, thread, e).Status)
	require.JSONEq(t, `"changed"`, string(awaitCalls(t, l, thread, 1)[0].event.Payload))
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, e).Status)
	require.Len(t, check.OfType(w, thread, event.TypeHook), 1, "it was asked once")
}

func eventRetyped(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	d.Set(thread, name, onEnv(func(e event.EnvEvent) (hook.Result, error) {
		e.Type = "moved.here"
		return hook.Replace(e), nil
	}))
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
	require.Equal(t, []string{"moved"}, l.by(e.ID))
	require.Empty(t, w.Messages(thread))
}

func eventTaken(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	d.Set(thread, name, onEnv(func(_ event.EnvEvent) (hook.Result, error) {
		return hook.Respond(hook.Response{Content: "Nobody needs to look at that."}), nil
	}))
	calls := w.Provider.Calls()
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, e).Status)
	require.Empty(t, l.by(e.ID))
	require.Equal(t, "Nobody needs to look at that.", check.Only(t, w.Messages(thread)).Content)
	require.Equal(t, calls, w.Provider.Calls())
}

func eventHookFails(t *testing.T, w *harness.Harness, d *check.Desk, l *ledger, name string) {
	thread, e := w.Open(), check.Happened("file.changed", nil)
	d.Set(thread, name, onEnv(func(event.EnvEvent) (hook.Result, error) {
		return hook.Result{}, errors.New("out of order")
	}))
	out := check.Handle(w, thread, e)
	require.Equal(t, signals.TurnFailed, out.Status)
	require.Contains(t, out.Error, "out of order")
	require.Empty(t, l.by(e.ID))
	d.Set(thread, name, nil)
	_, err := w.Threads.Retry(w.Ctx(), thread, e.ID, "ann")
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, awaitEvent(w, thread, e).Status)
	require.Equal(t, []string{"files"}, l.by(e.ID))
}

// lateRules is a source whose rules come at run time, when no name is checked.
type lateRules struct{ rules atomic.Pointer[[]rule.Rule] }

func (l *lateRules) set(rules ...rule.Rule) { l.rules.Store(&rules) }

func (l *lateRules) Rules() []rule.Rule {
	if now := l.rules.Load(); now != nil {
		return *now
	}
	return nil
}

// TestEventProcessors: rules name processors.
//
//ci:replayed
func TestEventProcessors(t *testing.T) {
	t.Parallel()
	d, l := check.NewDesk(), newLedger()
	named := func(name, events, processor string) rule.Rule {
		return rule.Rule{Name: name, Events: []string{events}, Priority: 30, Processor: processor}
	}
	late := &lateRules{}
	w := d.Open(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}, Configure: func(c *threadmill.Config) {
		c.Rules, c.RuleSource = []rule.Rule{named("orders", "order.*", "clerk"), l.rule("own", "own.*")}, late
	}}, []hook.Hook{d.Hook("function", "order.*")}, d.Processor("clerk", "another.type"), d.Processor("own", "own.type"))
	clerk := func(thread string) {
		d.Make(thread, "clerk", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			var order struct {
				Item string `json:"item"`
			}
			err := json.Unmarshal(e.(event.EnvEvent).Payload, &order)
			return []hook.Produced{hook.Message(event.CreatedByUser, "shop", "The "+order.Item+" is on its way.")}, err
		})
	}
	order := func() event.EnvEvent { return check.Happened("order.placed", map[string]string{"item": "kettle"}) }

	t.Run("what it makes is queued, whatever type it declares", func(t *testing.T) {
		thread, e := w.Open(), order()
		clerk(thread)
		out := check.Handle(w, thread, e)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "The kettle is on its way.", out.Message.Content)
		require.Equal(t, []string{"shop: The kettle is on its way.", "assistant: The kettle is on its way."}, check.SaidIn(w, thread))
		require.Equal(t, event.ItemOverwritten, check.ItemOf(w, thread, e.ID).Status)
		for _, m := range check.OfType(w, thread, event.TypeMessage) {
			require.Equal(t, e.ID, m.TraceID, "all of it follows from the event")
		}
	})
	t.Run("it sees what hooks have left of the event", func(t *testing.T) {
		thread := w.Open()
		clerk(thread)
		d.Set(thread, "function", onEnv(func(e event.EnvEvent) (hook.Result, error) {
			e.Payload = json.RawMessage(`{"item":"ring"}`)
			return hook.Replace(e), nil
		}))
		require.Equal(t, "The ring is on its way.", check.Handle(w, thread, order()).Message.Content)
	})
	t.Run("it may make nothing", func(t *testing.T) {
		thread := w.Open()
		d.Make(thread, "clerk", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { return nil, nil })
		require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, order()).Status)
		require.Empty(t, w.Messages(thread))
	})
	t.Run("S3-24 when it fails, the event can be retried", func(t *testing.T) {
		thread, e := w.Open(), order()
		d.Make(thread, "clerk", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { panic("out of order") })
		out := check.Handle(w, thread, e)
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "clerk failed: it panicked: out of order")
		clerk(thread)
		_, err := w.Threads.Retry(w.Ctx(), thread, e.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, "The kettle is on its way.", awaitEvent(w, thread, e).Message.Content)
	})
	t.Run("one that there is not", func(t *testing.T) {
		late.set(named("lost", "lost.*", "nobody"))
		thread := w.Open()
		out := check.Handle(w, thread, check.Happened("lost.and.found", nil))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, `rule lost names processor "nobody", which does not exist`)
		require.Equal(t, "hello", check.Say(w, thread, "hello").Message.Content, "the thread goes on")
	})
	t.Run("a processor of the event's type comes before rules", func(t *testing.T) {
		thread, e, other := w.Open(), check.Happened("own.type", nil), check.Happened("own.other", nil)
		d.Make(thread, "own", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.Message(event.CreatedByUser, "shop", "mine")}, nil
		})
		require.Equal(t, "mine", check.Handle(w, thread, e).Message.Content)
		require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, other).Status)
		require.Equal(t, []string{other.ID}, l.handled(thread))
	})
}
