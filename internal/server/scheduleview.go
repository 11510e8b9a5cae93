package server

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// NewSchedule is a schedule as it is created: a [signals.Schedule] with the words that
// describe it in the API.
type NewSchedule struct {
	ID        string            `json:"id,omitempty" maxLength:"128" doc:"1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit. Default: a new ULID"`
	ThreadID  string            `json:"threadId" maxLength:"128" doc:"The thread to which it posts"`
	Cron      []string          `json:"cron,omitempty" maxItems:"20" example:"[\"0 8 * * 1-5\"]" doc:"Expressions of five fields (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly, @monthly, @yearly. Where both days are restricted, both must match"`
	Every     string            `json:"every,omitempty" example:"15m" doc:"An interval of whole seconds, counted from 1970 (UTC)"`
	Offset    string            `json:"offset,omitempty" example:"5m" doc:"Shifts the interval; less than every"`
	Timezone  string            `json:"timezone,omitempty" example:"Europe/Berlin" doc:"Where cron is read, an IANA name. Default: UTC"`
	Jitter    string            `json:"jitter,omitempty" example:"30s" doc:"Delays each run by a random time up to this, at most 24h and never beyond the next run. Default: none"`
	StartAt   *time.Time        `json:"startAt,omitempty" doc:"No run is before this"`
	EndAt     *time.Time        `json:"endAt,omitempty" doc:"No run is after this"`
	Remaining int               `json:"remaining,omitempty" minimum:"0" doc:"How many runs there still are, those by hand apart. Default: 0, no limit"`
	Missed    string            `json:"missed,omitempty" enum:"skip,once,all" doc:"What is made up for after an outage: nothing that is more than a minute late, one run, or all. Default: once"`
	Event     *ScheduledEvent   `json:"event,omitempty" doc:"An environment event, which rules route"`
	Message   *ScheduledMessage `json:"message,omitempty"`
	Open      bool              `json:"open,omitempty" doc:"Open the thread if it is not there"`
	Agents    []string          `json:"agents,omitempty" maxItems:"100" doc:"Who takes part in a thread that it opens. Default: the default agent"`
	Paused    bool              `json:"paused,omitempty" doc:"It runs by hand only"`
	Note      string            `json:"note,omitempty" maxLength:"1000" doc:"For people"`
}

// ScheduledEvent is the environment event of a schedule. Its runs give it an id and a
// timestamp.
type ScheduledEvent struct {
	Type     string                     `json:"type" minLength:"1" maxLength:"128" doc:"Such as day.begun"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty" doc:"trigger_agent_id, trigger_agent_name, env_name, source (default system), and any others; the run adds trigger_session_id, schedule_id and scheduled_at"`
	Payload  json.RawMessage            `json:"payload,omitempty" doc:"Any JSON"`
}

// ScheduledMessage is the message of a schedule.
type ScheduledMessage struct {
	Content    string         `json:"content" minLength:"1"`
	Sender     string         `json:"sender,omitempty" maxLength:"128" doc:"Who says it. Default: schedule"`
	SenderType string         `json:"senderType,omitempty" enum:"user,agent,tool,system" doc:"Default: user"`
	Metadata   map[string]any `json:"metadata,omitempty" doc:"Kept with the message and never shown to a model; the run adds schedule_id and scheduled_at"`
}

// Schedule is a schedule as it stands.
type Schedule struct {
	NewSchedule
	Next           []time.Time   `json:"next" nullable:"false" doc:"The next times, at most ten; of a paused schedule, as if it were not"`
	Done           bool          `json:"done,omitempty" doc:"There are no more times, or no more runs remain. It is forgotten after a week"`
	Recent         []ScheduleRun `json:"recent" nullable:"false" doc:"The last runs, at most ten, the newest last"`
	Runs           int           `json:"runs" doc:"How many have begun"`
	LateRuns       int           `json:"lateRuns,omitempty" doc:"How many were left out because they would have been too late"`
	OverlappedRuns int           `json:"overlappedRuns,omitempty" doc:"How many were left out because another was not done yet"`
	CreatedAt      *time.Time    `json:"createdAt,omitempty"`
	UpdatedAt      *time.Time    `json:"updatedAt,omitempty"`
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
	ScheduledAt time.Time `json:"scheduledAt" doc:"Its time, without jitter, or when it was started by hand"`
	StartedAt   time.Time `json:"startedAt"`
	EventID     string    `json:"eventId" doc:"The id of the event or message that it posts"`
	WorkflowID  string    `json:"workflowId"`
	RunID       string    `json:"runId"`
	Status      string    `json:"status,omitempty" enum:"running,completed,failed,timed_out,canceled,terminated" doc:"Left out in lists, and once Temporal has forgotten the run"`
	Error       string    `json:"error,omitempty" doc:"Why it failed"`
}

// schedule reads the body. The error is an [*event.FieldError].
func (b NewSchedule) schedule() (signals.Schedule, error) {
	s := signals.Schedule{
		ID: b.ID, ThreadID: b.ThreadID, Cron: b.Cron, Timezone: b.Timezone, Remaining: b.Remaining, Missed: signals.Missed(b.Missed),
		Open: b.Open, Agents: b.Agents, Paused: b.Paused, Note: b.Note, StartAt: deref(b.StartAt), EndAt: deref(b.EndAt),
	}
	for _, d := range []struct {
		field, text string
		to          *signals.Duration
	}{{"every", b.Every, &s.Every}, {"offset", b.Offset, &s.Offset}, {"jitter", b.Jitter, &s.Jitter}} {
		if d.text == "" {
			continue
		}
		if err := d.to.UnmarshalText([]byte(d.text)); err != nil {
			return s, &event.FieldError{Field: d.field, Problem: err.Error()}
		}
	}
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
			return s, inEvent(err)
		}
	}
	return s, nil
}

// inEvent says that a mistake in metadata stands in the event of a schedule.
func inEvent(err error) error {
	var field *event.FieldError
	if errors.As(err, &field) {
		return &event.FieldError{Field: "event." + field.Field, Problem: field.Problem}
	}
	return err
}

// scheduleView is the schedule as the API shows it.
func scheduleView(v signals.ScheduleView) Schedule {
	s := v.Schedule
	out := Schedule{
		NewSchedule: NewSchedule{
			ID: s.ID, ThreadID: s.ThreadID, Cron: s.Cron, Every: text(s.Every), Offset: text(s.Offset), Timezone: s.Timezone, Jitter: text(s.Jitter),
			StartAt: ref(s.StartAt), EndAt: ref(s.EndAt), Remaining: s.Remaining, Missed: string(s.Missed),
			Open: s.Open, Agents: s.Agents, Paused: s.Paused, Note: s.Note,
		},
		Next: append([]time.Time{}, v.Next...), Done: v.Done, Recent: make([]ScheduleRun, 0, len(v.Recent)),
		Runs: v.Runs, LateRuns: v.LateRuns, OverlappedRuns: v.OverlappedRuns, CreatedAt: ref(v.CreatedAt), UpdatedAt: ref(v.UpdatedAt),
	}
	for _, run := range v.Recent {
		out.Recent = append(out.Recent, ScheduleRun(run))
	}
	if m := s.Message; m != nil {
		out.Message = &ScheduledMessage{Content: m.Content, Sender: m.SenderID, SenderType: string(m.SenderType), Metadata: m.Metadata}
	}
	if e := s.Event; e != nil {
		out.Event = &ScheduledEvent{Type: e.Type, Payload: e.Payload}
		if string(e.Payload) == "null" {
			out.Event.Payload = nil
		}
		// It has a JSON form, for Temporal has kept it.
		if raw, err := json.Marshal(e.Metadata); err == nil {
			_ = json.Unmarshal(raw, &out.Event.Metadata)
		}
	}
	return out
}

// text is a duration that is left out if there is none.
func text(d signals.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func ref(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
