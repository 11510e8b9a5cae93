package signals

import (
	"time"
)

// Eraser is who changes and interrupts threads for the erasure of a person.
const Eraser = "erasure"

// PersonCounts counts what was of a person.
type PersonCounts struct {
	// Records that were replaced in threads that others share.
	Records int `json:"records"`

	// Logs of tool calls that were replaced there.
	ToolLogs int `json:"toolLogs"`

	// Runs of workflows that were deleted in Temporal.
	Runs int `json:"runs"`

	// Entities that were deleted.
	Entities int `json:"entities"`

	// Schedules that posted as the person, which were deleted.
	Schedules int `json:"schedules"`
}

// Add returns the sums of two counts.
func (c PersonCounts) Add(d PersonCounts) PersonCounts {
	return PersonCounts{c.Records + d.Records, c.ToolLogs + d.ToolLogs, c.Runs + d.Runs, c.Entities + d.Entities, c.Schedules + d.Schedules}
}

// PersonErasure is the receipt of the erasure of a person. It does not name the person.
type PersonErasure struct {
	// The id of the erasure.
	ID string `json:"id"`

	// The namespace of the threads.
	Namespace string `json:"namespace"`

	// The name that has replaced that of the person.
	Pseudonym string `json:"pseudonym"`

	// Who asked for it.
	By string `json:"by,omitempty"`

	// When.
	RequestedAt time.Time `json:"requestedAt"`

	// When a look at all threads had found nothing; left out while the erasure goes on.
	FinishedAt time.Time `json:"finishedAt,omitzero"`

	// The threads in which nobody else wrote or decided, which were erased: each has a receipt of its own.
	Erased []string `json:"erased" nullable:"false"`

	// The threads in which the person was replaced.
	Forgot []string `json:"forgot" nullable:"false"`

	// What was found and replaced, or deleted.
	Counts PersonCounts `json:"counts"`

	// What the erasure does not reach, and why.
	//
	// The keys are kinds of places, the values reasons.
	Remains []ErasureRemain `json:"remains" nullable:"false"`

	// The run of the workflow that has erased the person.
	Run string `json:"run"`

	// Of an erasure in progress: the threads that it could not finish yet, and comes back to; at most 100.
	Waiting []PersonWait `json:"waiting,omitempty"`
}

// PersonWait is a thread that the erasure of a person waits for. The other threads are erased meanwhile.
type PersonWait struct {
	// The thread.
	ThreadID string `json:"threadId"`

	// What is left there, and what ends it.
	Why string `json:"why"`

	// Since when.
	Since time.Time `json:"since"`
}
