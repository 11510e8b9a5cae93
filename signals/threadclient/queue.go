package threadclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// UnknownEventError means that a thread does not know an event: it was never posted, or it was
// processed long ago. It wraps [signals.ErrEventNotFound].
type UnknownEventError struct {
	ThreadID string

	// EventID is empty if the last failed event was requested and no event has failed.
	EventID string
}

func (e *UnknownEventError) Error() string {
	if e.EventID == "" {
		return fmt.Sprintf("no event of thread %q has failed", e.ThreadID)
	}
	return fmt.Sprintf("thread %q does not know event %.128q: of those that have ended it keeps the last few; "+
		"what has ended before is in its records", e.ThreadID, e.EventID)
}

// Unwrap returns signals.ErrEventNotFound.
func (e *UnknownEventError) Unwrap() error { return signals.ErrEventNotFound }

// Prepare completes and validates a post: it sets a missing id, and the thread of a message. The
// error is that of [signals.Post.Validate]. A caller that sends signal "post" without a [Client] should
// use it, since the thread cannot answer.
func Prepare(threadID string, p *signals.Post) error {
	err := check(threadID, p)
	if err == nil || signals.ValidateID("threadId", threadID) != nil || p.Type != "" && p.Type != event.TypeMessage {
		return err
	}
	// The message may only lack the thread.
	p.Payload = addressed(threadID, p.Payload)
	return p.Validate(threadID)
}

// check sets a missing id and validates a post, which the thread would reject without telling the sender of a signal.
func check(threadID string, p *signals.Post) error {
	if err := signals.ValidateID("threadId", threadID); err != nil {
		return err
	}
	if err := named(p); err != nil {
		return err
	}
	return p.Validate(threadID)
}

// named gives a post an id if it has none, and validates it.
func named(p *signals.Post) error {
	if p.ID == "" {
		p.ID = signals.NewID()
	}
	return signals.ValidateEventID("id", p.ID)
}

// addressed sets the thread in the payload of a message without one. It does not change other
// payloads.
func addressed(threadID string, payload json.RawMessage) json.RawMessage {
	if bytes.Equal(bytes.TrimSpace(payload), []byte("null")) {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || fields["threadId"] != nil {
		return payload
	}
	id, err := json.Marshal(threadID)
	if err != nil {
		return payload
	}
	fields["threadId"] = id
	whole, err := json.Marshal(fields)
	if err != nil {
		return payload
	}
	return whole
}

// Queue returns the queue of a thread: the event that is being processed, the waiting events in
// order, failed events and the last ones that ended. [Client.Post] adds events.
func (c *Client) Queue(ctx context.Context, threadID string) (signals.Queue, error) {
	out, err := query[signals.Queue](ctx, c, threadID, signals.QueryQueue)
	if err != nil {
		return out, err
	}
	for _, items := range []*[]event.Item{&out.Items, &out.Failed, &out.Ended} {
		if *items == nil {
			*items = []event.Item{} // a list in JSON too
		}
	}
	return out, nil
}

// Item returns one event of a thread's queue, whatever its status. The error is an
// [*UnknownEventError] if the thread does not know the event.
func (c *Client) Item(ctx context.Context, threadID, eventID string) (event.Item, error) {
	q, err := c.Queue(ctx, threadID)
	if err != nil {
		return event.Item{}, err
	}
	item, known := q.Find(eventID)
	if !known {
		return item, &UnknownEventError{ThreadID: threadID, EventID: eventID}
	}
	return item, nil
}

// Processing returns the event that a thread is processing. ok is false if there is none.
func (c *Client) Processing(ctx context.Context, threadID string) (event.Item, bool, error) {
	q, err := c.Queue(ctx, threadID)
	if err != nil || q.Processing == nil {
		return event.Item{}, false, err
	}
	return *q.Processing, true, nil
}

// Next returns the event that a thread will process next: the oldest of the waiting events with the
// highest priority whose TTL is not over. ok is false if there is none.
func (c *Client) Next(ctx context.Context, threadID string) (event.Item, bool, error) {
	q, err := c.Queue(ctx, threadID)
	it, ok := q.Next(time.Now())
	return it, ok, err
}

// SetStatus changes the status of a queued event by hand, and returns the changed event: see
// [signals.SetStatus]. The error wraps [signals.ErrRefused] if the thread does not know the event
// or the change is impossible.
func (c *Client) SetStatus(ctx context.Context, threadID string, s signals.SetStatus) (event.Item, error) {
	var out signals.SetStatusResult
	err := c.update(ctx, threadID, signals.UpdateSetStatus, s, &out)
	return out.Item, err
}

// Retry queues a failed event again, or the one that failed last if eventID is empty, and returns
// the event. by is the person who retries; it is required. The error is an [*UnknownEventError] if
// the thread does not know the event or none has failed, and wraps [signals.ErrRefused] if the
// event has not failed.
func (c *Client) Retry(ctx context.Context, threadID, eventID, by string) (event.Item, error) {
	q, err := c.Queue(ctx, threadID)
	if err != nil {
		return event.Item{}, err
	}
	if eventID == "" && len(q.Failed) > 0 {
		eventID = q.Failed[len(q.Failed)-1].ID
	}
	item, known := q.Find(eventID)
	switch {
	case !known:
		return item, &UnknownEventError{ThreadID: threadID, EventID: eventID}
	case item.Status != event.ItemFailed:
		// Setting an event in progress to pending would interrupt it.
		return item, fmt.Errorf("retrying event %q of thread %q: %w: it is %s, and only a failed event is retried",
			eventID, threadID, signals.ErrRefused, item.Status)
	}
	return c.SetStatus(ctx, threadID, signals.SetStatus{EventID: eventID, Status: event.ItemPending, By: by})
}
