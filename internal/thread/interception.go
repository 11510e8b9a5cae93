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

// HookEvent is an event as the thread shows it to hooks.
type HookEvent struct {
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
func (s *State) Subject(e HookEvent) hook.Subject {
	return hook.Subject{Namespace: s.Namespace, Type: e.Type, CreatedBy: e.CreatedBy, Agent: e.Agent, Tools: e.Tools}
}

// Processing leaves only processors for an event that hooks have put in the place of
// another: they have seen it.
func (e HookEvent) Processing(specs []hook.Spec) []hook.Spec {
	if !e.Hooked {
		return specs
	}
	return slices.DeleteFunc(specs, func(spec hook.Spec) bool { return spec.Kind != hook.KindProcessor })
}

// Context is what an inline hook is told.
func (t *Turn) Context(e HookEvent) hook.Context {
	s := t.thread
	return hook.Context{
		Namespace: s.Namespace, ThreadID: s.ThreadID, EventID: e.ID, TraceID: t.Item.TraceID,
		ParentEventID: e.Parent, Agent: e.Agent,
	}
}

// HookStep is the input of the hook workflow that decides on an event.
func (t *Turn) HookStep(e HookEvent, specs []hook.Spec) HookStep {
	s := t.thread
	step := HookStep{
		Thread: s.Ref(), TraceID: t.Item.TraceID, EventID: e.ID, EventType: e.Type, ParentEventID: e.Parent,
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

	// ReportRequested says that it was asked to report by signal, because the thread moves. Decision
	// came so.
	ReportRequested bool      `json:"called,omitempty"`
	Decision        *Decision `json:"decision,omitempty"`
}

// Interceptions are the events of a turn that hook workflows are deciding on.
type Interceptions struct {
	Intercepting []Intercepting `json:"intercepting,omitempty"`
}

// maxAbandonedHooks is how many reports a thread expects at most that it does not need any more.
const maxAbandonedHooks = 32

// HooksStarted remembers that a hook workflow has been started, which asks these hooks about
// an event.
func (in *Interceptions) HooksStarted(e HookEvent, specs ...hook.Spec) {
	if in.find(e.Key) != nil {
		return
	}
	next := Intercepting{EventID: e.Key, Record: e.ID, Type: e.Type}
	for _, spec := range specs {
		next.Hooks = append(next.Hooks, spec.Name)
	}
	in.Intercepting = append(in.Intercepting, next)
}

// HooksPending reports whether a hook workflow has been started for an event and was not heard,
// and its decision if that has come by signal.
func (in *Interceptions) HooksPending(e HookEvent) (decision *Decision, asked bool) {
	found := in.find(e.Key)
	if found == nil {
		return nil, false
	}
	return found.Decision, true
}

// PendingHooks are the hooks that are being asked about an event, as they are today. One that
// is gone since may not be passed by for that.
func (in *Interceptions) PendingHooks(e HookEvent, specs []hook.Spec) []hook.Spec {
	found := in.find(e.Key)
	if found == nil {
		return nil
	}
	asked := make([]hook.Spec, len(found.Hooks))
	for i, name := range found.Hooks {
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

// ReportRequested remembers that the hook workflow of an event was asked to report by signal.
func (in *Interceptions) ReportRequested(e HookEvent) {
	if found := in.find(e.Key); found != nil {
		found.ReportRequested = true
	}
}

// HooksFinished forgets that a hook workflow was asked. Its report may be on the way, though
// the thread has the decision already, or does not need it any more.
func (t *Turn) HooksFinished(e HookEvent) {
	s := t.thread
	t.Intercepting = slices.DeleteFunc(t.Intercepting, func(in Intercepting) bool {
		if in.EventID == e.Key {
			s.abandonHook(in)
		}
		return in.EventID == e.Key
	})
}

func (ts *Turns) abandonHook(in Intercepting) {
	if in.ReportRequested && in.Decision == nil {
		ts.AbandonedHooks = keepLast(append(ts.AbandonedHooks, in.EventID), maxAbandonedHooks)
	}
}

// HookDecided takes in a decision that came by signal.
func (ts *Turns) HookDecided(d HookDecided) error {
	var in *Intercepting
	if ts.Turn != nil {
		in = ts.Turn.find(d.EventID)
	}
	if late := slices.Index(ts.AbandonedHooks, d.EventID); in == nil && late >= 0 {
		ts.AbandonedHooks = slices.Delete(ts.AbandonedHooks, late, late+1)
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

func (in *Interceptions) find(key string) *Intercepting {
	for i := range in.Intercepting {
		if in.Intercepting[i].EventID == key {
			return &in.Intercepting[i]
		}
	}
	return nil
}

// applyDecision takes in what hooks and processors have decided on an event: it is recorded,
// and what they have made is queued, but for what waits for tool results. It returns
// the decision as it stands: one that goes too far has failed.
func (t *Turn) applyDecision(now time.Time, e HookEvent, d Decision, deferred *[]Deferred) Decision {
	s := t.thread
	if problem := cmp.Or(unstorable(d), t.tooMany(d)); problem != "" {
		d = Decision{Outcome: event.HookFailed, By: d.By, Hooks: d.Hooks, Error: problem}
	}
	if d.Outcome == "" {
		d.Outcome = event.Passed
	}
	rec := event.Interception{EventID: e.ID, EventType: e.Type, Outcome: d.Outcome, Hooks: append([]event.HookOutcome{}, d.Hooks...), Error: d.Error}
	for _, r := range d.Responses {
		made := Deferred{ID: s.newID(now), By: d.By, Parent: e.ID, Event: t.response(e, d.By, r)}
		rec.Produced = append(rec.Produced, made.ID)
		if deferred != nil && r.EnqueueAfter != hook.Immediately {
			*deferred = append(*deferred, made)
			continue
		}
		t.produce(now, made)
	}
	for _, p := range d.Produced {
		made := Deferred{ID: s.newID(now), By: d.By, Parent: e.ID, Event: p}
		rec.Produced = append(rec.Produced, made.ID)
		t.produce(now, made)
	}
	if d.Outcome == event.Replaced {
		t.fillIn(&rec, e, d.Event)
		if made, ok := t.asOtherType(now, e, d); ok {
			rec.Produced = append(rec.Produced, made.ID)
			t.produce(now, made)
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
		t.recordCausedBy(now, id, event.TypeHook, e.ID, rec)
	}
	return d
}

// pass takes the mark off the record of an event that hooks had no say in, if no activity has
// had the record. Otherwise it takes the record of a decision.
func (o *Outbox) pass(e HookEvent) bool {
	if e.stored {
		return false
	}
	for i, r := range o.Pending {
		if r.ID == e.ID && i >= o.Handed {
			o.Pending[i] = r.Decided()
			return true
		}
	}
	return false
}

// fillIn records what holds in place of the event.
func (t *Turn) fillIn(rec *event.Interception, e HookEvent, raw json.RawMessage) {
	s := t.thread
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
func (s *State) replaced(e HookEvent, got event.MessageEvent) event.Message {
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
