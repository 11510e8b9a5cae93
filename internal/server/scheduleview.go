package server

import (
	"encoding/json"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// NewSchedule is a [signals.Schedule] whose event and message have the form of the API.
type NewSchedule struct {
	signals.Schedule
	Event   *ScheduledEvent   `json:"event,omitempty" doc:"An environment event, which rules route"`
	Message *ScheduledMessage `json:"message,omitempty" doc:"The message that each run posts. Either message or event is required"`
}

// Schedule is a [signals.ScheduleView] with an event and a message as in [NewSchedule].
type Schedule struct {
	signals.ScheduleView
	Event   *ScheduledEvent   `json:"event,omitempty" doc:"An environment event, which rules route"`
	Message *ScheduledMessage `json:"message,omitempty" doc:"The message that each run posts. Either message or event is required"`
	Version int               `json:"version,omitempty" doc:"Its version, for ifVersion. Left out in lists"`
}

// ScheduleVersion is a version of a schedule.
type ScheduleVersion struct {
	Version    int          `json:"version" doc:"Counts the definitions, from 1"`
	Deleted    bool         `json:"deleted,omitempty" doc:"The schedule was deleted with this version"`
	By         string       `json:"by,omitempty" doc:"Who stored it. Left out if it was not stored through the API"`
	At         time.Time    `json:"at,omitzero" doc:"When it was stored. Left out of a schedule that was not deleted through the API"`
	Definition *NewSchedule `json:"definition,omitempty" doc:"The schedule without paused, note and remaining. Left out if this version deleted it"`
}

// ScheduledEvent is the environment event of a schedule. Each run adds an id and a timestamp.
type ScheduledEvent struct {
	Type     string                     `json:"type" minLength:"1" maxLength:"128" doc:"Such as day.begun"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" doc:"trigger_agent_id, trigger_agent_name, env_name, source (default system), and any others; the run adds trigger_session_id, schedule_id and scheduled_at"`
	Payload  json.RawMessage            `json:"payload,omitempty" doc:"Any JSON"`
}

// ScheduledMessage is the message of a schedule.
type ScheduledMessage struct {
	Content    string         `json:"content" minLength:"1" doc:"The text"`
	Sender     string         `json:"sender,omitempty" doc:"The sender. Default: schedule"`
	SenderType string         `json:"senderType,omitempty" enum:"user,agent,tool,system" doc:"Default: user. The others need the role send-as"`
	Metadata   event.Metadata `json:"metadata,omitempty" doc:"Kept with the message and never shown to a model; the run adds schedule_id and scheduled_at"`
}

// schedule converts the body. The error is an [*event.FieldError].
func (b NewSchedule) schedule() (signals.Schedule, error) {
	s := b.Schedule
	if m := b.Message; m != nil {
		s.Message = &event.NewMessage{SenderID: m.Sender, SenderType: event.CreatedBy(m.SenderType), Content: m.Content, Metadata: m.Metadata}
	}
	if e := b.Event; e != nil {
		s.Event = &event.EnvEvent{Type: e.Type, Payload: e.Payload}
		raw, err := json.Marshal(e.Metadata)
		if err == nil {
			err = json.Unmarshal(raw, &s.Event.Metadata)
		}
		if err != nil {
			return s, event.WithinField("event", err)
		}
	}
	return s, nil
}

// scheduleView converts a schedule to the form of the API.
func scheduleView(v signals.ScheduleView) Schedule {
	v.Next, v.Recent = nonNil(v.Next), nonNil(v.Recent)
	d := definitionView(v.Schedule)
	return Schedule{ScheduleView: v, Event: d.Event, Message: d.Message}
}

// definitionView converts the definition of a schedule to the form of the API.
func definitionView(s signals.Schedule) NewSchedule {
	out := NewSchedule{Schedule: s}
	if m := s.Message; m != nil {
		out.Message = &ScheduledMessage{Content: m.Content, Sender: m.SenderID, SenderType: string(m.SenderType), Metadata: m.Metadata}
	}
	if e := s.Event; e != nil {
		out.Event = &ScheduledEvent{Type: e.Type, Payload: e.Payload}
		if string(e.Payload) == "null" {
			out.Event.Payload = nil
		}
		// The metadata has a JSON form, since Temporal has stored it.
		if raw, err := json.Marshal(e.Metadata); err == nil {
			_ = json.Unmarshal(raw, &out.Event.Metadata)
		}
	}
	return out
}
