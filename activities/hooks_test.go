package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// hooked is a world with hooks and processors, and the step that runs all of them on a message of
// ann's.
func hooked(t *testing.T, hooks []hook.Hook, processors ...hook.Processor) (*fixture, step.Hook) {
	t.Helper()
	set, err := hook.NewSet(hook.Config{Hooks: hooks, Processors: processors})
	require.NoError(t, err)
	w := newFixture(t, func(c *activities.Config) { c.Hooks = set })
	return w, step.Hook{
		Thread: ref, TraceID: "trace", EventID: "e1", EventType: event.TypeMessage, ParentEventID: "cause", Agent: "alice",
		Hooks: set.Specs(), Flush: says("e1", "hello"),
	}
}

func (w *fixture) runHooks(in step.Hook) (step.HookReply, error) {
	var out step.HookReply
	v, err := w.env.ExecuteActivity(step.ActivityRunHooks, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

// does is a hook with the function f.
func does(name string, f func(ctx context.Context, m event.MessageEvent) (hook.Result, error)) hook.Hook {
	return hook.OnMessage(name, f)
}

func passes(name string) hook.Hook {
	return does(name, func(context.Context, event.MessageEvent) (hook.Result, error) { return hook.Pass(), nil })
}

func appends(name string) hook.Hook {
	return does(name, func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		m.Message.Content += " " + name
		return hook.Replace(m), nil
	})
}

func contentOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	e, err := event.Unmarshal(raw)
	require.NoError(t, err)
	return e.(event.MessageEvent).Message.Content
}

func outcomes(out step.HookReply) string {
	var said []string
	for _, done := range out.Done {
		said = append(said, fmt.Sprintf("%s %s", done.Name, done.Outcome))
	}
	return strings.Join(said, ", ")
}

func TestHooksInOrder(t *testing.T) {
	w, in := hooked(t, []hook.Hook{passes("a"), appends("b"), appends("c")})
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, "a passed, b replaced, c replaced", outcomes(out))
	require.Equal(t, "hello b c", contentOf(t, out.Event), "S2-33 each sees what the one before it has returned")
	require.Equal(t, []string{"e1"}, w.ids(), "S0-35 the record is stored")
	require.Equal(t, "hello", stored[event.Message](w, "e1").Content, "and stays as it is")
	require.Empty(t, out.Failed)
}

func TestHookResponds(t *testing.T) {
	w, in := hooked(t, []hook.Hook{
		does("guard", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
			return hook.Respond(hook.Response{Content: "1"}, hook.Response{Content: "2", EnqueueAfter: hook.EnqueueImmediately}), nil
		}),
		does("late", func(context.Context, event.MessageEvent) (hook.Result, error) {
			return hook.Result{}, errors.New("nobody is asked after a response")
		}),
	})
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, "guard responded", outcomes(out), "S0-24 S0-25")
	require.Equal(t, []hook.Response{{Content: "1"}, {Content: "2", EnqueueAfter: hook.EnqueueImmediately}}, out.Responses, "S0-17 S0-20")
}

// TestProcessorsOfTheTypeThatItIs: when hooks change the type of an event, the processors of its
// old type do not see it.
func TestProcessorsOfTheTypeThatItIs(t *testing.T) {
	asked := []string{}
	spy := func(name, typ string) hook.Processor {
		return hook.Processor{Name: name, EventType: typ, Process: func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			asked = append(asked, name)
			return nil, nil
		}}
	}
	turn := does("turn", func(context.Context, event.MessageEvent) (hook.Result, error) {
		return hook.Replace(event.CustomEvent{Type: "order.placed", ThreadID: ref.ThreadID, Payload: json.RawMessage(`1`)}), nil
	})
	w, in := hooked(t, []hook.Hook{turn}, spy("message", event.TypeMessage), spy("order", "order.placed"))
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, []string{"order"}, asked, "S0-14 S2-33")
	require.Equal(t, "turn replaced, message passed, order passed", outcomes(out))
}

// TestPartialAnswers: responses before a failure are kept.
func TestPartialAnswers(t *testing.T) {
	attempts := []int{}
	w, in := hooked(t, []hook.Hook{
		appends("a"),
		does("b", func(ctx context.Context, _ event.MessageEvent) (hook.Result, error) {
			attempts = append(attempts, hook.DepsOf(ctx).Context.Attempt)
			return hook.Result{}, errors.New("it broke")
		}),
		passes("c"),
	})
	out, err := w.runHooks(in)
	require.NoError(t, err, "S0-23 the failure of a hook is an answer, which the workflow deals with")
	require.Equal(t, "it broke", out.Failed)
	require.Equal(t, []event.HookOutcome{{Name: "a", Outcome: event.OutcomeReplaced}}, out.Done)
	require.Equal(t, "hello a", contentOf(t, out.Event))

	in.Flush, in.Event, in.Hooks, in.Attempt = step.Flush{}, out.Event, in.Hooks[1:], 2
	out, err = w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, "hello a", contentOf(t, out.Event), "the next attempt goes on with it")
	require.Equal(t, []int{1, 2}, attempts)
}

func TestHookFailures(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, m event.MessageEvent) (hook.Result, error)
		want string
	}{
		{"a panic", func(context.Context, event.MessageEvent) (hook.Result, error) { panic("oh") }, "it panicked: oh"},
		{"a response without content", func(_ context.Context, _ event.MessageEvent) (hook.Result, error) {
			return hook.Respond(hook.Response{}), nil
		}, "responses[0].content: is required"},
		{"an event of another thread", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
			m.ThreadID = "t2"
			return hook.Replace(m), nil
		}, "threadId"},
		{"an event that is too large", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
			m.Message.Content = strings.Repeat("x", hook.MaxEvent)
			return hook.Replace(m), nil
		}, "must be at most 262144"},
		{"its own limit, which it keeps", func(ctx context.Context, _ event.MessageEvent) (hook.Result, error) {
			<-ctx.Done()
			return hook.Result{}, ctx.Err()
		}, "it took longer than its limit of 1ms"},
		{"an error that never ends", func(context.Context, event.MessageEvent) (hook.Result, error) {
			return hook.Result{}, errors.New(strings.Repeat("no ", 1<<20))
		}, "no no no"},
	} {
		t.Run("S0-23 "+tc.name, func(t *testing.T) {
			h := does("h", tc.do)
			if strings.Contains(tc.want, "1ms") {
				h.Timeout = time.Millisecond
			}
			w, in := hooked(t, []hook.Hook{h})
			out, err := w.runHooks(in)
			require.NoError(t, err)
			require.Contains(t, out.Failed, tc.want)
			require.Less(t, len(out.Failed), 5<<10, "it fits into history")
			require.Empty(t, out.Done)
		})
	}
}

// TestHookThatDoesNotStop: a hook that ignores its timeout has failed, does not block the thread,
// and is not retried forever.
func TestHookThatDoesNotStop(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, processors := range map[string][]hook.Processor{
		"hook": nil,
		"processor": {{
			Name: "h", EventType: event.TypeMessage, Timeout: time.Millisecond,
			Process: func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { <-release; return nil, nil },
		}},
	} {
		t.Run("S0-23 "+name, func(t *testing.T) {
			var hooks []hook.Hook
			if processors == nil {
				h := does("h", func(context.Context, event.MessageEvent) (hook.Result, error) {
					<-release
					return hook.Pass(), nil
				})
				h.Timeout = time.Millisecond
				hooks = append(hooks, h)
			}
			w, in := hooked(t, hooks, processors...)
			w.all.SetGrace(time.Millisecond)
			out, err := w.runHooks(in)
			require.NoError(t, err)
			require.Equal(t, "it took longer than its limit of 1ms", out.Failed)
		})
	}
}

func TestHookIsInterrupted(t *testing.T) {
	var w *fixture
	h := does("h", func(ctx context.Context, _ event.MessageEvent) (hook.Result, error) {
		w.interruptAs(ctx, "trace")
		return hook.Result{}, ctx.Err()
	})
	var in step.Hook
	w, in = hooked(t, []hook.Hook{h})
	_, err := w.runHooks(in)
	app := appError(t, err)
	require.Equal(t, step.ErrTypeStopped, app.Type(), "it has not failed, and counts as not asked")
	require.False(t, app.NonRetryable())
}

func TestHookThatIsNotThere(t *testing.T) {
	w, in := hooked(t, []hook.Hook{passes("a"), hook.InWorkflow("w", hook.Workflow{Type: "own"})})
	for _, name := range []string{"gone", "w"} {
		in.Hooks = []hook.Spec{{Name: "a", Kind: hook.KindFunc}, {Name: name, Kind: hook.KindFunc}}
		out, err := w.runHooks(in)
		require.NoError(t, err)
		require.Equal(t, "a passed", outcomes(out))
		require.Contains(t, out.Failed, "this worker does not have it; register it", "S0-23 the way out")
	}
	none := newFixture(t, nil)
	out, err := none.runHooks(in)
	require.NoError(t, err)
	require.Contains(t, out.Failed, "this worker does not have it")
}

// TestWhatHooksSee: the record, or the event in the input.
func TestWhatHooksSee(t *testing.T) {
	var seen []event.Event
	watch := hook.OnEvent("watch", func(_ context.Context, e event.Event) (hook.Result, error) {
		seen = append(seen, e)
		return hook.Pass(), nil
	})
	watch.Filter.Types = []string{"*", event.TypeLLMCall}
	w, in := hooked(t, []hook.Hook{watch})
	calls := event.ToolCallEvent{ThreadID: "t1", AgentName: "assistant", ToolCalls: []event.ToolCall{call("c1", "add", `{ "a":1 }`)}}
	held := event.Message{ID: "m1", ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, AgentID: "assistant", Content: "hm", ToolCalls: calls.ToolCalls, Held: true, Metadata: event.Metadata{"a": json.Number("1")}}
	in.Flush.Records = append(in.Flush.Records, message(held),
		event.NewRecord("m1.calls", event.TypeToolCall, "", "", time.Now(), calls),
		event.NewRecord("f1", "file.changed", "", "", time.Now(), map[string]string{"path": "a"}))
	in.Flush.Row = &step.Row{Title: "A title", Status: "open"}
	llm := event.LLMCallEvent{ThreadID: "t1", AgentName: "assistant", Step: 2}
	for _, input := range []struct {
		id   string
		raw  event.Event
		want event.Event
	}{
		{"e1", nil, event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}}},
		{"m1", nil, event.MessageEvent{CreatedBy: event.CreatedByAgent, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, Content: "hm", ToolCalls: calls.ToolCalls, Metadata: event.Metadata{"a": json.Number("1")}}}},
		{"m1.calls", nil, calls},
		{"f1", nil, event.CustomEvent{Type: "file.changed", ThreadID: "t1", Payload: json.RawMessage(`{"path":"a"}`)}},
		{"e1.0.2.llm", llm, llm},
		{"e1", event.CustomEvent{Type: "note", ThreadID: "t1", Payload: json.RawMessage(`1`)}, event.CustomEvent{Type: "note", ThreadID: "t1", Payload: json.RawMessage(`1`)}},
	} {
		seen = nil
		in.EventID, in.Event = input.id, nil
		if input.raw != nil {
			raw, err := json.Marshal(input.raw)
			require.NoError(t, err)
			in.Event = raw
		}
		out, err := w.runHooks(in)
		require.NoError(t, err)
		require.Equal(t, []event.Event{input.want}, seen, input.id)
		raw, err := json.Marshal(input.want)
		require.NoError(t, err)
		require.JSONEq(t, string(raw), string(out.Event), "what holds is reported, changed or not")
	}
	row, err := w.store.Thread(context.Background(), ref)
	require.NoError(t, err)
	require.Equal(t, "A title", row.Title)

	in.Hooks, in.EventID, in.Event, seen = nil, "e1", nil, nil
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, "hello", contentOf(t, out.Event), "asking nobody only loads the event")
	require.Empty(t, seen)
}

func TestEventThatCannotBeRead(t *testing.T) {
	w, in := hooked(t, []hook.Hook{passes("a")})
	in.EventID = "e9"
	_, err := w.runHooks(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type(), "trying again cannot help")
	require.Contains(t, err.Error(), "event e9 is not in the store")

	in.Flush.Records = []event.Record{event.NewRecord("e9", event.TypeMessage, "", "", time.Now(), "no message")}
	_, err = w.runHooks(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())

	in.Event = json.RawMessage(`{"type":"token"}`)
	_, err = w.runHooks(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
}

func TestWhatHooksCanWorkWith(t *testing.T) {
	var deps hook.Deps
	// Another goroutine must not end the test.
	report := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	check := func(ctx context.Context) {
		d := hook.DepsOf(ctx)
		deps = d
		newest, err := d.Store.Messages(ctx, 2)
		report(err)
		if assert.Len(t, newest, 2) {
			assert.Equal(t, []string{"redacted", "hello"}, []string{newest[0].Content, newest[1].Content}, "the oldest first, as hooks have left them")
		}
		all, err := d.Store.Messages(ctx, 0)
		report(err)
		assert.Len(t, all, 3)
		notes, err := d.Store.Records(ctx, 1, 0, "note")
		report(err)
		if assert.Len(t, notes, 1) {
			assert.Equal(t, "n2", notes[0].ID)
		}
		byID, err := d.Store.RecordsByID(ctx, "n1", "e1", "e9")
		report(err)
		assert.Len(t, byID, 2)
	}
	h := does("h", func(ctx context.Context, _ event.MessageEvent) (hook.Result, error) {
		check(ctx)
		return hook.Pass(), nil
	})
	p := hook.Processor{Name: "p", EventType: event.TypeMessage, Process: func(ctx context.Context, _ event.Event, d hook.Deps) ([]hook.Produced, error) {
		check(hook.WithDeps(ctx, d))
		return nil, nil
	}}
	w, in := hooked(t, []hook.Hook{h}, p)
	w.append(store.Batch{
		Thread: &store.ThreadUpdate{Agents: []string{"alice"}, Metadata: json.RawMessage(`{"a":1}`)},
		Records: []event.Record{
			event.NewRecord("n1", "note", "", "", time.Now(), 1),
			message(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "first"}),
			message(event.Message{ID: "m2", SenderType: event.CreatedByUser, SenderID: "ann", Content: "a secret"}),
			event.NewRecord("n2", "note", "", "", time.Now(), 2),
			decided("m2", event.Interception{Outcome: event.OutcomeReplaced, Message: &event.Message{ID: "m2", SenderType: event.CreatedByUser, SenderID: "ann", Content: "redacted"}}),
		},
	})
	in.Attempt = 3
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, "h passed, p passed", outcomes(out))
	require.Equal(t, hook.Thread{Namespace: "ns", ID: "t1", Agents: []string{"alice"}, Metadata: json.RawMessage(`{"a":1}`)}, deps.Thread, "S2-27")
	require.Equal(t, hook.Context{
		Hook: "p", Namespace: "ns", ThreadID: "t1", EventID: "e1", TraceID: "trace", ParentEventID: "cause", Agent: "alice", Attempt: 1,
	}, deps.Context, "S2-27 only the first of them has been tried before")
}

func TestProcessorsProduce(t *testing.T) {
	asked := []string{}
	processor := func(name string, wants bool, produced ...hook.Produced) hook.Processor {
		return hook.Processor{
			Name: name, EventType: event.TypeMessage,
			ShouldProcess: func(context.Context, event.Event, hook.Deps) (bool, error) { return wants, nil },
			Process: func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
				asked = append(asked, name)
				return produced, nil
			},
		}
	}
	made := hook.NewProduced("note.taken", 1)
	w, in := hooked(t, []hook.Hook{appends("a")}, processor("unwilling", false, made), processor("idle", true), processor("first", true, hook.Message(event.CreatedBySystem, "p", "needs approval"), made), processor("second", true, made))
	out, err := w.runHooks(in)
	require.NoError(t, err)
	require.Equal(t, []string{"idle", "first"}, asked, "S2-28 S2-29 S2-30")
	require.Equal(t, "a replaced, unwilling passed, idle passed, first overwritten", outcomes(out))
	require.Equal(t, []string{event.TypeMessage, "note.taken"}, []string{out.Produced[0].Type, out.Produced[1].Type})
}

// downStore returns a store that finds no record by its id.
func downStore(s store.Store) teststore.Store {
	return teststore.Of(teststore.Before(s, func(context.Context) error { return errors.New("connection refused") }, "records_by_id"))
}

func TestHooksWaitForTheStore(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) { c.Store = downStore(c.Store) })
	_, err := w.runHooks(step.Hook{Thread: ref, EventID: "e1", EventType: event.TypeMessage, Flush: says("e1", "hello")})
	require.Equal(t, step.ErrTypeRetry, appError(t, err).Type(), "an outage is waited out")
}
