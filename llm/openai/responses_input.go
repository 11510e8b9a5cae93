package openai

import (
	"encoding/json"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

// The types of items of a conversation.
const (
	itemMessage    = "message"
	itemReasoning  = "reasoning"
	itemCall       = "function_call"
	itemCallOutput = "function_call_output"
)

// input returns the items of a conversation.
func (p *Responses) input(req llm.Request, names *driver.ToolNames, origin event.Origin) []any {
	messages := p.ordered(req.Messages)
	asked := driver.Asked(messages)
	items := []any{} // the API rejects null
	add := func(item any) { items = append(items, item) }
	for i, m := range driver.Named(messages) {
		switch m.Role {
		case event.RoleAssistant:
			var layout json.RawMessage
			if i > asked { // earlier thoughts need not be sent back
				layout = m.Opaque.Of(origin)
			}
			driver.Assistant{
				Text: func(text string) { add(sdk.ResponseInputMessage{Type: itemMessage, Role: m.Role, Content: text}) },
				Call: func(c event.ToolCall) {
					add(sdk.ResponseOutputItem{
						Type: itemCall, CallID: driver.CallID(c.ID), Name: names.Wire(c.Function.Name), Arguments: driver.Arguments(c.Function.Arguments),
					})
				},
				Part: func(reasoning json.RawMessage) { add(reasoning) },
			}.Walk(m, layout)
		case event.RoleTool:
			add(sdk.ResponseFunctionCallOutput{Type: itemCallOutput, CallID: driver.CallID(m.ToolCallID), Output: driver.Output(m.Content)})
		default:
			if content := inputContent(m); content != nil {
				add(sdk.ResponseInputMessage{Type: itemMessage, Role: m.Role, Content: content})
			}
		}
	}
	return items
}

// inputContent returns the content of a message of a user or the system: as text, as parts, or nil if it
// is empty.
func inputContent(m llm.Message) any {
	var parts []sdk.ResponseInputText
	for _, text := range m.Parts {
		if text != "" && m.Role == event.RoleUser {
			parts = append(parts, sdk.ResponseInputText{Type: "input_text", Text: text})
		}
	}
	switch {
	case len(parts) > 0:
		return parts
	case m.Content != "":
		return m.Content
	}
	return nil
}

// ordered returns messages with the system messages where the server accepts them: only OpenAI itself is
// known to accept them at any position.
func (p *Responses) ordered(messages []llm.Message) []llm.Message {
	if p.official() {
		return messages
	}
	return llm.SystemFirst(messages)
}
