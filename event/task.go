package event

import (
	"encoding/json"
	"time"
)

// Task is a background task: work that an agent has started and does not wait for.
// It is also the payload of a "task" record.
type Task struct {
	// ID is unique in the namespace: the thread's id, "~t" and a number in base 36.
	ID string `json:"id"`

	// Title is for people: what the task is about.
	Title string    `json:"title,omitempty"`
	State TaskState `json:"state"`
	Tool  string    `json:"tool,omitempty"`
	Agent string    `json:"agent"` // who started it

	// ToolCallID is the call that started it, TraceID that of its turn.
	ToolCallID string `json:"toolCallId"`
	TraceID    string `json:"traceId"`

	// SubAgent does the work in ThreadID, if it is an agent that does.
	SubAgent string `json:"subAgent,omitempty"`
	ThreadID string `json:"threadId,omitempty"`

	// Detached: it goes on when the thread is closed.
	Detached bool `json:"detached,omitempty"`

	StartedAt time.Time `json:"startedAt"`

	// Deadline is when it fails, unless it has ended before.
	Deadline time.Time  `json:"deadline"`
	EndedAt  *time.Time `json:"endedAt,omitempty"`

	// By is who completed or cancelled it, if that came from outside.
	By    string `json:"by,omitempty"`
	Error string `json:"error,omitempty"`
}

// TaskState says how a [Task] stands.
type TaskState string

// The states of a task.
const (
	TaskRunning   TaskState = "running"
	TaskCompleted TaskState = "completed"
	TaskFailed    TaskState = "failed"
	TaskCancelled TaskState = "cancelled"
)

// Ended reports whether the task is done with.
func (s TaskState) Ended() bool { return s != TaskRunning }

// TaskEnd is the payload of background_task.completed and background_task.failed.
type TaskEnd struct {
	TaskID string `json:"taskId"`
	Title  string `json:"title,omitempty"`
	Tool   string `json:"tool,omitempty"`

	// Result of a task that has completed: what the tool returned, as JSON if it is
	// JSON, else as text.
	Result json.RawMessage `json:"result,omitempty"`

	// Error of one that has failed.
	Error string `json:"error,omitempty"`
}
