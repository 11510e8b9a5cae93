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
	Login   *InputLogin     `json:"login,omitempty" doc:"With kind url: the login that answers the question by itself"`
}

// InputLogin is a login to a server of tools, for which a tool call waits.
type InputLogin struct {
	Server string `json:"server" doc:"The server, as GET /v1/mcp names it"`
	User   string `json:"user,omitempty" doc:"The person who has to log in. Missing: anybody who may, for the namespace"`

	Refused string `json:"refused,omitempty" doc:"The id of the login that does not suffice, as GET /v1/mcp/{name} has it. Missing: there was none"`
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

	// Truncated marks a copy whose questions were shortened. The stored request is complete.
	Truncated bool `json:"truncated,omitempty" doc:"The questions of this copy were shortened: schemas are missing, and so may be addresses. The stored request is complete"`
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

// InputReceived is a person's answer to an [InputRequest]: the payload of an "input_received" record.
type InputReceived struct {
	ToolCallID string                 `json:"toolCallId" doc:"The call that waited"`
	ToolName   string                 `json:"toolName" doc:"The tool that asked"`
	Agent      string                 `json:"agent" doc:"The agent that made the call"`
	Round      int                    `json:"round" doc:"The request that is answered"`
	Answers    map[string]InputAnswer `json:"answers" doc:"The answers, by the ids of the questions"`
	By         string                 `json:"by" doc:"Who answered"`
	ReceivedAt time.Time              `json:"receivedAt" doc:"When"`

	Withdrawn bool `json:"withdrawn,omitempty" doc:"The sub-agent's call stopped waiting before anybody answered. Only parent threads store this; in the call's own thread, its result ends the request"`
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
