package signals

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// Names of workflows, signals, updates and queries of background tasks.
const (
	// TaskWorkflow runs one background task.
	TaskWorkflow = "task"

	// SignalCompleteTask and UpdateCompleteTask complete a task from outside its workflow.
	SignalCompleteTask = "complete_task"
	UpdateCompleteTask = "complete_task"
	UpdateCancelTask   = "cancel_task"

	QueryTasks = "tasks"
)

// TaskID returns the id of a thread's task.
func TaskID(threadID string, number int) string { return threadID + "~t" + shortNumber(number) }

// shortNumber formats a number in base 36.
func shortNumber(n int) string { return strconv.FormatInt(int64(n), 36) }

// ParseTaskID returns the thread id and the number in a task id.
func ParseTaskID(id string) (threadID string, number int, err error) {
	threadID, rest, ok := strings.Cut(id, "~t")
	parsed, nerr := strconv.ParseInt(rest, 36, 32)
	number = int(parsed)
	if !ok || nerr != nil || number < 1 || ValidateID("threadId", threadID) != nil || TaskID(threadID, number) != id {
		return "", 0, event.FieldErrorf("taskId", "%.200q is not the id of a task, which is a thread's id with ~t and a number behind it", id)
	}
	return threadID, number, nil
}

// TaskWorkflowID returns the id of the workflow that runs a task.
func TaskWorkflowID(namespace, taskID string) string { return "task/" + namespace + "/" + taskID }

// CompleteTask completes a background task from outside: the payload of signal and update
// "complete_task". If Error is set, the task fails.
type CompleteTask struct {
	TaskID string `json:"taskId"`

	// Any JSON, at most 256 KiB; null is none.
	Result json.RawMessage `json:"result,omitempty"`

	// Why it failed, at most 16 KiB. Cannot be combined with a result.
	Error string `json:"error,omitempty" maxLength:"16384"`

	// Who or what completes it; it is stored. Default: api.
	By string `json:"by,omitempty"`
}

// CompleteTaskResult is the result of updates "complete_task" and "cancel_task".
type CompleteTaskResult struct {
	// already_ended if the task had ended in the same way before.
	Result TaskOutcome `json:"result" enum:"accepted,already_ended"`

	// The task after the request.
	Task event.Task `json:"task"`
}

// TaskOutcome is the result of completing or cancelling a task.
type TaskOutcome string

// The values of [TaskOutcome].
const (
	// TaskAccepted means that the task has ended as requested.
	TaskAccepted TaskOutcome = "accepted"
	// TaskAlreadyEnded means that the task had already ended the same way.
	TaskAlreadyEnded TaskOutcome = "already_ended"
	// TaskConflict means that the task had already ended differently.
	TaskConflict TaskOutcome = "conflict"
	// TaskNotFound means that the thread does not have such a task, or no longer remembers it.
	TaskNotFound TaskOutcome = "not_found"
)

// CancelTask cancels a background task: the payload of update "cancel_task".
type CancelTask struct {
	TaskID string `json:"taskId"`

	// Who cancels it; it is stored. Required where the server does not authenticate requests.
	//
	// It is required; the HTTP API fills it in.
	By string `json:"by" required:"false"`

	// Why, for people.
	Reason string `json:"reason,omitempty" maxLength:"4096"`
}

// Tasks is the result of query "tasks".
type Tasks struct {
	// The last 50 that have ended, then those that run; the newest last.
	Tasks []event.Task `json:"tasks" nullable:"false"`
}

// MaxTaskError is the maximum length of a task's error, in bytes.
const MaxTaskError = 16 << 10

// Validate reports the first invalid field.
func (c CompleteTask) Validate() error {
	if _, _, err := ParseTaskID(c.TaskID); err != nil {
		return err
	}
	switch {
	case len(c.Result) > MaxPayload:
		return event.FieldErrorf("result", "is %d bytes, must be at most %d; put large data elsewhere and refer to it", len(c.Result), MaxPayload)
	case len(c.Error) > MaxTaskError || !utf8.ValidString(c.Error):
		return event.FieldErrorf("error", "must be at most %d bytes of text", MaxTaskError)
	case c.Error != "" && len(c.Result) > 0:
		return event.FieldErrorf("error", "and result exclude each other: a task has failed, or it has a result")
	}
	if len(c.Result) > 0 {
		if err := event.ValidateJSON("result", c.Result); err != nil {
			return err
		}
	}
	return checkBy("by", c.By)
}

// Validate reports the first invalid field.
func (c CancelTask) Validate() error {
	if _, _, err := ParseTaskID(c.TaskID); err != nil {
		return err
	}
	if c.By == "" {
		return event.FieldErrorf("by", "is required: the person who cancels")
	}
	return firstOf(event.ValidateName("by", c.By), checkReason(c.Reason))
}
