package check

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Desk has hooks and processors with separate rules for each thread of a test. It records their
// calls.
type Desk struct {
	mu    sync.Mutex
	rules map[string]hook.Func
	makes map[string]Maker
	book  []Entry
}

// Entry is one call of a hook or processor.
type Entry struct {
	hook.Context
	Event event.Event
}

// Maker is the rule of a processor.
type Maker func(ctx context.Context, e event.Event, deps hook.Deps) ([]hook.Produced, error)

// What names the event: "message user", "tool_call".
func (e Entry) What() string {
	if m, ok := e.Event.(event.MessageEvent); ok {
		return event.TypeMessage + " " + string(m.CreatedBy)
	}
	return e.Event.EventType()
}

// NewDesk returns a desk without rules.
func NewDesk() *Desk {
	return &Desk{rules: map[string]hook.Func{}, makes: map[string]Maker{}}
}

// Hook is a hook for events of some types, by default all but model calls.
func (d *Desk) Hook(name string, types ...string) hook.Hook {
	return hook.Hook{Name: name, Filter: hook.Filter{Types: types}, Timeout: testenv.Patience, Func: func(ctx context.Context, e event.Event) (hook.Result, error) {
		c := hook.DepsOf(ctx).Context
		d.Note(c, e)
		if rule := d.Rule(c); rule != nil {
			return rule(ctx, e)
		}
		return hook.Pass(), nil
	}}
}

// Inline is an inline hook. Its calls are not recorded: replay may repeat them.
func (d *Desk) Inline(name string, types ...string) hook.Hook {
	h := hook.Inline(name, func(c hook.Context, e event.Event) (hook.Result, error) {
		if rule := d.Rule(c); rule != nil {
			return rule(context.Background(), e)
		}
		return hook.Pass(), nil
	})
	h.Filter.Types = types
	return h
}

// Processor matches if the thread has a rule for it.
func (d *Desk) Processor(name, typ string) hook.Processor {
	made := func(deps hook.Deps) Maker {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.makes[deps.Context.ThreadID+"/"+name]
	}
	return hook.Processor{
		Name: name, EventType: typ, Timeout: testenv.Patience,
		ShouldProcess: func(_ context.Context, _ event.Event, deps hook.Deps) (bool, error) { return made(deps) != nil, nil },
		Process: func(ctx context.Context, e event.Event, deps hook.Deps) ([]hook.Produced, error) {
			d.Note(deps.Context, e)
			return made(deps)(ctx, e, deps)
		},
	}
}

// Note records a call.
func (d *Desk) Note(c hook.Context, e event.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book = append(d.book, Entry{c, e})
}

// Rule is the rule for a call, or nil.
func (d *Desk) Rule(c hook.Context) hook.Func {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rules[c.ThreadID+"/"+c.Hook]
}

// Set sets a thread's rule for a hook; nil removes it.
func (d *Desk) Set(thread, name string, rule hook.Func) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[thread+"/"+name] = rule
}

// Make sets a thread's rule for a processor.
func (d *Desk) Make(thread, name string, m Maker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.makes[thread+"/"+name] = m
}

// Asked are the calls of a hook or processor in a thread, in order; of all if name is "".
func (d *Desk) Asked(thread, name string) []Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.book), func(e Entry) bool {
		return e.ThreadID != thread || name != "" && e.Hook != name
	})
}

// Whats names the events of a hook's calls, in order.
func (d *Desk) Whats(thread, name string) []string {
	out := []string{}
	for _, e := range d.Asked(thread, name) {
		out = append(out, e.What())
	}
	return out
}

// DeskAgents are an agent with some tools, and one without.
func DeskAgents(tools ...string) []agent.Agent {
	return []agent.Agent{
		{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: append([]string{"note", "shell_cmd"}, tools...)},
		{Name: "bob", Instructions: "You are bob.", Model: "openai/stand-in"},
	}
}

// Open builds a world with a desk's hooks and processors. On a machine that stalls, no step counts
// as lost and runs twice.
func (d *Desk) Open(t *testing.T, o harness.Options, hooks []hook.Hook, processors ...hook.Processor) *harness.Harness {
	t.Helper()
	if o.Agents == nil {
		names := []string{}
		for _, tl := range o.Tools {
			names = append(names, tl.Definition().Name)
		}
		o.Agents = DeskAgents(names...)
	}
	configure := o.Configure
	o.Configure = func(c *threadmill.Config) {
		c.Hooks, c.Processors, c.StaleAfter = hooks, processors, Calm
		if configure != nil {
			configure(c)
		}
	}
	return harness.New(t, o)
}

// OnMessage is a rule for messages of one kind of sender.
func OnMessage(by event.CreatedBy, rule func(m event.MessageEvent) hook.Result) hook.Func {
	return func(_ context.Context, e event.Event) (hook.Result, error) {
		if m, ok := e.(event.MessageEvent); ok && m.CreatedBy == by {
			return rule(m), nil
		}
		return hook.Pass(), nil
	}
}

// OnCalls is a rule for tool calls.
func OnCalls(rule func(c event.ToolCallEvent) hook.Result) hook.Func {
	return func(_ context.Context, e event.Event) (hook.Result, error) {
		if c, ok := e.(event.ToolCallEvent); ok {
			return rule(c), nil
		}
		return hook.Pass(), nil
	}
}

// Responding is a rule that responds to messages of one kind of sender.
func Responding(by event.CreatedBy, responses ...hook.Response) hook.Func {
	return OnMessage(by, func(event.MessageEvent) hook.Result { return hook.Respond(responses...) })
}

// Saying is a rule that replaces text in messages of one kind of sender.
func Saying(by event.CreatedBy, from, to string) hook.Func {
	return OnMessage(by, func(m event.MessageEvent) hook.Result {
		m.Message.Content = strings.ReplaceAll(m.Message.Content, from, to)
		return hook.Replace(m)
	})
}

// Halt makes a rule wait until it is released.
type Halt struct {
	Reached, Open chan struct{}
	once          sync.Once
}

// NewHalt returns a halt at which everything waits.
func NewHalt() *Halt { return &Halt{Reached: make(chan struct{}, 100), Open: make(chan struct{})} }

// Release lets everything go on.
func (h *Halt) Release() { h.once.Do(func() { close(h.Open) }) }

// Before halts events of one kind before a rule, which may be nil.
func (h *Halt) Before(what string, rule hook.Func) hook.Func {
	return func(ctx context.Context, e event.Event) (hook.Result, error) {
		if (Entry{Event: e}).What() == what {
			h.Reached <- struct{}{}
			select {
			case <-h.Open:
			case <-ctx.Done():
				return hook.Result{}, ctx.Err()
			}
		}
		if rule == nil {
			return hook.Pass(), nil
		}
		return rule(ctx, e)
	}
}
