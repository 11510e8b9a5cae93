package tests

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
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// nothing is a processor's rule that produces no events.
func nothing(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { return nil, nil }

// producing is a processor's rule for messages of people.
func producing(made ...hook.Produced) maker {
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
//ci:replayed
func TestProcessors(t *testing.T) {
	t.Parallel()
	d, spied := newDesk(), newSpy("spied")
	strict := d.processor("strict", "message")
	strict.OnFailure, strict.MaxAttempts = hook.FailClosed, 1
	one := d.processor("one", "message")
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
	w := d.open(t, harness.Options{Tools: []tool.Tool{spied}},
		[]hook.Hook{d.hook("first"), d.hook("second"), d.inline("inline")},
		one, d.processor("two", "message"), strict, d.processor("orders", "order.placed"), d.processor("bills", "bill.sent"),
		d.processor("calls", event.TypeToolCall), d.processor("models", event.TypeLLMCall), typed,
		needingApproval(func(deps hook.Deps) bool { return approved[deps.Context.EventID] }), wavering)

	t.Run("S2-28 one that does not want the event is passed over", func(t *testing.T) {
		id := w.Open("assistant")
		d.make(id, "two", nothing)
		require.Equal(t, "hello", say(w, id, "hello").Message.Content)
		require.Empty(t, d.asked(id, "one"))
		require.Equal(t, []string{"message user", "message agent"}, d.whats(id, "two"))
	})
	t.Run("S2-26 S2-30 S2-33 hooks, then processors, then the default", func(t *testing.T) { processorsInOrder(t, d, w) })
	t.Run("S2-24 S2-29 S2-37 the first that produces something is the last", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.make(id, "one", producing(system("one of two"), system("two of two")))
		d.make(id, "two", producing(system("never")))
		out := turn(w, id, message(id, "e1", "hello"))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, "two of two", out.Message.Content)
		require.Equal(t, calls, w.Provider.Calls())
		require.Equal(t, []string{"ann: hello", "System: one of two", "System: two of two"}, saidIn(w, id))
		require.NotContains(t, eventIDs(d.asked(id, "two")), "e1")
		require.Equal(t, event.ItemOverwritten, itemOf(w, id, "e1").Status)
		decided := decisionOn(w, id, "e1")
		require.Equal(t, event.OutcomeOverwritten, decided.Outcome)
		require.Len(t, decided.Produced, 2)
		for i, made := range decided.Produced {
			require.Equal(t, w.Messages(id)[i+1].ID, made)
			require.Equal(t, event.ItemCompleted, itemOf(w, id, made).Status)
		}
		var shown []string
		for _, f := range watch(t, w, id, "").until(t, isTurnEnded) {
			switch {
			case f.event.Type == event.EventMessage:
				shown = append(shown, f.event.Message.Content)
			case f.event.Type == event.EventStatus && f.event.Status.Status == event.StatusIntercepted:
				shown = append(shown, f.event.Status.Detail)
			}
		}
		require.Equal(t, []string{"hello", "one made other events of the message"}, shown[:2], "viewers are shown it, and told what became of it")
	})
	t.Run("S2-24 S2-37 also of a message that joins a turn", func(t *testing.T) {
		id, wait := w.Open("assistant"), newHalt()
		d.set(id, "first", wait.before("message tool", nil))
		d.make(id, "two", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			if e.(event.MessageEvent).Message.Content != "psst" {
				return nil, nil
			}
			return []hook.Produced{system("somebody whispered")}, nil
		})
		add(w, id, message(id, "e1", "use note {}"))
		<-wait.reached
		joins := message(id, "e2", "psst")
		joins.OnBusy = signals.OnBusySteer
		add(w, id, joins)
		wait.release()
		require.Equal(t, signals.TurnCompleted, wholly(w, id, w.Await(id, "e1")).Status)
		require.Equal(t, event.ItemOverwritten, itemOf(w, id, "e2").Status)
		require.Equal(t, event.ItemCompleted, itemOf(w, id, "e1").Status)
		require.Equal(t, "System: somebody whispered", saidIn(w, id)[len(saidIn(w, id))-1])
	})
	t.Run("S2-27 with the store, the thread and the context", func(t *testing.T) { processorsDeps(t, d, w) })
	t.Run("S2-31 S2-32 what needs approval, and what was approved", func(t *testing.T) { processorsApprove(t, w, approved) })
	t.Run("S2-04 S2-34 S2-43 types of one's own", func(t *testing.T) { processorsCustom(t, d, w) })
	t.Run("S2-34 in the place of tools", func(t *testing.T) {
		id, calls, ran := w.Open("assistant"), w.Provider.Calls(), len(spied.seen())
		d.make(id, "calls", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{system("asked for " + e.(event.ToolCallEvent).ToolCalls[0].Function.Name)}, nil
		})
		out := say(w, id, "use spied {}")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, "asked for spied", out.Message.Content)
		require.Len(t, spied.seen(), ran)
		require.Equal(t, calls+1, w.Provider.Calls())
		requireSettled(t, w, id)
	})
	t.Run("S2-34 in the place of the model", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.make(id, "models", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.Message(event.CreatedByAgent, "assistant", "from the cache")}, nil
		})
		require.Equal(t, "from the cache", say(w, id, "hello").Message.Content)
		require.Equal(t, calls, w.Provider.Calls())
	})
	t.Run("S2-29 in the place of an agent's going on with a result", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		d.make(id, "one", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			if e.(event.MessageEvent).CreatedBy != event.CreatedByTool {
				return nil, nil
			}
			return []hook.Produced{system("noted, that is all")}, nil
		})
		require.Equal(t, "noted, that is all", say(w, id, "use note {}").Message.Content)
		require.Equal(t, calls+1, w.Provider.Calls())
		requireSettled(t, w, id)
	})
	t.Run("S2-33 a hook that responds leaves nothing to processors", func(t *testing.T) {
		id := w.Open("assistant")
		d.set(id, "second", responding(event.CreatedByUser, hook.Response{Content: "no", SenderType: event.CreatedBySystem}))
		d.make(id, "one", nothing)
		say(w, id, "hello")
		require.Equal(t, []string{"message system"}, d.whats(id, "one"), "but the response")
	})
	t.Run("S2-35 S0-23 one that fails is recorded, and the next one runs", func(t *testing.T) { processorsFail(t, d, w) })
	t.Run("S2-26 S2-35 so is one that cannot say whether it wants the event", func(t *testing.T) {
		id := w.Open("assistant")
		require.Equal(t, "waver", turn(w, id, message(id, "e1", "waver")).Message.Content)
		hooks := decisionOn(w, id, "e1").Hooks
		require.Contains(t, hooks[len(hooks)-1].Error, "it panicked: perhaps")
	})
	t.Run("S2-40 S2-41 trace and causes, from event to event", func(t *testing.T) { processorsChain(t, d, w) })
	t.Run("S2-36 S2-38 S2-39 what is produced has priority and ttl", func(t *testing.T) { processorsUrgent(t, d, w) })
	t.Run("one that makes an event of its own type again and again is stopped", func(t *testing.T) {
		id := w.Open("assistant")
		d.make(id, "orders", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			return []hook.Produced{hook.NewProduced("order.placed", e.(event.CustomEvent).Payload)}, nil
		})
		out := turn(w, id, custom("e1", "order.placed", 1))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "10 events in a row")
		require.Len(t, ofType(w, id, "order.placed"), 11)
		require.Equal(t, event.ItemOverwritten, itemOf(w, id, "e1").Status)
	})
}

func processorsInOrder(t *testing.T, d *desk, w *harness.Harness) {
	id, calls, wait := w.Open("assistant"), w.Provider.Calls(), newHalt()
	d.set(id, "first", saying(event.CreatedByUser, "hello", "good day"))
	d.set(id, "second", saying(event.CreatedByUser, "good day", "good evening"))
	d.make(id, "one", func(ctx context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		if e.(event.MessageEvent).CreatedBy == event.CreatedByUser {
			wait.reached <- struct{}{}
			select {
			case <-wait.open:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return []hook.Produced{}, nil
	})
	d.make(id, "two", nothing)
	_, err := w.Threads.Post(w.Ctx(), id, message(id, "e1", "hello"))
	require.NoError(t, err)
	<-wait.reached
	require.Equal(t, calls, w.Provider.Calls(), "the default waits for them")
	require.Empty(t, d.asked(id, "two"), "and each for the one before it")
	wait.release()
	out := wholly(w, id, w.Await(id, "e1"))
	require.Equal(t, "good evening", out.Message.Content)
	var order, saw []string
	for _, e := range d.asked(id, "") {
		if e.EventID == "e1" {
			order = append(order, e.Hook)
			saw = append(saw, e.event.(event.MessageEvent).Message.Content)
		}
	}
	require.Equal(t, []string{"first", "second", "one", "two"}, order)
	require.Equal(t, []string{"hello", "good day", "good evening", "good evening"}, saw, "each is given what the one before it returned")
	var outcomes []string
	for _, h := range decisionOn(w, id, "e1").Hooks {
		outcomes = append(outcomes, h.Name+" "+string(h.Outcome))
	}
	require.Equal(t, []string{
		"first replaced", "second replaced", "inline passed", "one passed", "two passed", "strict passed", "approval passed", "wavering passed",
	}, outcomes)
}

func processorsDeps(t *testing.T, d *desk, w *harness.Harness) {
	id := "deps-of-processors"
	require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{
		Agents: []string{"assistant", "bob"}, Title: "A title", Metadata: json.RawMessage(`{"plan":"gold"}`),
	}, nil))
	say(w, id, "@bob before")
	var deps hook.Deps
	var messages []event.Message
	var records, own []event.Record
	d.make(id, "orders", func(ctx context.Context, _ event.Event, given hook.Deps) (_ []hook.Produced, err error) {
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
	post := custom("e1", "order.placed", map[string]int{"n": 7})
	post.TraceID, post.ParentEventID = "trace-1", "cause-0"
	turn(w, id, post)
	require.JSONEq(t, `{"plan":"gold"}`, string(deps.Thread.Metadata))
	deps.Thread.Metadata = nil
	require.Equal(t, hook.Thread{Namespace: w.TaskQueue, ID: id, Title: "A title", Agents: []string{"assistant", "bob"}}, deps.Thread)
	require.Equal(t, hook.Context{
		Hook: "orders", Namespace: w.TaskQueue, ThreadID: id, EventID: "e1", TraceID: "trace-1", ParentEventID: "cause-0", Attempt: 1,
	}, deps.Context)
	require.Equal(t, "before", only(t, messages).Content, "the newest one")
	require.Len(t, records, 1)
	require.JSONEq(t, `{"n":7}`, string(only(t, own).Payload), "S0-35 the event itself is in the store")
	require.Empty(t, decisionOn(w, id, "e1").Hooks[len(decisionOn(w, id, "e1").Hooks)-1].Error)
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
	out := turn(w, id, post("needs-1"))
	require.Equal(t, calls, w.Provider.Calls(), "S2-31 no model is called")
	require.Equal(t, []string{"ann: delete needs-1", "System: This message requires approval."}, saidIn(w, id))
	require.Equal(t, event.CreatedBySystem, out.Message.SenderType)
	require.Equal(t, event.ItemOverwritten, itemOf(w, id, "needs-1").Status)

	requireBlocked(w, id, []string{"delete needs-1"}, "This message requires approval.")
	calls = w.Provider.Calls()

	approved["needs-2"] = true
	require.Equal(t, "delete needs-2", turn(w, id, post("needs-2")).Message.Content, "S2-32 it goes its way")
	require.Equal(t, calls+1, w.Provider.Calls())
	require.Equal(t, event.ItemCompleted, itemOf(w, id, "needs-2").Status)
	requireBlocked(w, id, []string{"delete needs-1"}, "delete needs-2")
	require.Equal(t, "no need", say(w, id, "no need").Message.Content)
}

func processorsCustom(t *testing.T, d *desk, w *harness.Harness) {
	id, calls := w.Open("assistant"), w.Provider.Calls()
	var got []string
	d.make(id, "orders", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		got = append(got, string(e.(event.CustomEvent).Payload))
		return nil, nil
	})
	payloads := []string{`{"n":1,"deep":{"a":[1,2.50,null]}}`, `"text"`, `7`, `[true,false]`, `null`}
	for i, payload := range payloads {
		p := signals.Post{ID: fmt.Sprint("e", i), Type: "order.placed", Payload: json.RawMessage(payload)}
		require.Equal(t, signals.TurnUnanswered, turn(w, id, p).Status, "without a processor that makes something of it, it is only kept")
		require.Equal(t, payload, string(recordOf(w, id, p.ID).Payload))
		require.Equal(t, event.ItemCompleted, itemOf(w, id, p.ID).Status)
	}
	require.Equal(t, payloads, got, "S2-04 processors get them as they were")
	for i, e := range d.asked(id, "first") {
		require.Equal(t, "order.placed", e.what(), "S2-04 hooks do, too")
		require.Equal(t, payloads[i], string(e.event.(event.CustomEvent).Payload))
	}
	require.Equal(t, signals.TurnUnanswered, turn(w, id, custom("x1", "nobody.knows", 1)).Status)
	require.Equal(t, "nobody.knows", d.whats(id, "first")[len(payloads)], "also those that nobody knows")

	require.Equal(t, "order 12", turn(w, id, custom("t1", "order.typed", map[string]int{"n": 12})).Message.Content, "S2-34 read into a type")
	require.Equal(t, signals.TurnUnanswered, turn(w, id, custom("t2", "order.typed", "twelve")).Status)
	hooks := decisionOn(w, id, "t2").Hooks
	require.Contains(t, hooks[len(hooks)-1].Error, "reading the payload of a order.typed event")
	require.Equal(t, calls, w.Provider.Calls())
	requireBlocked(w, id, []string{"2.50", "twelve"}, "order 12")
}

func processorsFail(t *testing.T, d *desk, w *harness.Harness) {
	for what, broken := range map[string]maker{
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
		d.make(id, "one", broken)
		d.make(id, "two", producing(system("two is here")))
		out := turn(w, id, message(id, "e1", "hello"))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, []string{"ann: hello", "System: two is here"}, saidIn(w, id), what)
		hooks := decisionOn(w, id, "e1").Hooks
		require.Equal(t, "one", hooks[3].Name)
		require.Equal(t, event.OutcomeFailed, hooks[3].Outcome)
		require.Contains(t, hooks[3].Error, what)
		require.Equal(t, event.ItemOverwritten, itemOf(w, id, "e1").Status)

		d.make(id, "one", nil)
		d.make(id, "two", nil)
		d.make(id, "strict", broken)
		out = turn(w, id, message(id, "e2", "hello"))
		require.Equal(t, signals.TurnFailed, out.Status, "unless it is closed")
		require.Contains(t, out.Error, "processor strict failed")
		require.Contains(t, failedEvent(w, id, "e2").Error, what)
		d.make(id, "strict", nil)
		_, err := w.Threads.Retry(w.Ctx(), id, "e2", "ann")
		require.NoError(t, err)
		require.Equal(t, "hello", wholly(w, id, w.Await(id, "e2")).Message.Content)
	}
}

// processorsChain follows an event to another, to a message, to an agent's reply.
func processorsChain(t *testing.T, d *desk, w *harness.Harness) {
	id := w.Open("assistant")
	d.make(id, "orders", func(_ context.Context, _ event.Event, _ hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.NewProduced("bill.sent", map[string]int{"n": 7})}, nil
	})
	d.make(id, "bills", func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
		assert.JSONEq(t, `{"n":7}`, string(e.(event.CustomEvent).Payload))
		return []hook.Produced{hook.Message(event.CreatedByTool, "shop", "use note {\"text\":\"billed\"}")}, nil
	})
	post := custom("e1", "order.placed", 1)
	post.TraceID, post.ParentEventID = "trace-1", "cause-0"
	out := turn(w, id, post)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "assistant", out.Message.SenderID, "the turn ends with the last that follows from the event")
	chain := []string{"cause-0", "e1", only(t, ofType(w, id, "bill.sent")).ID, w.Messages(id)[0].ID}
	require.Equal(t, "shop", w.Messages(id)[0].SenderID)
	for i, eventID := range chain[1:] {
		r := recordOf(w, id, eventID)
		require.Equal(t, chain[i], r.ParentEventID)
		it := itemOf(w, id, eventID)
		require.Equal(t, chain[i], it.ParentEventID)
		require.Equal(t, "trace-1", it.TraceID)
	}
	for _, r := range w.Records(id)[1:] {
		require.Equal(t, "trace-1", r.TraceID, "%s %s", r.Type, r.ID)
		require.NotEmpty(t, r.ParentEventID, "%s %s", r.Type, r.ID)
	}
	for _, l := range toolLogs(w, id) {
		require.Equal(t, "trace-1", l.TraceID)
	}
	require.Equal(t, chain[3], recordOf(w, id, out.Message.ID).ParentEventID)
	requireBlocked(w, id, []string{`"n":7`}, "billed")
	for _, r := range w.Records(id) {
		if r.TraceID == "trace-1" {
			continue
		}
		require.NotContains(t, chain, r.ParentEventID, "what comes later has a trace of its own: %s %s", r.Type, r.ID)
	}
}
