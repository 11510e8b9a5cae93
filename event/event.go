package event

import (
	"encoding/json"
	"fmt"
	"strings"
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

	// TypeTurnEnded is the last record of a turn: it says how the turn ended.
	TypeTurnEnded = "turn_ended"

	// TypeClientCall is the record of a call that a connected client is to run.
	TypeClientCall = "client_call"
	TypeError      = "error"

	// TypeRejected is the audit record of a signal that failed validation.
	TypeRejected = "rejected"

	// TypeUnqueued is the record of a valid post that the thread could not queue: see [Unqueued].
	TypeUnqueued = "unqueued"

	// TypeTask is the record of a background task: that it runs, and how it ended.
	TypeTask = "task"

	// TypeHook is the record of what hooks and processors decided on an event.
	TypeHook = "hook"

	// TypeRAGIngest and TypeEntityExtract are work of the background: documents to be read
	// and entities to be found. They wait for people's work, see [Background].
	TypeRAGIngest     = "rag_ingest"
	TypeEntityExtract = "entity_extract"

	// TypeToken is the one type that is never stored or queued: tokens go to the
	// live stream.
	TypeToken = "token"
)

// Reserved reports whether events of this type are made by the thread itself, or
// never queued at all: everybody else may use any other type for their own.
func Reserved(typ string) bool {
	switch typ {
	case TypeLLMCall, TypeToolCall, TypeApprovalRequest, TypeApproval, TypeStatus, TypeFinal,
		TypeError, TypeRejected, TypeUnqueued, TypeHook, TypeToken, TypeEnv, TypeTask, TypeClientCall, TypeTurnEnded:
		return true
	}
	return false
}

// otherWords are names of other systems for types that a thread knows.
var otherWords = map[string]string{
	"new_message": TypeMessage, "message": TypeMessage, "rag_ingest": TypeRAGIngest, "entity_extract": TypeEntityExtract,
}

// CheckType reports, as a [*FieldError], why events of a type cannot be posted: it is no
// name, the thread makes such events itself, or it is another word for a type that a thread
// knows, which nothing would handle.
func CheckType(field, typ string) error {
	if err := CheckName(field, typ); err != nil {
		return err
	}
	lower := strings.ToLower(typ)
	switch known := otherWords[lower]; {
	case lower == TypeToken:
		return &FieldError{field, "tokens are never queued; they go to the live stream"}
	case Reserved(lower):
		return &FieldError{field, fmt.Sprintf("%q events are made by the thread itself", lower)}
	case known != "" && known != typ:
		return &FieldError{field, fmt.Sprintf("%q is not a type that a thread knows: use %q", typ, known)}
	}
	return nil
}

// BackgroundPriority is the priority of events of the background, unless they say another.
const BackgroundPriority = -100

// Background reports whether events of this type are work that nobody waits for.
func Background(typ string) bool { return typ == TypeRAGIngest || typ == TypeEntityExtract }

// Event is what hooks, processors and default processing see. It is a closed union
// of [MessageEvent] and [ToolCallEvent], and, beyond those, of [LLMCallEvent],
// [EnvEvent] and [CustomEvent].
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

// LLMCallEvent says that an agent's model is about to be called.
type LLMCallEvent struct {
	ThreadID  string `json:"threadId"`
	AgentName string `json:"agentName"`

	// Step counts the agent's model calls in this turn, from 1.
	Step int `json:"step"`

	// Instructions are added to the agent's own for this call. Empty when hooks see it
	// first.
	Instructions string `json:"instructions,omitempty"`

	// Model replaces the agent's model for this call, as "provider/model". Empty when
	// hooks see it first.
	Model string `json:"model,omitempty"`
}

// CustomEvent is an event of a type that Threadmill does not know.
type CustomEvent struct {
	Type     string          `json:"type"`
	ThreadID string          `json:"threadId"`
	Payload  json.RawMessage `json:"payload"`
}

// EventType returns "message".
func (MessageEvent) EventType() string { return TypeMessage }

// EventType returns "tool_call".
func (ToolCallEvent) EventType() string { return TypeToolCall }

// EventType returns "llm_call".
func (LLMCallEvent) EventType() string { return TypeLLMCall }

// EventType returns the event's own type.
func (e CustomEvent) EventType() string { return e.Type }

func (MessageEvent) sealed()  {}
func (ToolCallEvent) sealed() {}
func (LLMCallEvent) sealed()  {}
func (CustomEvent) sealed()   {}

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

// MarshalJSON adds the discriminator, and createdBy, which is always "agent".
func (e LLMCallEvent) MarshalJSON() ([]byte, error) {
	type fields LLMCallEvent
	return json.Marshal(struct {
		Type      string    `json:"type"`
		CreatedBy CreatedBy `json:"createdBy"`
		fields
	}{TypeLLMCall, Agent, fields(e)})
}

// Unmarshal reads an [Event] from its JSON form. It refuses types that the thread
// keeps for its own records, and a tool_call or llm_call that was not created by an
// agent.
func Unmarshal(data []byte) (Event, error) {
	var head struct {
		Type      string          `json:"type"`
		CreatedBy CreatedBy       `json:"createdBy"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if err := DecodeJSON("", data, &head); err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	switch head.Type {
	case TypeMessage:
		var e MessageEvent
		if err := DecodeJSON("", data, &e); err != nil {
			return nil, fmt.Errorf("reading a message event: %w", err)
		}
		if !e.CreatedBy.Valid() {
			return nil, &FieldError{"createdBy", fmt.Sprintf("%q is not one of user, agent, tool, system", e.CreatedBy)}
		}
		return e, nil
	case TypeToolCall, TypeLLMCall:
		if head.CreatedBy != Agent {
			return nil, &FieldError{"createdBy", fmt.Sprintf("a %s is created by an agent only, not by %q", head.Type, head.CreatedBy)}
		}
		if head.Type == TypeLLMCall {
			return decode[LLMCallEvent](data, head.Type)
		}
		return decode[ToolCallEvent](data, head.Type)
	}
	if head.Type == "" || Reserved(head.Type) {
		return nil, &FieldError{"type", fmt.Sprintf("%q is not message, tool_call, llm_call or a type of your own", head.Type)}
	}
	if len(head.Timestamp) > 0 {
		// A custom event has no time of its own.
		return decode[EnvEvent](data, head.Type)
	}
	return decode[CustomEvent](data, head.Type)
}

func decode[E Event](data []byte, typ string) (Event, error) {
	var e E
	if err := DecodeJSON("", data, &e); err != nil {
		return nil, fmt.Errorf("reading a %s event: %w", typ, err)
	}
	return e, nil
}
