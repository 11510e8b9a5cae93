package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Seen is an event as the thread shows it to hooks.
type Seen struct {
	// ID is the record that holds it, Type its type, Parent its cause.
	ID     string
	Type   string
	Parent string

	CreatedBy event.CreatedBy
	Agent     string
	Tools     []string

	// Key is the same as ID, but differs when an event is seen again because it is
	// retried by hand.
	Key string

	// Hooked says that hooks have put it in the place of another.
	Hooked bool

	// ByRule says that the processor of a rule sees it, after the hooks; Changed, that
	// these have changed it.
	ByRule, Changed bool

	// Env says that it is an environment event.
	Env bool

	// Event is the event itself, if the thread has all of it at hand: nil means that it
	// is in the record, and that inline hooks see it in a hook workflow, too.
	Event event.Event

	// message is what the thread knows of it, if it is a message.
	message event.Message

	// undecided: its record may be marked, see [event.Record.WithUndecided]. stored: that may
	// be in the store, whatever the thread still has of it.
	undecided, stored bool
}

// Subject is what filters go by.
func (s *State) Subject(e Seen) hook.Subject {
	return hook.Subject{Namespace: s.Namespace, Type: e.Type, CreatedBy: e.CreatedBy, Agent: e.Agent, Tools: e.Tools}
}

// Processing leaves only processors for an event that hooks have put in the place of
// another: they have seen it.
func (e Seen) Processing(specs []hook.Spec) []hook.Spec {
	if !e.Hooked {
		return specs
	}
	return slices.DeleteFunc(specs, func(spec hook.Spec) bool { return spec.Kind != hook.KindProcessor })
}

// Context is what an inline hook is told.
func (s *State) Context(e Seen) hook.Context {
	return hook.Context{
		Namespace: s.Namespace, ThreadID: s.ThreadID, EventID: e.ID, TraceID: s.Turn.Item.TraceID,
		ParentEventID: e.Parent, Agent: e.Agent,
	}
}

// HookStep is the input of the hook workflow that decides on an event.
func (s *State) HookStep(e Seen, specs []hook.Spec) HookStep {
	step := HookStep{
		Thread: s.Ref(), TraceID: s.Turn.Item.TraceID, EventID: e.ID, EventType: e.Type, ParentEventID: e.Parent,
		Agent: e.Agent, Hooks: specs, Flush: s.Flush(),
	}
	step.Replaced = e.Changed
	if e.Type == event.TypeLLMCall {
		// It has no record.
		step.Event = rawJSON(e.Event)
	}
	return step
}

// Intercepting is an event that a hook workflow is deciding on.
type Intercepting struct {
	EventID string `json:"eventId"`

	// Record holds the event, Type is its type, and Hooks are asked about it: for people.
	Record string   `json:"record,omitempty"`
	Type   string   `json:"type,omitempty"`
	Hooks  []string `json:"hooks,omitempty"`

	// Called says that it was asked to report by signal, because the thread moves. Decision
	// came so.
	Called   bool      `json:"called,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// maxLate is how many reports a thread expects at most that it does not need any more.
const maxLate = 32

// Asking remembers that a hook workflow has been started, which asks these hooks about
// an event.
func (s *State) Asking(e Seen, specs ...hook.Spec) {
	if s.asked(e.Key) != nil {
		return
	}
	in := Intercepting{EventID: e.Key, Record: e.ID, Type: e.Type}
	for _, spec := range specs {
		in.Hooks = append(in.Hooks, spec.Name)
	}
	s.Turn.Intercepting = append(s.Turn.Intercepting, in)
}

// Asked reports whether a hook workflow has been started for an event and was not heard,
// and its decision if that has come by signal.
func (s *State) Asked(e Seen) (decision *Decision, asked bool) {
	in := s.asked(e.Key)
	if in == nil {
		return nil, false
	}
	return in.Decision, true
}

// AskedHooks are the hooks that are being asked about an event, as they are today. One that
// is gone since may not be passed by for that.
func (s *State) AskedHooks(e Seen, specs []hook.Spec) []hook.Spec {
	in := s.asked(e.Key)
	if in == nil {
		return nil
	}
	asked := make([]hook.Spec, len(in.Hooks))
	for i, name := range in.Hooks {
		asked[i] = hook.Spec{Name: name, OnFailure: hook.Closed}
		if at := slices.IndexFunc(specs, func(spec hook.Spec) bool { return spec.Name == name }); at >= 0 {
			asked[i] = specs[at]
		}
		if e.ByRule {
			asked[i].OnFailure = hook.Closed
		}
	}
	return asked
}

// Calling remembers that the hook workflow of an event was asked to report by signal.
func (s *State) Calling(e Seen) {
	if in := s.asked(e.Key); in != nil {
		in.Called = true
	}
}

// Answered forgets that a hook workflow was asked. Its report may be on the way, though
// the thread has the decision already, or does not need it any more.
func (s *State) Answered(e Seen) {
	s.Turn.Intercepting = slices.DeleteFunc(s.Turn.Intercepting, func(in Intercepting) bool {
		if in.EventID == e.Key {
			s.late(in)
		}
		return in.EventID == e.Key
	})
}

func (s *State) late(in Intercepting) {
	if in.Called && in.Decision == nil {
		s.Late = keepLast(append(s.Late, in.EventID), maxLate)
	}
}

// HookDecided takes in a decision that came by signal.
func (s *State) HookDecided(d HookDecided) error {
	in := s.asked(d.EventID)
	if late := slices.Index(s.Late, d.EventID); in == nil && late >= 0 {
		s.Late = slices.Delete(s.Late, late, late+1)
		return nil
	}
	if in == nil {
		return fmt.Errorf("no hook workflow is deciding on event %q", d.EventID)
	}
	if in.Decision == nil {
		in.Decision = &d.Decision
	}
	return nil
}

func (s *State) asked(key string) *Intercepting {
	if s.Turn == nil {
		return nil
	}
	for i := range s.Turn.Intercepting {
		if s.Turn.Intercepting[i].EventID == key {
			return &s.Turn.Intercepting[i]
		}
	}
	return nil
}

// heard takes in what hooks and processors have decided on an event: it is recorded,
// and what they have made is queued, but for what waits for tool results. It returns
// the decision as it stands: one that goes too far has failed.
func (s *State) heard(now time.Time, e Seen, d Decision, deferred *[]Deferred) Decision {
	if problem := cmp.Or(unstorable(d), s.tooMany(d)); problem != "" {
		d = Decision{Outcome: event.HookFailed, By: d.By, Hooks: d.Hooks, Error: problem}
	}
	if d.Outcome == "" {
		d.Outcome = event.Passed
	}
	rec := event.Interception{EventID: e.ID, EventType: e.Type, Outcome: d.Outcome, Hooks: append([]event.HookOutcome{}, d.Hooks...), Error: d.Error}
	for _, r := range d.Responses {
		made := Deferred{ID: s.newID(now), By: d.By, Parent: e.ID, Event: s.response(e, d.By, r)}
		rec.Produced = append(rec.Produced, made.ID)
		if deferred != nil && r.EnqueueAfter != hook.Immediately {
			*deferred = append(*deferred, made)
			continue
		}
		s.produce(now, made)
	}
	for _, p := range d.Produced {
		made := Deferred{ID: s.newID(now), By: d.By, Parent: e.ID, Event: p}
		rec.Produced = append(rec.Produced, made.ID)
		s.produce(now, made)
	}
	if d.Outcome == event.Replaced {
		s.fillIn(&rec, e, d.Event)
		if made, ok := s.turned(now, e, d); ok {
			rec.Produced = append(rec.Produced, made.ID)
			s.produce(now, made)
			d.Outcome, d.By = event.Produced, made.By
		}
	}
	if e.message.Held && d.Outcome == event.Passed {
		m := e.message
		m.Held = false
		rec.Message, d.Silent = &m, false
	}
	id := event.InterceptionID(e.ID)
	if e.ByRule {
		id = event.InterceptionID(event.RuleID(e.ID))
	}
	if d.Outcome == event.HookFailed {
		// What is retried may yet be decided.
		id = event.FailedInterceptionID(e.Key)
	}
	write := !d.Silent && (len(d.Hooks) > 0 || rec.Message != nil)
	if write || e.undecided && d.Outcome == event.Passed && !s.pass(e) {
		s.record(id, event.TypeHook, s.Turn.Item.TraceID, e.ID, now, rec)
	}
	return d
}

// pass takes the mark off the record of an event that hooks had no say in, if no activity has
// had the record. Otherwise it takes the record of a decision.
func (s *State) pass(e Seen) bool {
	if e.stored {
		return false
	}
	for i, r := range s.Pending {
		if r.ID == e.ID && i >= s.Handed {
			s.Pending[i] = r.Decided()
			return true
		}
	}
	return false
}

// fillIn records what holds in place of the event.
func (s *State) fillIn(rec *event.Interception, e Seen, raw json.RawMessage) {
	switch got := readEvent(raw).(type) {
	case event.MessageEvent:
		if e.Type == event.TypeMessage {
			m := s.replaced(e, got)
			rec.Message = &m
		}
	case event.ToolCallEvent:
		if e.Type == event.TypeToolCall {
			rec.ToolCalls, rec.Agent = got.ToolCalls, e.Agent
		}
	case event.LLMCallEvent:
		rec.LLMCall = &got
	case event.CustomEvent:
		rec.Custom = &got
	case event.EnvEvent:
		rec.Env = &got
	}
}

// replaced is a message as hooks have left it.
func (s *State) replaced(e Seen, got event.MessageEvent) event.Message {
	m := e.message
	m.ID, m.ThreadID = e.ID, s.ThreadID
	m.Content, m.Metadata, m.Held, m.Truncated = got.Message.Content, got.Message.Metadata, false, false
	if m.ToolCalls == nil {
		m.ToolCalls = got.Message.ToolCalls
	}
	if by := got.Message.SenderType; by.Valid() && by != m.SenderType {
		m.SenderType, m.Role = by, by.Role()
	}
	if got.Message.SenderID != "" {
		m.SenderID = got.Message.SenderID
	}
	return m
}

// readEvent reads an event that was checked where it was made.
func readEvent(raw json.RawMessage) event.Event {
	e, err := event.Unmarshal(raw)
	if err != nil {
		return nil
	}
	return e
}

// remembered is what hooks have put in the place of an item, as far as it takes to
// process that again: all of it is in the record of their decision.
func remembered(raw json.RawMessage) json.RawMessage {
	switch e := readEvent(raw).(type) {
	case event.MessageEvent:
		e.Message.Metadata = nil
		if len(e.Message.Content) > MaxCarriedContent {
			e.Message.Content = cutText(e.Message.Content, MaxCarriedContent)
		}
		return rawJSON(e)
	case event.CustomEvent:
		e.Payload = nil
		return rawJSON(e)
	case event.EnvEvent:
		// Rules may look into a payload of some size; all of it is in the record, too.
		if len(e.Payload) > MaxCarriedContent {
			e.Payload = json.RawMessage("null")
		}
		return rawJSON(e)
	}
	return raw
}

func rawJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("thread: event has no JSON form: " + err.Error())
	}
	return raw
}

// stopped reports whether a decision leaves nothing to be done with the event itself.
func (d Decision) stopped() bool {
	return d.Outcome == event.Responded || d.Outcome == event.Produced || d.Outcome == event.Dropped || d.NoDefault && d.Outcome != event.HookFailed
}

// Only reports whether all of some hooks are of one kind.
func Only(kind hook.Kind, specs []hook.Spec) bool {
	return !slices.ContainsFunc(specs, func(s hook.Spec) bool { return s.Kind != kind })
}

// Names lists hooks for people.
func Names(specs []hook.Spec) string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
