package signals

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/threadmill/threadmill/event"
)

// EnvPost makes the post of an environment event. The JSON forms of both are the same:
// an event that is sent to a thread as signal "post" as it is has the same effect.
func EnvPost(e event.EnvEvent) Post {
	metadata, err := json.Marshal(e.Metadata)
	if err != nil {
		panic("signals: metadata of an event has no JSON form: " + err.Error())
	}
	return Post{ID: e.ID, Type: e.Type, Payload: e.Payload, Timestamp: e.Timestamp, Metadata: metadata}
}

// IsEnv reports whether the post is an environment event, which rules route, and not a
// custom event, which only hooks and processors see: it has a timestamp or metadata.
func (p Post) IsEnv() bool {
	return p.Timestamp != 0 || len(p.Metadata) > 0 && string(p.Metadata) != "null"
}

// NewEventID returns a new id for an environment event: a UUID.
func NewEventID() string { return uuid.NewString() }

// eventIDs is the UUID namespace of ids that are derived.
var eventIDs = uuid.MustParse("6f1d3c0e-7f0a-5b58-9d3e-0b2c8a5f4e11")

// EventID derives the id of an environment event from what it is about: a UUID, the same
// for the same parts.
func EventID(parts ...string) string {
	return uuid.NewSHA1(eventIDs, []byte(strings.Join(parts, "\x00"))).String()
}

// checkEnv reports why a thread refuses an environment event.
func checkEnv(threadID string, p Post) error {
	e := event.EnvEvent{ID: p.ID, Type: p.Type, Timestamp: p.Timestamp, Payload: p.Payload}
	if len(p.Metadata) > 0 {
		if err := event.DecodeJSON("metadata", p.Metadata, &e.Metadata); err != nil {
			return err
		}
	}
	if to := e.Metadata.TriggerSessionID; to != "" && to != threadID {
		return fieldErrorf("metadata.trigger_session_id", "is %q, but this thread is %q", to, threadID)
	}
	if err := e.Validate(); err != nil {
		return err
	}
	if e.Type == event.TypeUserQuery {
		if q, _ := e.Query(); q.SessionID != "" && q.SessionID != threadID {
			return fieldErrorf("payload.sessionId", "is %q, but this thread is %q", q.SessionID, threadID)
		}
	}
	return nil
}
