package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/threadmill/threadmill/event"
)

// MaxEvent is the maximum size of an event that a hook returns, and of all its responses or
// produced events together, in bytes of JSON.
const MaxEvent = 256 << 10

// Answer is the decision of one hook or processor on an event.
type Answer struct {
	Outcome event.Outcome

	// Event replaces the original event, if Outcome is replaced.
	Event     event.Event
	Responses []Response
	Produced  []Produced
}

// Settles reports whether the decision is final: later hooks do not run.
func (a Answer) Settles() bool {
	return a.Outcome == event.OutcomeResponded || a.Outcome == event.OutcomeOverwritten || a.Outcome == event.OutcomeDropped
}

// PanicError is the error of a hook or processor that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("it panicked: %v", e.Value) }

// RunInline runs an inline hook.
func (h Hook) RunInline(c Context, e event.Event) (Answer, error) {
	return ask(e, func(e event.Event, respond Respond) (event.Event, error) { return h.Inline(c, e, respond) })
}

// Run runs a hook that is a Go function, inline or not.
func (h Hook) Run(ctx context.Context, e event.Event, deps Deps) (Answer, error) {
	if h.Inline != nil {
		return h.RunInline(deps.Context, e)
	}
	ctx = WithDeps(ctx, deps)
	return ask(e, func(e event.Event, respond Respond) (event.Event, error) { return h.Func(ctx, e, respond) })
}

// ask calls a hook with a copy of the event, which the hook may change. Responses after the hook
// has returned are ignored.
func ask(seen event.Event, call func(event.Event, Respond) (event.Event, error)) (out Answer, err error) {
	defer caught(&err)
	given, err := clone(seen)
	if err != nil {
		return Answer{}, err
	}
	var mu sync.Mutex
	var responses []Response
	closed := false
	got, err := call(given, func(r Response) {
		mu.Lock()
		defer mu.Unlock()
		if !closed {
			responses = append(responses, r)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	closed = true
	var v Verdict
	var instead *decided
	switch {
	case errors.As(err, &instead):
		v = instead.verdict
	case err != nil:
		return Answer{}, err
	}
	v.Responses = responses
	return v.answer(seen, got)
}

func clone(e event.Event) (event.Event, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("copying the event: %w", err)
	}
	return event.Unmarshal(raw)
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, string(debug.Stack())}
	}
}

// answer validates the decision of a hook. got is the event that it returned, if any.
func (v Verdict) answer(seen, got event.Event) (Answer, error) {
	if err := v.check(got != nil); err != nil {
		return Answer{}, err
	}
	switch {
	case len(v.Responses) > 0:
		for i, r := range v.Responses {
			if err := r.Validate(); err != nil {
				return Answer{}, fmt.Errorf("responses[%d].%w", i, err)
			}
		}
		return Answer{Outcome: event.OutcomeResponded, Responses: v.Responses}, fits("responses", v.Responses)
	case len(v.Produced) > 0:
		return produced(seen, v.Produced)
	case v.Drop:
		return Answer{Outcome: event.OutcomeDropped}, nil
	case got == nil:
		return Answer{Outcome: event.OutcomePassed}, nil
	}
	if err := checkReplacement(seen, got); err != nil {
		return Answer{}, fmt.Errorf("the event that it returned: %w", err)
	}
	if same(seen, got) {
		return Answer{Outcome: event.OutcomePassed}, nil
	}
	return Answer{Outcome: event.OutcomeReplaced, Event: got}, fits("event", got)
}

// check reports the fields of a verdict that exclude each other.
func (v Verdict) check(replaces bool) error {
	others := func(field string, is ...bool) error {
		if slices.Contains(is, true) {
			return event.FieldErrorf(field, "excludes every other decision of a hook: return it alone")
		}
		return nil
	}
	switch {
	case v.Drop:
		return others("drop", replaces, len(v.Responses) > 0, len(v.Produced) > 0)
	case v.Produced != nil && len(v.Produced) == 0:
		return event.FieldErrorf("produced", "is empty: omit it to let the event pass, or set drop")
	case len(v.Produced) > 0:
		return others("produced", replaces, len(v.Responses) > 0)
	}
	return nil
}

// Read validates the result of a hook workflow.
func (v Verdict) Read(seen event.Event) (Answer, error) {
	var got event.Event
	if len(v.Event) > 0 && string(v.Event) != "null" {
		var err error
		if got, err = event.Unmarshal(v.Event); err != nil {
			return Answer{}, fmt.Errorf("the event that it returned: %w", err)
		}
	}
	return v.answer(seen, got)
}

// Run runs a processor.
func (p Processor) Run(ctx context.Context, e event.Event, deps Deps) (out Answer, err error) {
	defer caught(&err)
	if e, err = clone(e); err != nil {
		return Answer{}, err
	}
	if p.ShouldProcess != nil {
		wanted, err := p.ShouldProcess(ctx, e, deps)
		if err != nil || !wanted {
			return Answer{Outcome: event.OutcomePassed}, err
		}
	}
	events, err := p.Process(ctx, e, deps)
	if err != nil || len(events) == 0 {
		return Answer{Outcome: event.OutcomePassed}, err
	}
	return produced(e, events)
}

// produced validates the events that a processor produces.
func produced(seen event.Event, events []Produced) (Answer, error) {
	events = slices.Clone(events)
	for i := range events {
		var err error
		if events[i], err = events[i].whole(seen); err != nil {
			return Answer{}, fmt.Errorf("produced[%d].%w", i, err)
		}
	}
	return Answer{Outcome: event.OutcomeOverwritten, Produced: events}, fits("produced", events)
}

// whole validates an event and sets its defaults.
func (p Produced) whole(of event.Event) (Produced, error) {
	if p.Type == "" {
		p.Type = event.TypeMessage
	}
	switch {
	case p.TTL < 0:
		return p, event.FieldErrorf("ttl", "must not be negative (milliseconds; 0 = no limit)")
	case len(p.Payload) == 0:
		p.Payload = json.RawMessage("null")
	}
	if err := firstOf(event.ValidateType("type", p.Type), event.ValidateJSON("payload", p.Payload)); err != nil {
		return p, err
	}
	if p.Metadata != nil {
		made := event.EnvEvent{Type: p.Type, Metadata: *p.Metadata, Payload: p.Payload}
		if to := made.Metadata.TriggerSessionID; to != "" && to != threadOf(of) {
			return p, event.FieldErrorf("metadata.trigger_session_id", "is %q, but the event's is %q", to, threadOf(of))
		}
		return p, made.Validate()
	}
	if p.Type != event.TypeMessage {
		return p, nil
	}
	var m event.NewMessage
	if err := event.DecodeJSON("payload", p.Payload, &m); err != nil {
		return p, err
	}
	if m.ThreadID == "" {
		m.ThreadID = threadOf(of)
	}
	if err := m.Validate(); err != nil {
		return p, fmt.Errorf("payload.%w", err)
	}
	if m.ThreadID != threadOf(of) {
		return p, event.FieldErrorf("payload.threadId", "is %q, but the event's is %q", m.ThreadID, threadOf(of))
	}
	var err error
	p.Payload, err = json.Marshal(m)
	return p, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func threadOf(e event.Event) string {
	switch e := e.(type) {
	case event.MessageEvent:
		return e.ThreadID
	case event.ToolCallEvent:
		return e.ThreadID
	case event.LLMCallEvent:
		return e.ThreadID
	case event.CustomEvent:
		return e.ThreadID
	case event.EnvEvent:
		return e.Metadata.TriggerSessionID
	}
	return ""
}

// checkReplacement reports why one event cannot replace another.
func checkReplacement(seen, got event.Event) error {
	if threadOf(got) != threadOf(seen) {
		return event.FieldErrorf("threadId", "is %q, but the event's is %q", threadOf(got), threadOf(seen))
	}
	_, wasLLM := seen.(event.LLMCallEvent)
	switch got := got.(type) {
	case event.LLMCallEvent:
		if !wasLLM {
			return event.FieldErrorf("type", "a %s cannot become an llm_call", seen.EventType())
		}
		return nil
	case event.ToolCallEvent:
		if wasLLM {
			break
		}
		return checkCalls(seen, got)
	case event.MessageEvent:
		if wasLLM {
			break
		}
		return checkMessage(seen, got)
	case event.CustomEvent:
		if wasLLM {
			break
		}
		if got.Type == "" || got.Type == event.TypeMessage || event.Reserved(got.Type) {
			return event.FieldErrorf("type", "%q is not a custom type", got.Type)
		}
		return nil
	case event.EnvEvent:
		if wasLLM {
			break
		}
		if was, ok := seen.(event.EnvEvent); ok && was.ID != got.ID {
			return event.FieldErrorf("id", "is %q, but the event's is %q", got.ID, was.ID)
		}
		return got.Validate()
	}
	return event.FieldErrorf("type", "an llm_call cannot become a %s; respond instead", got.EventType())
}

// checkMessage validates a replacement of a message: the content may change, the tool calls may
// not.
func checkMessage(seen event.Event, got event.MessageEvent) error {
	was, _ := seen.(event.MessageEvent)
	if !slices.Equal(was.Message.ToolCalls, got.Message.ToolCalls) {
		return event.FieldErrorf("message.toolCalls", "cannot be changed; change the tool_call event")
	}
	m := got.Message
	if m.ThreadID == "" {
		m.ThreadID = got.ThreadID
	}
	return event.WithinField("message", m.Validate())
}

// checkCalls validates a replacement of tool calls: calls may be edited or removed, but not added,
// since the model would not know them.
func checkCalls(seen event.Event, got event.ToolCallEvent) error {
	if m, ok := seen.(event.MessageEvent); ok && (m.CreatedBy == event.CreatedByAgent || m.CreatedBy == event.CreatedByTool) {
		return event.FieldErrorf("type", "a message of an agent or a tool cannot become a tool_call; respond instead")
	}
	was, ok := seen.(event.ToolCallEvent)
	if !ok {
		if got.AgentName == "" {
			return event.FieldErrorf("agentName", "is required: the agent that continues with the results")
		}
		if len(got.ToolCalls) == 0 {
			return event.FieldErrorf("toolCalls", "are required")
		}
		return nil
	}
	known := map[string]bool{}
	for i, c := range got.ToolCalls {
		at := slices.IndexFunc(was.ToolCalls, func(o event.ToolCall) bool { return o.ID == c.ID })
		switch {
		case at < 0 || known[c.ID]:
			return event.FieldErrorf(fmt.Sprintf("toolCalls[%d].id", i), "%q is not one of the event's calls, or is duplicated", c.ID)
		case was.ToolCalls[at].Function.Name != c.Function.Name:
			return event.FieldErrorf(fmt.Sprintf("toolCalls[%d].function.name", i), "of a call cannot be changed; remove the call, or respond")
		}
		known[c.ID] = true
	}
	if got.AgentName != was.AgentName {
		return event.FieldErrorf("agentName", "of an agent's calls cannot be changed")
	}
	return nil
}

func same(a, b event.Event) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func fits(field string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return event.FieldErrorf(field, "%s", "has no JSON form: "+err.Error())
	}
	if len(raw) > MaxEvent {
		return event.FieldErrorf(field, "is %d bytes, must be at most %d", len(raw), MaxEvent)
	}
	return nil
}
