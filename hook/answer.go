package hook

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
)

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
	if got = withRefusals(seen, got); same(seen, got) {
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
