package feed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// decisionEvents returns the events of a decision of hooks: the changed message, calls or
// environment event, and a status that names the hooks and their actions.
func decisionEvents(r event.Record) []event.AgentEvent {
	var d event.Interception
	if json.Unmarshal(r.Payload, &d) != nil || isSilent(d) {
		return nil
	}
	var out []event.AgentEvent
	if m, ok := shown(d); ok {
		out = append(out, messageEvent(m))
	}
	if d.Env != nil {
		out = append(out, event.AgentEvent{Type: event.EventEnvironment, Env: d.Env})
	}
	out = append(out, callEvents(d.EventID, d.Agent, d.ToolCalls)...)
	return append(out, event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{
		Status: event.StatusIntercepted, Detail: sentence(d),
	}})
}

// isSilent reports whether a decision only concerns models: no hook decided, or a status record
// informs people.
func isSilent(d event.Interception) bool {
	return d.Outcome == event.OutcomeWithdrawn || d.Outcome == event.OutcomePassed && len(d.Hooks) == 0 && d.Message == nil
}

// shown returns the message that a decision shows. A held message is shown only if it was released.
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

// sentence describes the actions of hooks on an event, such as "guard replaced the message". It
// names hooks that let the event pass only if no other hook did anything.
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
		// These hooks exceeded a limit.
		did = append(did, strings.TrimSuffix(what+" failed: "+d.Error, ": "))
	}
	return strings.Join(did, "; ")
}

// endedBy returns the index of the hook whose failure ended the event, or -1. Hooks that failed
// before it were open.
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

// deeds are formats of what hooks did to an event.
var deeds = map[event.Outcome]string{
	event.OutcomePassed:      " let %s pass",
	event.OutcomeReplaced:    " replaced %s",
	event.OutcomeResponded:   " responded in place of %s",
	event.OutcomeOverwritten: " made other events of %s",
	event.OutcomeDropped:     " dropped %s",
	event.OutcomeWithdrawn:   " took %s back",
	event.OutcomeFailed:      " failed on %s",
}

func deed(o event.Outcome, what string) string {
	return fmt.Sprintf(cmp.Or(deeds[o], " decided on %s"), what)
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

// list returns "a", "a and b", or "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
