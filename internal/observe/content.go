package observe

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Maximum sizes of content, in bytes: of an attribute, and of a text and of a name or id in messages.
const (
	maxContent = 16 << 10
	maxText    = 4 << 10
	maxName    = 256
)

// content returns an attribute with content, redacted and shortened.
func (o *Observer) content(key, value string) attribute.KeyValue {
	return attribute.String(key, o.text(value, maxContent))
}

// text returns a text, redacted and shortened.
func (o *Observer) text(value string, limit int) string {
	value = o.redact.Text(value)
	if len(value) > limit {
		value = value[:limit] + "…"
	}
	// OTLP takes valid UTF-8 only.
	return strings.ToValidUTF8(value, "\uFFFD")
}

// message is a message as [Conventions] defines it, in gen-ai-input-messages.json and gen-ai-output-messages.json.
type message struct {
	Role         string `json:"role"`
	Name         string `json:"name,omitempty"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string  `json:"type"`
	Content   string  `json:"content,omitempty"`
	ID        string  `json:"id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments any     `json:"arguments,omitempty"`
	Response  *string `json:"response,omitempty"`
}

// Types of parts.
const (
	partText         = "text"
	partReasoning    = "reasoning"
	partToolCall     = "tool_call"
	partToolResponse = "tool_call_response"

	// partOmitted is our own: it stands for what has no room.
	partOmitted = "omitted"
)

// Reasons for the end of a reply that the conventions name in another way.
const (
	finishToolCall = "tool_call"
	finishError    = "error"
)

// input returns the messages of a request.
func (o *Observer) input(req llm.Request) attribute.KeyValue {
	list := make([]message, len(req.Messages))
	for i, m := range req.Messages {
		list[i] = message{Role: m.Role, Name: o.text(m.Name, maxName)}
		if m.Role == event.RoleTool {
			response := o.text(m.Content, maxText)
			list[i].Parts = []part{{Type: partToolResponse, ID: o.text(m.ToolCallID, maxName), Response: &response}}
			continue
		}
		list[i].Parts = o.parts("", m.Content, m.ToolCalls)
	}
	return attribute.String(AttrInputMessages, fitting(list))
}

// output returns the message of a response.
func (o *Observer) output(res llm.Response, err error) attribute.KeyValue {
	m := message{Role: event.RoleAssistant, Parts: o.parts(res.Thought, res.Content, res.ToolCalls), FinishReason: o.text(res.FinishReason, maxName)}
	switch {
	case err != nil:
		m.FinishReason = finishError
	case m.FinishReason == llm.FinishToolCalls:
		m.FinishReason = finishToolCall
	}
	return attribute.String(AttrOutputMessages, fitting([]message{m}))
}

func (o *Observer) parts(thought, text string, calls []event.ToolCall) []part {
	parts := []part{}
	if thought != "" {
		parts = append(parts, part{Type: partReasoning, Content: o.text(thought, maxText)})
	}
	if text != "" {
		parts = append(parts, part{Type: partText, Content: o.text(text, maxText)})
	}
	for _, c := range calls {
		parts = append(parts, part{Type: partToolCall, ID: o.text(c.ID, maxName), Name: o.text(c.Function.Name, maxName), Arguments: o.arguments(c.Function.Arguments)})
	}
	return parts
}

// arguments returns an object, or a text that is none: models make mistakes, and long arguments are shortened.
func (o *Observer) arguments(raw string) any {
	text := o.text(raw, maxText)
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// fitting encodes the newest messages that have room. Earlier ones, and parts that have none, are left out visibly.
func fitting(list []message) string {
	room := maxContent
	var kept []message
	for _, m := range slices.Backward(list) {
		whole := m.Parts
		m.Parts = []part{}
		room -= len(encoded(m)) + 1
		for _, p := range whole {
			if room -= len(encoded(p)) + 1; room < 0 {
				break
			}
			m.Parts = append(m.Parts, p)
		}
		if room < 0 {
			m.Parts = append(m.Parts, part{Type: partOmitted})
		}
		kept = append(kept, m)
		if room < 0 {
			break
		}
	}
	slices.Reverse(kept)
	return encoded(kept)
}

func encoded(v any) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(out.String(), "\n")
}
