package thread

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Limits on the ids and items that a thread remembers. A post whose id was forgotten is still
// ignored: its records exist in the store.
const (
	maxPostedIDs = 2000
	maxEnded     = 32
	maxOutcomes  = 200
	maxDecided   = 200
	maxFailed    = 500

	// The input of a workflow run has at most 2 MiB.
	maxQueueBytes  = 768 << 10
	maxFailedBytes = 256 << 10
	maxParkedBytes = 128 << 10
)

// State is the entire state of a thread workflow. What concerns several of its parts is a method of State, of a [Turn], or
// of its runs and calls.
type State struct {
	Namespace string          `json:"namespace"`
	ThreadID  string          `json:"threadId"`
	Title     string          `json:"title,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	Roster     Roster     `json:"roster"`
	Inbox      Inbox      `json:"inbox"`
	Turns      Turns      `json:"turns"`
	Decisions  Decisions  `json:"decisions"`
	Tasks      Tasks      `json:"tasks"`
	Children   Children   `json:"children"`
	ParentLink ParentLink `json:"parentLink"`
	Titling    Titling    `json:"titling"`
	Outbox     Outbox     `json:"outbox"`
	Pace       Pace       `json:"pace,omitzero"`

	// Usage is the sum of all model calls, also those of sub-agents that have ended.
	Usage event.Usage `json:"usage"`

	// ModelQueues are the task queues of the last model calls of agents, by the names by which they
	// are addressed, of those whose calls do not run on the thread's.
	ModelQueues ByAgent `json:"modelQueues,omitempty"`

	// Models are the last models of agents, by their names: for people who look at the thread's workflow.
	Models ByAgent `json:"models,omitempty"`

	// Ended are the last turns, the newest last: for them, too.
	Ended []EndedTurn `json:"ended,omitempty"`

	// endedTable is the table of Ended, until that changes.
	endedTable string

	// Opened is the time at which the thread's first workflow run was started. Numbered counts the ids of each
	// purpose that the thread has derived.
	Opened   time.Time        `json:"opened,omitzero"`
	Numbered map[string]int64 `json:"numbered,omitempty"`

	// Forgetting are the people whom the thread forgets when it continues as new.
	Forgetting []job.Forget `json:"forgetting,omitempty"`

	// Closing is the request to close the thread, if there is one.
	Closing *signals.Control `json:"closing,omitempty"`

	// closed is set when the records of the thread's end have been added.
	closed bool

	// Log is not carried over: the workflow writes it before it continues as new.
	Log Log `json:"-"`
}

// New returns the state of a new thread, whose workflow was started at opened.
func New(namespace, threadID string, start signals.Start, opened, now time.Time) *State {
	s := &State{
		Namespace: namespace, ThreadID: threadID, Opened: opened,
		Title: start.Title, Metadata: start.Metadata,
		Roster: Roster{Agents: start.Agents, TurnLimit: start.TurnLimit},
		Outbox: Outbox{Row: &step.Row{Title: start.Title, Status: "open", Agents: start.Agents, Metadata: start.Metadata}},
	}
	s.bind()
	s.Outbox.Row.Number = s.Outbox.nextRow(now)
	s.record(recordid.Opened(s.ThreadID), event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusOpened, Agents: start.Agents})
	return s
}

// UnmarshalJSON reads the state that the previous workflow run carried over.
func (s *State) UnmarshalJSON(data []byte) error {
	type plain State // without this method
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	s.bind()
	return nil
}

// bind connects turns, runs and calls to what they belong to.
func (s *State) bind() {
	for _, t := range append(s.Turns.all(), s.Turns.Deciding...) {
		t.thread = s
		for _, r := range t.Runs {
			r.turn = t
			for _, c := range r.Calls {
				c.run = r
			}
		}
	}
}

// firstOpened is the time from which the numbers of tasks and sub-agents count.
var firstOpened = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Number sets the first numbers of tasks and sub-agents, above those of an earlier thread with the
// same id: record ids depend on them.
func (s *State) Number(opened time.Time) {
	first := int(max(opened.Sub(firstOpened), 0) / time.Second)
	s.Tasks.Count, s.Children.Count = first, first
}

// Ref returns the reference to the thread.
func (s *State) Ref() step.Ref { return step.Ref{Namespace: s.Namespace, ThreadID: s.ThreadID} }

// Carried returns the state that the next workflow run starts with.
func (s *State) Carried() *State {
	c := *s
	c.Turns.Outcomes = append([]signals.TurnResult(nil), s.Turns.Outcomes...)
	for i := range c.Turns.Outcomes {
		carry(&c.Turns.Outcomes[i])
	}
	c.Turns.Roots = append([]Root(nil), s.Turns.Roots...)
	for i := range c.Turns.Roots {
		carry(&c.Turns.Roots[i].Result)
	}
	return &c
}

// StartClosing makes the thread reject events and end its work, unless it is closing already.
func (s *State) StartClosing(c signals.Control) {
	if s.Closing == nil {
		s.Closing = &c
	}
}

// Close ends the thread. Events in the queue are recorded as failed.
func (s *State) Close(now time.Time) {
	for _, q := range s.Inbox.ordered() {
		s.unprocessed(now, q)
	}
	s.Inbox.Queue, s.closed = nil, true
	s.settleRoots(now)
	s.record(recordid.Closed(s.ThreadID, s.nextID("closed")), event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusClosed, By: s.Closing.By, Detail: s.Closing.Reason})
	s.Outbox.changeRow(now).Status = "closed"
}

func (s *State) record(id, typ, traceID, parent string, at time.Time, payload any) {
	s.Outbox.recordIn(s.Turns.eventOf(traceID, parent), id, typ, traceID, parent, at, payload)
}

// nextID derives the thread's next ULID for a purpose. A workflow task that is lost with its worker derives the same
// ones again, so records that it has stored are not stored twice: ids depend on what came before for the same purpose,
// and not on the time of the task.
func (s *State) nextID(purpose string) string {
	if s.Numbered == nil {
		s.Numbered = map[string]int64{}
	}
	s.Numbered[purpose]++
	return s.derivedID(purpose, int(s.Numbered[purpose]))
}

// derivedID derives a ULID that is unique in the thread from what it is for, and a number.
func (s *State) derivedID(of string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%s/%d", s.Namespace, s.ThreadID, s.Opened.UnixNano(), of, n))
	var id ulid.ULID
	if !s.Opened.IsZero() {
		_ = id.SetTime(uint64(s.Opened.UnixMilli()))
	}
	_ = id.SetEntropy(sum[:10])
	return id.String()
}

// keepLast removes all but the last n elements, in place.
func keepLast[T any](list []T, n int) []T {
	return slices.Delete(list, 0, max(0, len(list)-n))
}

// maxDirectory is the maximum length of a working directory's path, in bytes.
const maxDirectory = 4 << 10

// workingDirectory returns the working directory in a thread's metadata, or "".
func workingDirectory(metadata json.RawMessage) string {
	var fields struct {
		WorkingDirectory string `json:"workingDirectory"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &fields) != nil || len(fields.WorkingDirectory) > maxDirectory {
		return ""
	}
	return fields.WorkingDirectory
}

// oneCall returns the usage of one model call.
func oneCall(u event.Usage) event.Usage {
	u.ModelCalls = 1
	return u
}

// Resting reports whether the thread has nothing to do and waits for nothing.
func (s *State) Resting() bool {
	return s.idle() && len(s.Turns.Deciding)+len(s.Turns.Roots)+len(s.Inbox.Debounced)+len(s.Tasks.Running)+len(s.Children.SubAgents) == 0 && !s.Outbox.Unstored()
}
