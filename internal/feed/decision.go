package feed

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// decisionEvents are what holds after a decision of hooks, where that is not what was
// stored, and a status that says what they did.
func decisionEvents(r event.Record) []event.AgentEvent {
	var d event.Interception
	if json.Unmarshal(r.Payload, &d) != nil || isSilent(d) {
		return nil
	}
	var out []event.AgentEvent
	if m, ok := shown(d); ok {
		out = append(out, messageEvent(m))
	}
	out = append(out, callEvents(d.EventID, d.Agent, d.ToolCalls)...)
	return append(out, event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{
		Status: event.StatusIntercepted, Detail: sentence(d),
	}})
}

// isSilent reports whether a decision is there for models only: no hook had a say in it, or
// a status record tells people of it.
func isSilent(d event.Interception) bool {
	return d.Outcome == event.OutcomeWithdrawn || d.Outcome == event.OutcomePassed && len(d.Hooks) == 0 && d.Message == nil
}

// shown is the message that a decision shows. One that was held is shown only if it
// was let out.
func shown(d event.Interception) (event.Message, bool) {
	if d.Message == nil {
		return event.Message{}, false
	}
	m := *d.Message
	out := d.Outcome == event.OutcomePassed || d.Outcome == event.OutcomeReplaced
	if m.Held && !out {
		return event.Message{}, false
	}
	m.Held = false
	return m, true
}

// sentence says what hooks did to an event, such as "guard replaced the message".
// Those that let it pass are named only if none did anything else.
func sentence(d event.Interception) string {
	what, ended := subjectText(d), endedBy(d)
	var passed, did []string
	for i, h := range d.Hooks {
		switch h.Outcome {
		case event.OutcomePassed:
			passed = append(passed, h.Name)
		case event.OutcomeFailed:
			did = append(did, failure(h, i == ended))
		case event.OutcomeReplaced, event.OutcomeResponded, event.OutcomeOverwritten, event.OutcomeDropped, event.OutcomeWithdrawn:
			did = append(did, h.Name+deed(h.Outcome, what))
		}
	}
	if len(did) == 0 && len(passed) > 0 {
		did = append(did, list(passed)+deed(event.OutcomePassed, what))
	}
	switch {
	case len(did) == 0:
		return "hooks" + deed(d.Outcome, what)
	case d.Outcome == event.OutcomeFailed && ended < 0:
		// They went too far.
		did = append(did, strings.TrimSuffix(what+" failed: "+d.Error, ": "))
	}
	return strings.Join(did, "; ")
}

// endedBy is the hook whose failure ended the event, -1 if none did. One that failed
// before it was open.
func endedBy(d event.Interception) int {
	for i, h := range slices.Backward(d.Hooks) {
		if h.Outcome == event.OutcomeFailed && d.Outcome == event.OutcomeFailed {
			return i
		}
	}
	return -1
}

func subjectText(d event.Interception) string {
	switch d.EventType {
	case event.TypeMessage:
		if d.Message != nil && d.Message.ToolCallID != "" {
			return "the tool result"
		}
		return "the message"
	case event.TypeToolCall:
		return "the tool calls"
	case event.TypeLLMCall:
		return "the model call"
	case "":
		return "the event"
	}
	return "the " + d.EventType + " event"
}

func deed(o event.Outcome, what string) string {
	switch o {
	case event.OutcomePassed:
		return " let " + what + " pass"
	case event.OutcomeReplaced:
		return " replaced " + what
	case event.OutcomeResponded:
		return " responded in place of " + what
	case event.OutcomeOverwritten:
		return " made other events of " + what
	case event.OutcomeDropped:
		return " dropped " + what
	case event.OutcomeWithdrawn:
		return " took " + what + " back"
	case event.OutcomeFailed:
		return " failed on " + what
	}
	return " decided on " + what
}

func failure(h event.HookOutcome, closed bool) string {
	text := h.Name + " failed (open)"
	if closed {
		text = h.Name + " failed (closed)"
	}
	if h.Error != "" {
		text += ": " + h.Error
	}
	return text
}

// list is "a", "a and b", "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
