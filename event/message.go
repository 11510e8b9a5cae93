package event

import (
	"errors"
	"fmt"
	"time"
)

// CreatedBy says what kind of participant caused an event or sent a message.
type CreatedBy string

// The kinds of participant.
const (
	User   CreatedBy = "user"
	Agent  CreatedBy = "agent"
	Tool   CreatedBy = "tool"
	System CreatedBy = "system"
)

// Valid reports whether c is one of the four kinds.
func (c CreatedBy) Valid() bool {
	switch c {
	case User, Agent, Tool, System:
		return true
	}
	return false
}

// NewMessage is a message on its way into a thread.
type NewMessage struct {
	ThreadID   string     `json:"threadId"`
	SenderID   string     `json:"senderId"`
	SenderType CreatedBy  `json:"senderType"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"toolCalls,omitempty"`

	// Metadata is kept with the message and never shown to a model.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// ErrInvalid marks every validation error of this package.
var ErrInvalid = errors.New("invalid event")

// FieldError names the field of an event that is wrong, and what is wrong with it.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Problem) }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// Validate reports the first missing or impossible field as a [*FieldError].
// An agent's message may be empty when it carries tool calls.
func (m NewMessage) Validate() error {
	if m.ThreadID == "" {
		return &FieldError{"threadId", "is required"}
	}
	if err := CheckName("senderId", m.SenderID); err != nil {
		return err
	}
	switch {
	case m.SenderType == "":
		return &FieldError{"senderType", "is required: user, agent, tool or system"}
	case !m.SenderType.Valid():
		return &FieldError{"senderType", fmt.Sprintf("%q is not one of user, agent, tool, system", m.SenderType)}
	case Blank(m.Content) && (m.SenderType != Agent || len(m.ToolCalls) == 0):
		return &FieldError{"content", "is required"}
	}
	return nil
}

// Message is a message as stored and as sent to the clients of the API.
type Message struct {
	ID         string    `json:"id"`
	ThreadID   string    `json:"threadId"`
	SenderID   string    `json:"senderId"`
	SenderType CreatedBy `json:"senderType"`

	// Role is the model's view of the sender: user, assistant, tool or system.
	Role    string `json:"role"`
	Content string `json:"content"`

	// Parts are the pieces of text that Content is made of, when a model is shown them
	// one by one. Content then is all of them, a line each.
	Parts []Part `json:"parts,omitempty"`

	// ToolCalls are the calls that an agent's reply asks for.
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// ToolCallID, ToolName and IsError describe a tool's result.
	ToolCallID string `json:"toolCallId,omitempty"`
	ToolName   string `json:"toolName,omitempty"`
	IsError    bool   `json:"isError,omitempty"`

	// AgentID is the agent that wrote the message or, of a tool's result, the
	// agent that asked for it. Empty for messages of people.
	AgentID string `json:"agentId,omitempty"`

	// ReplyToMessageID is the message that this one answers.
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`

	// Interrupted marks a reply that was cut off: Content is what had arrived.
	Interrupted bool `json:"interrupted,omitempty"`

	// Held marks an agent's reply that nobody is shown until the hooks have decided on
	// it: their decision then carries the message that people see.
	Held bool `json:"held,omitempty"`

	// Truncated marks a copy whose content was shortened; the stored message is whole.
	Truncated bool `json:"truncated,omitempty"`

	Metadata map[string]any `json:"metadata,omitempty"`

	// CreatedAt is when the message was stored. Only events on their way to viewers carry it:
	// elsewhere the record has it.
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// StoredMessage is a message with its place in the thread.
type StoredMessage struct {
	Message
	Seq       int64     `json:"seq"`
	CreatedAt time.Time `json:"createdAt"`
}

// Part is a piece of a message, in OpenAI's shape.
type Part struct {
	// Type is "text".
	Type string `json:"type"`
	Text string `json:"text"`
}

// PartText is the type of a [Part] of text.
const PartText = "text"

// TextParts makes parts of text.
func TextParts(texts ...string) []Part {
	out := make([]Part, len(texts))
	for i, text := range texts {
		out[i] = Part{Type: PartText, Text: text}
	}
	return out
}

// The roles of a message, as models name them.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
	RoleSystem    = "system"
)

// Role is the role that a message of this sender has for a model.
func (c CreatedBy) Role() string {
	switch c {
	case User:
		return RoleUser
	case Agent:
		return RoleAssistant
	case Tool:
		return RoleTool
	case System:
		return RoleSystem
	}
	return ""
}

// ToolCall is one call that a model asked for, in OpenAI's shape. Arguments stays
// the unparsed string that the model wrote, through store, events and callbacks.
type ToolCall struct {
	ID       string   `json:"id"`
	Function Function `json:"function"`
}

// Function is the name and the raw JSON arguments of a [ToolCall].
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
