package thread

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Reasons to refuse a post, apart from mistakes in its fields.
var (
	ErrClosed = errors.New("the thread is closed")
	ErrFull   = fmt.Errorf("the queue is full: %d KiB wait; post again when some of it has been processed", maxQueueBytes>>10)
	ErrBusy   = errors.New("a turn is in progress and onBusy is reject")
)

// Bounds on what a thread takes in, so that its records can always be stored and
// its state always fits into a new run.
const (
	maxTTL    = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
	maxWord   = 128 // bytes
	maxAgents = 100
	maxTitle  = 400 // bytes
)

// CheckStart reports why a thread cannot begin like this.
func CheckStart(start signals.Start) error {
	if len(start.Agents) > maxAgents {
		return &event.FieldError{Field: "agents", Problem: fmt.Sprintf("are %d, at most %d are taken", len(start.Agents), maxAgents)}
	}
	for i, agent := range start.Agents {
		if err := signals.CheckID(fmt.Sprintf("agents[%d]", i), agent); err != nil {
			return err
		}
	}
	if len(start.Title) > maxTitle {
		return &event.FieldError{Field: "title", Problem: fmt.Sprintf("is %d bytes, at most %d are taken", len(start.Title), maxTitle)}
	}
	if len(start.Metadata) > signals.MaxPayload {
		return &event.FieldError{Field: "metadata", Problem: fmt.Sprintf("is %d bytes, at most %d are taken", len(start.Metadata), signals.MaxPayload)}
	}
	return nil
}

// checkWord refuses what no store takes as an identifier.
func checkWord(field, s string) error {
	if len(s) > maxWord || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return &event.FieldError{Field: field, Problem: fmt.Sprintf("must be at most %d bytes of text without NUL characters", maxWord)}
	}
	return nil
}

// CheckPost reports why a post would be refused. It changes nothing.
func (s *State) CheckPost(p signals.Post) error {
	if s.Closing != nil {
		return ErrClosed
	}
	if p.ID != "" {
		if err := signals.CheckEventID("id", p.ID); err != nil {
			return err
		}
	}
	if len(p.Payload) > signals.MaxPayload {
		return &event.FieldError{Field: "payload", Problem: fmt.Sprintf("is %d bytes, at most %d are taken; put large data elsewhere and refer to it", len(p.Payload), signals.MaxPayload)}
	}
	queued := len(p.Payload)
	for _, q := range s.Queue {
		queued += len(q.Item.Payload)
	}
	if queued > maxQueueBytes {
		return ErrFull
	}
	if p.TTL < 0 || p.TTL > maxTTL {
		return &event.FieldError{Field: "ttl", Problem: fmt.Sprintf("must be 0 to %d (milliseconds; 0 = no limit)", maxTTL)}
	}
	if err := checkWord("traceId", p.TraceID); err != nil {
		return err
	}
	if err := checkWord("parentEventId", p.ParentEventID); err != nil {
		return err
	}
	switch p.OnBusy {
	case "", signals.Enqueue, signals.Steer, signals.Interrupt:
	case signals.Reject:
		if !s.Idle() && !s.HasSeen(p.ID) {
			return ErrBusy
		}
	default:
		return &event.FieldError{Field: "onBusy", Problem: fmt.Sprintf("%q is not one of enqueue, steer, interrupt, reject", p.OnBusy)}
	}
	switch p.Type {
	case "", event.TypeMessage:
		_, err := s.message(p)
		return err
	case event.TypeToken:
		return &event.FieldError{Field: "type", Problem: "tokens are never queued; they go to the live stream"}
	case event.TypeLLMCall, event.TypeToolCall, event.TypeApprovalRequest, event.TypeApproval,
		event.TypeStatus, event.TypeFinal, event.TypeError, event.TypeRejected:
		return &event.FieldError{Field: "type", Problem: fmt.Sprintf("%q events are made by the thread itself", p.Type)}
	}
	if err := checkWord("type", p.Type); err != nil {
		return err
	}
	if len(p.Payload) > 0 && !json.Valid(p.Payload) {
		return &event.FieldError{Field: "payload", Problem: "is not valid JSON"}
	}
	return nil
}

// message reads and checks the payload of a message.
func (s *State) message(p signals.Post) (event.NewMessage, error) {
	var m event.NewMessage
	if len(p.Payload) == 0 {
		return m, &event.FieldError{Field: "payload", Problem: "is required: threadId, senderId, senderType and content"}
	}
	dec := json.NewDecoder(bytes.NewReader(p.Payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, &event.FieldError{Field: "payload", Problem: "is not a message: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	if err := m.Validate(); err != nil {
		var f *event.FieldError
		if errors.As(err, &f) {
			return m, &event.FieldError{Field: "payload." + f.Field, Problem: f.Problem}
		}
		return m, err
	}
	if m.ThreadID != s.ThreadID {
		return m, &event.FieldError{Field: "payload.threadId", Problem: fmt.Sprintf("is %q, but this thread is %q", m.ThreadID, s.ThreadID)}
	}
	return m, nil
}

// Posted is what a post did.
type Posted struct {
	EventID   string
	Duplicate bool

	// Interrupt asks for the end of the turn in progress.
	Interrupt bool
}

// Post puts an event into the queue, unless it was there before. A post that does
// not fit changes nothing.
func (s *State) Post(now time.Time, p signals.Post) (Posted, error) {
	if p.ID != "" && s.HasSeen(p.ID) {
		return Posted{EventID: p.ID, Duplicate: true}, nil
	}
	if err := s.CheckPost(p); err != nil {
		return Posted{}, err
	}
	if p.ID == "" {
		p.ID = s.newID(now)
	}
	if p.Type == "" {
		p.Type = event.TypeMessage
	}
	if p.TraceID == "" {
		p.TraceID = p.ID
	}
	s.Seen = keepLast(append(s.Seen, p.ID), maxSeen)
	q := Queued{OnBusy: p.OnBusy, Item: event.Item{
		ID: p.ID, ThreadID: s.ThreadID, Type: p.Type, Payload: p.Payload, Status: event.Pending,
		Priority: p.Priority, TTL: p.TTL, TraceID: p.TraceID, ParentEventID: p.ParentEventID,
		Namespace: s.Namespace, CreatedAt: now, UpdatedAt: now,
	}}
	if p.OnBusy == signals.Interrupt && s.Turn != nil {
		// Ahead of its equals: who interrupts wants to be heard next.
		s.Queue = append([]Queued{q}, s.Queue...)
		return Posted{EventID: p.ID, Interrupt: true}, nil
	}
	s.Queue = append(s.Queue, q)
	return Posted{EventID: p.ID}, nil
}

// maxAudit is how much of a rejected input an audit record keeps, in bytes.
const maxAudit = 1 << 10

// Reject leaves the audit record of a signal that changed nothing.
func (s *State) Reject(now time.Time, signal string, input any, problem error) {
	raw, err := json.Marshal(input)
	if err != nil {
		raw = []byte(err.Error())
	}
	text := string(raw)
	if len(text) > maxAudit {
		text = cutText(text, maxAudit)
	}
	why := problem.Error()
	if len(why) > maxAudit {
		why = cutText(why, maxAudit)
	}
	s.record(s.newID(now), event.TypeRejected, "", "", now,
		event.Rejected{Signal: signal, Problem: why, Input: text})
}

// Next takes the item to process out of the queue: the highest priority, and of
// equals the one that came first. Items whose time has run out are expired on the way.
func (s *State) Next(now time.Time) (event.Item, bool) {
	s.expire(now)
	best := -1
	for i, q := range s.Queue {
		if best < 0 || q.Item.Priority > s.Queue[best].Item.Priority {
			best = i
		}
	}
	if best < 0 {
		return event.Item{}, false
	}
	item := s.Queue[best].Item
	s.Queue = append(s.Queue[:best:best], s.Queue[best+1:]...)
	item.Status, item.UpdatedAt = event.Processing, now
	return item, true
}

func (s *State) expire(now time.Time) {
	kept := s.Queue[:0:0]
	for _, q := range s.Queue {
		it := q.Item
		if it.TTL > 0 && now.Sub(it.CreatedAt) > time.Duration(it.TTL)*time.Millisecond {
			detail := fmt.Sprintf("event %s waited longer than its ttl of %d ms", it.ID, it.TTL)
			s.record(it.ID+".expired", event.TypeStatus, it.TraceID, it.ID, now, event.StatusChange{Status: string(event.Expired), Detail: detail})
			s.outcome(signals.TurnResult{EventID: it.ID, Status: signals.TurnExpired, Error: detail})
			continue
		}
		kept = append(kept, q)
	}
	s.Queue = kept
}

// Ordered returns the queue in the order in which it will be processed.
func (s *State) Ordered() []event.Item {
	out := make([]event.Item, 0, len(s.Queue))
	for _, q := range s.Queue {
		at := len(out)
		for at > 0 && out[at-1].Priority < q.Item.Priority {
			at--
		}
		out = append(out[:at], append([]event.Item{q.Item}, out[at:]...)...)
	}
	return out
}

// Retry puts a failed event back into the queue; "" is the one that failed last.
func (s *State) Retry(now time.Time, ctl signals.Control) error {
	for i := len(s.Failed) - 1; i >= 0; i-- {
		it := s.Failed[i]
		if ctl.EventID != "" && it.ID != ctl.EventID {
			continue
		}
		s.Failed = append(s.Failed[:i:i], s.Failed[i+1:]...)
		it.Status, it.Error, it.UpdatedAt = event.Pending, "", now
		it.Attempt++
		// Its time may be long over, but somebody wants it now.
		it.TTL = 0
		s.forget(it.ID)
		s.Queue = append(s.Queue, Queued{Item: it})
		s.record(fmt.Sprintf("%s.retried.%d", it.ID, it.Attempt), event.TypeStatus, it.TraceID, it.ID, now,
			event.StatusChange{Status: event.StatusRetried, Detail: it.ID, By: ctl.By})
		return nil
	}
	if ctl.EventID == "" {
		return &event.FieldError{Field: "eventId", Problem: "no event of this thread has failed"}
	}
	return &event.FieldError{Field: "eventId", Problem: fmt.Sprintf("no failed event %q in this thread", ctl.EventID)}
}
