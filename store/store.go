package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Key names a thread.
type Key struct {
	Namespace string
	ThreadID  string
}

func (k Key) String() string { return k.Namespace + "/" + k.ThreadID }

// ErrNotFound is returned for a thread, or an agent, that is not there.
var ErrNotFound = errors.New("not found")

// ErrUnavailable marks an error of a store that could not be reached, or did not answer before
// the context's deadline: a later call may succeed. Whether an append took effect is not known.
var ErrUnavailable = errors.New("store is unavailable")

// Unavailable returns err marked as [ErrUnavailable], with its message unchanged.
func Unavailable(err error) error { return &unavailableError{err} }

type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return e.err.Error() }

func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.err} }

// Store keeps threads. Implementations are safe for concurrent use.
type Store interface {
	// Append writes a batch in one transaction and returns the records as stored, in
	// the order given, with those that were there already as they were. The thread
	// is created if need be.
	Append(ctx context.Context, key Key, batch Batch) (Appended, error)

	// Records returns records with Seq > q.After in order of Seq (or the newest first),
	// at most q.Limit. A thread that is not there has none.
	Records(ctx context.Context, key Key, q Query) ([]event.Record, error)

	// RecordsByID returns those of the records that exist, in order of Seq.
	RecordsByID(ctx context.Context, key Key, ids ...string) ([]event.Record, error)

	// Thread returns a thread, or ErrNotFound.
	Thread(ctx context.Context, key Key) (Thread, error)

	// Threads lists a namespace's threads, the last active first.
	Threads(ctx context.Context, namespace string, page ThreadPage) ([]Thread, error)

	// ToolLog returns the log of one tool call, or ErrNotFound.
	ToolLog(ctx context.Context, key Key, toolCallID string) (ToolLog, error)

	// ToolLogs returns a thread's tool logs by start.
	ToolLogs(ctx context.Context, key Key) ([]ToolLog, error)

	// Agents keeps agents that are made while the runtime runs.
	Agents

	// APIKeys keeps API keys that are created at run time.
	APIKeys

	// Ping reports whether the store answers.
	Ping(ctx context.Context) error

	Close() error
}

// Batch is what one transaction writes.
type Batch struct {
	Records []event.Record

	// Once, if set, is the id of one of Records: if the thread has it already, none of
	// Records is stored, and Appended.Records are those of them that are there. It is
	// for records that stand or fall together, when two attempts to make them differ.
	Once string

	// Thread, if set, changes the thread's row.
	Thread *ThreadUpdate

	// ToolStart stores the start of a tool call unless the call has a log already;
	// what is stored then comes back in Appended.ToolLog, with Started false.
	ToolStart *ToolLog

	// ToolFinish completes the log of a call, by ToolCallID; the log is made if there
	// is none. A log that is finished already stays as it is.
	ToolFinish *ToolLog
}

// Appended is what became of a [Batch].
type Appended struct {
	// Records are the batch's, as stored, in the order given.
	Records []event.Record

	// Head is the Seq of the thread's newest record.
	Head int64

	// ToolLog is the stored log of the call in ToolStart or ToolFinish.
	ToolLog *ToolLog

	// Started says that this batch stored the start in ToolStart.
	Started bool
}

// Query selects records.
type Query struct {
	// After: only records with a greater Seq.
	After int64

	// Before: only records with a smaller Seq. 0 = no bound.
	Before int64

	// Types: only records of these types. Empty = all.
	Types []string

	// Limit bounds the result. 0 = 1000, which is the most.
	Limit int

	// MaxBytes ends the result with the record whose payload brings the payloads to this
	// many bytes together, so that a large record is returned as well. 0 = no bound.
	MaxBytes int

	// Newest returns the newest first.
	Newest bool
}

// Complete reports whether the records that q returned are all that it selects.
func (q Query) Complete(records []event.Record) bool {
	bytes := 0
	for _, r := range records {
		bytes += len(r.Payload)
	}
	return len(records) < q.WithDefaults().Limit && (q.MaxBytes <= 0 || bytes < q.MaxBytes)
}

// MaxLimit is the most records that one query returns.
const MaxLimit = 1000

// Thread is a thread's row.
type Thread struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace"`
	Title     string          `json:"title,omitempty"`
	Status    string          `json:"status" enum:"open,closed"`
	Agents    []string        `json:"agents" nullable:"false"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Head      int64           `json:"head" doc:"Seq of the newest record"`
	CreatedAt time.Time       `json:"createdAt,omitzero"`
	UpdatedAt time.Time       `json:"updatedAt,omitzero"`
}

// Statuses of a thread's row.
const (
	ThreadOpen   = "open"
	ThreadClosed = "closed"
)

// ThreadUpdate changes a thread's row: nil and empty fields stay as they are.
type ThreadUpdate struct {
	// Number places the update among the thread's others: it is passed over if the row has
	// had this one or a later one. So it has all that the ones before it may not have
	// stored. 0 = none: such an update is always written.
	Number int64

	Title    *string
	Status   string
	Agents   []string
	Metadata json.RawMessage
}

// ThreadPage selects threads.
type ThreadPage struct {
	// Status: only threads of this status. Empty = all.
	Status string

	// Limit: default 50, at most 200.
	Limit int

	// Cursor is the UpdatedAt and ID of the last thread of the page before.
	CursorUpdatedAt time.Time
	CursorID        string
}

// ToolLog is the log of one tool call: the raw input and output, and whether the
// run is known to have ended.
type ToolLog struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Agent      string          `json:"agent"`
	TraceID    string          `json:"traceId"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output,omitempty"`
	Status     ToolStatus      `json:"status"`
	Attempt    int             `json:"attempt"`
	StartedAt  time.Time       `json:"startedAt"`
	FinishedAt *time.Time      `json:"finishedAt,omitempty"`
}

// ToolStatus says how a tool call stands.
type ToolStatus string

// The statuses of a tool call.
const (
	ToolStarted     ToolStatus = "started"
	ToolSucceeded   ToolStatus = "succeeded"
	ToolFailed      ToolStatus = "failed"
	ToolDenied      ToolStatus = "denied"
	ToolInterrupted ToolStatus = "interrupted"
	ToolUnknown     ToolStatus = "unknown"

	// ToolPending: the call goes on as a background task that is completed from outside.
	ToolPending ToolStatus = "pending"
)
