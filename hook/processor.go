package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Processor replaces the default processing of a type of event. Processors run in the order in
// which they are declared, after the hooks. After the first that produces events, no other runs.
type Processor struct {
	// Name is unique among hooks and processors. Default: EventType with dots replaced, followed by
	// "-processor".
	Name string

	// EventType is the type that it processes, built-in or custom. Required.
	EventType string

	// ShouldProcess reports whether to process the event. Nil = always.
	ShouldProcess func(ctx context.Context, e event.Event, deps Deps) (bool, error)

	// Process processes the event and returns the events that replace it. If it returns none, the
	// next processor or default processing continues. Required.
	Process func(ctx context.Context, e event.Event, deps Deps) ([]Produced, error)

	// ReplaceDefault skips default processing even if no events are produced.
	ReplaceDefault bool

	// OnFailure is the failure mode after the last attempt. Default [FailOpen]: the failure is
	// recorded, and the next processor continues.
	OnFailure FailureMode

	// Timeout is the limit of one attempt. Default 30 seconds, at most a day.
	Timeout time.Duration

	// MaxAttempts is the maximum number of attempts. Default 3, at most 100.
	MaxAttempts int

	// redact is that of the set's Config.
	redact func(Answer, error) (Answer, error)
}

// Produced is an event that a processor produces.
type Produced struct {
	// Type is "message" (the default) or a custom type.
	Type string `json:"type,omitempty"`

	// Payload is an [event.NewMessage] for messages, whose thread id is optional, and any JSON for
	// other types.
	Payload json.RawMessage `json:"payload"`

	// Priority orders the queue: higher first. Default: the priority of the original event, or
	// [event.BackgroundPriority] for background events.
	Priority *int `json:"priority,omitempty"`

	// TTL is in milliseconds. An event that is still queued after it expires. 0 = no limit.
	TTL int64 `json:"ttl,omitempty"`

	// Metadata makes it an environment event, which rules route. Its timestamp is the time at which
	// it is queued.
	Metadata *event.EnvMetadata `json:"metadata,omitempty"`
}

// Message returns a produced message.
func Message(by event.CreatedBy, sender, content string) Produced {
	return NewProduced(event.TypeMessage, event.NewMessage{SenderID: sender, SenderType: by, Content: content})
}

// NewProduced returns a produced event with payload as JSON. It panics if payload cannot be
// marshalled, which is a programming error.
func NewProduced(typ string, payload any) Produced {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("hook: payload of a produced event has no JSON form: " + err.Error())
	}
	return Produced{Type: typ, Payload: raw}
}

// Process returns a processor for custom or environment events of a type, with their payload
// decoded into T. Names must match exactly: a field without a json tag has its Go name, with a
// capital letter. A payload that does not match T is a failure; without a payload, T has its zero
// value.
func Process[T any](typ string, f func(ctx context.Context, payload T, deps Deps) ([]Produced, error)) Processor {
	p := Processor{EventType: typ}
	if f == nil {
		return p // invalid: Validate reports it
	}
	p.Process = func(ctx context.Context, e event.Event, deps Deps) ([]Produced, error) {
		raw, ok := payloadOf(e)
		if !ok {
			return nil, fmt.Errorf("a %s event has no payload of your own", e.EventType())
		}
		var payload T
		if len(raw) > 0 {
			if err := event.DecodeJSON("payload", raw, &payload); err != nil {
				return nil, fmt.Errorf("reading the payload of a %s event: %w", typ, err)
			}
		}
		return f(ctx, payload, deps)
	}
	return p
}

func payloadOf(e event.Event) (json.RawMessage, bool) {
	switch e := e.(type) {
	case event.CustomEvent:
		return e.Payload, true
	case event.EnvEvent:
		return e.Payload, true
	}
	return nil, false
}

// Validate reports the first field that is missing or invalid.
func (p Processor) Validate() error {
	if p.EventType == "" {
		return fmt.Errorf("processor %q: EventType is required", p.Name)
	}
	if neverSeen(p.EventType) {
		return fmt.Errorf("processor %q: EventType: %q events are created by the thread itself and never processed", p.Name, p.EventType)
	}
	if err := checkName(p.Name); err != nil {
		return fmt.Errorf("processor %w", err)
	}
	if p.Process == nil {
		return fmt.Errorf("processor %q: Process is required", p.Name)
	}
	if err := checkBounds(p.OnFailure, p.Timeout, maxTimeout, p.MaxAttempts); err != nil {
		return fmt.Errorf("processor %q: %w", p.Name, err)
	}
	return nil
}
