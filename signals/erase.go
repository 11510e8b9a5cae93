package signals

import (
	"errors"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Names for the erasure of threads.
const (
	// EraseWorkflow erases a thread and the threads of its sub-agents. Its input is an [EraseInput], its result an [Erasure],
	// and its id an [EraseWorkflowID]. Its history contains ids and counts, and nothing that was said.
	EraseWorkflow = "erase"

	// ActivityEraseFind marks a thread as erased, stops it and finds what belongs to it. ActivityEraseDelete deletes that.
	// ActivityEraseFinish cleans the files of the store, looks for what is left and stores the receipt. ActivityEraseLate begins the erasure of a thread that
	// was erased and has been started again.
	ActivityEraseFind   = "erase_find"
	ActivityEraseDelete = "erase_delete"
	ActivityEraseFinish = "erase_finish"
	ActivityEraseLate   = "erase_late"
)

// ErasedType is the type of the application errors of an erased thread.
const ErasedType = "erased"

// ErrThreadErased means that the thread was erased. Nothing can be posted to it.
var ErrThreadErased = errors.New("the thread was erased")

// EraseWorkflowID returns the id of the workflow that erases a thread.
func EraseWorkflowID(namespace, threadID string) string { return "erase/" + namespace + "/" + threadID }

// MaxErasedThreads bounds the threads of one erasure: sub-agents of sub-agents, each with its thread. Their ids fit into one
// payload and one receipt.
const MaxErasedThreads = 10_000

// EraseInput is the input of the workflow that erases a thread.
type EraseInput struct {
	EraseStep

	// Progress is what the runs that it continues have done. Nil = it is the first run.
	Progress *EraseProgress `json:"progress,omitempty"`
}

// EraseProgress is what an erasure has done.
type EraseProgress struct {
	RequestedAt time.Time `json:"requestedAt"`

	// Threads are the thread and those of its sub-agents, as far as they are found. The first of them, as many as Stopped, are
	// stopped, and the first of these, as many as Deleted, are deleted.
	Threads []string `json:"threads"`
	Stopped int      `json:"stopped"`
	Deleted int      `json:"deleted"`

	// Beyond is a thread that is not erased because of [MaxErasedThreads].
	Beyond string `json:"beyond,omitempty"`

	// Erased counts what was found. Workflows and Schedules are some of it, for the last look.
	Erased    ErasedCounts `json:"erased"`
	Workflows []string     `json:"workflows,omitempty"`
	Schedules []string     `json:"schedules,omitempty"`
}

// EraseStep is a thread that is erased.
type EraseStep struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`

	// By is the person or program that asked for the erasure. Empty = unknown.
	By string `json:"by,omitempty"`

	// Late means that nobody asked: the thread was started again after its erasure.
	Late bool `json:"late,omitempty"`

	// Part means that the erasure is part of a larger work, which cleans the files of the store at its end: cleaning reads all of them.
	Part bool `json:"part,omitempty"`
}

// Validate returns an [*event.FieldError] if the step names no thread.
func (s EraseStep) Validate() error {
	if err := ValidateID("namespace", s.Namespace); err != nil {
		return err
	}
	if err := ValidateID("threadId", s.ThreadID); err != nil {
		return err
	}
	if s.By != "" {
		return event.ValidateName("by", s.By)
	}
	return nil
}

// FoundWorkflows are the workflows of a thread.
type FoundWorkflows struct {
	// Runs are all runs, but for those of the threads of sub-agents. Listed counts deleted runs that visibility still lists, with
	// the title of the thread.
	Runs   []WorkflowRun
	Listed int

	// Threads are the ids of the threads of its sub-agents, Others those of further workflows that its runs have started, but
	// for hooks.
	Threads, Others []string
}

// WorkflowRun is a run of a workflow. Open reports whether it was running.
type WorkflowRun struct {
	WorkflowID, RunID string
	Open              bool
}

// EraseFound is the result of "erase_find".
type EraseFound struct {
	Counts ErasedCounts `json:"counts"`

	// Threads are the ids of the threads of sub-agents, Workflows those of other workflows, without those of hooks.
	Threads   []string `json:"threads,omitempty"`
	Workflows []string `json:"workflows,omitempty"`

	// Schedules are the schedules that post to the thread, Documents the knowledge documents that were ingested from it.
	Schedules []string `json:"schedules,omitempty"`
	Documents []string `json:"documents,omitempty"`
}

// EraseDelete is the input of "erase_delete".
type EraseDelete struct {
	EraseStep
	Found EraseFound `json:"found"`
}

// EraseFinish is the input of "erase_finish".
type EraseFinish struct {
	EraseStep
	Progress EraseProgress `json:"progress"`
}

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
