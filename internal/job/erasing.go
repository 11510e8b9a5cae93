package job

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Names for the erasure of threads.
const (
	// EraseWorkflow erases a thread and the threads of its sub-agents. Its input is an [EraseInput], its result an [signals.Erasure],
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

// EraseWorkflowID returns the id of the workflow that erases a thread.
func EraseWorkflowID(namespace, threadID string) string { return "erase/" + namespace + "/" + threadID }

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
	Erased    signals.ErasedCounts `json:"erased"`
	Workflows []string             `json:"workflows,omitempty"`
	Schedules []string             `json:"schedules,omitempty"`
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
	if err := signals.ValidateID("namespace", s.Namespace); err != nil {
		return err
	}
	if err := signals.ValidateID("threadId", s.ThreadID); err != nil {
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
	Counts signals.ErasedCounts `json:"counts"`

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
