package event

import (
	"encoding/json"
	"fmt"
)

// Types of events that a thread knows. Any other type is a custom event.
const (
	TypeMessage         = "message"
	TypeLLMCall         = "llm_call"
	TypeToolCall        = "tool_call"
	TypeApprovalRequest = "approval_request"
	TypeApproval        = "approval"
	TypeStatus          = "status"
	TypeFinal           = "final"
	TypeError           = "error"

	// TypeRejected is the audit record of a signal that failed validation.
	TypeRejected = "rejected"

	// TypeToken is the one type that is never stored or queued: tokens go to the
	// live stream.
	TypeToken = "token"
)

// Event is what hooks and default processing see. It is a closed union of
// [MessageEvent] and [ToolCallEvent].
type Event interface {
	// EventType is the discriminator "type" of the JSON form.
	EventType() string
	sealed()
}

// MessageEvent says that somebody said something in a thread.
type MessageEvent struct {
	CreatedBy CreatedBy  `json:"createdBy"`
	ThreadID  string     `json:"threadId"`
	Message   NewMessage `json:"message"`
}

// ToolCallEvent says that an agent asks for tools: all calls of one reply together.
type ToolCallEvent struct {
	ThreadID  string     `json:"threadId"`
	AgentName string     `json:"agentName"`
	ToolCalls []ToolCall `json:"toolCalls"`
}

// EventType returns "message".
func (MessageEvent) EventType() string { return TypeMessage }

// EventType returns "tool_call".
func (ToolCallEvent) EventType() string { return TypeToolCall }

func (MessageEvent) sealed()  {}
func (ToolCallEvent) sealed() {}

// MarshalJSON adds the discriminator.
func (e MessageEvent) MarshalJSON() ([]byte, error) {
	type fields MessageEvent
	return json.Marshal(struct {
		Type string `json:"type"`
		fields
	}{TypeMessage, fields(e)})
}

// MarshalJSON adds the discriminator, and createdBy, which is always "agent".
func (e ToolCallEvent) MarshalJSON() ([]byte, error) {
	type fields ToolCallEvent
	return json.Marshal(struct {
		Type      string    `json:"type"`
		CreatedBy CreatedBy `json:"createdBy"`
		fields
	}{TypeToolCall, Agent, fields(e)})
}

// Unmarshal reads an [Event] from its JSON form. It refuses types outside the
// union, and a tool_call that was not created by an agent.
func Unmarshal(data []byte) (Event, error) {
	var head struct {
		Type      string    `json:"type"`
		CreatedBy CreatedBy `json:"createdBy"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	switch head.Type {
	case TypeMessage:
		var e MessageEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("reading a message event: %w", err)
		}
		if !e.CreatedBy.Valid() {
			return nil, &FieldError{"createdBy", fmt.Sprintf("%q is not one of user, agent, tool, system", e.CreatedBy)}
		}
		return e, nil
	case TypeToolCall:
		if head.CreatedBy != Agent {
			return nil, &FieldError{"createdBy", fmt.Sprintf("a tool_call is created by an agent only, not by %q", head.CreatedBy)}
		}
		var e ToolCallEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("reading a tool_call event: %w", err)
		}
		return e, nil
	}
	return nil, &FieldError{"type", fmt.Sprintf("%q is neither message nor tool_call", head.Type)}
}
