package hook

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Response is a message with which a hook answers an event.
type Response struct {
	// Content is the text of the message. Required.
	Content string `json:"content"`

	// SenderType defaults to agent. SenderID defaults to the agent of the event or, without one,
	// the agent that would have answered it or, if there is none, the hook's name.
	SenderID   string          `json:"senderId,omitempty"`
	SenderType event.CreatedBy `json:"senderType,omitempty"`

	// EnqueueAfter says when the response is queued, if the event belongs to tool calls. Default
	// [EnqueueAfterToolResults].
	EnqueueAfter EnqueueAfter `json:"enqueueAfter,omitempty"`

	// Metadata is stored with the message and never shown to a model.
	Metadata event.Metadata `json:"metadata,omitempty"`
}

// EnqueueAfter says when a response is queued.
type EnqueueAfter string

// The values of [EnqueueAfter].
const (
	// EnqueueImmediately queues the response without waiting for tools.
	EnqueueImmediately EnqueueAfter = "immediately"
	// EnqueueAfterToolResults queues the response when every call of the reply has its result.
	EnqueueAfterToolResults EnqueueAfter = "toolResults"

	// afterToolResults is another spelling of it.
	afterToolResults EnqueueAfter = "tool_results"
)

func (e EnqueueAfter) valid() bool {
	return e == "" || e == EnqueueImmediately || e == EnqueueAfterToolResults || e == afterToolResults
}

// Validate reports the first field that is missing or invalid.
func (r Response) Validate() error {
	switch {
	case event.Blank(r.Content):
		return event.FieldErrorf("content", "is required in a response")
	case r.SenderType != "" && !r.SenderType.Valid():
		return event.FieldErrorf("senderType", "%q is not one of user, agent, tool, system", r.SenderType)
	case !r.EnqueueAfter.valid():
		return event.FieldErrorf("enqueueAfter", "%q is neither immediately nor toolResults", r.EnqueueAfter)
	}
	return nil
}

// Request is the input of a hook workflow.
type Request struct {
	Context

	// Event is the event as JSON. [Request.Decode] returns it as a Go value.
	Event json.RawMessage `json:"event"`
}

// Decode returns the event that the workflow decides on.
func (r Request) Decode() (event.Event, error) { return event.Unmarshal(r.Event) }

// Verdict is the result of a hook workflow. The zero value and null let the event pass. Responses
// win over Event; otherwise at most one of Event, Responses, Produced and Drop may be set. Functions
// have the same choices: see [Result].
type Verdict struct {
	// Event replaces the original event.
	Event json.RawMessage `json:"event,omitempty"`

	// Responses are messages that answer the event.
	Responses []Response `json:"responses,omitempty"`

	// Produced are events that are queued instead of the event.
	Produced []Produced `json:"produced,omitempty"`

	// Drop ends the processing of the event.
	Drop bool `json:"drop,omitempty"`
}

// UnmarshalJSON rejects unknown fields, so that a misspelled verdict of a guard does not let an
// event pass.
func (v *Verdict) UnmarshalJSON(raw []byte) error {
	type plain Verdict // without this method
	return event.DecodeKnownJSON("", raw, (*plain)(v))
}

// Context describes the event to a hook.
type Context struct {
	// Hook is the name of the hook or processor.
	Hook      string `json:"hook"`
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`

	// EventID is the id of the event's record. For an llm_call, it is the reply's message id
	// followed by ".llm", and the record is stored after the call.
	EventID       string `json:"eventId"`
	TraceID       string `json:"traceId"`
	ParentEventID string `json:"parentEventId,omitempty"`

	// Agent is the agent of the event, if there is one.
	Agent string `json:"agent,omitempty"`

	// Attempt counts this hook's attempts at this event, from 1. A run that was lost with its
	// worker is repeated with the same number; a manual retry starts again at 1.
	Attempt int `json:"attempt,omitempty"`
}

// Key returns an idempotency key: it is the same in every run of one hook for one event, and in no
// other.
func (c Context) Key() string {
	return c.Namespace + "/" + c.ThreadID + "/" + c.EventID + "/" + c.Hook
}
