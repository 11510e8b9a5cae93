package signals

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// Names for background tasks.
const (
	// TaskWorkflow runs one background task.
	TaskWorkflow = "task"

	ActivityRunTask = "run_task"

	// SignalCompleteTask and UpdateCompleteTask complete a task from outside.
	SignalCompleteTask = "complete_task"
	UpdateCompleteTask = "complete_task"
	UpdateCancelTask   = "cancel_task"

	// SignalTaskReport comes from the workflow of a task to its thread. It is not for
	// clients.
	SignalTaskReport = "task_report"

	QueryTasks = "tasks"
)

// TaskID is the id of a thread's task.
func TaskID(threadID string, number int) string { return threadID + "~t" + shortNumber(number) }

// shortNumber writes a number with digits and small letters.
func shortNumber(n int) string { return strconv.FormatInt(int64(n), 36) }

// ParseTaskID returns the thread and the number of a task.
func ParseTaskID(id string) (threadID string, number int, err error) {
	threadID, rest, ok := strings.Cut(id, "~t")
	parsed, nerr := strconv.ParseInt(rest, 36, 32)
	number = int(parsed)
	if !ok || nerr != nil || number < 1 || CheckID("threadId", threadID) != nil || TaskID(threadID, number) != id {
		return "", 0, &event.FieldError{Field: "taskId", Problem: fmt.Sprintf("%.200q is not the id of a task, which is a thread's id with ~t and a number behind it", id)}
	}
	return threadID, number, nil
}

// TaskWorkflowID is the id of the workflow that runs a task.
func TaskWorkflowID(namespace, taskID string) string { return "task/" + namespace + "/" + taskID }

// CompleteTask ends a background task from outside: the payload of signal and update
// "complete_task". With Error the task has failed.
type CompleteTask struct {
	TaskID string          `json:"taskId"`
	Result json.RawMessage `json:"result,omitempty" doc:"Any JSON, at most 256 KiB; null is none"`
	Error  string          `json:"error,omitempty" maxLength:"16384" doc:"Why it failed, at most 16 KiB. Cannot be combined with a result"`
	By     string          `json:"by,omitempty" maxLength:"128" doc:"Who or what completes it; it is stored. Default: api"`
}

// CompleteTaskResult answers updates "complete_task" and "cancel_task".
type CompleteTaskResult struct {
	Result TaskOutcome `json:"result" enum:"accepted,already_ended"`
	Task   event.Task  `json:"task" doc:"The task after the request"`
}

// TaskOutcome says what became of an attempt to end a task.
type TaskOutcome string

// What can become of it.
const (
	// TaskAccepted: the task has ended so.
	TaskAccepted TaskOutcome = "accepted"
	// TaskAlreadyEnded: it had ended so before.
	TaskAlreadyEnded TaskOutcome = "already_ended"
	// TaskConflict: it had ended otherwise before.
	TaskConflict TaskOutcome = "conflict"
	// TaskNotFound: the thread does not know such a task, or not any more.
	TaskNotFound TaskOutcome = "not_found"
)

// CancelTask cancels a background task: the payload of update "cancel_task".
type CancelTask struct {
	TaskID string `json:"taskId"`

	// By is required; the HTTP API fills it in.
	By     string `json:"by" required:"false" maxLength:"128" doc:"Who cancels it; it is stored. Required where the server does not authenticate requests"`
	Reason string `json:"reason,omitempty" maxLength:"4096"`
}

// Tasks answers query "tasks".
type Tasks struct {
	Tasks []event.Task `json:"tasks" nullable:"false" doc:"The last 50 that have ended, then those that run; the newest last"`
}

// MaxTaskError bounds the error of a task, in bytes.
const MaxTaskError = 16 << 10

// CheckCompleteTask reports the first field that is wrong.
func CheckCompleteTask(c CompleteTask) error {
	if _, _, err := ParseTaskID(c.TaskID); err != nil {
		return err
	}
	switch {
	case len(c.Result) > MaxPayload:
		return fieldErrorf("result", "is %d bytes, at most %d are taken; put large data elsewhere and refer to it", len(c.Result), MaxPayload)
	case len(c.Error) > MaxTaskError || !utf8.ValidString(c.Error):
		return fieldErrorf("error", "must be at most %d bytes of text", MaxTaskError)
	case c.Error != "" && len(c.Result) > 0:
		return fieldErrorf("error", "and result exclude each other: a task has failed, or it has a result")
	}
	if len(c.Result) > 0 {
		if err := event.CheckJSON("result", c.Result); err != nil {
			return err
		}
	}
	return checkBy("by", c.By)
}

// CheckCancelTask reports the first field that is wrong.
func CheckCancelTask(c CancelTask) error {
	if _, _, err := ParseTaskID(c.TaskID); err != nil {
		return err
	}
	if c.By == "" {
		return fieldErrorf("by", "is required: who cancels is kept")
	}
	return firstOf(event.CheckName("by", c.By), checkReason(c.Reason))
}
