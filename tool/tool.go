package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Tool is a tool that agents can call. Implementations are safe for concurrent use.
type Tool interface {
	Definition() Definition

	// Call runs the tool. An error becomes the call's result for the model, unless it is marked
	// with [Retryable] and the tool is idempotent. Call must return soon after ctx is done; the
	// result with its error is then the partial result.
	Call(ctx context.Context, call Call) (Result, error)
}

// Definition describes a tool.
type Definition struct {
	// Name is unique among an agent's tools. It consists of at most 64 letters, digits, _ and -.
	Name        string
	Description string

	// Parameters is the JSON Schema of the arguments, of type object.
	Parameters json.RawMessage

	// Timeout is the limit of one run. Default 2 minutes.
	Timeout time.Duration

	// Idempotent declares that a call may run twice without harm. Only idempotent tools are
	// retried, with at most MaxAttempts attempts (default 3).
	Idempotent  bool
	MaxAttempts int

	// Quick declares that the tool is short (well below a second), needs only this process, and is
	// idempotent. It then runs as a local activity.
	Quick bool

	// Background makes a call return immediately with the id of a background task that runs the
	// tool. The event background_task.completed or background_task.failed tells the thread's agent
	// when it has ended. Such a tool cannot be quick.
	Background bool

	// Deadline is the limit of a background task, including work that is completed from outside;
	// then the task fails. Default 24 hours, at most 365 days. Timeout limits a background run of
	// the tool itself; its default is then Deadline, at most a day.
	Deadline time.Duration

	// Detached makes a background task continue when its thread is closed.
	Detached bool

	// Client makes a connected client run the calls and return the results by signal or update
	// "tool_result", within Deadline. [Tool].Call is then never called. See [ClientSide].
	Client bool

	// TaskQueue is the task queue on which the calls run, for a tool that only some workers can run:
	// those that serve it (threadmill.Config.ToolQueues). A call of a quick tool then runs as an
	// activity. Default: the task queue of the thread.
	TaskQueue string

	// PathArguments are the names of arguments that are file paths. Approvals apply to the resolved
	// paths, relative to the working directory or, without one, to PathRoot, which approvers then
	// see as the working directory. Calls with paths that are ambiguous or cannot be resolved are
	// rejected.
	PathArguments []string
	PathRoot      string

	// NeedsApproval requires approval of each call, unless the agent's policy says otherwise.
	// ApprovalReason is shown to the approvers.
	NeedsApproval  bool
	ApprovalReason string
}

// Call is a call of a tool.
type Call struct {
	// ID is the id of the tool call. It is unique in its thread and the same on every retry.
	ID string

	// Arguments are the raw JSON arguments that the model wrote.
	Arguments string

	Namespace string
	ThreadID  string
	Agent     string

	// User is who sent the message that the turn answers; if messages of several people joined the
	// turn before the agent made the call, the last of them. Empty if no person did, such as in a
	// turn for an environment event. Sub-agents and background tasks work for the user of the call
	// that started them.
	User string

	// WorkingDirectory is the working directory in the thread's metadata ("workingDirectory") or of
	// the agent, if set.
	WorkingDirectory string

	// TaskID is the id of the background task, if the call runs as one.
	TaskID string

	// Attempt is the number of the attempt, from 1.
	Attempt int

	// Exec contains the trace id and the cancellation signal.
	Exec event.ExecutionContext

	// Input contains a person's answers, if the call has returned [InputRequired] before.
	Input *Input

	// OnProgress takes what [Call.Progress] shows. Threadmill sets it.
	OnProgress func(data any)
}

// Progress shows data, any value that can be marshalled to JSON, to viewers. It never blocks for long, and the data is not stored.
func (c Call) Progress(data any) {
	if c.OnProgress != nil {
		c.OnProgress(data)
	}
}

// Result is the result of a tool call.
type Result struct {
	// Output is the text for the model. It is cut to [MaxResult].
	Output string

	// IsError reports to the model that the call failed.
	IsError bool

	// Details are stored in the tool log and never shown to the model. They are left out if they have more than [MaxResult] bytes
	// of JSON.
	Details map[string]any
}

// MaxResult is the maximum size of the text of a result, in bytes. A longer one is cut, and says so.
const MaxResult = 8 << 20

// ErrPending is returned by a tool that runs as a background task and whose work continues
// elsewhere. The task is completed from outside by its id (Call.TaskID), or fails at its deadline.
// Outside a background task, it is a failure.
var ErrPending = errors.New("the work goes on elsewhere")

// Retryable marks an error of an idempotent tool as one for which a retry may succeed.
func Retryable(err error) error { return &retryableError{err} }

// IsRetryable reports whether err was marked by [Retryable].
func IsRetryable(err error) bool {
	var marked *retryableError
	return errors.As(err, &marked)
}

type retryableError struct{ err error }

func (e *retryableError) Error() string { return e.err.Error() }
func (e *retryableError) Unwrap() error { return e.err }
