package hook

import (
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// Respond answers an event in place of its default processing. It may be called
// several times: the responses are queued in that order. It does nothing once the hook
// has returned.
type Respond func(Response)

// Response is a message in place of what would have happened.
type Response struct {
	// Content is required.
	Content string `json:"content"`

	// SenderType defaults to agent, and SenderID to the agent that the event belongs to, or
	// that would have answered it; if the thread knows none, to the hook's name.
	SenderID   string          `json:"senderId,omitempty"`
	SenderType event.CreatedBy `json:"senderType,omitempty"`

	// EnqueueAfter says when it is queued, if the event belongs to tool calls. Default
	// [ToolResults].
	EnqueueAfter EnqueueAfter `json:"enqueueAfter,omitempty"`

	// Metadata is kept with the message and never shown to a model.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// EnqueueAfter says when a response is queued.
type EnqueueAfter string

// When a response can be queued.
const (
	// Immediately: without waiting for tools.
	Immediately EnqueueAfter = "immediately"
	// ToolResults: once every call of the reply has its result in the store.
	ToolResults EnqueueAfter = "toolResults"
)

// Validate reports the first field that is missing or out of bounds.
func (r Response) Validate() error {
	switch {
	case event.Blank(r.Content):
		return &event.FieldError{Field: "content", Problem: "is required in a response"}
	case r.SenderType != "" && !r.SenderType.Valid():
		return &event.FieldError{Field: "senderType", Problem: fmt.Sprintf("%q is not one of user, agent, tool, system", r.SenderType)}
	case r.EnqueueAfter != "" && r.EnqueueAfter != Immediately && r.EnqueueAfter != ToolResults:
		return &event.FieldError{Field: "enqueueAfter", Problem: fmt.Sprintf("%q is neither immediately nor toolResults", r.EnqueueAfter)}
	}
	return nil
}

// Request is what a hook workflow is given.
type Request struct {
	Context

	// Event in its JSON form.
	Event json.RawMessage `json:"event"`
}

// Verdict is what a hook workflow returns. The zero value, and null, let the event
// pass. Responses win over Event; otherwise at most one of Event, Responses, Produced and
// Drop may be set. Hooks in Go decide the same: they return the event, call [Respond], or
// return the errors [Produce] and [Drop].
type Verdict struct {
	// Event holds in place of the one that was seen.
	Event json.RawMessage `json:"event,omitempty"`

	// Responses are messages in place of what would have happened.
	Responses []Response `json:"responses,omitempty"`

	// Produced are events that are queued in place of the one that was seen.
	Produced []Produced `json:"produced,omitempty"`

	// Drop lets nothing follow from the event.
	Drop bool `json:"drop,omitempty"`
}

// Drop is the error with which a [Func] or [InlineFunc] drops the event: nothing follows from
// it. It stays on record.
func Drop() error { return &decided{Verdict{Drop: true}} }

// Produce is the error with which a [Func] or [InlineFunc] has events queued in place of the
// one that it sees, as a [Processor] does.
func Produce(events ...Produced) error {
	return &decided{Verdict{Produced: append([]Produced{}, events...)}}
}

// decided is a verdict on its way out of a function.
type decided struct{ verdict Verdict }

func (d *decided) Error() string {
	if d.verdict.Drop {
		return "the hook drops the event"
	}
	return "the hook produces other events"
}

// UnmarshalJSON refuses fields that a verdict does not have: a guard whose answer is
// misspelled must not let anything pass.
func (v *Verdict) UnmarshalJSON(raw []byte) error {
	type plain Verdict // without this method
	return event.DecodeKnownJSON("", raw, (*plain)(v))
}

// Context tells a hook about the event that it sees.
type Context struct {
	// Hook is the name of the hook or processor.
	Hook      string `json:"hook"`
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`

	// EventID is the event's record; that of an llm_call is the reply's message id, with
	// ".llm" behind it, and is stored once the call was made.
	EventID       string `json:"eventId"`
	TraceID       string `json:"traceId"`
	ParentEventID string `json:"parentEventId,omitempty"`

	// Agent is the current agent, if there is one.
	Agent string `json:"agent,omitempty"`

	// Attempt counts this hook's attempts on this event, from 1. A run that was lost with
	// its worker is repeated under its number, and a retry by hand begins anew at 1.
	Attempt int `json:"attempt,omitempty"`
}

// Key is the same in every run of one hook on one event, and in no other.
func (c Context) Key() string {
	return c.Namespace + "/" + c.ThreadID + "/" + c.EventID + "/" + c.Hook
}
