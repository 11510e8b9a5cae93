package render

import (
	"strings"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// Thread is a row of the table of threads.
type Thread struct {
	threadclient.Summary

	// Activity is failing or unanswered, if the thread is, as the API knows.
	Activity store.Activity `json:"activity,omitempty"`
}

// Threads returns a table of threads in the given order. It is empty without threads. The column
// for parents appears if a thread has one.
func Threads(all []Thread, opts TableOptions) string {
	t := table{head: []string{"THREAD", "PARENT", "STATUS", "STARTED", "AGENTS", "TITLE"}, rare: []string{"PARENT"}}
	for _, s := range all {
		status := s.Status
		switch {
		case s.Waiting:
			status = signals.StatusWaitingApproval
		case status != signals.StatusOpen:
		case s.Activity == store.ActivityFailing:
			status = "failed"
		case s.Activity == store.ActivityUnanswered:
			status = "unanswered"
		}
		agents := "(default)"
		if len(s.Agents) > 0 {
			agents = strings.Join(s.Agents, ",")
		}
		t.row(visible(s.ThreadID), visible(s.Parent), visible(status), opts.time(s.StartTime),
			visible(agents), opts.shorten(oneLine(s.Title), 80))
	}
	return t.String()
}
