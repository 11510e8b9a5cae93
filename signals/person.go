package signals

import (
	"time"

	"github.com/threadmill/threadmill/event"
)

// Names for the erasure of people.
const (
	// ErasePersonWorkflow erases a person in all threads of a namespace. Its input is an [ErasePersonInput], its result a
	// [PersonErasure], and its id an [ErasePersonWorkflowID]. Who the person is, the store has: the history has ids and counts, and
	// nothing that was said. The HTTP API and Runtime.ErasePerson start it.
	ErasePersonWorkflow = "erase_person"

	// ActivityPersonFind finds the threads of a page that have something of the person. ActivityPersonForget replaces that in one
	// thread. ActivityPersonFinish does so with what belongs to no thread, and stores the receipt.
	ActivityPersonFind   = "person_find"
	ActivityPersonForget = "person_forget"
	ActivityPersonFinish = "person_finish"

	// SignalForget has a thread end what it does for a person, and continue as new without what the person said. It is not for
	// clients.
	SignalForget = "forget"
)

// ErasePersonWorkflowID returns the id of the workflow that erases a person. id is that of the erasure.
func ErasePersonWorkflowID(namespace, id string) string {
	return "erase-person/" + namespace + "/" + id
}

// Eraser is who changes and interrupts threads for the erasure of a person.
const Eraser = "erasure"

// Forget is the payload of signal [SignalForget].
type Forget struct {
	// Person is the name of the person, which Pseudonym replaces. Terms are further words by which the person is known.
	Person    string   `json:"person"`
	Pseudonym string   `json:"pseudonym"`
	Terms     []string `json:"terms,omitempty"`

	// Turns are the newest events of the person in this thread, and Titles those of its titles that came of what the person said.
	Turns  []string `json:"turns,omitempty"`
	Titles []string `json:"titles,omitempty"`

	// Inherited means that the thread is that of a sub-agent which worked for the person: all titles came of it.
	Inherited bool `json:"inherited,omitempty"`
}

// ErasePersonInput is the input of the workflow that erases a person.
type ErasePersonInput struct {
	PersonStep

	// Progress is what the runs that it continues have done. Nil = it is the first run.
	Progress *ErasePersonProgress `json:"progress,omitempty"`
}

// ErasePersonProgress is what the erasure of a person has done.
type ErasePersonProgress struct {
	RequestedAt time.Time `json:"requestedAt"`

	// Pass counts the looks at all threads, from 0. After is the thread at which this one has arrived, and Changed the number of threads
	// in which it has found something.
	Pass    int    `json:"pass"`
	After   string `json:"after,omitempty"`
	Changed int    `json:"changed,omitempty"`

	// Erased and Forgot are the threads that were erased, and those in which the person was replaced: at most [MaxErasedThreads] each.
	Erased []string     `json:"erased,omitempty"`
	Forgot []string     `json:"forgot,omitempty"`
	Counts PersonCounts `json:"counts"`

	// Waiting are the threads that could not be finished when it was their turn. There is no receipt before they are.
	Waiting []WaitingThread `json:"waiting,omitempty"`
}

// WaitingThread is a thread that the erasure of a person comes back to. Erasing means that it is erased as a whole.
type WaitingThread struct {
	ThreadID string `json:"threadId"`
	Erasing  bool   `json:"erasing,omitempty"`
}

// PersonStep is a person who is erased: by the id of the erasure.
type PersonStep struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	By        string `json:"by,omitempty"`

	// ThreadID is the thread to handle or, for "person_find", the thread after which to look.
	ThreadID string `json:"threadId,omitempty"`
}

// Validate returns an [*event.FieldError] if the step names no erasure.
func (s PersonStep) Validate() error {
	if err := ValidateID("namespace", s.Namespace); err != nil {
		return err
	}
	if err := ValidateID("id", s.ID); err != nil {
		return err
	}
	if s.By != "" {
		return event.ValidateName("by", s.By)
	}
	return nil
}

// FoundPerson is the result of "person_find".
type FoundPerson struct {
	// Threads are those that have something of the person. Schedules were deleted, since they post as the person.
	Threads   []string `json:"threads,omitempty"`
	Schedules int      `json:"schedules,omitempty"`

	// Next is the thread after which to go on. Empty = these were the last.
	Next string `json:"next,omitempty"`
}

// ForgotPerson is the result of "person_forget".
type ForgotPerson struct {
	Counts PersonCounts `json:"counts"`

	// Alone means that nobody else wrote, decided or answered in the thread, and that nothing waits there: it can be erased.
	Alone bool `json:"alone,omitempty"`
}

// PersonFinish is the input of "person_finish".
type PersonFinish struct {
	PersonStep
	Progress ErasePersonProgress `json:"progress"`
}

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
	//
	// The limit is [MaxPersonWaits].
	Waiting []PersonWait `json:"waiting,omitempty"`
}

// MaxPersonWaits bounds the threads of which an erasure in progress tells why it waits for them.
const MaxPersonWaits = 100

// PersonWait is a thread that the erasure of a person waits for. The other threads are erased meanwhile.
type PersonWait struct {
	// The thread.
	ThreadID string `json:"threadId"`

	// What is left there, and what ends it.
	Why string `json:"why"`

	// Since when.
	Since time.Time `json:"since"`
}
