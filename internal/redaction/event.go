package redaction

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/redact"
)

// Event redacts what a hook returns.
func Event(r *redact.Redactor, e event.Event) event.Event {
	if r == nil {
		return e
	}
	switch e := e.(type) {
	case event.MessageEvent:
		e.Message = message(r, e.Message)
		return e
	case event.ToolCallEvent:
		e.ToolCalls, e.Refused = Calls(r, e.ToolCalls), slices.Clone(e.Refused)
		for i, one := range e.Refused {
			e.Refused[i].Reason = r.Text(one.Reason)
		}
		return e
	case event.LLMCallEvent:
		return e // instructions are the application's
	case event.EnvEvent:
		return envEvent(r, e)
	case event.CustomEvent:
		e.Payload = r.JSON(e.Payload, payloadIDs...)
		return e
	}
	return e
}

func message(r *redact.Redactor, m event.NewMessage) event.NewMessage {
	m.Content, m.Metadata, m.ToolCalls = r.Text(m.Content), r.Map(m.Metadata), Calls(r, m.ToolCalls)
	return m
}

// Calls redacts the arguments of tool calls.
func Calls(r *redact.Redactor, calls []event.ToolCall) []event.ToolCall {
	if r == nil || calls == nil {
		return calls
	}
	out := make([]event.ToolCall, len(calls))
	for i, call := range calls {
		call.Function.Arguments = r.Text(call.Function.Arguments)
		out[i] = call
	}
	return out
}

func envEvent(r *redact.Redactor, e event.EnvEvent) event.EnvEvent {
	e.Payload, e.Metadata = r.JSON(e.Payload, payloadIDs...), envMetadata(r, e.Metadata)
	return e
}

func envMetadata(r *redact.Redactor, m event.EnvMetadata) event.EnvMetadata {
	if len(m.Extra) == 0 {
		return m
	}
	raw, err := m.MarshalJSON()
	if err != nil || m.UnmarshalJSON(r.JSON(raw, metadataIDs...)) != nil {
		m.Extra = nil // not kept rather than kept as they are
	}
	return m
}
