package signals

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Metadata keys that identify the run that posted an event or message.
const (
	MetadataScheduleID  = "schedule_id"
	MetadataScheduledAt = "scheduled_at"
)

// ScheduleSender is the default sender of a schedule's message.
const ScheduleSender = "schedule"

// Delivery is the post of a run: the input of activity "deliver", whose result is a [PostResult].
type Delivery struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`
	Post      Post   `json:"post"`

	// Open opens the thread with these agents and this title if it does not exist.
	Open   bool     `json:"open,omitempty"`
	Agents []string `json:"agents,omitempty"`
	Title  string   `json:"title,omitempty"`
}

// Delivery returns the post of a run of the schedule. It reports the first invalid field as a
// [*event.FieldError].
func (s Schedule) Delivery(r ScheduledRun) (Delivery, error) {
	d := Delivery{Namespace: r.Namespace, ThreadID: s.ThreadID, Open: s.Open, Agents: s.Agents, Title: s.Title}
	if err := ValidateID("threadId", s.ThreadID); err != nil {
		return d, err
	}
	var err error
	switch {
	case s.Event != nil && s.Message != nil:
		return d, event.FieldErrorf("event", "and message exclude each other: a schedule posts one of them")
	case s.Event != nil:
		d.Post, err = s.eventPost(r)
	case s.Message != nil:
		d.Post, err = s.messagePost(r)
	default:
		return d, event.FieldErrorf("event", "or message is required: what the schedule posts")
	}
	return d, err
}

// eventPost returns the post of the schedule's event for a run.
func (s Schedule) eventPost(r ScheduledRun) (Post, error) {
	e := *s.Event
	switch {
	case e.ID != "":
		return Post{}, event.FieldErrorf("event.id", "is set by each run: omit it")
	case e.Timestamp != 0:
		return Post{}, event.FieldErrorf("event.timestamp", "is set by each run: omit it")
	}
	if err := e.Validate(); err != nil {
		return Post{}, within("event", err) // a post without a type would be a message
	}
	e.ID, e.Timestamp = r.EventID(), r.At.UnixMilli()
	if e.Metadata.TriggerSessionID == "" {
		e.Metadata.TriggerSessionID = s.ThreadID
	}
	if e.Metadata.Source == "" {
		e.Metadata.Source = event.SourceSystem
	}
	extra := maps.Clone(e.Metadata.Extra)
	if extra == nil {
		extra = map[string]json.RawMessage{}
	}
	for _, m := range runMetadata(r) {
		if _, taken := extra[m.key]; taken {
			return Post{}, event.FieldErrorf("event.metadata."+m.key, "is set by each run: omit it")
		}
		extra[m.key] = json.RawMessage(`"` + m.value + `"`)
	}
	e.Metadata.Extra = extra
	if _, err := json.Marshal(e.Metadata); err != nil {
		return Post{}, event.FieldErrorf("event.metadata", "has no JSON form: %s", err)
	}
	p := EnvPost(e)
	return p, within("event", p.Validate(s.ThreadID))
}

// messagePost returns the post of the schedule's message for a run.
func (s Schedule) messagePost(r ScheduledRun) (Post, error) {
	m := *s.Message
	m.ThreadID, m.SenderID = cmp.Or(m.ThreadID, s.ThreadID), cmp.Or(m.SenderID, ScheduleSender)
	m.SenderType = cmp.Or(m.SenderType, event.CreatedByUser)
	metadata := maps.Clone(m.Metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, m := range runMetadata(r) {
		if _, taken := metadata[m.key]; taken {
			return Post{}, event.FieldErrorf("message.metadata."+m.key, "is set by each run: omit it")
		}
		metadata[m.key] = m.value
	}
	m.Metadata = metadata
	if _, err := json.Marshal(m); err != nil {
		return Post{}, event.FieldErrorf("message.metadata", "has no JSON form: %s", err)
	}
	p := NewPost(r.EventID(), m)
	return p, within("message", p.Validate(s.ThreadID))
}

// pair is a metadata key and its value.
type pair struct{ key, value string }

// runMetadata returns the metadata that identifies a run. Ids and times need no escaping in JSON.
func runMetadata(r ScheduledRun) []pair {
	return []pair{{MetadataScheduleID, r.ScheduleID}, {MetadataScheduledAt, r.At.Format(runTime)}}
}

// within prefixes the field of an error with its place in the schedule.
func within(part string, err error) error {
	field, ok := errors.AsType[*event.FieldError](err)
	if !ok {
		return err
	}
	name := field.Field
	if part == "message" { // the payload is the message itself
		name = strings.TrimPrefix(strings.TrimPrefix(name, "payload"), ".")
	}
	if name != "" {
		part += "." + name
	}
	return event.FieldErrorf(part, "%s", field.Problem)
}
