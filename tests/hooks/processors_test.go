package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// nothing is a processor's rule that produces no events.
func nothing(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { return nil, nil }

// producing is a processor's rule for messages of people.
func producing(made ...hook.Produced) check.Maker {
	return func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		if m, ok := e.(event.MessageEvent); ok && m.CreatedBy != event.CreatedByUser {
			return nil, nil
		}
		return made, nil
	}
}

func system(content string) hook.Produced {
	return hook.Message(event.CreatedBySystem, "System", content)
}

// TestProcessors replaces default processing by processors.
//
//ci:replayed only
func TestProcessors(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	strict := d.Processor("strict", "message")
	strict.OnFailure, strict.MaxAttempts = hook.FailClosed, 1
	one := d.Processor("one", "message")
	one.MaxAttempts = 1
	typed := hook.Process("order.typed", func(_ context.Context, order struct {
		N int `json:"n"`
	}, _ hook.Deps,
	) ([]hook.Produced, error) {
		return []hook.Produced{system(fmt.Sprint("order ", order.N))}, nil
	})
	typed.MaxAttempts = 1
	wavering := hook.Processor{
		Name: "wavering", EventType: "message", MaxAttempts: 1, Process: nothing,
		ShouldProcess: func(_ context.Context, e event.Event, _ hook.Deps) (bool, error) {
			if m := e.(event.MessageEvent); m.CreatedBy == event.CreatedByUser && m.Message.Content == "waver" {
				panic("perhaps")
			}
			return false, nil
		},
	}
	approved := map[string]bool{}
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}},
		[]hook.Hook{d.Hook("first"), d.Hook("second"), d.Inline("inline")},
		one, d.Processor("two", "message"), strict, d.Processor("orders", "order.placed"), d.Processor("bills", "bill.sent"),
		d.Processor("calls", event.TypeToolCall), d.Processor("models", event.TypeLLMCall), typed,
		needingApproval(func(deps hook.Deps) bool { return approved[deps.Context.EventID] }), wavering)

	t.Run("S2-28 one that does not want the event is passed over", func(t *testing.T) {
		id := w.Open("assistant")
		d.Make(id, "two", nothing)
		require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content)
		require.Empty(t, d.Asked(id, "one"))
		require.Equal(t, []string{"message user", "message agent"}, d.Whats(id, "two"))
	})
	t.Run("S2-26 S2-30 S2-33 hooks, then processors, then the default", func(t *testing.T) { processorsInOrder(t, d, w) })
	t.Run("S2-24 S2-29 S2-37 the first that produces something is the last", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.Make(id, "one", producing(system("one of two"), system("two of two")))
		d.Make(id, "two", producing(system("never")))
		out := check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, "two of two", out.Message.Content)
		require.Equal(t, calls, w.Provider.Calls())
		require.Equal(t, []string{"ann: hello", "System: one of two", "System: two of two"}, check.SaidIn(w, id))
		require.NotContains(t, eventIDs(d.Asked(id, "two")), "e1")
		require.Equal(t, event.ItemOverwritten, check.ItemOf(w, id, "e1").Status)
		decided := check.DecisionOn(w, id, "e1")
		require.Equal(t, event.OutcomeOverwritten, decided.Outcome)
		require.Len(t, decided.Produced, 2)
		for i, made := range decided.Produced {
			require.Equal(t, w.Messages(id)[i+1].ID, made)
			require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, made).Status)
		}
		var shown []string
		for _, f := range check.Watch(t, w, id, "").Until(t, check.IsTurnEnded) {
			switch {
			case f.Event.Type == event.EventMessage:
				shown = append(shown, f.Event.Message.Content)
			case f.Event.Type == event.EventStatus && f.Event.Status.Status == event.StatusIntercepted:
				shown = append(shown, f.Event.Status.Detail)
			}
		}
		require.Equal(t, []string{"hello", "one made other events of the message"}, shown[:2], "viewers are shown it, and told what became of it")
	})
	t.Run("S2-24 S2-37 also of a message that joins a turn", func(t *testing.T) {
		id, wait := w.Open("assistant"), check.NewHalt()
		d.Set(id, "first", wait.Before("message tool", nil))
		d.Make(id, "two", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			if e.(event.MessageEvent).Message.Content != "psst" {
				return nil, nil
			}
			return []hook.Produced{system("somebody whispered")}, nil
		})
		add(w, id, check.Message(id, "e1", "use note {}"))
		<-wait.Reached
		joins := check.Message(id, "e2", "psst")
		joins.OnBusy = event.OnBusySteer
		add(w, id, joins)
		wait.Release()
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "e1")).Status)
		require.Equal(t, event.ItemOverwritten, check.ItemOf(w, id, "e2").Status)
		require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, "e1").Status)
		require.Equal(t, "System: somebody whispered", check.SaidIn(w, id)[len(check.SaidIn(w, id))-1])
	})
	t.Run("S2-27 with the store, the thread and the context", func(t *testing.T) { processorsDeps(t, d, w) })
	t.Run("S2-31 S2-32 what needs approval, and what was approved", func(t *testing.T) { processorsApprove(t, w, approved) })
	t.Run("S2-04 S2-34 S2-43 types of one's own", func(t *testing.T) { processorsCustom(t, d, w) })
	t.Run("S2-34 in the place of tools", func(t *testing.T) {
		id, calls, ran := w.Open("assistant"), w.Provider.Calls(), len(spied.Seen())
		d.Make(id, "calls", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{system("asked for " + e.(event.ToolCallEvent).ToolCalls[0].Function.Name)}, nil
		})
		out := check.Say(w, id, "use spied {}")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, "asked for spied", out.Message.Content)
		require.Len(t, spied.Seen(), ran)
		require.Equal(t, calls+1, w.Provider.Calls())
		check.RequireSettled(t, w, id)
	})
	t.Run("S2-34 in the place of the model", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.Make(id, "models", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.Message(event.CreatedByAgent, "assistant", "from the cache")}, nil
		})
		require.Equal(t, "from the cache", check.Say(w, id, "hello").Message.Content)
		require.Equal(t, calls, w.Provider.Calls())
	})
	t.Run("S2-29 in the place of an agent's going on with a result", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.Make(id, "one", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			if e.(event.MessageEvent).CreatedBy != event.CreatedByTool {
				return nil, nil
			}
			return []hook.Produced{system("noted, that is all")}, nil
		})
		require.Equal(t, "noted, that is all", check.Say(w, id, "use note {}").Message.Content)
		require.Equal(t, calls+1, w.Provider.Calls())
		check.RequireSettled(t, w, id)
	})
	t.Run("S2-33 a hook that responds leaves nothing to processors", func(t *testing.T) {
		id := w.Open("assistant")
		d.Set(id, "second", check.Responding(event.CreatedByUser, hook.Response{Content: "no", SenderType: event.CreatedBySystem}))
		d.Make(id, "one", nothing)
		check.Say(w, id, "hello")
		require.Equal(t, []string{"message system"}, d.Whats(id, "one"), "but the response")
	})
	t.Run("S2-35 S0-23 one that fails is recorded, and the next one runs", func(t *testing.T) { processorsFail(t, d, w) })
	t.Run("S2-26 S2-35 so is one that cannot say whether it wants the event", func(t *testing.T) {
		id := w.Open("assistant")
		require.Equal(t, "waver", check.Turn(w, id, check.Message(id, "e1", "waver")).Message.Content)
		hooks := check.DecisionOn(w, id, "e1").Hooks
		require.Contains(t, hooks[len(hooks)-1].Error, "it panicked: perhaps")
	})
	t.Run("S2-40 S2-41 trace and causes, from event to event", func(t *testing.T) { processorsChain(t, d, w) })
	t.Run("S2-36 S2-38 S2-39 what is produced has priority and ttl", func(t *testing.T) { processorsUrgent(t, d, w) })
	t.Run("one that makes an event of its own type again and again is stopped", func(t *testing.T) {
		id := w.Open("assistant")
		d.Make(id, "orders", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.NewProduced("order.placed", e.(event.CustomEvent).Payload)}, nil
		})
		out := check.Turn(w, id, check.Custom("e1", "order.placed", 1))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "10 events in a row")
		require.Len(t, check.OfType(w, id, "order.placed"), 11)
		require.Equal(t, event.ItemOverwritten, check.ItemOf(w, id, "e1").Status)
	})
}

func processorsInOrder(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, calls, wait := w.Open("assistant"), w.Provider.Calls(), check.NewHalt()
	d.Set(id, "first", check.Saying(event.CreatedByUser, "hello", "good day"))
	d.Set(id, "second", check.Saying(event.CreatedByUser, "good day", "good evening"))
	d.Make(id, "one", func(ctx context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		if e.(event.MessageEvent).CreatedBy == event.CreatedByUser {
			wait.Reached <- struct{}{}
			select {
			case <-wait.Open:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return []hook.Produced{}, nil
	})
	d.Make(id, "two", nothing)
	_, err := w.Threads.Post(w.Ctx(), id, check.Message(id, "e1", "hello"))
	require.NoError(t, err)
	<-wait.Reached
	require.Equal(t, calls, w.Provider.Calls(), "the default waits for them")
	require.Empty(t, d.Asked(id, "two"), "and each for the one before it")
	wait.Release()
	out := check.Wholly(w, id, w.Await(id, "e1"))
	require.Equal(t, "good evening", out.Message.Content)
	var order, saw []string
	for _, e := range d.Asked(id, "") {
		if e.EventID == "e1" {
			order = append(order, e.Hook)
			saw = append(saw, e.Event.(event.MessageEvent).Message.Content)
		}
	}
	require.Equal(t, []string{"first", "second", "one", "two"}, order)
	require.Equal(t, []string{"hello", "good day", "good evening", "good evening"}, saw, "each is given what the one before it returned")
	var outcomes []string
	for _, h := range check.DecisionOn(w, id, "e1").Hooks {
		outcomes = append(outcomes, h.Name+" "+string(h.Outcome))
	}
	require.Equal(t, []string{
		"first replaced", "second replaced", "inline passed", "one passed", "two passed", "strict passed", "approval passed", "wavering passed",
	}, outcomes)
}

func processorsDeps(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := "deps-of-processors"
	require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{
		Agents: []string{"assistant", "bob"}, Title: "A title", Metadata: json.RawMessage(`{"plan":"gold"}`),
	}, nil))
	check.Say(w, id, "@bob before")
	var deps hook.Deps
	var messages []event.Message
	var records, own []event.Record
	d.Make(id, "orders", func(ctx context.Context, _ event.Event, given hook.Deps) (_ []hook.Produced, err error) {
		deps = given
		messages, err = deps.Store.Messages(ctx, 1)
		if err != nil {
			return nil, err
		}
		if records, err = deps.Store.Records(ctx, 0, 0, event.TypeLLMCall); err != nil {
			return nil, err
		}
		own, err = deps.Store.RecordsByID(ctx, deps.Context.EventID)
		return nil, err
	})
	post := check.Custom("e1", "order.placed", map[string]int{"n": 7})
	post.TraceID, post.ParentEventID = "trace-1", "cause-0"
	check.Turn(w, id, post)
	require.JSONEq(t, `{"plan":"gold"}`, string(deps.Thread.Metadata))
	deps.Thread.Metadata = nil
	require.Equal(t, hook.Thread{Namespace: w.TaskQueue, ID: id, Title: "A title", Agents: []string{"assistant", "bob"}}, deps.Thread)
	require.Equal(t, hook.Context{
		Hook: "orders", Namespace: w.TaskQueue, ThreadID: id, EventID: "e1", TraceID: "trace-1", ParentEventID: "cause-0", Attempt: 1,
	}, deps.Context)
	require.Equal(t, "before", check.Only(t, messages).Content, "the newest one")
	require.Len(t, records, 1)
	require.JSONEq(t, `{"n":7}`, string(check.Only(t, own).Payload), "S0-35 the event itself is in the store")
	require.Empty(t, check.DecisionOn(w, id, "e1").Hooks[len(check.DecisionOn(w, id, "e1").Hooks)-1].Error)
}

// needingApproval is the example of the seed: a message that needs approval waits.
func needingApproval(approved func(hook.Deps) bool) hook.Processor {
	return hook.Processor{
		Name: "approval", EventType: "message",
		ShouldProcess: func(_ context.Context, e event.Event, _ hook.Deps) (bool, error) {
			return e.(event.MessageEvent).Message.Metadata["needsApproval"] == true, nil
		},
		Process: func(_ context.Context, _ event.Event, deps hook.Deps) ([]hook.Produced, error) {
			if !approved(deps) {
				return []hook.Produced{system("This message requires approval.")}, nil
			}
			return []hook.Produced{}, nil
		},
	}
}

func processorsApprove(t *testing.T, w *harness.Harness, approved map[string]bool) {
	id := w.Open("assistant")
	post := func(eventID string) signals.Post {
		return signals.NewPost(eventID, event.NewMessage{
			ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Content: "delete " + eventID, Metadata: map[string]any{"needsApproval": true},
		})
	}
	calls := w.Provider.Calls()
	out := check.Turn(w, id, post("needs-1"))
	require.Equal(t, calls, w.Provider.Calls(), "S2-31 no model is called")
	require.Equal(t, []string{"ann: delete needs-1", "System: This message requires approval."}, check.SaidIn(w, id))
	require.Equal(t, event.CreatedBySystem, out.Message.SenderType)
	require.Equal(t, event.ItemOverwritten, check.ItemOf(w, id, "needs-1").Status)

	requireBlocked(w, id, []string{"delete needs-1"}, "This message requires approval.")
	calls = w.Provider.Calls()

	approved["needs-2"] = true
	require.Equal(t, "delete needs-2", check.Turn(w, id, post("needs-2")).Message.Content, "S2-32 it goes its way")
	require.Equal(t, calls+1, w.Provider.Calls())
	require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, "needs-2").Status)
	requireBlocked(w, id, []string{"delete needs-1"}, "delete needs-2")
	require.Equal(t, "no need", check.Say(w, id, "no need").Message.Content)
}

func processorsCustom(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, calls := w.Open("assistant"), w.Provider.Calls()
	var got []string
	d.Make(id, "orders", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		got = append(got, string(e.(event.CustomEvent).Payload))
		return nil, nil
	})
	payloads := []string{`{"n":1,"deep":{"a":[1,2.50,null]}}`, `"text"`, `7`, `[true,false]`, `null`}
	for i, payload := range payloads {
		p := signals.Post{ID: fmt.Sprint("e", i), Type: "order.placed", Payload: json.RawMessage(payload)}
		require.Equal(t, signals.TurnUnanswered, check.Turn(w, id, p).Status, "without a processor that makes something of it, it is only kept")
		require.Equal(t, payload, string(check.RecordOf(w, id, p.ID).Payload))
		require.Equal(t, event.ItemCompleted, check.ItemOf(w, id, p.ID).Status)
	}
	require.Equal(t, payloads, got, "S2-04 processors get them as they were")
	for i, e := range d.Asked(id, "first") {
		require.Equal(t, "order.placed", e.What(), "S2-04 hooks do, too")
		require.Equal(t, payloads[i], string(e.Event.(event.CustomEvent).Payload))
	}
	require.Equal(t, signals.TurnUnanswered, check.Turn(w, id, check.Custom("x1", "nobody.knows", 1)).Status)
	require.Equal(t, "nobody.knows", d.Whats(id, "first")[len(payloads)], "also those that nobody knows")

	require.Equal(t, "order 12", check.Turn(w, id, check.Custom("t1", "order.typed", map[string]int{"n": 12})).Message.Content, "S2-34 read into a type")
	require.Equal(t, signals.TurnUnanswered, check.Turn(w, id, check.Custom("t2", "order.typed", "twelve")).Status)
	hooks := check.DecisionOn(w, id, "t2").Hooks
	require.Contains(t, hooks[len(hooks)-1].Error, "reading the payload of a order.typed event")
	require.Equal(t, calls, w.Provider.Calls())
	requireBlocked(w, id, []string{"2.50", "twelve"}, "order 12")
}

func processorsFail(t *testing.T, d *check.Desk, w *harness.Harness) {
	for what, broken := range map[string]check.Maker{
		"it panicked: at the disco": func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { panic("at the disco") },
		"no way": func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			return nil, errors.New("no way")
		},
		`produced[0].type: "final"`:   producing(hook.NewProduced(event.TypeFinal, 1)),
		"produced[0].payload.content": producing(hook.NewProduced("", event.NewMessage{SenderID: "x", SenderType: event.CreatedBySystem})),
		"produced[0].payload.threadId": producing(hook.NewProduced("", event.NewMessage{
			ThreadID: "elsewhere", SenderID: "x", SenderType: event.CreatedBySystem, Content: "x",
		})),
	} {
		id := w.Open("assistant")
		d.Make(id, "one", broken)
		d.Make(id, "two", producing(system("two is here")))
		out := check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, []string{"ann: hello", "System: two is here"}, check.SaidIn(w, id), what)
		hooks := check.DecisionOn(w, id, "e1").Hooks
		require.Equal(t, "one", hooks[3].Name)
		require.Equal(t, event.OutcomeFailed, hooks[3].Outcome)
		require.Contains(t, hooks[3].Error, what)
		require.Equal(t, event.ItemOverwritten, check.ItemOf(w, id, "e1").Status)

		d.Make(id, "one", nil)
		d.Make(id, "two", nil)
		d.Make(id, "strict", broken)
		out = check.Turn(w, id, check.Message(id, "e2", "hello"))
		require.Equal(t, signals.TurnFailed, out.Status, "unless it is closed")
		require.Contains(t, out.Error, "processor strict failed")
		require.Contains(t, check.FailedEvent(w, id, "e2").Error, what)
		d.Make(id, "strict", nil)
		_, err := w.Threads.Retry(w.Ctx(), id, "e2", "ann")
		require.NoError(t, err)
		require.Equal(t, "hello", check.Wholly(w, id, w.Await(id, "e2")).Message.Content)
	}
}

// processorsChain follows an event to another, to a message, to an agent's reply.
func processorsChain(t *testing.T, d *check.Desk, w *harness.Harness) {
	id := w.Open("assistant")
	d.Make(id, "orders", func(_ context.Context, _ event.Event, _ hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.NewProduced("bill.sent", map[string]int{"n": 7})}, nil
	})
	d.Make(id, "bills", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		assert.JSONEq(t, `{"n":7}`, string(e.(event.CustomEvent).Payload))
		return []hook.Produced{hook.Message(event.CreatedByTool, "shop", "use note {\"text\":\"billed\"}")}, nil
	})
	post := check.Custom("e1", "order.placed", 1)
	post.TraceID, post.ParentEventID = "trace-1", "cause-0"
	out := check.Turn(w, id, post)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "assistant", out.Message.SenderID, "the turn ends with the last that follows from the event")
	chain := []string{"cause-0", "e1", check.Only(t, check.OfType(w, id, "bill.sent")).ID, w.Messages(id)[0].ID}
	require.Equal(t, "shop", w.Messages(id)[0].SenderID)
	for i, eventID := range chain[1:] {
		r := check.RecordOf(w, id, eventID)
		require.Equal(t, chain[i], r.ParentEventID)
		it := check.ItemOf(w, id, eventID)
		require.Equal(t, chain[i], it.ParentEventID)
		require.Equal(t, "trace-1", it.TraceID)
	}
	for _, r := range w.Records(id)[1:] {
		require.Equal(t, "trace-1", r.TraceID, "%s %s", r.Type, r.ID)
		require.NotEmpty(t, r.ParentEventID, "%s %s", r.Type, r.ID)
	}
	for _, l := range check.ToolLogs(w, id) {
		require.Equal(t, "trace-1", l.TraceID)
	}
	require.Equal(t, chain[3], check.RecordOf(w, id, out.Message.ID).ParentEventID)
	requireBlocked(w, id, []string{`"n":7`}, "billed")
	for _, r := range w.Records(id) {
		if r.TraceID == "trace-1" {
			continue
		}
		require.NotContains(t, chain, r.ParentEventID, "what comes later has a trace of its own: %s %s", r.Type, r.ID)
	}
}
