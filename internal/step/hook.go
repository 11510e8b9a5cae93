package step

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Hook is the input of a hook workflow and of its run_hooks activities.
type Hook struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`

	// EventID is the record of the event, EventType its type.
	EventID       string `json:"eventId"`
	EventType     string `json:"eventType"`
	ParentEventID string `json:"parentEventId,omitempty"`
	Agent         string `json:"agent,omitempty"`

	// Event is the event itself, if it has no record.
	Event json.RawMessage `json:"event,omitempty"`

	// Replaced means that hooks changed the environment event. The record of their decision
	// contains the changed event.
	Replaced bool `json:"replaced,omitempty"`

	// Hooks are the hooks to run, in order. Attempt is the attempt at the first one.
	Hooks   []hook.Spec `json:"hooks"`
	Attempt int         `json:"attempt,omitempty"`

	// WereQuick means that these hooks were quick for the thread. Functions then run as local activities.
	WereQuick bool `json:"wereQuick,omitempty"`

	Flush Flush `json:"flush"`
	Local
}

// HookReply is the result of run_hooks.
type HookReply struct {
	// Done are the outcomes of the hooks that ran, in order.
	Done []event.HookOutcome `json:"done,omitempty"`

	// Event is the event after those hooks.
	Event json.RawMessage `json:"event,omitempty"`

	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Failed is the error of the hook after those in Done.
	Failed string `json:"failed,omitempty"`

	Underway
}

// Failure is what people who look at the workflow are told of a hook that failed, or "".
func (r *HookReply) Failure() string { return r.Failed }

// HookDecision is the result of a hook workflow: the decision of hooks and processors on an event.
type HookDecision struct {
	Outcome event.Outcome `json:"outcome"`

	// By is the hook that responded, produced events, dropped the event or failed.
	By    string              `json:"by,omitempty"`
	Hooks []event.HookOutcome `json:"hooks,omitempty"`

	// Event replaces the original event, if Outcome is replaced.
	Event     json.RawMessage `json:"event,omitempty"`
	Responses []hook.Response `json:"responses,omitempty"`
	Produced  []hook.Produced `json:"produced,omitempty"`

	// Error says why the event fails, if Outcome is failed.
	Error string `json:"error,omitempty"`

	// NoDefault skips default processing although nothing replaces it.
	NoDefault bool `json:"noDefault,omitempty"`

	// Silent means that only inline hooks ran and passed the event, which needs no record.
	Silent bool `json:"silent,omitempty"`

	// Took is the duration of the longest activity in milliseconds, as in [Underway]; 0 if one must not be local.
	Took int64 `json:"took,omitempty"`

	// Unmatched means that no hook or processor matches the event.
	Unmatched bool `json:"-"`
}

// Stopped reports whether a decision ends the processing of the event itself.
func (d HookDecision) Stopped() bool {
	return d.Outcome == event.OutcomeResponded || d.Outcome == event.OutcomeOverwritten || d.Outcome == event.OutcomeDropped || d.NoDefault && d.Outcome != event.OutcomeFailed
}

// HookDecided is the payload of signal "hook_decided".
type HookDecided struct {
	EventID  string       `json:"eventId"`
	Decision HookDecision `json:"decision"`
}

// MessageEvent returns a stored message for hooks.
func MessageEvent(m event.Message) event.MessageEvent {
	return event.MessageEvent{CreatedBy: m.SenderType, ThreadID: m.ThreadID, Message: event.NewMessage{
		ThreadID: m.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
	}}
}
