package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Key identifies a thread.
type Key = event.ThreadKey

// ErrNotFound means that a thread, an agent or a key does not exist.
var ErrNotFound = errors.New("not found")

// ErrUnavailable means that the store could not be reached, or did not answer before the context's
// deadline. A retry may succeed. An append may or may not have taken effect.
var ErrUnavailable = errors.New("store is unavailable")

// Unavailable returns err as an [ErrUnavailable] error with the same message.
func Unavailable(err error) error { return &unavailableError{err: err} }

// UnavailableBecause is [Unavailable] with a reason, which may be shown to anybody: it contains no
// details of the database.
func UnavailableBecause(reason Reason, err error) error { return &unavailableError{reason, err} }

// Reason is why a store is unavailable.
type Reason string

// Reasons that a store knows.
const (
	ReasonFull     Reason = "the disk or the database is full"
	ReasonReadOnly Reason = "the database accepts no writes"
)

// ReasonOf returns the reason of an [ErrUnavailable] error, if it has one.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*unavailableError](err); ok {
		return e.reason
	}
	return ""
}

type unavailableError struct {
	reason Reason
	err    error
}

func (e *unavailableError) Error() string { return e.err.Error() }

func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.err} }

// Store stores threads. Implementations are safe for concurrent use.
//
// What else a store keeps are interfaces of their own, for which its callers ask: [Agents], [APIKeys], [Documents], [Knowledge],
// [Entities] and [Erasures]. Both drivers have all of them.
type Store interface {
	// Append writes a batch in one transaction and returns the records as stored, in the given
	// order. Records that already exist are returned unchanged. It creates the thread if necessary. A
	// thread that was erased is not created again: the error is ErrErased.
	Append(ctx context.Context, key Key, batch Batch) (Appended, error)

	// Records returns the records that q selects, in order of Seq or newest first, at most q.Limit.
	// A thread that does not exist has none.
	Records(ctx context.Context, key Key, q Query) ([]event.Record, error)

	// RecordsByID returns the records with these ids that exist, in order of Seq.
	RecordsByID(ctx context.Context, key Key, ids ...string) ([]event.Record, error)

	// Thread returns a thread, or ErrNotFound, or ErrErased.
	Thread(ctx context.Context, key Key) (Thread, error)

	// ThreadLists lists threads.
	ThreadLists

	// PendingApprovals counts the approval requests that wait in the open threads of a namespace. A request of a
	// sub-agent counts in the thread for which it works.
	PendingApprovals(ctx context.Context, namespace string) (PendingApprovals, error)

	// ToolLog returns the log of one tool call, or ErrNotFound.
	ToolLog(ctx context.Context, key Key, toolCallID string) (ToolLog, error)

	// ToolLogs returns the tool logs of a thread, in order of their start.
	ToolLogs(ctx context.Context, key Key) ([]ToolLog, error)

	// Ping reports whether the store is available, for reading and for writing.
	Ping(ctx context.Context) error

	Close() error
}

// Around runs a call of a store: it calls do once, and returns its error or another one. The name is that of the method, such as
// "append" or "records_by_id".
type Around func(ctx context.Context, name string, do func(context.Context) error) error

// With returns a store of which each call runs within around, such as one that measures calls or limits their time. The store itself
// stays as it is. Both drivers do so, and a store that wraps one of them can: by a method With(Around) Store. Any other store is returned
// as it is.
func With(s Store, around Around) Store {
	if w, ok := s.(interface{ With(around Around) Store }); ok {
		return w.With(around)
	}
	return s
}

// Identified is a store that tells itself from others. Both drivers are. Stores that are not
// count as one and the same.
type Identified interface {
	// ID returns the id of the database, which remains the same for its life. A copy has the same id.
	ID(ctx context.Context) (string, error)
}

// Batch contains the data that one transaction writes.
type Batch struct {
	Records []event.Record

	// Once, if set, is the id of one of Records. If the thread already has it, none of Records is
	// stored, and Appended.Records are those that exist. It keeps records consistent that two
	// attempts would create differently.
	Once string

	// Thread, if set, updates the thread's row.
	Thread *ThreadUpdate

	// Extract are texts to be queued: see [Entities].QueueExtraction. They are queued even if all records of the batch, or
	// Once, are there already: what was queued before, or ended since, is known by its id. Whose thread is empty is of
	// this one.
	Extract []Extraction

	// ToolStart stores the start of a tool call, unless the call already has a log: see Appended.Started. The log of a call that
	// waited for input starts again.
	ToolStart *ToolLog

	// ToolFinish completes the log of a call, by ToolCallID, or creates it. It does not change a
	// finished log, unless the call waited for input.
	ToolFinish *ToolLog
}

// Appended is the result of appending a [Batch].
type Appended struct {
	// Records are the records of the batch, as stored, in the given order.
	Records []event.Record

	// Head is the Seq of the thread's newest record.
	Head int64

	// Replaced counts how often payloads of the thread's records were replaced: see [Erasures]. Payloads that were read at another
	// count may be out of date.
	Replaced int64

	// AgentChange is the Seq of the newest change of the namespace's agents, 0 without one. Agents that were read at the same one are
	// up to date.
	AgentChange int64

	// Started reports whether this batch stored ToolStart.
	Started bool
}

// Query selects records.
type Query struct {
	// After selects records with a greater Seq.
	After int64

	// Before selects records with a smaller Seq. 0 = no bound.
	Before int64

	// Types selects records of these types. Empty = all.
	Types []string

	// EventID selects records of this event's turn: see [event.Record].EventID. Empty = all.
	EventID string

	// Limit is the maximum number of records. 0 = 1000, which is the maximum.
	Limit int

	// MaxBytes limits the total size of payloads: the result ends with the record that reaches it,
	// so a single large record is returned too. 0 = no limit.
	MaxBytes int

	// Newest returns the newest records first.
	Newest bool
}

// Complete reports whether records, the result of q, are all records that q selects.
func (q Query) Complete(records []event.Record) bool {
	bytes := 0
	for _, r := range records {
		bytes += len(r.Payload)
	}
	return len(records) < q.WithDefaults().Limit && (q.MaxBytes <= 0 || bytes < q.MaxBytes)
}

// MaxLimit is the maximum number of records that a query returns.
const MaxLimit = 1000

// Thread is a thread's row.
type Thread struct {
	// The id of the thread.
	ID string `json:"id"`

	// The namespace of the server.
	Namespace string `json:"namespace"`

	// The title, once there is one.
	Title string `json:"title,omitempty"`

	// closed threads can be read, and nothing more.
	Status string `json:"status" enum:"open,closed"`

	// Of an open thread: waiting for a person to approve a call, failing because its last turn failed, running,
	// unanswered because the last message mentions no agent, or idle.
	Activity Activity `json:"activity,omitempty" enum:"idle,running,waiting,failing,unanswered"`

	// Since when, unless it is idle. Of a waiting thread: when the call that has waited longest began to wait.
	ActivitySince time.Time `json:"activitySince,omitzero"`

	// The thread for which this one works, if it is that of a sub-agent.
	Parent string `json:"parent,omitempty"`

	// The agents that answer. Empty: the default agent.
	Agents   []string        `json:"agents" nullable:"false"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Seq of the newest record.
	Head int64 `json:"head"`

	// Tokens of its model calls, of requests and replies. Those of its sub-agents are in their threads.
	Tokens int64 `json:"tokens"`

	// When the thread was opened.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// When its last record was stored.
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// PendingApprovals are the approval requests that wait for a decision.
type PendingApprovals struct {
	Count int

	// Oldest is the time of the oldest request. Zero without one.
	Oldest time.Time
}

// Statuses of a thread's row.
const (
	ThreadOpen   = "open"
	ThreadClosed = "closed"
)

// ThreadUpdate changes a thread's row. Nil and empty fields leave it unchanged.
type ThreadUpdate struct {
	// Number orders the updates of a thread: an update is ignored if the row already has one with
	// the same or a greater number. Each update therefore includes the changes of earlier ones that
	// may not have been stored. 0 = always applied.
	Number int64

	Title    *string
	Status   string
	Agents   []string
	Metadata json.RawMessage

	// Parent is the thread for which this one works, if it is that of a sub-agent. It decides which threads are erased
	// together, so it never comes from a client.
	Parent string
}

// ToolLog is the log of one tool call: its raw input and output, and its status.
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

// ToolStatus is the status of a tool call.
type ToolStatus string

// The statuses of a tool call.
const (
	ToolStarted     ToolStatus = "started"
	ToolSucceeded   ToolStatus = "succeeded"
	ToolFailed      ToolStatus = "failed"
	ToolDenied      ToolStatus = "denied"
	ToolInterrupted ToolStatus = "interrupted"
	ToolUnknown     ToolStatus = "unknown"

	// ToolWaiting means that the tool asked for input of a person, with which it runs again.
	ToolWaiting ToolStatus = "waiting"

	// ToolPending means that the call continues as a background task that is completed from
	// outside.
	ToolPending ToolStatus = "pending"
)
