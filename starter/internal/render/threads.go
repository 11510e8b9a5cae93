package render

import (
	"strings"
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// ThreadOptions configure the output of threads.
type ThreadOptions struct {
	// Width is the number of characters of a title in a table. Default 80.
	Width int

	// Location is the time zone of times. Default: local.
	Location *time.Location
}

// Threads returns a table of threads in the given order. It is empty without threads. The column
// for parents appears if a thread has one.
func Threads(all []threadclient.Summary, opts ThreadOptions) string {
	if opts.Width == 0 {
		opts.Width = 80
	}
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
		t.row(visible(s.ThreadID), visible(s.Parent), visible(status), QueueOptions{Location: opts.Location}.time(s.StartTime),
			visible(agents), shorten(oneLine(s.Title), opts.Width))
	}
	return t.String()
}
