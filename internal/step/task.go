package step

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Task is the input of the workflow of a background task, and of its activity.
type Task struct {
	Thread Ref        `json:"thread"`
	Task   event.Task `json:"task"`

	// EventID is the event of the turn, and MessageID the reply that contains the call. Root has
	// the meaning of [Run.Root].
	EventID   string `json:"eventId"`
	Root      string `json:"root,omitempty"`
	MessageID string `json:"messageId"`

	// Tools restricts the tools that may be called. Nil = no restriction.
	Tools []string `json:"tools,omitzero"`

	// User, Edited, Guard and DecisionID have the meaning of those in [Tool].
	User             string `json:"user,omitempty"`
	Edited           bool   `json:"edited,omitempty"`
	Guard            *Guard `json:"guard,omitempty"`
	DecisionID       string `json:"decisionId,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// TaskQueue is copied from the plan.
	TaskQueue string `json:"taskQueue,omitempty"`
}

// TaskReply is the result of run_task.
type TaskReply struct {
	// Pending means that the task continues outside and is completed from there.
	Pending bool `json:"pending,omitempty"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`

	// Cancelled means that the task's workflow was cancelled. By is the person or client that
	// completed the task from outside.
	Cancelled bool   `json:"cancelled,omitempty"`
	By        string `json:"by,omitempty"`
}

// TaskReport is the payload of signal "task_report", which reports the end of a task.
type TaskReport struct {
	TaskID string `json:"taskId"`
	TaskReply

	// Task is set for a thread that may not know the task because it was opened again.
	Task *event.Task `json:"task,omitempty"`
}

// State returns the final state of a task and the type of the event that reports it.
func (r TaskReply) State() (event.TaskState, string) {
	switch {
	case r.Cancelled:
		return event.TaskCancelled, event.TypeBackgroundTaskFailed
	case r.Error != "":
		return event.TaskFailed, event.TypeBackgroundTaskFailed
	}
	return event.TaskCompleted, event.TypeBackgroundTaskCompleted
}
