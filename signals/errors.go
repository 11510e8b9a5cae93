package signals

import "errors"

// What a thread, or the lack of one, can answer. Clients wrap these.
var (
	// ErrNotFound: there is no such thread.
	ErrNotFound = errors.New("no such thread")
	// ErrClosed: the thread has been closed.
	ErrClosed = errors.New("the thread is closed")
	// ErrExists: a thread of that id is there already.
	ErrExists = errors.New("the thread already exists")
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
