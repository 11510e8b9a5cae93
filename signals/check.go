package signals

import (
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/observe/traceparent"
)

// Bounds of a [Post].
const (
	// MaxTTL is the longest TTL, in milliseconds: a hundred years.
	MaxTTL = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

	// MaxPostAgents and MaxPostTools are the maximum lengths of [Post.Agents] and [Post.Tools].
	MaxPostAgents = 100
	MaxPostTools  = 200

	// maxWord is the maximum length of an identifier in stores, in bytes.
	maxWord = 128
)

// Validate reports, as a [*event.FieldError], why a post is invalid for the thread, independent of
// the thread's state. Only the thread itself detects that it is closed, busy or full, or that the
// id is a duplicate.
func (p Post) Validate(threadID string) error {
	_, err := p.Read(threadID)
	return err
}

// Content is the decoded content of a post: a message, an environment event, or neither for a custom
// event, whose payload may be any JSON.
type Content struct {
	Message *event.NewMessage
	Env     *event.EnvEvent
}

// Read validates like [Post.Validate] and returns the content.
func (p Post) Read(threadID string) (Content, error) {
	if err := p.validateHead(); err != nil {
		return Content{}, err
	}
	if p.Type == "" || p.Type == event.TypeMessage {
		m, err := p.readMessage(threadID)
		return Content{Message: m}, err
	}
	if err := firstOf(checkIdentifier("type", p.Type), event.ValidateType("type", p.Type)); err != nil {
		return Content{}, err
	}
	if p.IsEnv() {
		e, err := p.readEnv(threadID)
		return Content{Env: e}, err
	}
	if len(p.Payload) == 0 {
		return Content{}, nil
	}
	return Content{}, event.ValidateJSON("payload", p.Payload)
}

// validateHead validates everything but the content.
func (p Post) validateHead() error {
	if p.ID != "" {
		if err := ValidateEventID("id", p.ID); err != nil {
			return err
		}
	}
	if len(p.Payload) > MaxPayload {
		return event.FieldErrorf("payload", "is %d bytes, must be at most %d; put large data elsewhere and refer to it", len(p.Payload), MaxPayload)
	}
	if len(p.Payload)+len(p.Metadata) > MaxPayload {
		return event.FieldErrorf("metadata", "is %d bytes, must be at most %d together with the payload", len(p.Metadata), MaxPayload)
	}
	if p.TTL < 0 || p.TTL > MaxTTL {
		return event.FieldErrorf("ttl", "must be 0 to %d (milliseconds; 0 = no limit)", MaxTTL)
	}
	return firstOf(checkIdentifier("traceId", p.TraceID), checkIdentifier("parentEventId", p.ParentEventID), checkTraceparent(p.Traceparent), checkTurn(p))
}

func checkTraceparent(value string) error {
	if _, ok := traceparent.Parse(value); value != "" && !ok {
		return event.FieldErrorf("traceparent", "%.60q is no trace context, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", value)
	}
	return nil
}

// checkTurn checks the fields of a post that configure its turn.
func checkTurn(p Post) error {
	if err := checkNames("agents", p.Agents, MaxPostAgents); err != nil {
		return err
	}
	if len(p.Tools) > MaxPostTools {
		return event.FieldErrorf("tools", "has %d entries, must have at most %d", len(p.Tools), MaxPostTools)
	}
	for i, tool := range p.Tools {
		if err := checkIdentifier(fmt.Sprintf("tools[%d]", i), tool); err != nil {
			return err
		}
	}
	if p.OnBusy != "" && !p.OnBusy.Valid() {
		return event.FieldErrorf("onBusy", "%q is not one of enqueue, steer, interrupt, reject", p.OnBusy)
	}
	if p.OnWaiting != "" && !p.OnWaiting.Valid() {
		return event.FieldErrorf("onWaiting", "%q is not one of answer, hold, cancel", p.OnWaiting)
	}
	return nil
}

func (p Post) readMessage(threadID string) (*event.NewMessage, error) {
	if p.IsEnv() {
		return nil, event.FieldErrorf("metadata", "and timestamp are those of environment events, whose type is required; a message has its metadata in its payload")
	}
	if len(p.Payload) == 0 {
		return nil, event.FieldErrorf("payload", "is required: an object with senderId, senderType and content")
	}
	m := &event.NewMessage{}
	if err := event.DecodeKnownJSON("payload", p.Payload, m); err != nil {
		return nil, err
	}
	if err := event.WithinField("payload", m.Validate()); err != nil {
		return nil, err
	}
	if m.ThreadID != threadID {
		return nil, event.FieldErrorf("payload.threadId", "is %q, but this thread is %q", m.ThreadID, threadID)
	}
	return m, nil
}

// checkIdentifier rejects text that stores cannot keep as an identifier. Empty is valid.
func checkIdentifier(field, s string) error {
	if len(s) > maxWord {
		return event.FieldErrorf(field, "is %d bytes long, must be at most %d", len(s), maxWord)
	}
	return checkBy(field, s)
}

// checkBy rejects text that is not a valid name. Empty is valid.
func checkBy(field, s string) error {
	if s == "" {
		return nil
	}
	return event.ValidateName(field, s)
}

// MaxReason is the maximum length of a reason, in bytes.
const MaxReason = 4 << 10

func checkReason(s string) error {
	if len(s) > MaxReason {
		return event.FieldErrorf("reason", "must be at most %d bytes long", MaxReason)
	}
	return event.ValidateText("reason", s)
}

// Validate reports, as a [*event.FieldError], why a control is invalid, independent of the
// thread's state.
func (c Control) Validate() error {
	switch c.Action {
	case ControlInterrupt, ControlClose, ControlRetry:
	default:
		return event.FieldErrorf("action", "must be interrupt, close or retry")
	}
	return firstOf(checkBy("by", c.By), checkReason(c.Reason), checkIdentifier("eventId", c.EventID))
}

// Validate reports the first invalid field of a change of status.
func (c SetStatus) Validate() error {
	if c.EventID == "" {
		return event.FieldErrorf("eventId", "is required")
	}
	if c.By == "" {
		return event.FieldErrorf("by", "is required: the person who changes the status")
	}
	if c.Priority != nil && c.Status != event.ItemPending {
		return event.FieldErrorf("priority", "applies to the status pending only")
	}
	if c.Content != "" && c.Status != event.ItemPending {
		return event.FieldErrorf("content", "applies to the status pending only")
	}
	if c.Content != "" && event.Blank(c.Content) {
		return event.FieldErrorf("content", "is blank; to take the message from the queue, set another status")
	}
	return firstOf(event.ValidateName("by", c.By), checkReason(c.Reason))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
