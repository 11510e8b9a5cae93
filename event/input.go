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
	// Identifies the question within its request.
	ID string `json:"id"`

	// form: values that match the schema. url: the person visits the address, and then accepts.
	//
	// Default form.
	Kind InputKind `json:"kind" enum:"form,url"`

	// The question.
	Message string `json:"message"`

	// With kind form: the JSON Schema of the values, an object of plain fields.
	Schema json.RawMessage `json:"schema,omitempty"`

	// With kind url: the address.
	URL string `json:"url,omitempty"`

	// With kind url: the login that answers the question by itself.
	Login *InputLogin `json:"login,omitempty"`
}

// InputLogin is a login to a server of tools, for which a tool call waits.
type InputLogin struct {
	// The server, as GET /v1/mcp names it.
	Server string `json:"server"`

	// The person who has to log in. Missing: anybody who may, for the namespace.
	User string `json:"user,omitempty"`

	// The id of the login that does not suffice, as GET /v1/mcp/{name} has it. Missing: there was none.
	Refused string `json:"refused,omitempty"`
}

// InputRequest is a tool call that waits for a person's input: the payload of an "input_request"
// record.
type InputRequest struct {
	// The call that waits.
	ToolCallID string `json:"toolCallId"`

	// The tool that asks.
	ToolName string `json:"toolName"`

	// The agent that made the call.
	Agent string `json:"agent"`

	// The reply that contains the call.
	MessageID string `json:"messageId,omitempty"`

	// Counts the requests of the same call, from 1. An answer names the round.
	Round int `json:"round"`

	// The questions. An answer answers all of them.
	Questions []InputQuestion `json:"questions" nullable:"false"`

	// When the tool asked.
	RequestedAt time.Time `json:"requestedAt"`

	// The questions of this copy were shortened: schemas are missing, and so may be addresses. The stored request is
	// complete.
	Truncated bool `json:"truncated,omitempty"`
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
	// accept answers the question, decline refuses to, and cancel leaves it open.
	Action InputAction `json:"action" enum:"accept,decline,cancel"`

	// With accept and kind form: the values, an object that matches the schema.
	Content json.RawMessage `json:"content,omitempty"`
}

// InputReceived is a person's answer to an [InputRequest]: the payload of an "input_received" record.
type InputReceived struct {
	// The call that waited.
	ToolCallID string `json:"toolCallId"`

	// The tool that asked.
	ToolName string `json:"toolName"`

	// The agent that made the call.
	Agent string `json:"agent"`

	// The request that is answered.
	Round int `json:"round"`

	// The answers, by the ids of the questions.
	Answers map[string]InputAnswer `json:"answers"`

	// Who answered.
	By string `json:"by"`

	// When.
	ReceivedAt time.Time `json:"receivedAt"`

	// The sub-agent's call stopped waiting before anybody answered. Only parent threads store this; in the call's own
	// thread, its result ends the request.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Validate reports why an answer is invalid for every question.
func (a InputAnswer) Validate(field string) error {
	switch a.Action {
	case InputAccept:
		if len(a.Content) == 0 {
			return nil
		}
		var object map[string]json.RawMessage
		if err := DecodeJSON(field+".content", a.Content, &object); err != nil || object == nil {
			return FieldErrorf(field+".content", "must be an object with the values")
		}
		return nil
	case InputDecline, InputCancel:
		if len(a.Content) > 0 {
			return FieldErrorf(field+".content", "belongs to the action accept only")
		}
		return nil
	}
	return FieldErrorf(field+".action", "%q is not one of accept, decline, cancel", a.Action)
}
