package event

import (
	"encoding/json"
	"time"
)

// Task is a background task: work that an agent started without waiting for its result. It is also
// the payload of a "task" record.
type Task struct {
	// ID is unique in the namespace: the thread's id, "~t" and a number in base 36.
	ID string `json:"id"`

	// Title is a short description for users.
	Title string    `json:"title,omitempty"`
	State TaskState `json:"state"`
	Tool  string    `json:"tool,omitempty"`
	Agent string    `json:"agent"` // the agent that started it

	// ToolCallID is the tool call that started the task, TraceID the trace of its turn.
	ToolCallID string `json:"toolCallId"`
	TraceID    string `json:"traceId"`

	// SubAgent is the agent that works on the task in ThreadID, if a sub-agent does.
	SubAgent string `json:"subAgent,omitempty"`
	ThreadID string `json:"threadId,omitempty"`

	// Detached means that the task continues when the thread is closed.
	Detached bool `json:"detached,omitempty"`

	StartedAt time.Time `json:"startedAt"`

	// Deadline is when the task fails if it has not ended.
	Deadline time.Time  `json:"deadline"`
	EndedAt  *time.Time `json:"endedAt,omitempty"`

	// By is the person or client that completed or cancelled the task, if any.
	By    string `json:"by,omitempty"`
	Error string `json:"error,omitempty"`
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
