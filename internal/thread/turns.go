package thread

import (
	"cmp"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Turns contains the turns in progress and the outcomes of those that have ended.
type Turns struct {
	// Current is the current turn. Parked are the turns that wait for people.
	Current *Turn   `json:"current,omitempty"`
	Parked  []*Turn `json:"parked,omitempty"`

	// Deciding are the turns of queued messages that hooks decide on ahead of their turns: see
	// [State.BeginAhead].
	Deciding []*Turn `json:"deciding,omitempty"`

	// AbandonedHooks are the events whose hook workflows may still report although the decision is
	// no longer needed.
	AbandonedHooks []string `json:"abandonedHooks,omitempty"`

	// Roots are the posted events whose derived events are not all processed.
	Roots []Root `json:"roots,omitempty"`

	// Outcomes are the results of the last turns.
	Outcomes []signals.TurnResult `json:"outcomes,omitempty"`
}

// all returns the turns in progress: the current one and the parked ones.
func (ts *Turns) all() []*Turn {
	if ts.Current == nil {
		return ts.Parked
	}
	return append([]*Turn{ts.Current}, ts.Parked...)
}

// idle reports whether the thread has nothing to process.
func (s *State) idle() bool {
	return len(s.Turns.all()) == 0 && len(s.Inbox.Queue) == 0
}

// Awaits reports whether the event is queued or in progress, so its result is still to come.
func (s *State) Awaits(eventID string) bool {
	for _, q := range s.Inbox.Queue {
		if q.Item.ID == eventID {
			return true
		}
	}
	for _, r := range s.Turns.Roots {
		if r.EventID == eventID || slices.Contains(r.Joined, eventID) {
			return true
		}
	}
	return slices.ContainsFunc(s.Turns.all(), func(t *Turn) bool {
		return t.Item.ID == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
	})
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

// InTurn reports whether an event is the item of a turn in progress or has joined it.
func (ts *Turns) InTurn(eventID string) bool {
	return slices.ContainsFunc(ts.all(), func(t *Turn) bool { return t.has(eventID) })
}

// Interrupt requests the end of the turns that ctl names. It reports whether the current turn is
// one of them and was not interrupted before.
func (ts *Turns) Interrupt(ctl signals.Control) (current bool) {
	for _, t := range ts.all() {
		if t.matches(ctl) {
			t.Interrupt(ctl)
			current = current || t == ts.Current
		}
	}
	return current
}

// Interrupt requests the end of the turn.
func (t *Turn) Interrupt(ctl signals.Control) { t.Interrupted = &ctl }

// BeginNext starts the turn of the next item in the queue.
func (s *State) BeginNext(now time.Time) {
	if next, ok := s.next(now); ok {
		s.begin(now, next)
	}
}

// begin starts the turn of an item and records the item. Hooks decide on it before [Turn.Enter].
func (s *State) begin(now time.Time, q Queued) *Turn {
	t := &Turn{thread: s, Queued: q, StartedAt: now, Before: tokens(s.Usage), Stage: ItemArrived}
	t.OnBusy, t.OnWaiting, t.Stored = "", "", q.Stored || q.Item.Attempt > 0
	s.Turns.Current = t
	s.Titling.turnBegins()
	if q.Released == nil && !q.Recorded {
		s.recordItem(now, q)
	}
	if q.Item.Type == event.TypeMessage && q.Origin != nil {
		m := step.Carry(t.message())
		t.Message = &m
	}
	return t
}

// addOutcome adds the result of an event. last is the last record before it, unless the result names another.
func (ts *Turns) addOutcome(o signals.TurnResult, last string) {
	o.LastRecord = cmp.Or(o.LastRecord, last)
	ts.Outcomes = keepLast(append(ts.Outcomes, o), maxOutcomes)
	if i := len(ts.Outcomes) - 1 - wholeOutcomes; i >= 0 {
		older := &ts.Outcomes[i]
		carry(older)
		if len(older.Error) > maxCarriedOutcome {
			older.Error = step.Cut(older.Error, maxCarriedOutcome) + "…"
		}
	}
}

// addOutcomes adds the result of an event and of those that joined it.
func (ts *Turns) addOutcomes(out signals.TurnResult, joined []string) {
	ts.addOutcome(out, "")
	for _, id := range joined {
		out.EventID = id
		ts.addOutcome(out, "")
	}
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

// eventOf returns the posted event of the turn in progress that has the trace or contains the
// parent, or "".
func (ts *Turns) eventOf(traceID, parent string) string {
	for _, t := range ts.all() {
		if parent == t.Item.ID {
			return t.root()
		}
	}
	if t := ts.Current; t != nil && traceID != "" && traceID == t.Item.TraceID {
		return t.root()
	}
	return ""
}

// announceEnd records the end of the turn of an event and of the events that joined it. It must be
// the turn's last record.
func (s *State) announceEnd(now time.Time, turnID, traceID string, out signals.TurnResult, joined []string) {
	out.LastRecord = recordid.TurnEnded(turnID)
	s.Outbox.recordIn(out.EventID, out.LastRecord, event.TypeTurnEnded, traceID, out.EventID, now,
		event.TurnEnded{EventID: out.EventID, Joined: joined, Status: string(out.Status), Error: out.Error, Class: out.Class, Replies: replyIDs(out), Rule: out.Rule})
	s.Turns.addOutcomes(out, joined)
}

// announceUnprocessed records the end of an event that had no turn.
func (s *State) announceUnprocessed(now time.Time, q Queued, out signals.TurnResult) {
	if q.Origin != nil && s.Turns.rootOf(q.Origin.Root) != nil {
		// The turn of the root ends when all of its events are processed.
		s.Turns.addOutcome(out, s.Outbox.last())
		return
	}
	s.announceEnd(now, recordid.Turn(q.Item.ID, q.Item.Attempt), q.Item.TraceID, out, nil)
}

// eachCall visits the calls of all turns that were not interrupted. visit may change or end them.
func (ts *Turns) eachCall(visit func(*Call)) {
	for _, t := range slices.Clone(ts.all()) {
		if t.Interrupted != nil {
			continue
		}
		for _, r := range t.Runs {
			for _, c := range r.Calls {
				visit(c)
			}
		}
	}
}

// wholeOutcomes is the number of outcomes whose messages and errors are kept whole.
const wholeOutcomes = 32

// maxCarriedOutcome is the maximum length of a final message that an outcome carries over
// continue-as-new, in bytes.
const maxCarriedOutcome = 1 << 10

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
	short.Content, short.Truncated = step.Cut(m.Content, maxCarriedOutcome), true
	return &short
}
