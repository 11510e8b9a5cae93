package agui

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/uistream"
)

// asks reports whether an id is that of an open request for input.
func (r *Run) asks(id string) bool {
	return slices.ContainsFunc(r.inputs, func(q *event.InputRequest) bool { return uistream.InputID(*q) == id })
}

// answered removes a request for input, and reports whether it was open.
func (r *Run) answered(id string) bool {
	open := len(r.inputs)
	r.inputs = slices.DeleteFunc(r.inputs, func(q *event.InputRequest) bool { return uistream.InputID(*q) == id })
	return len(r.inputs) < open
}

// inputInterrupt returns the interrupt of a request for input.
func inputInterrupt(q *event.InputRequest) Interrupt {
	var messages []string
	for _, one := range q.Questions {
		text := one.Message
		if one.URL != "" {
			text += " " + one.URL
		}
		messages = append(messages, text)
	}
	return Interrupt{
		ID: uistream.InputID(*q), Reason: "input_required", Message: strings.Join(messages, "\n"), ToolCallID: q.ToolCallID,
		ResponseSchema: payloadSchema(q.Questions), Metadata: map[string]any{"input": q},
	}
}

// payloadSchema returns the schema of the payload that answers questions: the action and content of a
// single one, or those of each, by id, under answers.
func payloadSchema(questions []event.InputQuestion) json.RawMessage {
	answer := func(q event.InputQuestion) map[string]any {
		properties := map[string]any{"action": map[string]any{"enum": []event.InputAction{event.InputAccept, event.InputDecline, event.InputCancel}}}
		if len(q.Schema) > 0 {
			properties["content"] = q.Schema
		}
		return map[string]any{"type": "object", "properties": properties, "required": []string{"action"}}
	}
	schema := answer(questions[0])
	if len(questions) > 1 {
		each, ids := map[string]any{}, []string{}
		for _, q := range questions {
			each[q.ID], ids = answer(q), append(ids, q.ID)
		}
		schema = map[string]any{"type": "object", "required": []string{"answers"}, "properties": map[string]any{
			"answers": map[string]any{"type": "object", "properties": each, "required": ids},
		}}
	}
	raw, _ := json.Marshal(schema) // its schemas are JSON
	return raw
}
