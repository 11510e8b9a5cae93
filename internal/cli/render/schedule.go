package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/signals"
)

// Schedules returns a table of schedules in the given order. It is empty without schedules.
func Schedules(all []signals.ScheduleView, opts TableOptions) string {
	t := table{head: []string{"STATE", "SCHEDULE", "THREAD", "WHEN", "NEXT", "RUNS", "POSTS"}}
	for _, s := range all {
		next := ""
		if len(s.Next) > 0 && !s.Paused {
			next = opts.time(s.Next[0])
		}
		t.row(scheduleState(s), visible(s.ID), visible(s.ThreadID), visible(when(s.Schedule)), next, fmt.Sprint(s.Runs),
			opts.shorten(visible(posts(s.Schedule)), 60))
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
	case s.Failing != nil:
		return "failing"
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
func Schedule(s signals.ScheduleView, opts TableOptions) string {
	var f fields
	f.add("schedule", s.ID)
	f.add("state", scheduleState(s))
	f.add("note", s.Note)
	f.add("thread", s.ThreadID)
	if s.Open {
		f.add("open", opening(s.Agents))
		f.add("title", s.Title)
	}
	f.add("when", when(s.Schedule))
	if s.Jitter != 0 {
		f.add("jitter", "up to "+s.Jitter.String())
	}
	f.add("from", opts.time(s.StartAt))
	f.add("until", opts.time(s.EndAt))
	if s.Remaining > 0 {
		f.add("remaining", fmt.Sprint(s.Remaining))
	}
	f.add("missed", string(s.Missed))
	f.add("posts", posts(s.Schedule))
	f.add("runs", runCounts(s))
	f.add("created", opts.time(s.CreatedAt))
	f.add("updated", opts.time(s.UpdatedAt))
	if s.Event != nil {
		f.addJSON("payload", s.Event.Payload)
	}
	f.addJSON("metadata", metadataOf(s.Schedule))
	if len(s.Next) > 0 {
		f.WriteString("next\n")
		for _, t := range s.Next {
			fmt.Fprintf(&f, "  %s\n", opts.time(t))
		}
	}
	if len(s.Recent) > 0 {
		f.WriteString("recent\n")
		for _, r := range s.Recent {
			fmt.Fprintf(&f, "  %s\n", strings.TrimRight(fmt.Sprintf("%s  %-10s  %s  %s", opts.time(r.ScheduledAt), visible(r.Status), visible(r.EventID), visible(r.Error)), " "))
		}
	}
	return f.String()
}

// opening describes how a schedule opens its thread.
func opening(agents []string) string {
	return "if the thread does not exist" + suffix(", with ", strings.Join(agents, ", "))
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
