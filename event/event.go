package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The types of events that a thread handles itself. Any other type is a custom event.
const (
	TypeMessage         = "message"
	TypeLLMCall         = "llm_call"
	TypePrompt          = "prompt"
	TypeToolCall        = "tool_call"
	TypeApprovalRequest = "approval_request"
	TypeApproval        = "approval"
	TypeStatus          = "status"
	TypeFinal           = "final"

	// TypeTurnEnded is the last record of a turn: see [TurnEnded].
	TypeTurnEnded = "turn_ended"

	// TypeClientCall is the record of a tool call that waits for a connected client to run it.
	TypeClientCall = "client_call"

	// TypeInputRequest is the record of a tool call that waits for a person's input, and
	// TypeInputReceived that of the input.
	TypeInputRequest  = "input_request"
	TypeInputReceived = "input_received"

	TypeError = "error"

	// TypeRejected is the audit record of a signal that failed validation.
	TypeRejected = "rejected"

	// TypeUnqueued is the record of a valid post that the thread could not queue: see [Unqueued].
	TypeUnqueued = "unqueued"

	// TypeRetrieval is the record of the passages that were found for a run of an agent: see [Retrieval].
	TypeRetrieval = "retrieval"

	// TypeTask is the record of the start or the end of a background task.
	TypeTask = "task"

	// TypeHook is the record of the decision of hooks and processors on an event.
	TypeHook = "hook"

	// TypeRAGIngest and TypeEntityExtract are background work: documents to index and entities to
	// extract. They have a lower priority than messages: see [Background].
	TypeRAGIngest     = "rag_ingest"
	TypeEntityExtract = "entity_extract"

	// TypeToken is never stored or queued: tokens go to the live stream.
	TypeToken = "token"
)

// Reserved reports whether only the thread creates events of this type, or nobody queues them.
// Applications may use any other type.
func Reserved(typ string) bool {
	switch typ {
	case TypeLLMCall, TypePrompt, TypeToolCall, TypeApprovalRequest, TypeApproval, TypeStatus, TypeFinal,
		TypeError, TypeRejected, TypeUnqueued, TypeHook, TypeToken, TypeEnv, TypeTask, TypeClientCall,
		TypeInputRequest, TypeInputReceived, TypeTurnEnded, TypeRetrieval:
		return true
	}
	return false
}

// otherWords maps the type names of other systems to types that a thread handles.
var otherWords = map[string]string{
	"new_message": TypeMessage, "message": TypeMessage, "rag_ingest": TypeRAGIngest, "entity_extract": TypeEntityExtract,
}

// ValidateType reports, as a [*FieldError], why events of a type cannot be posted: the type is not a
// valid name, it is reserved, or it is another system's name for a type that a thread handles.
func ValidateType(field, typ string) error {
	if err := ValidateName(field, typ); err != nil {
		return err
	}
	lower := strings.ToLower(typ)
	switch known := otherWords[lower]; {
	case lower == TypeToken:
		return FieldErrorf(field, "tokens are never queued; they go to the live stream")
	case Reserved(lower):
		return FieldErrorf(field, "%q events are created by the thread itself", lower)
	case known != "" && known != typ:
		return FieldErrorf(field, "%q is not a known type: use %q", typ, known)
	}
	return nil
}

// BackgroundPriority is the default priority of background events.
const BackgroundPriority = -100

// Background reports whether events of this type are background work.
func Background(typ string) bool { return typ == TypeRAGIngest || typ == TypeEntityExtract }

// Event is the input of hooks, processors and default processing. It is a closed union of
// [MessageEvent],
// [ToolCallEvent], [LLMCallEvent], [EnvEvent] and [CustomEvent].
type Event interface {
	// EventType is the discriminator "type" of the JSON form.
	EventType() string
	sealed()
}

// MessageEvent is a message that was posted to a thread or written by an agent.
type MessageEvent struct {
	CreatedBy CreatedBy  `json:"createdBy"`
	ThreadID  string     `json:"threadId"`
	Message   NewMessage `json:"message"`
}

// ToolCallEvent contains all tool calls of one reply of an agent.
type ToolCallEvent struct {
	ThreadID  string     `json:"threadId"`
	AgentName string     `json:"agentName"`
	ToolCalls []ToolCall `json:"toolCalls"`

	// Refused are the calls that hooks have refused. They are no longer among ToolCalls.
	Refused []Refusal `json:"refused,omitempty"`
}

// Refusal is the refusal of one tool call by a hook.
type Refusal struct {
	// ID is the id of the call, and Reason what the model learns: 1 to [MaxRefusal] bytes.
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// MaxRefusal is the maximum length of the Reason of a [Refusal], in bytes.
const MaxRefusal = 4096

// Refuse refuses the call with an id: it does not run, and its result for the model is the reason. The other calls are not affected. A
// hook replaces its event by the changed one. Without a call with that id, Refuse has no effect.
func (e *ToolCallEvent) Refuse(id, reason string) {
	at := slices.IndexFunc(e.ToolCalls, func(c ToolCall) bool { return c.ID == id })
	if at < 0 {
		return
	}
	// Copies, since callers may share the slices.
	e.ToolCalls = slices.Delete(slices.Clone(e.ToolCalls), at, at+1)
	e.Refused = append(slices.Clone(e.Refused), Refusal{ID: id, Reason: reason})
}

// LLMCallEvent announces a model call of an agent.
type LLMCallEvent struct {
	ThreadID  string `json:"threadId"`
	AgentName string `json:"agentName"`

	// Step counts the agent's model calls in this turn, from 1.
	Step int `json:"step"`

	// Instructions are added to the agent's instructions for this call. Empty before the first
	// hook.
	Instructions string `json:"instructions,omitempty"`

	// Model replaces the agent's model for this call, as "provider/model". Empty before the first
	// hook.
	Model string `json:"model,omitempty"`
}

// CustomEvent is an event of a type that the application defines.
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

// MarshalJSON adds the field "type".
func (e MessageEvent) MarshalJSON() ([]byte, error) {
	type fields MessageEvent
	return json.Marshal(struct {
		Type string `json:"type"`
		fields
	}{TypeMessage, fields(e)})
}

// MarshalJSON adds the fields "type" and "createdBy", which is always "agent".
func (e ToolCallEvent) MarshalJSON() ([]byte, error) {
	type fields ToolCallEvent
	return json.Marshal(struct {
		Type      string    `json:"type"`
		CreatedBy CreatedBy `json:"createdBy"`
		fields
	}{TypeToolCall, CreatedByAgent, fields(e)})
}

// MarshalJSON adds the fields "type" and "createdBy", which is always "agent".
func (e LLMCallEvent) MarshalJSON() ([]byte, error) {
	type fields LLMCallEvent
	return json.Marshal(struct {
		Type      string    `json:"type"`
		CreatedBy CreatedBy `json:"createdBy"`
		fields
	}{TypeLLMCall, CreatedByAgent, fields(e)})
}

// Unmarshal reads an [Event] from JSON. It rejects reserved types, and a tool_call or llm_call
// whose createdBy is not "agent".
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
			return nil, FieldErrorf("createdBy", "%q is not one of user, agent, tool, system", e.CreatedBy)
		}
		return e, nil
	case TypeToolCall, TypeLLMCall:
		if head.CreatedBy != CreatedByAgent {
			return nil, FieldErrorf("createdBy", "a %s is created by an agent only, not by %q", head.Type, head.CreatedBy)
		}
		if head.Type == TypeLLMCall {
			return decode[LLMCallEvent](data, head.Type)
		}
		return decode[ToolCallEvent](data, head.Type)
	}
	if head.Type == "" || Reserved(head.Type) {
		return nil, FieldErrorf("type", "%q is not message, tool_call, llm_call or a custom type", head.Type)
	}
	if len(head.Timestamp) > 0 {
		// A custom event has no timestamp.
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
