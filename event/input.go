package event

import (
	"encoding/json"
	"time"
)

// InputKind is the kind of input that a tool requires.
type InputKind string

// The kinds of input.
const (
	// InputForm asks for values that match a schema.
	InputForm InputKind = "form"
	// InputURL asks a person to visit an address, where the rest happens.
	InputURL InputKind = "url"
)

// InputQuestion is one question that a tool asks.
type InputQuestion struct {
	ID      string          `json:"id" doc:"Identifies the question within its request"`
	Kind    InputKind       `json:"kind" enum:"form,url" doc:"form: values that match the schema. url: the person visits the address, and then accepts"`
	Message string          `json:"message" doc:"The question"`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"With kind form: the JSON Schema of the values, an object of plain fields"`
	URL     string          `json:"url,omitempty" doc:"With kind url: the address"`
}

// InputRequest is a tool call that waits for a person's input: the payload of an "input_request"
// record.
type InputRequest struct {
	ToolCallID  string          `json:"toolCallId" doc:"The call that waits"`
	ToolName    string          `json:"toolName" doc:"The tool that asks"`
	Agent       string          `json:"agent" doc:"The agent that made the call"`
	MessageID   string          `json:"messageId,omitempty" doc:"The reply that contains the call"`
	Round       int             `json:"round" doc:"Counts the requests of the same call, from 1. An answer names the round"`
	Questions   []InputQuestion `json:"questions" nullable:"false" doc:"The questions. An answer answers all of them"`
	RequestedAt time.Time       `json:"requestedAt" doc:"When the tool asked"`
	ExpiresAt   *time.Time      `json:"expiresAt,omitempty" doc:"When the request is cancelled without an answer. Missing: never"`

	// State belongs to the tool, which receives it again with the answer.
	State string `json:"state,omitempty" doc:"Belongs to the tool"`
}

// InputAction is what a person does with a question.
type InputAction string

// The actions.
const (
	InputAccept  InputAction = "accept"
	InputDecline InputAction = "decline"
	InputCancel  InputAction = "cancel"
)

// InputAnswer is the answer to one question.
type InputAnswer struct {
	Action  InputAction     `json:"action" enum:"accept,decline,cancel" doc:"accept answers the question, decline refuses to, and cancel leaves it open"`
	Content json.RawMessage `json:"content,omitempty" doc:"With accept and kind form: the values, an object that matches the schema"`
}
