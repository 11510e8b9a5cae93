// Package agui encodes the answers of a chat in the protocol AG-UI: as the events of a run, and as whole messages.
package agui

import (
	"encoding/json"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/recordid"
)

// Event is an event of AG-UI.
type Event struct {
	Type            string   `json:"type"`
	ThreadID        string   `json:"threadId,omitempty"`
	RunID           string   `json:"runId,omitempty"`
	ProtocolVersion string   `json:"protocolVersion,omitempty"`
	MessageID       string   `json:"messageId,omitempty"`
	Role            string   `json:"role,omitempty"`
	Name            string   `json:"name,omitempty"`
	Delta           string   `json:"delta,omitempty"`
	ToolCallID      string   `json:"toolCallId,omitempty"`
	ToolCallName    string   `json:"toolCallName,omitempty"`
	ParentMessageID string   `json:"parentMessageId,omitempty"`
	Content         *string  `json:"content,omitempty"`
	Value           any      `json:"value,omitempty"`
	Message         string   `json:"message,omitempty"`
	Messages        *[]any   `json:"messages,omitempty"`
	Snapshot        any      `json:"snapshot,omitempty"`
	Outcome         *Outcome `json:"outcome,omitempty"`

	SubagentRunID    string `json:"subagentRunId,omitempty"`
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
}

// Outcome says why a run ended.
type Outcome struct {
	Type               string      `json:"type"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts         []Interrupt `json:"interrupts,omitempty"`
}

// Interrupt is a decision that a run waits for.
type Interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"` // of a call that the client has
	ResponseSchema json.RawMessage `json:"responseSchema"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       any             `json:"metadata,omitempty"`
}

// answerSchema describes the payload that answers an interrupt.
const answerSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"},` +
	`"editedArgs":{"type":"object"},"scope":{"enum":["once","session","pattern"]},"pattern":{"type":"object"}},"required":["approved"]}`

// approvalInterrupt returns the interrupt of a request for a decision. Clients before 1.0 do nothing any more once an interrupt of
// theirs has expired, not even cancel it; they do not learn when that is.
func approvalInterrupt(q *event.ApprovalRequest, old bool) Interrupt {
	i := Interrupt{
		ID: chat.ApprovalID(q), Reason: "tool_approval", Message: q.Agent + " wants to call " + q.ToolName, ToolCallID: q.ToolCallID,
		ResponseSchema: json.RawMessage(answerSchema), Metadata: map[string]any{"request": q},
	}
	if q.ExpiresAt != nil && !old {
		i.ExpiresAt = q.ExpiresAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return i
}

// inputInterrupt returns the interrupt of a request for input.
func inputInterrupt(asked *chat.Question) Interrupt {
	q := &asked.Request
	var messages []string
	for _, one := range q.Questions {
		text := one.Message
		if one.URL != "" {
			text += " " + one.URL
		}
		messages = append(messages, text)
	}
	out := Interrupt{
		ID: recordid.InputRequest(q.ToolCallID, q.Round), Reason: "input_required", Message: strings.Join(messages, "\n"),
		ResponseSchema: payloadSchema(q.Questions), Metadata: map[string]any{"input": q},
	}
	if !asked.Foreign {
		out.ToolCallID = q.ToolCallID
	}
	return out
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
