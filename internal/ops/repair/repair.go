// Package repair is the vocabulary of the comparison of a store with Temporal, after one of them was restored from a
// backup: the API compares and mends (POST /v1/repair), and "starter repair" shows the result.
package repair

// Limits of [RepairRequest].Limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// RepairRequest selects the threads to compare.
type RepairRequest struct {
	// ThreadID selects one thread. Empty = all of them, in pages.
	ThreadID string `json:"threadId,omitempty" doc:"Compare this thread only. Default: all threads, in pages"`
	Cursor   string `json:"cursor,omitempty" doc:"The next of the previous page"`
	Limit    int    `json:"limit,omitempty" minimum:"0" maximum:"1000" doc:"The maximum number of threads to compare. Default 100"`
	Apply    bool   `json:"apply,omitempty" doc:"Mend what differs. Default: only tell it"`
}

// Comparison tells what differs.
type Comparison struct {
	Compared int               `json:"compared" doc:"The number of threads that were compared"`
	Threads  []DifferingThread `json:"threads" nullable:"false" doc:"Those that differ"`
	Next     string            `json:"next,omitempty" doc:"The cursor of the next page, unless this is the last one"`
	Notes    []string          `json:"notes,omitempty" doc:"What could not be compared, and why"`
}

// DifferingThread is a thread of which the store and Temporal have different things.
type DifferingThread struct {
	ThreadID    string       `json:"threadId" doc:"The id of the thread"`
	Title       string       `json:"title,omitempty" doc:"The title, if it has one"`
	Differences []Difference `json:"differences" nullable:"false" doc:"What differs"`
}

// Difference is one thing that differs.
type Difference struct {
	Kind   Kind   `json:"kind" enum:"records,row,workflow,events,turns,answers,tasks,closed,ended,erased,lost,history" doc:"What differs"`
	In     Side   `json:"in" enum:"store,temporal" doc:"Where it is missing"`
	Count  int    `json:"count,omitempty" doc:"How many are missing"`
	Detail string `json:"detail" doc:"What is missing, for people"`
	Action string `json:"action,omitempty" doc:"What mends it"`
	State  State  `json:"state" enum:"found,mended,unmendable,failed" doc:"found: it can be mended. mended: it was. unmendable: it is lost. failed: it could not be mended this time"`
	Error  string `json:"error,omitempty" doc:"Why it could not be mended this time"`
}

// Kind is a kind of [Difference].
type Kind string

// The kinds.
const (
	// Records that a workflow wrote are missing in the store, or the thread's row is older.
	Records Kind = "records"
	Row     Kind = "row"

	// Workflow of an open thread is missing in Temporal.
	Workflow Kind = "workflow"

	// Events that the store has are unknown to the workflow. Turns of events have not ended.
	Events Kind = "events"
	Turns  Kind = "turns"

	// Answers of people and clients, and ends of Tasks, are unknown to the workflow.
	Answers Kind = "answers"
	Tasks   Kind = "tasks"

	// Closed thread whose workflow runs. Ended workflow of an open thread.
	Closed Kind = "closed"
	Ended  Kind = "ended"

	// Erased thread of which one side has something again.
	Erased Kind = "erased"

	// Lost is what neither side has. History that cannot be read or replayed tells nothing.
	Lost    Kind = "lost"
	History Kind = "history"
)

// Side is where something is missing.
type Side string

// The sides.
const (
	Store    Side = "store"
	Temporal Side = "temporal"
)

// State is what became of a [Difference].
type State string

// The states.
const (
	Found      State = "found"
	Mended     State = "mended"
	Unmendable State = "unmendable"
	Failed     State = "failed"
)
