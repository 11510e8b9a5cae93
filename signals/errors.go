package signals

import "errors"

// Errors of threads and their clients. Clients wrap these.
var (
	// ErrNotFound means that the thread does not exist.
	ErrNotFound = errors.New("no such thread")
	// ErrClosed means that the thread is closed.
	ErrClosed = errors.New("the thread is closed")
	// ErrExists means that a thread with this id already exists.
	ErrExists = errors.New("the thread exists already")
	// ErrFull means that the thread's queue is full. The caller can retry when the thread has
	// processed some events.
	ErrFull = errors.New("the queue is full")
	// ErrOverloaded means that too many posts of this client wait for the thread. The caller can
	// retry later.
	ErrOverloaded = errors.New("too many posts are waiting for the thread")
	// ErrBusy means that a turn is in progress and the post's onBusy is [Reject].
	ErrBusy = errors.New("a turn is in progress")
	// ErrProcessed means that the event was processed too long ago for the thread to remember the
	// result of its turn. The thread's records contain it.
	ErrProcessed = errors.New("the event was processed long ago, and how its turn ended is no longer kept: read the thread's records")
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

	// ProcessedType is the type of [ErrProcessed].
	ProcessedType = "processed"

	// NothingPostedType is the type of the error of a batch: see [PostBatchResult].
	NothingPostedType = "nothing_posted"
)
