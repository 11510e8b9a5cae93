package event

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// TypeEnv is the type of the records of environment events. The [EnvEvent] itself keeps its own
// type.
const TypeEnv = "env"

// The types of environment events that Threadmill handles itself. Applications may publish any
// other type, such as "file.changed" or "github.push".
const (
	TypeUserQuery               = "user_query"
	TypeSessionCreated          = "session.created"
	TypeSessionUpdated          = "session.updated"
	TypeSessionDeleted          = "session.deleted"
	TypeBackgroundTaskCompleted = "background_task.completed"
	TypeBackgroundTaskFailed    = "background_task.failed"
	TypeToolExecuted            = "tool.executed"
	TypeToolError               = "tool.error"
	TypeStreamStart             = "stream.start"
	TypeStreamText              = "stream.text"
	TypeStreamCompleted         = "stream.completed"
	TypeStreamError             = "stream.error"
)

// Further types of environment events.
const (
	// TypeBackgroundTaskProgress is live only: it is never stored and starts no turn.
	TypeBackgroundTaskProgress = "background_task.progress"

	TypeStreamReasoning = "stream.reasoning"
	TypeStreamToolCall  = "stream.tool_call"
)

// EnvEvent is an environment event: something that happened outside the thread. Rules decide what
// the thread does with it.
type EnvEvent struct {
	// Idempotency key, by convention a UUID: publishing a known id changes nothing.
	ID string `json:"id"`

	// What has happened.
	Type string `json:"type"`

	// When it happened, in milliseconds since 1970 (UTC); of a live event, when it is sent.
	Timestamp int64 `json:"timestamp"`

	// trigger_session_id, trigger_agent_id, trigger_agent_name, env_name, source, and any other keys.
	Metadata EnvMetadata `json:"metadata"`

	// Any JSON.
	Payload json.RawMessage `json:"payload"`
}

// Source is the kind of system that an environment event comes from.
type Source string

// The sources.
const (
	SourceTool   Source = "tool"
	SourceEnv    Source = "env"
	SourceUser   Source = "user"
	SourceSystem Source = "system"
	SourceLLM    Source = "llm"
)

// Valid reports whether s is one of the sources.
func (s Source) Valid() bool {
	return slices.Contains([]Source{SourceTool, SourceEnv, SourceUser, SourceSystem, SourceLLM}, s)
}

// EnvMetadata describes the origin of an environment event. All fields are optional.
type EnvMetadata struct {
	// TriggerSessionID is the id of the thread that the event is for.
	TriggerSessionID string

	// TriggerAgentID and TriggerAgentName identify the agent that the event is for or that caused
	// it.
	TriggerAgentID   string
	TriggerAgentName string

	// EnvName is the name of the environment, and Source its kind.
	EnvName string
	Source  Source

	// Extra contains all other keys, unchanged.
	Extra map[string]json.RawMessage
}

// known maps the JSON keys that have a field to that field.
func (m *EnvMetadata) known() map[string]*string {
	return map[string]*string{
		"trigger_session_id": &m.TriggerSessionID, "trigger_agent_id": &m.TriggerAgentID,
		"trigger_agent_name": &m.TriggerAgentName, "env_name": &m.EnvName, "source": (*string)(&m.Source),
	}
}

// MarshalJSON writes the fields that are set and the extra keys as one object.
func (m EnvMetadata) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for key, raw := range m.Extra {
		out[key] = raw
	}
	for key, field := range m.known() {
		if *field != "" {
			out[key] = *field
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON stores unknown keys in Extra.
func (m *EnvMetadata) UnmarshalJSON(data []byte) error {
	*m = EnvMetadata{}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(data, &in); err != nil {
		return FieldErrorf("metadata", "is not a JSON object")
	}
	fields := m.known()
	for _, key := range slices.Sorted(maps.Keys(in)) {
		field, ok := fields[key]
		for exact := range fields {
			if !ok && strings.EqualFold(exact, key) {
				return FieldErrorf("metadata."+key, "%s", "is not "+exact+": upper and lower case matter")
			}
		}
		if !ok {
			if m.Extra == nil {
				m.Extra = map[string]json.RawMessage{}
			}
			m.Extra[key] = in[key]
			continue
		}
		if err := json.Unmarshal(in[key], field); err != nil {
			return FieldErrorf("metadata."+key, "must be text")
		}
	}
	return nil
}

// Time returns the time of the event in UTC.
func (e EnvEvent) Time() time.Time { return time.UnixMilli(e.Timestamp).UTC() }

// EventType returns the event's own type.
func (e EnvEvent) EventType() string { return e.Type }

func (EnvEvent) sealed() {}

// Bounds of a timestamp, in milliseconds: years 1 to 9999.
const (
	minTimestamp = -62135596800000
	maxTimestamp = 253402300799999
)

// Validate reports the first invalid field as a [*FieldError]. It does not check the id.
func (e EnvEvent) Validate() error {
	switch {
	case e.Type == "":
		return FieldErrorf("type", "is required: what has happened, such as file.changed")
	case e.Type == TypeMessage || Reserved(e.Type):
		return FieldErrorf("type", "%q is not a type of environment event", e.Type)
	case e.Type == TypeBackgroundTaskProgress:
		return FieldErrorf("type", "background_task.progress is live only, and comes from a running task's reports: use POST /v1/tasks/{id}/progress")
	case e.Timestamp < minTimestamp || e.Timestamp > maxTimestamp:
		return FieldErrorf("timestamp", "must be milliseconds since 1970")
	case e.Metadata.Source != "" && !e.Metadata.Source.Valid():
		return FieldErrorf("metadata.source", "%q is not one of tool, env, user, system, llm", e.Metadata.Source)
	case e.Type == TypeUserQuery:
		_, err := e.Query()
		return err
	case len(e.Payload) > 0:
		return ValidateJSON("payload", e.Payload)
	}
	return nil
}

// UserQuery is the payload of a user_query event.
type UserQuery struct {
	// SessionID is the id of the thread. Optional.
	SessionID string `json:"sessionId"`
	Content   string `json:"content"`

	// UserID is the sender of the query. Default "user".
	UserID string `json:"userId,omitempty"`
}

// Query decodes the payload of a user_query event.
func (e EnvEvent) Query() (UserQuery, error) {
	var q UserQuery
	if err := DecodeJSON("payload", e.Payload, &q); err != nil {
		return q, err
	}
	if Blank(q.Content) {
		return q, FieldErrorf("payload.content", "is required")
	}
	if q.UserID == "" {
		q.UserID = string(CreatedByUser)
	}
	return q, ValidateName("payload.userId", q.UserID)
}
