package event

import (
	"encoding/json"
	"time"
)

// Task is a background task: work that an agent started without waiting for its result. It is also
// the payload of a "task" record.
type Task struct {
	ID         string     `json:"id" doc:"Unique in the namespace: the thread's id, ~t and a number in base 36"`
	Title      string     `json:"title,omitempty" doc:"For people: what it is about"`
	State      TaskState  `json:"state" enum:"running,completed,failed,cancelled" doc:"Whether the task runs, or how it ended"`
	Tool       string     `json:"tool,omitempty" doc:"The tool that started the task"`
	Agent      string     `json:"agent" doc:"The agent that started it"`
	ToolCallID string     `json:"toolCallId" doc:"The call that started it"`
	TraceID    string     `json:"traceId" doc:"Trace of the turn in which it was started"`
	SubAgent   string     `json:"subAgent,omitempty" doc:"The sub-agent that does the work, if one does"`
	ThreadID   string     `json:"threadId,omitempty" doc:"The sub-agent's thread"`
	Detached   bool       `json:"detached,omitempty" doc:"The task outlives its thread"`
	StartedAt  time.Time  `json:"startedAt" doc:"When it started"`
	Deadline   time.Time  `json:"deadline" doc:"When it fails unless it has ended"`
	EndedAt    *time.Time `json:"endedAt,omitempty" doc:"When it ended"`
	By         string     `json:"by,omitempty" doc:"Who completed or cancelled it from outside"`
	Error      string     `json:"error,omitempty" doc:"Why it failed or was cancelled"`

	// EndEventID is set by the HTTP API, for tasks that completed or failed.
	EndEventID string `json:"endEventId,omitempty" doc:"Of a task that completed or failed: the id of the event that tells the agent so, with the result"`
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
