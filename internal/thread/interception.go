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
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// HookEvent is an event that hooks and processors decide on.
type HookEvent struct {
	// ID is the id of the event's record, Type its type, Parent the id of its cause.
	ID     string
	Type   string
	Parent string

	CreatedBy event.CreatedBy
	Agent     string
	Tools     []string

	// Key equals ID, except that it differs for each manual retry.
	Key string

	// Hooked means that hooks replaced another event by this one.
	Hooked bool

	// ByRule means that the processor of a rule decides on the event, after the hooks. Changed
	// means that the hooks changed it.
	ByRule, Changed bool

	// Env reports whether the event is an environment event.
	Env bool

	// Event is the event itself. Nil means that only the record has all of it, so inline hooks run
	// in a hook workflow too.
	Event event.Event

	// user is the person who sent the event, if it is an item.
	user string

	// message is the message, as far as the thread has it, if the event is one.
	message event.Message

	// undecided means that the record may be marked: see [event.Record.WithUndecided]. stored means
	// that the record may already be in the store.
	undecided, stored bool
}

// decision identifies the decision on the event.
func (e HookEvent) decision() string {
	if e.ByRule {
		return recordid.Rule(e.Key)
	}
	return e.Key
}

// Subject returns the properties of an event that filters match.
func (e HookEvent) Subject(namespace string) hook.Subject {
	return hook.Subject{Namespace: namespace, Type: e.Type, CreatedBy: e.CreatedBy, Agent: e.Agent, Tools: e.Tools}
}

// Processing returns the hooks that apply to an event: only processors if hooks replaced another
// event by it.
func (e HookEvent) Processing(specs []hook.Spec) []hook.Spec {
	if !e.Hooked {
		return specs
	}
	return slices.DeleteFunc(specs, func(spec hook.Spec) bool { return spec.Kind != hook.KindProcessor })
}

// Context returns the context of an inline hook.
func (t *Turn) Context(e HookEvent) hook.Context {
	s := t.thread
	return hook.Context{
		Namespace: s.Namespace, ThreadID: s.ThreadID, EventID: e.ID, TraceID: t.Item.TraceID,
		ParentEventID: e.Parent, Agent: e.Agent,
	}
}

// HookStep returns the input of the hook workflow that decides on an event.
func (t *Turn) HookStep(e HookEvent, specs []hook.Spec) step.Hook {
	s := t.thread
	input := step.Hook{
		Thread: s.Ref(), TraceID: t.Item.TraceID, EventID: e.ID, EventType: e.Type, ParentEventID: e.Parent,
		Agent: e.Agent, Hooks: specs, WereQuick: s.Pace.Quick(HooksKind(specs)), Flush: s.Outbox.Flush(),
	}
	input.Replaced = e.Changed
	if e.Type == event.TypeLLMCall {
		// A model call has no record.
		input.Event = rawJSON(e.Event)
	}
	return input
}

// Intercepting is an event that a hook workflow decides on.
type Intercepting struct {
	EventID string `json:"eventId"`

	// Record is the id of the event's record, Type its type, and Hooks the names of the hooks, for
	// people.
	Record string   `json:"record,omitempty"`
	Type   string   `json:"type,omitempty"`
	Hooks  []string `json:"hooks,omitempty"`

	// ReportRequested means that the hook workflow was asked to report by signal, because the
	// thread continues as new. Decision is that report.
	ReportRequested bool               `json:"reportRequested,omitempty"`
	Decision        *step.HookDecision `json:"decision,omitempty"`
}

// Interceptions are the events of a turn that hook workflows decide on.
type Interceptions struct {
	Intercepting []Intercepting `json:"intercepting,omitempty"`
}

// maxAbandonedHooks is the maximum number of reports that the thread expects but no longer needs.
const maxAbandonedHooks = 32

// HooksStarted records that a hook workflow with these hooks was started for an event.
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

// HooksPending reports whether a hook workflow was started for an event and has not finished.
// decision is its decision, if that has arrived by signal.
func (in *Interceptions) HooksPending(e HookEvent) (decision *step.HookDecision, pending bool) {
	found := in.find(e.Key)
	if found == nil {
		return nil, false
	}
	return found.Decision, true
}

// PendingHooks returns the hooks that decide on an event, with their current specs. It keeps hooks
// that have been removed since, so that they are not skipped.
func (in *Interceptions) PendingHooks(e HookEvent, specs []hook.Spec) []hook.Spec {
	found := in.find(e.Key)
	if found == nil {
		return nil
	}
	outstanding := make([]hook.Spec, len(found.Hooks))
	for i, name := range found.Hooks {
		outstanding[i] = hook.Spec{Name: name, OnFailure: hook.FailClosed}
		if at := slices.IndexFunc(specs, func(spec hook.Spec) bool { return spec.Name == name }); at >= 0 {
			outstanding[i] = specs[at]
		}
		if e.ByRule {
			outstanding[i].OnFailure = hook.FailClosed
		}
	}
	return outstanding
}

// ReportRequested records that the hook workflow of an event was asked to report by signal.
func (in *Interceptions) ReportRequested(e HookEvent) {
	if found := in.find(e.Key); found != nil {
		found.ReportRequested = true
	}
}

// HooksFinished removes the hook workflow of an event. Its report may still arrive.
func (t *Turn) HooksFinished(e HookEvent) {
	s := t.thread
	t.Intercepting = slices.DeleteFunc(t.Intercepting, func(in Intercepting) bool {
		if in.EventID == e.Key {
			s.Turns.abandonHook(in)
		}
		return in.EventID == e.Key
	})
}

func (ts *Turns) abandonHook(in Intercepting) {
	if in.ReportRequested && in.Decision == nil {
		ts.AbandonedHooks = keepLast(append(ts.AbandonedHooks, in.EventID), maxAbandonedHooks)
	}
}

// HookDecided handles a decision that arrived by signal.
func (ts *Turns) HookDecided(d step.HookDecided) error {
	var in *Intercepting
	if ts.Current != nil {
		in = ts.Current.find(d.EventID)
	}
	for _, t := range ts.Deciding {
		if in == nil {
			in = t.find(d.EventID)
		}
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

// applyDecision applies the decision of hooks and processors on an event: it records the decision
// and queues the derived events, or adds them to deferred if they wait for tool results. It returns
// the decision, which fails if it exceeds a limit.
func (t *Turn) applyDecision(now time.Time, e HookEvent, d step.HookDecision, deferred *[]Deferred) step.HookDecision {
	s := t.thread
	if problem := cmp.Or(unstorable(d), t.tooMany(d)); problem != "" {
		d = step.HookDecision{Outcome: event.OutcomeFailed, By: d.By, Hooks: d.Hooks, Error: problem}
	}
	if d.Outcome == "" {
		d.Outcome = event.OutcomePassed
	}
	user := cmp.Or(e.user, t.User)
	rec := event.Interception{EventID: e.ID, EventType: e.Type, Outcome: d.Outcome, Hooks: append([]event.HookOutcome{}, d.Hooks...), Error: d.Error}
	for i, r := range d.Responses {
		made := Deferred{ID: s.derivedID(e.decision()+".response", i), By: d.By, Parent: e.ID, Event: t.response(e, d.By, r)}
		rec.Produced = append(rec.Produced, made.ID)
		if deferred != nil && r.EnqueueAfter != hook.EnqueueImmediately {
			*deferred = append(*deferred, made)
			continue
		}
		t.produce(now, made, user)
	}
	for i, p := range d.Produced {
		made := Deferred{ID: s.derivedID(e.decision()+".produced", i), By: d.By, Parent: e.ID, Event: p}
		rec.Produced = append(rec.Produced, made.ID)
		t.produce(now, made, user)
	}
	if d.Outcome == event.OutcomeReplaced {
		t.fillIn(&rec, e, d.Event)
		if made, ok := t.asOtherType(e, d); ok {
			rec.Produced = append(rec.Produced, made.ID)
			t.produce(now, made, user)
			d.Outcome, d.By = event.OutcomeOverwritten, made.By
		}
	}
	if e.message.Held && d.Outcome == event.OutcomePassed {
		m := e.message
		m.Held = false
		rec.Message, d.Silent = &m, false
	}
	id := recordid.Interception(e.ID)
	if e.ByRule {
		id = recordid.Interception(recordid.Rule(e.ID))
	}
	if d.Outcome == event.OutcomeFailed {
		// A retry may get another decision.
		id = recordid.FailedInterception(e.Key)
	}
	write := !d.Silent && (len(d.Hooks) > 0 || rec.Message != nil)
	if write || e.undecided && d.Outcome == event.OutcomePassed && !s.Outbox.pass(e) {
		t.recordCausedBy(now, id, event.TypeHook, e.ID, rec)
	}
	return d
}

// pass removes the undecided mark from the record of an event, if no activity has received the
// record. It reports whether it did; otherwise the record of a decision is needed.
func (o *Outbox) pass(e HookEvent) bool {
	if e.stored {
		return false
	}
	for i, r := range o.Pending {
		if r.ID == e.ID && i >= o.Sent {
			o.Pending[i] = r.Decided()
			return true
		}
	}
	return false
}

// fillIn sets the event with which hooks replaced e.
func (t *Turn) fillIn(rec *event.Interception, e HookEvent, raw json.RawMessage) {
	s := t.thread
	switch got := readEvent(raw).(type) {
	case event.MessageEvent:
		if e.Type == event.TypeMessage {
			m := e.replaced(s.ThreadID, got)
			rec.Message = &m
		}
	case event.ToolCallEvent:
		if e.Type == event.TypeToolCall {
			rec.ToolCalls, rec.Refused, rec.Agent = got.ToolCalls, got.Refused, e.Agent
		}
	case event.LLMCallEvent:
		rec.LLMCall = &got
	case event.CustomEvent:
		rec.Custom = &got
	case event.EnvEvent:
		rec.Env = &got
	}
}

// replaced returns a message with the changes of hooks.
func (e HookEvent) replaced(threadID string, got event.MessageEvent) event.Message {
	m := e.message
	m.ID, m.ThreadID = e.ID, threadID
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

// readEvent decodes an event that was validated when it was created.
func readEvent(raw json.RawMessage) event.Event {
	e, err := event.Unmarshal(raw)
	if err != nil {
		return nil
	}
	return e
}

// remembered returns the part of a replacement that the state needs to process an item again. The
// record of the decision has all of it.
func remembered(raw json.RawMessage) json.RawMessage {
	switch e := readEvent(raw).(type) {
	case event.MessageEvent:
		e.Message.Metadata = nil
		if len(e.Message.Content) > step.MaxCarriedContent {
			e.Message.Content = step.Cut(e.Message.Content, step.MaxCarriedContent)
		}
		return rawJSON(e)
	case event.CustomEvent:
		e.Payload = nil
		return rawJSON(e)
	case event.EnvEvent:
		// Rules may match payloads up to this size; the record has all of it.
		if len(e.Payload) > step.MaxCarriedContent {
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

// Only reports whether all specs are of one kind.
func Only(kind hook.Kind, specs []hook.Spec) bool {
	return !slices.ContainsFunc(specs, func(s hook.Spec) bool { return s.Kind != kind })
}

// Names returns the names of hooks, for people.
func Names(specs []hook.Spec) string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}
