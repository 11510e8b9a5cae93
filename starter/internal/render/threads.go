package render

import (
	"strings"
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// ThreadOptions say how threads are written.
type ThreadOptions struct {
	// Width is how many characters of a title a table shows. Default 80.
	Width int

	// Location is where times are told. Default: where the program runs.
	Location *time.Location
}

// Threads writes threads as a table, in the order given. It is empty if there is none.
// There is a column for parents if a thread has one.
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
