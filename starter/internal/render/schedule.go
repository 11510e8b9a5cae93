package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/signals"
)

// ScheduleOptions configure the output of schedules.
type ScheduleOptions struct {
	// Width is the number of characters of a schedule's post in a table. Default 60.
	Width int

	// Location is the time zone of times. Default: local.
	Location *time.Location
}

func (o ScheduleOptions) time(at time.Time) string {
	return QueueOptions{Location: o.Location}.time(at)
}

// Schedules returns a table of schedules in the given order. It is empty without schedules.
func Schedules(all []signals.ScheduleView, opts ScheduleOptions) string {
	if opts.Width == 0 {
		opts.Width = 60
	}
	t := table{head: []string{"STATE", "SCHEDULE", "THREAD", "WHEN", "NEXT", "RUNS", "POSTS"}}
	for _, s := range all {
		next := "-"
		if len(s.Next) > 0 && !s.Paused {
			next = opts.time(s.Next[0])
		}
		t.row(scheduleState(s), visible(s.ID), visible(s.ThreadID), visible(when(s.Schedule)), next, fmt.Sprint(s.Runs),
			shorten(visible(posts(s.Schedule)), opts.Width))
	}
	return t.String()
}

// scheduleState returns the state of a schedule.
func scheduleState(s signals.ScheduleView) string {
	switch {
	case s.Done:
		return "done"
	case s.Paused:
		return "paused"
	}
	return "active"
}

// when returns the times of a schedule on one line.
func when(s signals.Schedule) string {
	var parts []string
	if s.Every != 0 {
		every := "every " + s.Every.String()
		if s.Offset != 0 {
			every += " + " + s.Offset.String()
		}
		parts = append(parts, every)
	}
	if len(s.Cron) > 0 {
		parts = append(parts, strings.Join(s.Cron, ", ")+" "+s.Timezone)
	}
	return strings.Join(parts, ", ")
}

// posts returns the post of a schedule on one line.
func posts(s signals.Schedule) string {
	switch {
	case s.Message != nil:
		return "message: " + s.Message.Content
	case s.Event != nil:
		return "event: " + s.Event.Type
	}
	return ""
}

// Schedule returns all fields of a schedule.
func Schedule(s signals.ScheduleView, opts ScheduleOptions) string {
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "%-9s %s\n", name, visible(value))
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			line(name, opts.time(t))
		}
	}
	line("schedule", s.ID)
	line("state", scheduleState(s))
	line("note", s.Note)
	line("thread", s.ThreadID)
	if s.Open {
		line("open", opening(s.Agents))
	}
	line("when", when(s.Schedule))
	if s.Jitter != 0 {
		line("jitter", "up to "+s.Jitter.String())
	}
	at("from", s.StartAt)
	at("until", s.EndAt)
	if s.Remaining > 0 {
		line("remaining", fmt.Sprint(s.Remaining))
	}
	line("missed", string(s.Missed))
	line("posts", posts(s.Schedule))
	line("runs", runCounts(s))
	at("created", s.CreatedAt)
	at("updated", s.UpdatedAt)
	if s.Event != nil && len(s.Event.Payload) > 0 && string(s.Event.Payload) != "null" {
		out.WriteString("payload\n" + indented(s.Event.Payload))
	}
	if metadata := metadataOf(s.Schedule); metadata != nil {
		out.WriteString("metadata\n" + indented(metadata))
	}
	if len(s.Next) > 0 {
		out.WriteString("next\n")
		for _, t := range s.Next {
			fmt.Fprintf(&out, "  %s\n", opts.time(t))
		}
	}
	if len(s.Recent) > 0 {
		out.WriteString("recent\n")
		for _, r := range s.Recent {
			fmt.Fprintf(&out, "  %s\n", strings.TrimRight(fmt.Sprintf("%s  %-10s  %s  %s", opts.time(r.ScheduledAt), visible(r.Status), visible(r.EventID), visible(r.Error)), " "))
		}
	}
	return out.String()
}

// opening describes how a schedule opens its thread.
func opening(agents []string) string {
	if len(agents) == 0 {
		return "if the thread does not exist"
	}
	return "if the thread does not exist, with " + strings.Join(agents, ", ")
}

// runCounts describes the started and the missed runs.
func runCounts(s signals.ScheduleView) string {
	counts := fmt.Sprint(s.Runs)
	if s.LateRuns > 0 {
		counts += fmt.Sprintf(", %d left out as too late", s.LateRuns)
	}
	if s.OverlappedRuns > 0 {
		counts += fmt.Sprintf(", %d left out while another was not done", s.OverlappedRuns)
	}
	return counts
}

// metadataOf returns the metadata of a schedule's post, or nil.
func metadataOf(s signals.Schedule) json.RawMessage {
	var metadata any
	switch {
	case s.Message != nil && len(s.Message.Metadata) > 0:
		metadata = s.Message.Metadata
	case s.Event != nil:
		metadata = s.Event.Metadata
	default:
		return nil
	}
	raw, err := json.Marshal(metadata)
	if err != nil || bytes.Equal(raw, []byte("{}")) {
		return nil
	}
	return raw
}
