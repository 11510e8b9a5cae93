package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// CreatedBy is the kind of participant that caused an event or sent a message.
type CreatedBy string

// The kinds of participant.
const (
	CreatedByUser   CreatedBy = "user"
	CreatedByAgent  CreatedBy = "agent"
	CreatedByTool   CreatedBy = "tool"
	CreatedBySystem CreatedBy = "system"
)

// Valid reports whether c is one of the four kinds.
func (c CreatedBy) Valid() bool {
	switch c {
	case CreatedByUser, CreatedByAgent, CreatedByTool, CreatedBySystem:
		return true
	}
	return false
}

// Metadata is a JSON object of an application. Decoded numbers are a [json.Number], which keeps all of their digits.
type Metadata map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Metadata) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode((*map[string]any)(m)) != nil {
		return FieldErrorf("metadata", "is not a JSON object")
	}
	return nil
}

// NewMessage is a message that has not been stored yet.
type NewMessage struct {
	ThreadID   string     `json:"threadId"`
	SenderID   string     `json:"senderId"`
	SenderType CreatedBy  `json:"senderType"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"toolCalls,omitempty"`

	// Metadata is stored with the message and never shown to a model, except for [MetadataContext].
	Metadata Metadata `json:"metadata,omitempty"`
}

// ErrInvalid matches every validation error of this package.
var ErrInvalid = errors.New("invalid event")

// FieldError names an invalid field of an event and the problem.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Problem) }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// FieldErrorf returns a [*FieldError] with a formatted problem.
func FieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// WithinField returns err with a prefix and a dot before its field if it is a [*FieldError], and err
// itself otherwise.
func WithinField(prefix string, err error) error {
	var wrong *FieldError
	if !errors.As(err, &wrong) {
		return err
	}
	return FieldErrorf(prefix+"."+wrong.Field, "%s", wrong.Problem)
}

// Validate reports the first missing or invalid field as a [*FieldError]. An agent's message may be
// empty if it has tool calls.
func (m NewMessage) Validate() error {
	if m.ThreadID == "" {
		return FieldErrorf("threadId", "is required")
	}
	if err := ValidateName("senderId", m.SenderID); err != nil {
		return err
	}
	switch {
	case m.SenderType == "":
		return FieldErrorf("senderType", "is required: user, agent, tool or system")
	case !m.SenderType.Valid():
		return FieldErrorf("senderType", "%q is not one of user, agent, tool, system", m.SenderType)
	case Blank(m.Content) && (m.SenderType != CreatedByAgent || len(m.ToolCalls) == 0):
		return FieldErrorf("content", "is required")
	}
	return nil
}

// Message is a message as stored and as sent to API clients.
type Message struct {
	// The id of the message, which its event and its record share.
	ID string `json:"id"`

	// The thread that the message belongs to.
	ThreadID string `json:"threadId"`

	// Who sent the message: the name of a person, an agent or a tool.
	SenderID string `json:"senderId"`

	// The kind of the sender.
	SenderType CreatedBy `json:"senderType" enum:"user,agent,tool,system"`

	// The role of the sender in a model's transcript.
	Role string `json:"role" enum:"user,assistant,tool,system"`

	// The text.
	Content string `json:"content"`

	// The texts, if models receive them as separate parts. The content then has all of them, one per line.
	Parts []Part `json:"parts,omitempty"`

	// The tool calls of an agent's reply.
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`

	// Of a tool's result: the call.
	ToolCallID string `json:"toolCallId,omitempty"`

	// Of a tool's result: the tool.
	ToolName string `json:"toolName,omitempty"`

	// Of a tool's result: the tool failed.
	IsError bool `json:"isError,omitempty"`

	// The agent that wrote the message or, for a tool's result, that made the call. Left out for messages of users.
	AgentID string `json:"agentId,omitempty"`

	// The message that this one answers.
	ReplyToMessageID string `json:"replyToMessageId,omitempty"`

	// The reply is partial: the model call was cut off.
	Interrupted bool `json:"interrupted,omitempty"`

	// Of an agent's reply: the tokens of the model call that wrote it.
	//
	// Zero if it is unknown, and for messages of others. Workflows carry only the duration, and only for replies on
	// which hooks decide later.
	Usage Usage `json:"usage,omitzero"`

	// Of an agent's reply: the time from the request to the model to its last token, in milliseconds.
	DurationMS int64 `json:"durationMs,omitempty"`

	// The reply is not shown until hooks have decided on it.
	//
	// Their decision contains the message that viewers see.
	Held bool `json:"held,omitempty"`

	// The content of this copy was shortened. The stored message is complete.
	Truncated bool `json:"truncated,omitempty"`

	// When the message was posted, if it then waited in the queue for a second or more before its turn.
	PostedAt time.Time `json:"postedAt,omitzero"`

	// Any JSON object that came with the message. Models see only its threadmill.context, in the turn of the message.
	Metadata Metadata `json:"metadata,omitempty"`

	// When the message was stored.
	//
	// It is set only in events for viewers; elsewhere, see [Record.CreatedAt].
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// StoredMessage is a message with its place in the thread.
type StoredMessage struct {
	Message

	// The number of the message's record in the thread, from 1, in order. There are gaps, since other records lie
	// between messages.
	Seq int64 `json:"seq"`

	// When the message was stored.
	CreatedAt time.Time `json:"createdAt"`

	// Unless hooks passed the message unchanged: what they did with it; withdrawn if its status was set by hand,
	// undecided if they have not decided. Models see a replaced message as it is shown, and none of the others.
	Outcome string `json:"outcome,omitempty" enum:"replaced,responded,overwritten,dropped,withdrawn,undecided"`
}

// Part is a piece of a message, in OpenAI's shape.
type Part struct {
	// The kind of the part.
	//
	// It is "text".
	Type string `json:"type" enum:"text"`

	// The text.
	Text string `json:"text"`
}

// PartText is the type of a text [Part].
const PartText = "text"

// TextParts returns a text part for each string.
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

// Role returns the model role of this kind of sender.
func (c CreatedBy) Role() string {
	switch c {
	case CreatedByUser:
		return RoleUser
	case CreatedByAgent:
		return RoleAssistant
	case CreatedByTool:
		return RoleTool
	case CreatedBySystem:
		return RoleSystem
	}
	return ""
}

// ToolCall is a tool call of a model, in OpenAI's format. Arguments remains the unparsed string
// that the model wrote, in the store, in events and in callbacks.
type ToolCall struct {
	// The id of the call, unique in its thread.
	ID string `json:"id"`

	// What is called.
	Function Function `json:"function"`
}

// Function is the name and the raw JSON arguments of a [ToolCall].
type Function struct {
	// The name of the tool.
	Name string `json:"name"`

	// The arguments as the model wrote them: the text of a JSON object, if the model made no mistake.
	Arguments string `json:"arguments"`
}
