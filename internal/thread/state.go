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

// Limits on the ids and items that a thread remembers. A post whose id was forgotten is still
// ignored: its records exist in the store.
const (
	maxPostedIDs = 2000
	maxEnded     = 32
	maxOutcomes  = 32
	maxDecided   = 200
	maxFailed    = 500

	// The input of a workflow run has at most 2 MiB.
	maxQueueBytes  = 768 << 10
	maxFailedBytes = 256 << 10
	maxParkedBytes = 128 << 10
)

// State is the entire state of a thread workflow. Its parts have their own fields and methods;
// State has the methods that need several parts.
type State struct {
	Namespace string          `json:"namespace"`
	ThreadID  string          `json:"threadId"`
	Title     string          `json:"title,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	Roster
	Inbox
	Turns
	Decisions
	Background
	Children
	ParentLink
	Titling
	Outbox

	Usage event.Usage `json:"usage"`

	// Derived is the number of ids that the thread has derived.
	Derived int64 `json:"derived,omitempty"`

	// Closing is the request to close the thread, if there is one.
	Closing *signals.Control `json:"closing,omitempty"`

	// closed is set when the records of the thread's end have been added.
	closed bool

	// log contains lines for the worker's log.
	log []LogLine
}

// Queued is an item in the queue.
type Queued struct {
	Item   event.Item     `json:"item"`
	OnBusy signals.OnBusy `json:"onBusy,omitempty"`

	// OnWaiting is the post's setting for turns that wait for people.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
	Options

	// Origin is set if hooks or processors derived the item.
	Origin *Origin `json:"origin,omitempty"`

	// Hooked means that hooks have already decided on the item. Replaced is the event with which
	// they replaced it.
	Hooked   bool            `json:"hooked,omitempty"`
	Replaced json.RawMessage `json:"replaced,omitempty"`

	// Stored means that the item's record may be in the store, so it cannot be changed.
	Stored bool `json:"stored,omitempty"`

	message *event.NewMessage // the decoded payload, or nil
}

// newMessage returns the item's message. Its payload was validated when it was posted.
func (q *Queued) newMessage() event.NewMessage {
	if q.message == nil {
		q.message = &event.NewMessage{}
		_ = json.Unmarshal(q.Item.Payload, q.message)
	}
	return *q.message
}

// as returns a copy with another item.
func (q Queued) as(it event.Item) Queued {
	q.Item = it
	return q
}

// Settled is the outcome of a tool call that needed approval.
type Settled struct {
	ToolCallID string `json:"toolCallId"`

	// Decision is empty if the call ended without a decision, by an interrupt.
	Decision event.Decision `json:"decision,omitempty"`
}

// New returns the state of a new thread.
func New(namespace, threadID string, start signals.Start, now time.Time) *State {
	s := &State{
		Namespace: namespace, ThreadID: threadID,
		Title: start.Title, Metadata: start.Metadata,
		Roster: Roster{Agents: start.Agents, TurnLimit: start.TurnLimit},
		Outbox: Outbox{Row: &Row{Title: start.Title, Status: "open", Agents: start.Agents, Metadata: start.Metadata}},
	}
	s.bind()
	s.Row.Number = s.nextRow(now)
	s.record(event.OpenedID(s.ThreadID), event.TypeStatus, "", "", now,
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

// bind connects the parts to the state.
func (s *State) bind() {
	s.Inbox.thread, s.Turns.thread, s.Decisions.thread, s.Background.thread = s, s, s, s
	s.Children.thread, s.ParentLink.thread, s.Titling.thread = s, s, s
	for _, t := range s.turns() {
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
	s.TaskCount, s.SubAgentCount = first, first
}

// Ref returns the reference to the thread.
func (s *State) Ref() Ref { return Ref{s.Namespace, s.ThreadID} }

// Idle reports whether the thread has nothing to process.
func (ts *Turns) Idle() bool {
	s := ts.thread
	return len(ts.turns()) == 0 && len(s.Queue) == 0
}

// Outcome returns the result of an event's turn, if it is known.
func (ts *Turns) Outcome(eventID string) (signals.TurnResult, bool) {
	for i := len(ts.Outcomes) - 1; i >= 0; i-- {
		if ts.Outcomes[i].EventID == eventID {
			return ts.Outcomes[i], true
		}
	}
	return signals.TurnResult{}, false
}

// Awaits reports whether the event is queued or in progress, so its result is still to come.
func (ts *Turns) Awaits(eventID string) bool {
	s := ts.thread
	for _, q := range s.Queue {
		if q.Item.ID == eventID {
			return true
		}
	}
	for _, r := range ts.Roots {
		if r.EventID == eventID || slices.Contains(r.Joined, eventID) {
			return true
		}
	}
	return slices.ContainsFunc(ts.turns(), func(t *Turn) bool {
		return t.Item.ID == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
	})
}

// maxCarriedOutcome is the maximum length of a final message that an outcome carries over
// continue-as-new, in bytes.
const maxCarriedOutcome = 1 << 10

// Carried returns the state that the next workflow run starts with.
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

// recordUndecided adds the record of an event that models do not see until hooks have passed it:
// see
// [event.Record.WithUndecided].
func (s *State) recordUndecided(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	s.Pending = append(s.Pending, event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID).WithUndecided(typ))
}

// record adds a record to the turn.
func (t *Turn) record(now time.Time, id, typ string, payload any) {
	t.recordCausedBy(now, id, typ, t.Item.ID, payload)
}

// recordCausedBy adds a record to the turn whose parent is not the turn's item.
func (t *Turn) recordCausedBy(now time.Time, id, typ, parent string, payload any) {
	t.thread.recordIn(t.root(), id, typ, t.Item.TraceID, parent, now, payload)
}

// recordUndecided adds the record of an event of the turn that models do not see until hooks have
// passed it: see
// [event.Record.WithUndecided].
func (t *Turn) recordUndecided(now time.Time, id, typ string, payload any) {
	t.thread.recordUndecided(t.root(), id, typ, t.Item.TraceID, t.Item.ID, now, payload)
}

func (s *State) record(id, typ, traceID, parent string, at time.Time, payload any) {
	s.recordIn(s.eventOf(traceID, parent), id, typ, traceID, parent, at, payload)
}

// recordIn adds a record to the turn of an event.
func (o *Outbox) recordIn(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	o.Pending = append(o.Pending, event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID))
}

// eventOf returns the posted event of the turn in progress that has the trace or contains the
// parent, or "".
func (ts *Turns) eventOf(traceID, parent string) string {
	for _, t := range ts.turns() {
		if parent == t.Item.ID {
			return t.root()
		}
	}
	if t := ts.Turn; t != nil && traceID != "" && traceID == t.Item.TraceID {
		return t.root()
	}
	return ""
}

func (ts *Turns) addOutcome(o signals.TurnResult) {
	s := ts.thread
	if n := len(s.Pending); n > 0 && o.LastRecord == "" {
		o.LastRecord = s.Pending[n-1].ID
	}
	ts.Outcomes = keepLast(append(ts.Outcomes, o), maxOutcomes)
}

// forgetOutcome removes the outcome of an event that will be processed again.
func (ts *Turns) forgetOutcome(eventID string) {
	kept := ts.Outcomes[:0:0]
	for _, o := range ts.Outcomes {
		if o.EventID != eventID {
			kept = append(kept, o)
		}
	}
	ts.Outcomes = kept
}

func (ds *Decisions) rememberSettled(callID string, d event.Decision) {
	ds.Settled = keepLast(append(ds.Settled, Settled{callID, d}), maxDecided)
}

// WasPosted reports whether the thread remembers an event with this id.
func (in *Inbox) WasPosted(id string) bool {
	if in.posted == nil {
		in.posted = make(map[string]bool, len(in.PostedIDs))
		for _, known := range in.PostedIDs {
			in.posted[known] = true
		}
	}
	return in.posted[id]
}

// rememberPosted adds an event to the posted events.
func (in *Inbox) rememberPosted(id string) {
	if in.WasPosted(id) {
		return
	}
	in.posted[id] = true
	in.PostedIDs = append(in.PostedIDs, id)
	if n := len(in.PostedIDs) - maxPostedIDs; n > 0 {
		delete(in.posted, in.PostedIDs[0])
		in.PostedIDs = in.PostedIDs[n:]
	}
}

// newID derives a ULID from the thread and a counter. It is deterministic.
func (s *State) newID(now time.Time) string {
	s.Derived++
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(s.Derived))
	sum := sha256.Sum256([]byte(s.Namespace + "/" + s.ThreadID + "/" + string(n[:])))
	var id ulid.ULID
	// Times from a Temporal server are never before 1970.
	_ = id.SetTime(uint64(now.UnixMilli()))
	_ = id.SetEntropy(sum[:10])
	return id.String()
}

func keepLast[T any](list []T, n int) []T {
	if len(list) > n {
		return append([]T(nil), list[len(list)-n:]...)
	}
	return list
}

// maxWhy is the maximum length of the reason of a failure, in bytes.
const maxWhy = 4 << 10

// Why returns the reason of a failure, cut to the length that the state keeps.
func Why(text string) string {
	if len(text) > maxWhy {
		return cutText(text, maxWhy) + "…"
	}
	return text
}

// cutText returns at most the first n bytes of s, without splitting a character.
func cutText(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "")
}
