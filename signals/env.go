package signals

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/threadmill/threadmill/event"
)

// EnvPost returns the post of an environment event. Both have the same JSON form, so an event can
// also be sent as the payload of signal "post". It panics if the metadata cannot be marshalled to
// JSON.
func EnvPost(e event.EnvEvent) Post {
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		panic("signals: metadata of an event has no JSON form: " + err.Error())
	}
	return Post{ID: e.ID, Type: e.Type, Payload: e.Payload, Timestamp: e.Timestamp, Metadata: metadata}
}

// IsEnv reports whether the post is an environment event, which rules route, rather than a custom
// event, which only hooks and processors handle. An environment event has a timestamp or metadata.
func (p Post) IsEnv() bool {
	return p.Timestamp != 0 || len(p.Metadata) > 0 && string(p.Metadata) != "null"
}

// NewEventID returns a new id for an environment event: a UUID.
func NewEventID() string { return uuid.NewString() }

// eventIDs is the UUID namespace of derived event ids.
var eventIDs = uuid.MustParse("6f1d3c0e-7f0a-5b58-9d3e-0b2c8a5f4e11")

// EventID derives the id of an environment event from its parts: a UUID that is the same for the
// same parts.
func EventID(parts ...string) string {
	return uuid.NewSHA1(eventIDs, []byte(strings.Join(parts, "\x00"))).String()
}

// TaskEndEventID returns the id of the environment event that tells an agent how its background task
// has ended.
func TaskEndEventID(namespace, taskID string) string { return EventID(namespace, taskID, "ended") }

// readEnv decodes and validates an environment event.
func (p Post) readEnv(threadID string) (*event.EnvEvent, error) {
	e := &event.EnvEvent{ID: p.ID, Type: p.Type, Timestamp: p.Timestamp, Payload: p.Payload}
	if len(p.Metadata) > 0 {
		if err := event.DecodeJSON("metadata", p.Metadata, &e.Metadata); err != nil {
			return nil, err
		}
	}
	if to := e.Metadata.TriggerSessionID; to != "" && to != threadID {
		return nil, event.FieldErrorf("metadata.trigger_session_id", "is %q, but this thread is %q", to, threadID)
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if e.Type == event.TypeUserQuery {
		if q, _ := e.Query(); q.SessionID != "" && q.SessionID != threadID {
			return nil, event.FieldErrorf("payload.sessionId", "is %q, but this thread is %q", q.SessionID, threadID)
		}
	}
	return e, nil
}
