package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// TaskOptions say how background tasks are written.
type TaskOptions struct {
	// Width is how many characters of a task's content a table shows. Default 60.
	Width int

	// Location is where times are told. Default: where the program runs.
	Location *time.Location
}

func (o TaskOptions) time(at time.Time) string { return QueueOptions{Location: o.Location}.time(at) }

// Tasks writes background tasks as a table, in the order given. It is empty if there is
// none.
func Tasks(tasks []event.Task, opts TaskOptions) string {
	if opts.Width == 0 {
		opts.Width = 60
	}
	t := table{head: []string{"STATE", "TASK", "WORKER", "AGENT", "STARTED", "ENDS", "CONTENT"}}
	for _, task := range tasks {
		t.row(visible(string(task.State)), visible(task.ID), visible(worker(task)), visible(task.Agent), opts.time(task.StartedAt),
			opts.ends(task), shorten(visible(taskSummary(task)), opts.Width))
	}
	return t.String()
}

// worker is who does a task's work.
func worker(task event.Task) string {
	if task.SubAgent != "" {
		return "@" + task.SubAgent
	}
	if task.Tool == "" {
		return "-"
	}
	return task.Tool
}

// ends is when a task has ended, or the latest that it can.
func (o TaskOptions) ends(task event.Task) string {
	if task.EndedAt != nil {
		return o.time(*task.EndedAt)
	}
	if task.Deadline.IsZero() {
		return "-"
	}
	return "by " + o.time(task.Deadline)
}

// taskSummary is a task on one line: why it failed or was cancelled, or else what it is
// about.
func taskSummary(task event.Task) string {
	if task.Error != "" {
		return whyEnded(task) + ": " + task.Error
	}
	return task.Title
}

// whyEnded names the cause of a task's state.
func whyEnded(task event.Task) string {
	if task.State == event.TaskFailed {
		return "error"
	}
	return "reason"
}

// Task writes all that is known of a background task.
func Task(task event.Task, opts TaskOptions) string {
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "%-9s %s\n", name, visible(value))
		}
	}
	at := func(name string, t *time.Time) {
		if t != nil && !t.IsZero() {
			line(name, opts.time(*t))
		}
	}
	line("task", task.ID)
	line("title", task.Title)
	line("state", string(task.State))
	line(whyEnded(task), task.Error)
	line("by", task.By)
	line("tool", task.Tool)
	line("subagent", task.SubAgent)
	line("thread", task.ThreadID)
	line("agent", task.Agent)
	line("call", task.ToolCallID)
	line("trace", task.TraceID)
	if task.Detached {
		line("detached", "yes: it outlives the thread")
	}
	at("started", &task.StartedAt)
	at("deadline", &task.Deadline)
	at("ended", task.EndedAt)
	return out.String()
}
