package step

import (
	"cmp"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Ref is a reference to a thread.
type Ref = event.ThreadKey

// Run contains the inputs that the steps of a run have in common.
type Run struct {
	Thread Ref `json:"thread"`

	// Agent is the name of the agent, "" for the default agent.
	Agent   string `json:"agent,omitempty"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root is the posted event that the turn belongs to, if it is not EventID.
	Root string `json:"root,omitempty"`

	// MessageID is the id of the reply, or of the reply that contains the calls.
	MessageID string `json:"messageId"`

	// Tools restricts the tools that the agent may call. Nil = no restriction.
	Tools []string `json:"tools,omitzero"`

	// WorkingDirectory is the thread's working directory, if it has one.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	Flush Flush `json:"flush"`
	Local
}

// TurnEvent returns the event whose turn a step belongs to.
func TurnEvent(root, eventID string) string { return cmp.Or(root, eventID) }

// Flush contains the records and the row that the next activity stores before it acts.
type Flush struct {
	Records []event.Record `json:"records,omitempty"`
	Row     *Row           `json:"row,omitempty"`
}

// Row is a change of the thread's row in the store. It includes all changes that may not have been
// stored yet.
type Row struct {
	// Number increases with every row. A retried step may try to store an older row after a newer
	// one; the store ignores the older one.
	Number int64 `json:"number,omitempty"`

	Title    string          `json:"title,omitempty"`
	Status   string          `json:"status,omitempty"`
	Agents   []string        `json:"agents,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Parent is the parent thread of a sub-agent's thread.
	Parent string `json:"parent,omitempty"`
}

// Load is the input of load_event, which loads the content of an event that only the store has.
type Load struct {
	Thread  Ref    `json:"thread"`
	EventID string `json:"eventId"`
}

// LoadReply is the result of load_event.
type LoadReply struct {
	Payload  json.RawMessage `json:"payload,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Record is the input of record, which stores records when no other activity does.
type Record struct {
	Thread Ref   `json:"thread"`
	Flush  Flush `json:"flush"`
}

// Notify is the input of notify, which tells running steps to stop immediately.
type Notify struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	Reason  string `json:"reason,omitempty"`
}
