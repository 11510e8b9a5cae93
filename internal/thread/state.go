package thread

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Bounds on what a thread remembers. An event that is posted again after its id was
// forgotten finds its records in the store, and has no effect either.
const (
	maxSeen     = 2000
	maxEnded    = 32
	maxOutcomes = 32
	maxDecided  = 200
	maxFailed   = 500

	// The next run of the workflow takes at most 2 MiB.
	maxQueueBytes  = 768 << 10
	maxFailedBytes = 256 << 10
	maxParkedBytes = 128 << 10
)

// State is all that a thread workflow remembers.
type State struct {
	Namespace string          `json:"namespace"`
	ThreadID  string          `json:"threadId"`
	Agents    []string        `json:"agents,omitempty"`
	Title     string          `json:"title,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	// Queue waits, in order of arrival.
	Queue []Queued `json:"queue,omitempty"`
	Turn  *Turn    `json:"turn,omitempty"`

	// Parked are turns that wait for people while the thread does something else.
	Parked []*Turn `json:"parked,omitempty"`

	// Late are events whose hook workflows may yet report, though nobody waits for it.
	Late []string `json:"late,omitempty"`

	// Held are the events that rules hold back.
	Held []Held `json:"held,omitempty"`

	// Tasks run in the background, TasksEnded are the last ones that have ended. TaskCount
	// numbers them.
	Tasks      []event.Task `json:"tasks,omitempty"`
	TasksEnded []event.Task `json:"tasksEnded,omitempty"`
	TaskCount  int          `json:"taskCount,omitempty"`

	// TasksPassed are the events about failed tasks that hooks have passed unchanged.
	TasksPassed []string `json:"tasksPassed,omitempty"`

	// Parent is set in the thread of a sub-agent. Notes are for the thread above.
	Parent *Parent `json:"parent,omitempty"`
	Notes  []Note  `json:"notes,omitempty"`

	// Subs work for this thread. SubCount numbers them.
	Subs     []Sub `json:"subs,omitempty"`
	SubCount int   `json:"subCount,omitempty"`

	// Roots are events whose turns go on with what hooks and processors have made.
	Roots []Root `json:"roots,omitempty"`

	// Failed can be retried, oldest first. Ended are done with, without their payloads.
	Failed   []FailedItem         `json:"failed,omitempty"`
	Ended    []event.Item         `json:"ended,omitempty"`
	Seen     []string             `json:"seen,omitempty"`
	Outcomes []signals.TurnResult `json:"outcomes,omitempty"`
	Settled  []Settled            `json:"settled,omitempty"`

	// Ahead are decisions that came before the thread knew of their calls.
	Ahead []signals.Decide `json:"ahead,omitempty"`

	// AheadResults are results of clients that came before their calls waited for them.
	AheadResults []signals.ToolResult `json:"aheadResults,omitempty"`

	// Pending records and Row have not been stored yet.
	Pending []event.Record `json:"pending,omitempty"`
	Row     *Row           `json:"row,omitempty"`

	// Handed counts the first records of Pending that were handed to an activity, which may
	// have stored them.
	Handed int `json:"handed,omitempty"`

	Usage event.Usage `json:"usage"`

	// RowNumber is that of the newest row.
	RowNumber int64 `json:"rowNumber,omitempty"`

	// TurnLimit is how many LLM calls an agent may make before a person or the world
	// speaks again, 0 the default; LLMCalls counts them, by the agent's name in lower case.
	TurnLimit int            `json:"turnLimit,omitempty"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty"`

	// ToCheck are decisions to be checked before they have an effect.
	ToCheck []signals.Decide `json:"toCheck,omitempty"`

	// Listed says that the thread is to be found among those that wait for approval.
	Listed bool `json:"listed,omitempty"`

	// Titles says that a thread without a title is given one, TitleTried that it was tried.
	Titles     bool `json:"titles,omitempty"`
	TitleTried bool `json:"titleTried,omitempty"`

	// TitleLater: there was nothing to find a title by, so that it is tried after the next
	// turn again.
	TitleLater bool `json:"titleLater,omitempty"`

	// Default is what the default agent was called when it last answered.
	Default string `json:"default,omitempty"`

	// Derived counts the ids that the thread made.
	Derived int64 `json:"derived,omitempty"`

	// Closing is set once the thread has been told to end.
	Closing *signals.Control `json:"closing,omitempty"`

	// inTransit are the records, and rowInTransit is the row, that a step has taken along.
	inTransit    map[string]bool
	rowInTransit *Row

	// log is for the worker's log; it is taken at once.
	log []LogLine

	// seen has the ids of Seen.
	seen map[string]bool

	// closed says that the records of the thread's end are made.
	closed bool

	// watched are the tasks that this run of the workflow has started: it hears how their
	// workflows end.
	watched map[string]bool
}

// Queued is an item that waits.
type Queued struct {
	Item   event.Item     `json:"item"`
	OnBusy signals.OnBusy `json:"onBusy,omitempty"`

	// OnWaiting is what the post says of turns that wait for people.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Options

	// Origin is set when hooks or processors made the item.
	Origin *Origin `json:"origin,omitempty"`

	// Hooked says that hooks have decided on it before it failed, Replaced what they put
	// in its place.
	Hooked   bool            `json:"hooked,omitempty"`
	Replaced json.RawMessage `json:"replaced,omitempty"`

	// Stored says that its record may be in the store, where it stays as it is.
	Stored bool `json:"stored,omitempty"`
}

// FailedItem is an item that can be retried.
type FailedItem struct {
	event.Item
	Options

	// Origin, Hooked and Replaced are as in [Queued].
	Origin   *Origin         `json:"origin,omitempty"`
	Hooked   bool            `json:"hooked,omitempty"`
	Replaced json.RawMessage `json:"replaced,omitempty"`
}

// as is the same with its item changed.
func (q Queued) as(it event.Item) Queued {
	q.Item = it
	return q
}

func (q Queued) failed() FailedItem {
	return FailedItem{Item: q.Item, Options: q.Options, Origin: q.Origin, Hooked: q.Hooked, Replaced: q.Replaced}
}

func (f FailedItem) queued() Queued {
	return Queued{Item: f.Item, Options: f.Options, Origin: f.Origin, Hooked: f.Hooked, Replaced: f.Replaced}
}

// Settled remembers how a tool call that asked for approval was settled.
type Settled struct {
	ToolCallID string `json:"toolCallId"`

	// Decision is empty if the call was settled without one, by an interrupt.
	Decision event.Decision `json:"decision,omitempty"`
}

// New makes the state of a thread that begins now.
func New(namespace, threadID string, start signals.Start, now time.Time) *State {
	s := &State{
		Namespace: namespace, ThreadID: threadID,
		Agents: start.Agents, Title: start.Title, Metadata: start.Metadata, TurnLimit: start.TurnLimit,
		Row: &Row{Title: start.Title, Status: "open", Agents: start.Agents, Metadata: start.Metadata},
	}
	s.Row.Number = s.nextRow(now)
	s.record(event.OpenedID(s.ThreadID), event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusOpened, Agents: start.Agents})
	return s
}

// firstOpened is what the numbers of tasks and sub-agents count from.
var firstOpened = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Number lets the numbers of tasks and sub-agents begin where no thread that had the same
// id before, and was terminated or forgotten, has come to: what is stored goes by them.
func (s *State) Number(opened time.Time) {
	first := int(max(opened.Sub(firstOpened), 0) / time.Second)
	s.TaskCount, s.SubCount = first, first
}

// Ref names the thread.
func (s *State) Ref() Ref { return Ref{s.Namespace, s.ThreadID} }

// Idle reports whether the thread has nothing to process.
func (s *State) Idle() bool { return len(s.turns()) == 0 && len(s.Queue) == 0 }

// Outcome returns how the turn of an event ended, if that is known.
func (s *State) Outcome(eventID string) (signals.TurnResult, bool) {
	for i := len(s.Outcomes) - 1; i >= 0; i-- {
		if s.Outcomes[i].EventID == eventID {
			return s.Outcomes[i], true
		}
	}
	return signals.TurnResult{}, false
}

// Awaits reports whether the event waits or is being processed, so that its outcome
// is still to come.
func (s *State) Awaits(eventID string) bool {
	for _, q := range s.Queue {
		if q.Item.ID == eventID {
			return true
		}
	}
	for _, r := range s.Roots {
		if r.EventID == eventID || slices.Contains(r.Joined, eventID) {
			return true
		}
	}
	return slices.ContainsFunc(s.turns(), func(t *Turn) bool {
		return t.Item.ID == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
	})
}

// maxCarriedOutcome is how much of a final message's text an outcome keeps across
// continue-as-new, in bytes.
const maxCarriedOutcome = 1 << 10

// Carried returns the state as the next run of the workflow begins with it.
func (s *State) Carried() *State {
	c := *s
	c.Outcomes = append([]signals.TurnResult(nil), s.Outcomes...)
	for i := range c.Outcomes {
		carry(&c.Outcomes[i])
	}
	c.Roots = append([]Root(nil), s.Roots...)
	for i := range c.Roots {
		carry(&c.Roots[i].Result)
	}
	return &c
}

func carry(out *signals.TurnResult) {
	out.Message = carried(out.Message)
	out.Replies = slices.Clone(out.Replies)
	for i := range out.Replies {
		out.Replies[i] = *carried(&out.Replies[i])
	}
}

func carried(m *event.Message) *event.Message {
	if m == nil || len(m.Content) <= maxCarriedOutcome {
		return m
	}
	short := *m
	short.Content, short.Truncated = cutText(m.Content, maxCarriedOutcome), true
	return &short
}

// recordUndecided records an event that models are not shown before it has passed, see
// [event.Record.WithUndecided].
func (s *State) recordUndecided(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	s.Pending = append(s.Pending, event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID).WithUndecided(typ))
}

func (s *State) record(id, typ, traceID, parent string, at time.Time, payload any) {
	s.recordIn(s.eventOf(traceID, parent), id, typ, traceID, parent, at, payload)
}

// recordIn records what belongs to the turn of an event.
func (s *State) recordIn(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	s.Pending = append(s.Pending, event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID))
}

// eventOf is the event from outside whose turn in progress has something as its cause, or
// has that trace.
func (s *State) eventOf(traceID, parent string) string {
	for _, t := range s.turns() {
		if parent == t.Item.ID {
			return t.root()
		}
	}
	if t := s.Turn; t != nil && traceID != "" && traceID == t.Item.TraceID {
		return t.root()
	}
	return ""
}

func (s *State) outcome(o signals.TurnResult) {
	if n := len(s.Pending); n > 0 && o.LastRecord == "" {
		o.LastRecord = s.Pending[n-1].ID
	}
	s.Outcomes = keepLast(append(s.Outcomes, o), maxOutcomes)
}

// forget drops the outcome of an event that is to be processed again.
func (s *State) forget(eventID string) {
	kept := s.Outcomes[:0:0]
	for _, o := range s.Outcomes {
		if o.EventID != eventID {
			kept = append(kept, o)
		}
	}
	s.Outcomes = kept
}

func (s *State) settled(callID string, d event.Decision) {
	s.Settled = keepLast(append(s.Settled, Settled{callID, d}), maxDecided)
}

// HasSeen reports whether an event of that id has been posted, as far as the thread
// remembers.
func (s *State) HasSeen(id string) bool {
	if s.seen == nil {
		s.seen = make(map[string]bool, len(s.Seen))
		for _, known := range s.Seen {
			s.seen[known] = true
		}
	}
	return s.seen[id]
}

// remember adds an event to those that have been posted.
func (s *State) remember(id string) {
	if s.HasSeen(id) {
		return
	}
	s.seen[id] = true
	s.Seen = append(s.Seen, id)
	if n := len(s.Seen) - maxSeen; n > 0 {
		delete(s.seen, s.Seen[0])
		s.Seen = s.Seen[n:]
	}
}

// newID derives a ULID from the thread and a counter: the same on replay.
func (s *State) newID(now time.Time) string {
	s.Derived++
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(s.Derived))
	sum := sha256.Sum256([]byte(s.Namespace + "/" + s.ThreadID + "/" + string(n[:])))
	var id ulid.ULID
	// A time before 1970 cannot come from a Temporal server.
	_ = id.SetTime(uint64(now.UnixMilli()))
	_ = id.SetEntropy(sum[:10])
	return id.String()
}

// keepFailed keeps the failed items within what the thread remembers: the oldest lose their
// content, which is in the store, and in the end are forgotten.
func keepFailed(items []FailedItem) []FailedItem {
	items = keepLast(items, maxFailed)
	size := 0
	for _, it := range items {
		size += it.queued().bytes() + len(it.Error)
	}
	for i := 0; size > maxFailedBytes && i < len(items)-1; i++ {
		size -= len(items[i].Payload) + len(items[i].Metadata)
		items[i] = items[i].stored()
	}
	for size > maxFailedBytes && len(items) > 1 {
		size -= items[0].queued().bytes() + len(items[0].Error)
		items = items[1:]
	}
	return items
}

// stored is the same without its content, which is in the store.
func (f FailedItem) stored() FailedItem {
	f.Payload, f.Metadata, f.Unloaded = nil, nil, true
	return f
}

func keepLast[T any](list []T, n int) []T {
	if len(list) > n {
		return append([]T(nil), list[len(list)-n:]...)
	}
	return list
}

// maxWhy is how much is kept of why something has failed, in bytes.
const maxWhy = 4 << 10

// Why returns the reason of a failure as it is kept: what programs say may be long.
func Why(text string) string {
	if len(text) > maxWhy {
		return cutText(text, maxWhy) + "…"
	}
	return text
}

// cutText cuts s to at most n bytes without splitting a character.
func cutText(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "")
}
