package signals

import "errors"

// What a thread, or the lack of one, can answer. Clients wrap these.
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
	// ErrOverloaded: more posts wait for the thread's answer than the client holds. The same post
	// is accepted later.
	ErrOverloaded = errors.New("too many posts are waiting for the thread")
	// ErrBusy: a turn is in progress, and the post did not want to wait.
	ErrBusy = errors.New("a turn is in progress")
	// ErrProcessed: the event was processed so long ago that the thread no longer keeps how its
	// turn ended. Its records tell.
	ErrProcessed = errors.New("the event was processed long ago, and how its turn ended is no longer kept: read the thread's records")
	// ErrRefused: the thread refused the request; the error says why.
	ErrRefused = errors.New("refused")
)

// Types of the application errors with which a thread refuses an update.
const (
	RefusedType   = "refused"
	ClosedType    = "closed"
	BusyType      = "busy"
	DuplicateType = "duplicate"
	FullType      = "full"

	// ProcessedType: see [ErrProcessed].
	ProcessedType = "processed"

	// NothingPostedType: see [PostBatchResult].
	NothingPostedType = "nothing_posted"
)
