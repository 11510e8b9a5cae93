package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// DefaultRetention is the time for which the live log keeps its entries.
const DefaultRetention = 10 * time.Minute

// MaxEntryBytes is the maximum size of an entry, in bytes of JSON.
const MaxEntryBytes = 512 << 10

var (
	// ErrClosed means that the stream or the subscription is closed.
	ErrClosed = errors.New("stream is closed")

	// ErrUnavailable means that the stream cannot be reached. Calls then fail immediately until it can be reached again, so that
	// nothing waits for it: a piece is lost, and a notice that records were stored is published later.
	ErrUnavailable = errors.New("live stream is unavailable")

	// ErrTooLarge rejects an entry above [MaxEntryBytes]. The stream remains usable.
	ErrTooLarge = errors.New("entry is too large for the live stream")

	// ErrLagged ends a subscription whose next entry was, or may have been, removed: the reader was
	// too slow for the log's retention.
	ErrLagged = errors.New("reader fell behind the live log")

	// ErrLost tells a publisher that earlier entries for this thread may not have reached the log.
	// The entry of this call was not published; the next call is unaffected. Reset the message and
	// publish all of it again.
	ErrLost = errors.New("entries published earlier may be lost")
)

// Key identifies a thread.
type Key = event.ThreadKey

// Entry is an entry of a thread's live log: a piece for viewers, or a notice that records were
// stored.
type Entry struct {
	// Offset is assigned by the stream.
	Offset int64 `json:"-"`

	// After is the Seq of the newest record that the publisher of a piece knew of.
	After int64 `json:"after,omitempty"`

	// TraceID is the trace of the turn that a piece belongs to.
	TraceID string `json:"traceId,omitempty"`

	// Event is the piece: an event of type thought, stream, tool_progress or reset.
	Event *event.AgentEvent `json:"event,omitempty"`

	// Begins marks the first piece of an attempt at a message, which is empty and precedes the call of
	// the model. It may be repeated after a loss.
	Begins bool `json:"begins,omitempty"`

	// Stored is set instead of Event: all records up to this Seq are in the store.
	Stored int64 `json:"stored,omitempty"`

	// Records are the records of the append that a notice announces, as stored. Some may have been stored before. Only
	// subscriptions in the process of the publisher that started before the notice was published may get them; drivers
	// may omit them. Nobody may change them.
	Records []event.Record `json:"-"`

	// At is the time of publication in milliseconds since 1970, if the delay of viewers is measured. 0 = it is not.
	At int64 `json:"at,omitempty"`
}

// Size returns a lower bound of the entry's size as JSON, in bytes. It is cheap.
func (e Entry) Size() int {
	if e.Event == nil {
		return 0
	}
	v := e.Event
	return len(v.Content) + len(v.Data) + len(v.ToolArgs) + len(v.Output) + len(v.Error) + len(v.Detail) +
		len(v.ToolName) + len(v.MessageID) + len(v.Agent) + len(v.ToolCallID) + len(e.TraceID)
}

// Encode returns the entry without its offset as JSON, or [ErrTooLarge].
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

// Notice tells the running steps of a thread to stop, or to let its workflow task go.
type Notice struct {
	// TraceID limits the notice to one turn. Empty = every turn of the thread.
	TraceID string `json:"traceId,omitempty"`
	Reason  string `json:"reason,omitempty"`

	// Arrived stops no step. It means that something has arrived for the thread that its steps must not keep waiting: those
	// that hold its workflow task let it go.
	Arrived bool `json:"arrived,omitempty"`

	// Viewer is for those who look at a thread, not for its steps: they listen to another key.
	Viewer *Viewer `json:"viewer,omitempty"`
}

// Viewer is somebody who looks at a thread.
type Viewer struct {
	// ID identifies the window of the viewer.
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Since time.Time `json:"since,omitzero"`

	// Ago is how long ago the viewer was seen.
	Ago time.Duration `json:"ago,omitempty"`

	// Left means that the viewer does not look at it any more.
	Left bool `json:"left,omitempty"`
}

// Stream is the live stream. Implementations are safe for concurrent use.
type Stream interface {
	// Publish appends an entry to the thread's log. Entries that one caller publishes one after
	// another keep their order. The caller must not change e.Event afterwards. An entry above
	// [MaxEntryBytes] is rejected with [ErrTooLarge].
	Publish(ctx context.Context, key Key, e Entry) error

	// Subscribe returns a subscription to a thread's log from a position.
	Subscribe(ctx context.Context, key Key, from From) (Subscription, error)

	// Purge removes all entries of a thread's log. Readers that have not read them may miss them; what is published later is
	// kept as usual.
	Purge(ctx context.Context, key Key) error

	// Notify sends a notice to the listeners of the thread. Notices are not stored.
	Notify(ctx context.Context, key Key, n Notice) error

	// Listen calls fn for each notice until stop is called. fn must not block. ctx applies to the
	// call only: when it is done, fn is still called.
	Listen(ctx context.Context, key Key, fn func(Notice)) (stop func(), err error)

	// Ping reports whether the stream is available.
	Ping(ctx context.Context) error

	Close() error
}

// From is the position at which a subscription starts.
type From struct {
	// Offset starts after the entry with this offset. 0 = the oldest entry.
	Offset int64

	// Now starts with the entries published from now on, and ignores Offset.
	Now bool
}

// Subscription delivers the entries of a thread's log in order, each once.
type Subscription interface {
	// Start describes the start of the subscription.
	Start() Start

	// Next waits for the next entry. When ctx is done it returns ctx's error, and may be called
	// again. Any other error ends the subscription; the caller then subscribes again after the last
	// offset it received. A reader that is too slow gets
	// [ErrLagged], never a silent gap. Next must not be called concurrently.
	Next(ctx context.Context) (Entry, error)

	Close()
}

// Start describes the start of a [Subscription].
type Start struct {
	// Gap means that entries after the requested offset are, or may be, missing, or that the log
	// never had that offset. The subscription then starts with the oldest entry.
	Gap bool

	// Last is the offset of the newest entry when the subscription started; entries up to it were
	// published before. 0 = the log was empty.
	Last int64
}
