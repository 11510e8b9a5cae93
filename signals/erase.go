package signals

import (
	"errors"
	"time"
)

// ErasedType is the type of the application errors of an erased thread.
const ErasedType = "erased"

// ErrThreadErased means that the thread was erased. Nothing can be posted to it.
var ErrThreadErased = errors.New("the thread was erased")

// ErasedCounts counts what belongs to erased threads, by its kind.
type ErasedCounts struct {
	// Records, which include the messages.
	Records int `json:"records"`

	// Logs of tool calls.
	ToolLogs int `json:"toolLogs"`

	// Texts that were queued for the extraction of entities.
	Extractions int `json:"extractions"`

	// Mentions of entities.
	Mentions int `json:"mentions"`

	// Knowledge documents that were ingested from the threads.
	Documents int `json:"documents"`

	// Schedules that posted to the threads.
	Schedules int `json:"schedules"`

	// Runs of workflows in Temporal: of the threads, their hooks, tasks, schedules and ingestions.
	Runs int `json:"runs"`
}

// Add returns the sums of two counts.
func (c ErasedCounts) Add(d ErasedCounts) ErasedCounts {
	return ErasedCounts{
		c.Records + d.Records, c.ToolLogs + d.ToolLogs, c.Extractions + d.Extractions, c.Mentions + d.Mentions,
		c.Documents + d.Documents, c.Schedules + d.Schedules, c.Runs + d.Runs,
	}
}

// Erasure is the receipt of an erasure. It contains nothing that was said.
type Erasure struct {
	// The namespace of the threads.
	Namespace string `json:"namespace"`

	// The thread that was to be erased.
	ThreadID string `json:"threadId"`

	// The threads that were erased: the thread, and those of its sub-agents.
	Threads []string `json:"threads" nullable:"false"`

	// Who asked for it.
	By string `json:"by,omitempty"`

	// When; left out while the erasure goes on.
	RequestedAt time.Time `json:"requestedAt,omitzero"`

	// When the second look had found nothing; left out while the erasure goes on.
	FinishedAt time.Time `json:"finishedAt,omitzero"`

	// What was found and deleted.
	Erased ErasedCounts `json:"erased"`

	// What the second look has found. Nothing, unless something failed.
	Left ErasedCounts `json:"left"`

	// What the erasure does not reach, and why.
	//
	// The keys are kinds of places, the values reasons.
	Remains []ErasureRemain `json:"remains" nullable:"false"`

	// The run of the workflow that has erased it last.
	Run string `json:"run"`

	// How often the thread was started again since, and erased again.
	Late int `json:"late,omitempty"`

	// When that happened last.
	LateAt time.Time `json:"lateAt,omitzero"`
}

// ErasureRemain is a place that an erasure does not reach.
type ErasureRemain struct {
	// The place.
	What string `json:"what"`

	// Why the erasure does not reach it, and when it is gone.
	Why string `json:"why"`
}
