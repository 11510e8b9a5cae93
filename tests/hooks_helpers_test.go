package tests

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// desk has hooks and processors with separate rules for each thread of a test. It records their
// calls.
type desk struct {
	mu    sync.Mutex
	rules map[string]hook.Func
	makes map[string]maker
	book  []entry
}

// entry is one call of a hook or processor.
type entry struct {
	hook.Context
	event event.Event
}

// what names the event: "message user", "tool_call".
func (e entry) what() string {
	if m, ok := e.event.(event.MessageEvent); ok {
		return event.TypeMessage + " " + string(m.CreatedBy)
	}
	return e.event.EventType()
}

// maker is the rule of a processor.
type maker func(ctx context.Context, e event.Event, deps hook.Deps) ([]hook.Produced, error)

func newDesk() *desk {
	return &desk{rules: map[string]hook.Func{}, makes: map[string]maker{}}
}

// hook is a hook for events of some types, by default all but model calls.
func (d *desk) hook(name string, types ...string) hook.Hook {
	return hook.Hook{Name: name, Filter: hook.Filter{Types: types}, Timeout: waitLong, Func: func(ctx context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		c := hook.DepsOf(ctx).Context
		d.note(c, e)
		if rule := d.rule(c); rule != nil {
			return rule(ctx, e, respond)
		}
		return nil, nil
	}}
}

// inline is an inline hook. Its calls are not recorded: replay may repeat them.
func (d *desk) inline(name string, types ...string) hook.Hook {
	h := hook.Inline(name, func(c hook.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		if rule := d.rule(c); rule != nil {
			return rule(context.Background(), e, respond)
		}
		return nil, nil
	})
	h.Filter.Types = types
	return h
}

// processor matches if the thread has a rule for it.
func (d *desk) processor(name, typ string) hook.Processor {
	made := func(deps hook.Deps) maker {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.makes[deps.Context.ThreadID+"/"+name]
	}
	return hook.Processor{
		Name: name, EventType: typ, Timeout: waitLong,
		ShouldProcess: func(_ context.Context, _ event.Event, deps hook.Deps) (bool, error) { return made(deps) != nil, nil },
		Process: func(ctx context.Context, e event.Event, deps hook.Deps) ([]hook.Produced, error) {
			d.note(deps.Context, e)
			return made(deps)(ctx, e, deps)
		},
	}
}

func (d *desk) note(c hook.Context, e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book = append(d.book, entry{c, e})
}

func (d *desk) rule(c hook.Context) hook.Func {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rules[c.ThreadID+"/"+c.Hook]
}

// set sets a thread's rule for a hook; nil removes it.
func (d *desk) set(thread, name string, rule hook.Func) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[thread+"/"+name] = rule
}

// make sets a thread's rule for a processor.
func (d *desk) make(thread, name string, m maker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.makes[thread+"/"+name] = m
}

// asked are the calls of a hook or processor in a thread, in order; of all if name is "".
func (d *desk) asked(thread, name string) []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.book), func(e entry) bool {
		return e.ThreadID != thread || name != "" && e.Hook != name
	})
}

// whats names the events of a hook's calls, in order.
func (d *desk) whats(thread, name string) []string {
	out := []string{}
	for _, e := range d.asked(thread, name) {
		out = append(out, e.what())
	}
	return out
}

// deskAgents are an agent with some tools, and one without.
func deskAgents(tools ...string) []agent.Agent {
	return []agent.Agent{
		{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: append([]string{"note", "shell_cmd"}, tools...)},
		{Name: "bob", Instructions: "You are bob.", Model: "openai/stand-in"},
	}
}

// open builds a world with a desk's hooks and processors. On a machine that stalls, no step counts
// as lost and runs twice.
func (d *desk) open(t *testing.T, o harness.Options, hooks []hook.Hook, processors ...hook.Processor) *harness.Harness {
	t.Helper()
	if o.Agents == nil {
		names := []string{}
		for _, tl := range o.Tools {
			names = append(names, tl.Definition().Name)
		}
		o.Agents = deskAgents(names...)
	}
	configure := o.Configure
	o.Configure = func(c *threadmill.Config) {
		c.Hooks, c.Processors, c.StaleAfter = hooks, processors, calm
		if configure != nil {
			configure(c)
		}
	}
	return harness.New(t, o)
}

// onMessage is a rule for messages of one kind of sender.
func onMessage(by event.CreatedBy, rule func(m event.MessageEvent, respond hook.Respond) event.Event) hook.Func {
	return func(_ context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == by {
			return rule(m, respond), nil
		}
		return nil, nil
	}
}

// onCalls is a rule for tool calls.
func onCalls(rule func(c event.ToolCallEvent, respond hook.Respond) event.Event) hook.Func {
	return func(_ context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		if c, ok := e.(event.ToolCallEvent); ok {
			return rule(c, respond), nil
		}
		return nil, nil
	}
}

// responding is a rule that responds to messages of one kind of sender.
func responding(by event.CreatedBy, responses ...hook.Response) hook.Func {
	return onMessage(by, func(_ event.MessageEvent, respond hook.Respond) event.Event {
		for _, r := range responses {
			respond(r)
		}
		return nil
	})
}

// saying is a rule that replaces text in messages of one kind of sender.
func saying(by event.CreatedBy, from, to string) hook.Func {
	return onMessage(by, func(m event.MessageEvent, _ hook.Respond) event.Event {
		m.Message.Content = strings.ReplaceAll(m.Message.Content, from, to)
		return m
	})
}

// halt makes a rule wait until it is released.
type halt struct {
	reached, open chan struct{}
	once          sync.Once
}

func newHalt() *halt { return &halt{reached: make(chan struct{}, 100), open: make(chan struct{})} }

func (h *halt) release() { h.once.Do(func() { close(h.open) }) }

// before halts events of one kind before a rule, which may be nil.
func (h *halt) before(what string, rule hook.Func) hook.Func {
	return func(ctx context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
		if (entry{event: e}).what() == what {
			h.reached <- struct{}{}
			select {
			case <-h.open:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if rule == nil {
			return nil, nil
		}
		return rule(ctx, e, respond)
	}
}

// say posts a person's message, and waits until its turn has ended and all of it is stored.
func say(w *harness.Harness, thread, content string) signals.TurnResult {
	w.T.Helper()
	return wholly(w, thread, w.Say(thread, content))
}

// turn posts an event, and waits like say.
func turn(w *harness.Harness, thread string, p signals.Post) signals.TurnResult {
	w.T.Helper()
	out, err := w.Threads.Turn(w.Ctx(), thread, p)
	require.NoError(w.T, err)
	return wholly(w, thread, out)
}

// wholly waits until all of a turn is stored.
func wholly(w *harness.Harness, thread string, out signals.TurnResult) signals.TurnResult {
	w.T.Helper()
	if out.LastRecord != "" {
		require.Eventually(w.T, func() bool {
			found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), out.LastRecord)
			return err == nil && len(found) == 1
		}, waitLong, waitTick)
	}
	return out
}

// decisionOn returns the decision on an event.
func decisionOn(w *harness.Harness, thread, eventID string) event.Interception {
	w.T.Helper()
	found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), recordid.Interception(eventID))
	require.NoError(w.T, err)
	require.Len(w.T, found, 1, "a decision on event %s", eventID)
	return harness.Payload[event.Interception](w, found[0])
}

// recordOf returns a record.
func recordOf(w *harness.Harness, thread, id string) event.Record {
	w.T.Helper()
	found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), id)
	require.NoError(w.T, err)
	require.Len(w.T, found, 1, "record %s", id)
	return found[0]
}

// saidIn are a thread's stored messages: "ann: hello".
func saidIn(w *harness.Harness, thread string) []string {
	w.T.Helper()
	out := []string{}
	for _, m := range w.Messages(thread) {
		out = append(out, m.SenderID+": "+m.Content)
	}
	return out
}

// modelsOf are the model calls whose messages contain text.
func modelsOf(w *harness.Harness, text string) []shown {
	w.T.Helper()
	return slices.DeleteFunc(modelCalls(w), func(s shown) bool {
		return !slices.ContainsFunc(s.Messages, func(m llm.Message) bool { return strings.Contains(m.Content, text) })
	})
}

// custom is the post of a custom event.
func custom(id, typ string, payload any) signals.Post {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // plain data can be marshalled
	}
	return signals.Post{ID: id, Type: typ, Payload: raw}
}

// itemOf queries an event in a thread's queue.
func itemOf(w *harness.Harness, thread, eventID string) event.Item {
	w.T.Helper()
	it, err := w.Threads.Item(w.Ctx(), thread, eventID)
	require.NoError(w.T, err)
	return it
}

// failedEvent returns an event that must have failed.
func failedEvent(w *harness.Harness, thread, eventID string) event.Item {
	w.T.Helper()
	it := itemOf(w, thread, eventID)
	require.Equal(w.T, event.ItemFailed, it.Status)
	return it
}

// failing400 is a provider's error that is not retried.
var failing400 = llmtest.Status(http.StatusBadRequest, "")

// failedDecision is a decision that failed.
func failedDecision(w *harness.Harness, thread, eventID string) event.Interception {
	w.T.Helper()
	decisions := slices.DeleteFunc(ofType(w, thread, event.TypeHook), func(r event.Record) bool {
		d := harness.Payload[event.Interception](w, r)
		return d.EventID != eventID || d.Outcome != event.OutcomeFailed
	})
	require.Len(w.T, decisions, 1)
	return harness.Payload[event.Interception](w, decisions[0])
}
