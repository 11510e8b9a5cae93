package threadclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// PublishOptions are options of [Client.Publish].
type PublishOptions struct {
	// Open opens the thread with Start if it does not exist.
	Open  bool
	Start signals.Start
}

// PublishResult is the result of [Client.Publish].
type PublishResult struct {
	// The id of the event: the given one, or a new one.
	EventID string `json:"eventId"`

	// The thread that the event is for, if it names one.
	ThreadID string `json:"threadId,omitempty"`

	// duplicate: the thread already has this id; ignored: warning says why.
	Status string `json:"status" enum:"queued,duplicate,ignored"`

	// Why the event is ignored.
	Warning string `json:"warning,omitempty"`
}

// PublishIgnored is the status of an event that has no open thread. The others are those of
// [signals.PostResult].
const PublishIgnored = "ignored"

// Publish posts an environment event to a thread: to threadID or, if that is empty, to the thread
// in the event's trigger_session_id. Defaults: the id is a new UUID, the timestamp is now,
// metadata.trigger_session_id is the thread, and metadata.source is "env", or "user" for a user_query.
//
// An event without threadID is ignored if its thread does not exist, is closed or was erased: see
// [PublishIgnored]. With threadID, the error wraps [signals.ErrThreadNotFound],
// [signals.ErrThreadClosed] or [signals.ErrThreadErased].
func (c *Client) Publish(ctx context.Context, threadID string, e event.EnvEvent, o PublishOptions) (PublishResult, error) {
	routed := threadID == ""
	if routed {
		threadID = e.Metadata.TriggerSessionID
	}
	post, err := eventPost(threadID, routed, e)
	out := PublishResult{EventID: post.ID, ThreadID: threadID}
	if err != nil {
		return out, err
	}
	if threadID == "" {
		out.Status, out.Warning = PublishIgnored, "No trigger_session_id in the metadata of event "+post.ID
		return out, nil
	}
	out.Status, err = c.publish(ctx, threadID, post, o)
	if !routed {
		return out, err
	}
	var state string
	switch {
	case errors.Is(err, signals.ErrThreadNotFound):
		state = "is not there"
	case errors.Is(err, signals.ErrThreadClosed):
		state = "is closed"
	case errors.Is(err, signals.ErrThreadErased):
		state = "was erased"
	default:
		return out, err
	}
	out.Status = PublishIgnored
	out.Warning = fmt.Sprintf("Thread %q, which trigger_session_id in the metadata of event %s names, %s", threadID, post.ID, state)
	return out, nil
}

func (c *Client) publish(ctx context.Context, threadID string, p signals.Post, o PublishOptions) (status string, err error) {
	if o.Open {
		result, err := c.PostOrOpen(ctx, threadID, o.Start, p)
		return result.Status, err
	}
	result, err := c.Post(ctx, threadID, p)
	return result.Status, err
}

// eventPost returns the post of an event with its defaults, after validation. routed reports whether the event itself
// names the thread.
func eventPost(threadID string, routed bool, e event.EnvEvent) (signals.Post, error) {
	if e.ID == "" {
		e.ID = signals.NewEventID()
	}
	e.Timestamp = cmp.Or(e.Timestamp, time.Now().UnixMilli())
	e.Metadata.TriggerSessionID = cmp.Or(e.Metadata.TriggerSessionID, threadID)
	source := event.SourceEnv
	if e.Type == event.TypeUserQuery {
		source = event.SourceUser
	}
	e.Metadata.Source = cmp.Or(e.Metadata.Source, source)
	field := "threadId"
	if routed {
		field = "metadata.trigger_session_id"
	}
	if threadID != "" || !routed {
		if err := signals.ValidateID(field, threadID); err != nil {
			return signals.Post{ID: e.ID}, err
		}
	}
	if _, err := json.Marshal(e.Metadata); err != nil {
		return signals.Post{ID: e.ID}, event.FieldErrorf("metadata", "has a value that is not JSON")
	}
	if err := e.Validate(); err != nil {
		return signals.Post{ID: e.ID}, err
	}
	post := signals.EnvPost(e)
	return post, post.Validate(threadID)
}
