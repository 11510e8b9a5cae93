package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Tool is something that an agent can call. Implementations are safe for
// concurrent use.
type Tool interface {
	Definition() Definition

	// Call runs the tool. An error is shown to the model as the call's result, unless
	// it is marked with [Retryable] and the tool is idempotent. It stops soon after
	// ctx ends; the result beside its error then is what there was so far.
	Call(ctx context.Context, call Call) (Result, error)
}

// Definition is what a tool declares about itself.
type Definition struct {
	// Name is unique among an agent's tools: letters, digits, _ and -, at most 64.
	Name        string
	Description string

	// Parameters is the JSON Schema of the arguments, an object.
	Parameters json.RawMessage

	// Timeout bounds one run. Default 2 minutes.
	Timeout time.Duration

	// Idempotent says that running the same call twice does no harm. Only such tools
	// are retried, at most MaxAttempts times in all (default 3).
	Idempotent  bool
	MaxAttempts int

	// Quick says that the tool is short (well below a second), needs nothing but this
	// process, and is idempotent. It then runs as a local activity.
	Quick bool

	// Background says that a call returns at once, with the id of a background task in
	// which the tool runs. The thread's agent is told when it has ended: by the event
	// background_task.completed or background_task.failed. Such a tool is not quick.
	Background bool

	// Deadline bounds a background task in all, with what is completed from outside; then
	// it fails. Default 24 hours, at most 365 days. A background run of the tool itself is
	// bounded by Timeout, whose default then is Deadline, at most a day.
	Deadline time.Duration

	// Detached says that a background task goes on when its thread is closed.
	Detached bool

	// Client says that a connected client runs the calls, and answers them by signal or
	// update "tool_result", within Deadline. Call is never called. See [Client].
	Client bool

	// PathArguments are the names of arguments that are paths of files. Approvals go by
	// what they lead to, links resolved, from the working directory, or from PathRoot if
	// there is none: then people see that as where the call works. A call is refused whose
	// path can be read in two ways, or cannot be followed.
	PathArguments []string
	PathRoot      string

	// NeedsApproval asks a person before each run, unless the agent's policy says
	// otherwise. ApprovalReason tells that person why.
	NeedsApproval  bool
	ApprovalReason string
}

// Call is one run of a tool.
type Call struct {
	// ID is the tool call's id: unique in its thread, the same on every retry.
	ID string

	// Arguments is the raw JSON that the model wrote.
	Arguments string

	Namespace string
	ThreadID  string
	Agent     string

	// WorkingDirectory is where the agent works, if that is set: the thread's metadata
	// says so ("workingDirectory"), or the agent.
	WorkingDirectory string

	// TaskID is the id of the background task that the run is, if it is one.
	TaskID string

	// Attempt counts from 1.
	Attempt int

	// Exec carries the trace and the signal that stops the run.
	Exec event.ExecutionContext

	// Progress shows data, which may be any value with a JSON form, to those who
	// watch. It never blocks for long, and nothing of it is stored. Never nil when
	// Threadmill calls the tool.
	Progress func(data any)
}

// Result is what a tool returns to the model.
type Result struct {
	// Output is what the model sees.
	Output string

	// IsError tells the model that the call failed.
	IsError bool

	// Details is kept in the tool log and never shown to the model.
	Details map[string]any
}

// ErrPending is what a tool returns that runs as a background task, when the work goes on
// elsewhere: the task is completed from outside, by its id (Call.TaskID), or fails at its
// deadline. In the foreground it is a failure.
var ErrPending = errors.New("the work goes on elsewhere, but this call does not run as a background task: set Background")

// Retryable marks an error of an idempotent tool as one that running again may
// mend.
func Retryable(err error) error { return &retryableError{err} }

// IsRetryable reports whether err was marked by [Retryable].
func IsRetryable(err error) bool {
	var marked *retryableError
	return errors.As(err, &marked)
}

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }
func (e *retryableError) Unwrap() error { return e.err }
