package render

import (
	"strings"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Threads returns a table of threads in the given order. It is empty without threads. The column
// for parents appears if a thread has one.
func Threads(all []threadclient.Summary, opts TableOptions) string {
	t := table{head: []string{"THREAD", "PARENT", "STATUS", "STARTED", "AGENTS", "TITLE"}, rare: []string{"PARENT"}}
	for _, s := range all {
		status := s.Status
		if s.Waiting {
			status = signals.StatusWaitingApproval
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
