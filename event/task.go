package event

import (
	"encoding/json"
	"time"
)

// Task is a background task: work that an agent started without waiting for its result. It is also
// the payload of a "task" record.
type Task struct {
	// Unique in the namespace: the thread's id, ~t and a number in base 36.
	ID string `json:"id"`

	// For people: what it is about.
	Title string `json:"title,omitempty"`

	// Whether the task runs, or how it ended.
	State TaskState `json:"state" enum:"running,completed,failed,cancelled"`

	// The tool that started the task.
	Tool string `json:"tool,omitempty"`

	// The agent that started it.
	Agent string `json:"agent"`

	// The call that started it.
	ToolCallID string `json:"toolCallId"`

	// Trace of the turn in which it was started.
	TraceID string `json:"traceId"`

	// The sub-agent that does the work, if one does.
	SubAgent string `json:"subAgent,omitempty"`

	// The sub-agent's thread.
	ThreadID string `json:"threadId,omitempty"`

	// The task outlives its thread.
	Detached bool `json:"detached,omitempty"`

	// When it started.
	StartedAt time.Time `json:"startedAt"`

	// When it fails unless it has ended.
	Deadline time.Time `json:"deadline"`

	// When it ended.
	EndedAt *time.Time `json:"endedAt,omitempty"`

	// Who completed or cancelled it from outside.
	By string `json:"by,omitempty"`

	// Why it failed or was cancelled.
	Error string `json:"error,omitempty"`

	// Of a task that completed or failed: the id of the event that tells the agent so, with the result.
	//
	// The HTTP API sets it.
	EndEventID string `json:"endEventId,omitempty"`
}

// TaskState is the state of a [Task].
type TaskState string

// The states of a task.
const (
	TaskRunning   TaskState = "running"
	TaskCompleted TaskState = "completed"
	TaskFailed    TaskState = "failed"
	TaskCancelled TaskState = "cancelled"
)

// Ended reports whether the task has ended.
func (s TaskState) Ended() bool { return s != TaskRunning }

// TaskEnd is the payload of background_task.completed and background_task.failed.
type TaskEnd struct {
	TaskID string `json:"taskId"`
	Title  string `json:"title,omitempty"`
	Tool   string `json:"tool,omitempty"`

	// Result is the output of the tool, if the task completed: JSON if the output is JSON,
	// otherwise a JSON string.
	Result json.RawMessage `json:"result,omitempty"`

	// Error is the error message, if the task failed.
	Error string `json:"error,omitempty"`
}
