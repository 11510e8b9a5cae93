package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// TaskOptions configure the output of background tasks.
type TaskOptions struct {
	// Width is the number of characters of a task's content in a table. Default 60.
	Width int

	// Location is the time zone of times. Default: local.
	Location *time.Location
}

func (o TaskOptions) time(at time.Time) string { return QueueOptions{Location: o.Location}.time(at) }

// Tasks returns a table of background tasks in the given order. It is empty without tasks.
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

// worker returns the tool or agent that runs a task.
func worker(task event.Task) string {
	if task.SubAgent != "" {
		return "@" + task.SubAgent
	}
	if task.Tool == "" {
		return "-"
	}
	return task.Tool
}

// ends returns the time at which a task has ended, or its deadline.
func (o TaskOptions) ends(task event.Task) string {
	if task.EndedAt != nil {
		return o.time(*task.EndedAt)
	}
	if task.Deadline.IsZero() {
		return "-"
	}
	return "by " + o.time(task.Deadline)
}

// taskSummary returns a task on one line: the reason of its failure or cancellation, or else its
// content.
func taskSummary(task event.Task) string {
	if task.Error != "" {
		return whyEnded(task) + ": " + task.Error
	}
	return task.Title
}

// whyEnded returns the reason of a task's state.
func whyEnded(task event.Task) string {
	if task.State == event.TaskFailed {
		return "error"
	}
	return "reason"
}

// Task returns all fields of a background task.
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
