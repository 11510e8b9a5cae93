package signals

import "errors"

// Errors of threads and their clients. Clients wrap these.
var (
	// ErrThreadNotFound means that there is no such thread.
	ErrThreadNotFound = errors.New("no such thread")
	// ErrThreadClosed means that the thread has been closed.
	ErrThreadClosed = errors.New("the thread is closed")
	// ErrThreadExists means that a thread with that id already exists.
	ErrThreadExists = errors.New("the thread already exists")
	// ErrTaskNotFound means that the thread does not know such a background task: it never
	// existed, or it ended long ago.
	ErrTaskNotFound = errors.New("no such task")
	// ErrEventNotFound means that the thread does not know such an event: it was never posted,
	// or it was processed long ago.
	ErrEventNotFound = errors.New("no such event")
	// ErrScheduleNotFound means that there is no such schedule.
	ErrScheduleNotFound = errors.New("no such schedule")
	// ErrScheduleExists means that a schedule with that id already exists.
	ErrScheduleExists = errors.New("the schedule already exists")
	// ErrFull: the queue of the thread is full. The same post is accepted when the thread has
	// processed some of what waits.
	ErrFull = errors.New("the queue is full")
	// ErrOverloaded means that too many posts of this client wait for the thread, or for Temporal. The caller can
	// retry later.
	ErrOverloaded = errors.New("too many posts are waiting")
	// ErrBusy means that a turn is in progress and the post's onBusy is [event.OnBusyReject].
	ErrBusy = errors.New("a turn is in progress")
	// ErrConflict means that the thread has an event with the id of the post and another content. An event cannot be changed by
	// posting it again; another message needs another id.
	ErrConflict = errors.New("the thread already has an event with this id and another content")
	// ErrEarly means that the thread does not know the tool call yet, and may learn of it: people see
	// an approval request as soon as it is stored, and after a restart the thread catches up. The caller can retry.
	ErrEarly = errors.New("the thread does not know this tool call yet, and is at work or catches up after a restart: try again")
	// ErrProcessed means that the event was processed too long ago for the thread to remember the
	// result of its turn. The thread's records contain it.
	ErrProcessed = errors.New("the event was processed long ago, and how its turn ended is no longer kept: read the thread's records")
	// ErrNotAllowed means that this person may not decide on the call, revoke its approval or answer it: see [DecideNotAllowed].
	ErrNotAllowed = errors.New("not allowed")
	// ErrNotPending means that no such call waits in the thread: see [DecideNotPending].
	ErrNotPending = errors.New("it does not wait for anybody")
	// ErrRefused means that the thread rejected the request. The error gives the reason.
	ErrRefused = errors.New("refused")
)

// Types of the application errors with which a thread rejects an update.
const (
	RefusedType   = "refused"
	ClosedType    = "closed"
	BusyType      = "busy"
	DuplicateType = "duplicate"
	FullType      = "full"
	ConflictType  = "conflict"

	// EarlyType is the type of [ErrEarly].
	EarlyType = "early"

	// ProcessedType is the type of [ErrProcessed].
	ProcessedType = "processed"

	// NothingPostedType is the type of the error of a batch: see [PostBatchResult].
	NothingPostedType = "nothing_posted"
)

// Gone reports whether an error means that a thread takes nothing any more: it does not exist, is closed or was erased.
func Gone(err error) bool {
	return errors.Is(err, ErrThreadNotFound) || errors.Is(err, ErrThreadClosed) || errors.Is(err, ErrThreadErased)
}
