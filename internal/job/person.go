package job

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// MaxErasedThreads bounds the threads of one erasure: sub-agents of sub-agents, each with its thread. Their ids fit into one
// payload and one receipt.
const MaxErasedThreads = 10_000

// Names for the erasure of people.
const (
	// ErasePersonWorkflow erases a person in all threads of a namespace. Its input is an [ErasePersonInput], its result a
	// [signals.PersonErasure], and its id an [ErasePersonWorkflowID]. Who the person is, the store has: the history has ids and counts, and
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
	Erased []string             `json:"erased,omitempty"`
	Forgot []string             `json:"forgot,omitempty"`
	Counts signals.PersonCounts `json:"counts"`

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
	if err := signals.ValidateID("namespace", s.Namespace); err != nil {
		return err
	}
	if err := signals.ValidateID("id", s.ID); err != nil {
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
	Counts signals.PersonCounts `json:"counts"`

	// Alone means that nobody else wrote, decided or answered in the thread, and that nothing waits there: it can be erased.
	Alone bool `json:"alone,omitempty"`
}

// PersonFinish is the input of "person_finish".
type PersonFinish struct {
	PersonStep
	Progress ErasePersonProgress `json:"progress"`
}

// MaxPersonWaits bounds the threads of which an erasure in progress tells why it waits for them.
const MaxPersonWaits = 100
