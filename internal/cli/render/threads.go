package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// Thread is a row of the table of threads.
type Thread struct {
	threadclient.Summary

	// Activity and Preview are those of the API. They are empty if it does not answer.
	Activity store.Activity `json:"activity,omitempty"`
	Preview  string         `json:"preview,omitempty"`
}

// Threads returns a table of threads in the given order. It is empty without threads. The column
// for parents appears if a thread has one. A thread without a title has its preview instead.
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
			visible(agents), opts.shorten(oneLine(cmp.Or(s.Title, s.Preview)), 80))
	}
	return t.String()
}

// Counts returns the numbers of threads, each with its name.
func Counts(c store.ThreadCounts) string {
	var b strings.Builder
	for _, one := range []struct {
		name  string
		count int
	}{
		{"open", c.Open}, {"  waiting", c.Waiting}, {"  failing", c.Failing}, {"  running", c.Running}, {"  unanswered", c.Unanswered}, {"  idle", c.Idle}, {"closed", c.Closed},
	} {
		fmt.Fprintf(&b, "%-12s %d\n", one.name, one.count)
	}
	return b.String()
}
