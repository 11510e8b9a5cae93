package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// DefaultRetention is how long the live log keeps its entries.
const DefaultRetention = 10 * time.Minute

// MaxEntryBytes is the largest entry that a stream takes, in bytes of its JSON.
const MaxEntryBytes = 512 << 10

var (
	// ErrClosed is returned by a stream or a subscription that has been closed.
	ErrClosed = errors.New("stream is closed")

	// ErrTooLarge refuses an entry above [MaxEntryBytes]. The stream goes on without it.
	ErrTooLarge = errors.New("entry is too large for the live stream")

	// ErrLagged breaks a subscription whose next entry is gone, or may be: the reader
	// was slower than the log's retention.
	ErrLagged = errors.New("reader fell behind the live log")

	// ErrLost tells a publisher that entries which it published to this thread before
	// may not have reached the log. The entry of this call, always a piece, was not
	// published; the next call starts afresh. Reset the message and send it whole.
	ErrLost = errors.New("entries published earlier may be lost")
)

// Key names a thread.
type Key struct {
	Namespace string
	ThreadID  string
}

func (k Key) String() string { return k.Namespace + "/" + k.ThreadID }

// Entry is one entry of a thread's live log: either a piece for viewers, or the
// word that records have been stored.
type Entry struct {
	// Offset is given by the stream.
	Offset int64 `json:"-"`

	// After is the Seq of the newest record that the publisher knew of when it
	// published a piece.
	After int64 `json:"after,omitempty"`

	// TraceID is that of the turn which a piece belongs to.
	TraceID string `json:"traceId,omitempty"`

	// Event is a piece: thought, stream, tool_progress or reset.
	Event *event.AgentEvent `json:"event,omitempty"`

	// Begins marks the first piece of an attempt to produce a message. It may come again,
	// when pieces were lost.
	Begins bool `json:"begins,omitempty"`

	// Stored is set instead of Event: all records up to this Seq are in the store.
	Stored int64 `json:"stored,omitempty"`
}

// Size returns a lower bound of the entry's size as JSON, in bytes, at next to no cost.
func (e Entry) Size() int {
	if e.Event == nil {
		return 0
	}
	v := e.Event
	return len(v.Content) + len(v.Data) + len(v.ToolArgs) + len(v.Output) + len(v.Error) + len(v.Detail) +
		len(v.ToolName) + len(v.MessageID) + len(v.Agent) + len(v.ToolCallID) + len(e.TraceID)
}

// Encode returns the entry as JSON, or [ErrTooLarge]. The offset is not part of it.
func (e Entry) Encode() ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode live entry: %w", err)
	}
	if len(data) > MaxEntryBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d; send less, or a reference to it", ErrTooLarge, len(data), MaxEntryBytes)
	}
	return data, nil
}

// Notice tells the steps that run in a thread to stop.
type Notice struct {
	// TraceID limits the notice to one turn. Empty = every turn of the thread.
	TraceID string `json:"traceId,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Stream carries live entries. Implementations are safe for concurrent use.
type Stream interface {
	// Publish appends an entry to the thread's log. Entries published one after the
	// other by one caller keep their order. Nobody changes what e.Event points to any
	// more. An entry above [MaxEntryBytes] is refused with [ErrTooLarge].
	Publish(ctx context.Context, key Key, e Entry) error

	// Subscribe delivers the log of a thread from a place on.
	Subscribe(ctx context.Context, key Key, from From) (Subscription, error)

	// Notify tells whoever listens to the thread. It is not kept.
	Notify(ctx context.Context, key Key, n Notice) error

	// Listen calls fn for each notice until stop is called. fn must not block. ctx is
	// for the call itself: it does not end the listening.
	Listen(ctx context.Context, key Key, fn func(Notice)) (stop func(), err error)

	// Ping reports whether the stream works.
	Ping(ctx context.Context) error

	Close() error
}

// From says where a subscription begins.
type From struct {
	// Offset: deliver the entries that follow it. 0 = from the oldest entry kept.
	Offset int64

	// Now: only entries published from now on; Offset is ignored.
	Now bool
}

// Subscription delivers the entries of a thread's log in order, each once.
type Subscription interface {
	// Start says how the subscription began.
	Start() Start

	// Next waits for the next entry. It returns ctx's error when ctx ends, and
	// another error when the subscription is broken; the caller then subscribes anew
	// after the last offset it has seen. A reader too slow for the log gets a broken
	// subscription ([ErrLagged]), never a hole. After ctx's error it can be called again.
	// Only one goroutine at a time may call it.
	Next(ctx context.Context) (Entry, error)

	Close()
}

// Start says how a [Subscription] began.
type Start struct {
	// Gap: entries that follow the asked offset are gone, or nobody can say that they
	// are not; the asked offset may also be one that this log never gave. The
	// subscription then begins with the oldest entry kept.
	Gap bool

	// Last is the offset of the newest entry kept at that moment; entries up to it were
	// published before the subscription began. 0 = the log was empty.
	Last int64
}
