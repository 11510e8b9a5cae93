package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Processor replaces the default processing of a type of event. Processors are asked
// in the order in which they are declared, after the hooks; the first that produces
// events is the last one asked.
type Processor struct {
	// Name is unique among hooks and processors. Default: EventType with "-processor"
	// behind it, dots replaced.
	Name string

	// EventType is the type that it processes, built-in or your own. Required.
	EventType string

	// ShouldProcess says whether it wants the event. Nil = always.
	ShouldProcess func(ctx context.Context, e event.Event, deps Deps) (bool, error)

	// Process says what becomes of it. No events = the next processor, then the default,
	// goes on with it. Required.
	Process func(ctx context.Context, e event.Event, deps Deps) ([]Produced, error)

	// ReplaceDefault leaves the built-in processing of the type out, also when nothing
	// was produced.
	ReplaceDefault bool

	// OnFailure says what a failure means, after the last attempt. Default [Open]: the
	// failure is recorded, and the next processor goes on with the event.
	OnFailure FailureMode

	// Timeout bounds one attempt. Default 30 seconds, at most a day.
	Timeout time.Duration

	// MaxAttempts is how often it is tried in all. Default 3, at most 100.
	MaxAttempts int
}

// Produced is an event that a processor makes of another.
type Produced struct {
	// Type is "message" (the default) or a type of your own.
	Type string `json:"type,omitempty"`

	// Payload of a message is an [event.NewMessage], whose thread may be left out; of
	// other types, any JSON.
	Payload json.RawMessage `json:"payload"`

	// Priority: higher first. Default: that of the event it was made of; of background
	// events, [event.BackgroundPriority].
	Priority *int `json:"priority,omitempty"`

	// TTL in milliseconds: an event that still waits then is expired. 0 = no limit.
	TTL int64 `json:"ttl,omitempty"`

	// Metadata makes it an environment event, which rules route; its time is that of its
	// making.
	Metadata *event.EnvMetadata `json:"metadata,omitempty"`
}

// Message makes the [Produced] of a message.
func Message(by event.CreatedBy, sender, content string) Produced {
	return NewProduced(event.TypeMessage, event.NewMessage{SenderID: sender, SenderType: by, Content: content})
}

// NewProduced makes a [Produced] with the JSON form of payload. It panics if payload
// has none, which is a mistake in the program.
func NewProduced(typ string, payload any) Produced {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic("hook: payload of a produced event has no JSON form: " + err.Error())
	}
	return Produced{Type: typ, Payload: raw}
}

// Process makes a processor for events of a type of your own, custom or of the
// environment, with their payload read into T. Names are exact: a field without a json tag is
// called as in Go, with a capital letter. A payload that does not fit T is a failure; none at
// all leaves T as it is.
func Process[T any](typ string, f func(ctx context.Context, payload T, deps Deps) ([]Produced, error)) Processor {
	p := Processor{EventType: typ}
	if f == nil {
		return p // which does not validate
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

// Validate reports the first field that is missing or out of bounds.
func (p Processor) Validate() error {
	if p.EventType == "" {
		return fmt.Errorf("processor %q: EventType is required", p.Name)
	}
	if neverSeen(p.EventType) {
		return fmt.Errorf("processor %q: EventType: %q events are made by the thread itself and never processed", p.Name, p.EventType)
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
