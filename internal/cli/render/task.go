package render

import "github.com/threadmill/threadmill/event"

// Tasks returns a table of background tasks in the given order. It is empty without tasks.
func Tasks(tasks []event.Task, opts TableOptions) string {
	t := table{head: []string{"STATE", "TASK", "WORKER", "AGENT", "STARTED", "ENDS", "CONTENT"}}
	for _, task := range tasks {
		t.row(visible(string(task.State)), visible(task.ID), visible(worker(task)), visible(task.Agent), opts.time(task.StartedAt),
			opts.ends(task), opts.shorten(visible(taskSummary(task)), 60))
	}
	return t.String()
}

// worker returns the tool or agent that runs a task.
func worker(task event.Task) string {
	if task.SubAgent != "" {
		return "@" + task.SubAgent
	}
	return task.Tool
}

// ends returns the time at which a task has ended, or its deadline.
func (o TableOptions) ends(task event.Task) string {
	if task.EndedAt != nil {
		return o.time(*task.EndedAt)
	}
	return suffix("by ", o.time(task.Deadline))
}

// taskSummary returns a task on one line: the reason of its failure or cancellation, or else its
// content.
func taskSummary(task event.Task) string {
	if task.Error != "" {
		return whyEnded(task.State == event.TaskFailed) + ": " + task.Error
	}
	return task.Title
}

// Task returns all fields of a background task.
func Task(task event.Task, opts TableOptions) string {
	var f fields
	f.add("task", task.ID)
	f.add("title", task.Title)
	f.add("state", string(task.State))
	f.add(whyEnded(task.State == event.TaskFailed), task.Error)
	f.add("by", task.By)
	f.add("tool", task.Tool)
	f.add("subagent", task.SubAgent)
	f.add("thread", task.ThreadID)
	f.add("agent", task.Agent)
	f.add("call", task.ToolCallID)
	f.add("trace", task.TraceID)
	if task.Detached {
		f.add("detached", "yes: it outlives the thread")
	}
	f.add("started", opts.time(task.StartedAt))
	f.add("deadline", opts.time(task.Deadline))
	f.add("ended", opts.optionalTime(task.EndedAt))
	return f.String()
}
