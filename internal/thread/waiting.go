package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// While a turn waits for people and for nothing else, the thread handles environment
// events, and what people say: the turn is parked, and goes on once it can.

// maxParked bounds how many turns wait for people at the same time.
const maxParked = 8

// Turns are the turns in progress and the outcomes of those that have ended.
type Turns struct {
	thread *State

	// Turn is the current one. Parked are turns that wait for people while the thread does
	// something else.
	Turn   *Turn   `json:"turn,omitempty"`
	Parked []*Turn `json:"parked,omitempty"`

	// AbandonedHooks are events whose hook workflows may yet report, though nobody waits for it.
	AbandonedHooks []string `json:"late,omitempty"`

	// Roots are events whose turns go on with what hooks and processors have made.
	Roots []Root `json:"roots,omitempty"`

	// Outcomes are those of the turns that have ended last.
	Outcomes []signals.TurnResult `json:"outcomes,omitempty"`
}

// turns are those in progress: the current one, and those that are parked.
func (ts *Turns) turns() []*Turn {
	if ts.Turn == nil {
		return ts.Parked
	}
	return append([]*Turn{ts.Turn}, ts.Parked...)
}

// CanPark reports whether the current turn only waits for people, while there is something
// else to do: a parked turn that can go on, or an item that may be processed meanwhile.
func (ts *Turns) CanPark() bool {
	s := ts.thread
	t := ts.Turn
	if t == nil || s.Closing != nil || !t.waitsForPeople() {
		return false
	}
	return ts.unparks() >= 0 || s.nextPassingWaiting() >= 0 && ts.hasRoomFor(t)
}

// hasRoomFor reports whether another turn can be parked. One that is not keeps the events
// in the queue, which is bounded, too.
func (ts *Turns) hasRoomFor(t *Turn) bool {
	if len(ts.Parked) == maxParked {
		return false
	}
	size := len(rawJSON(t))
	for _, p := range ts.Parked {
		size += len(rawJSON(p))
	}
	return size <= maxParkedBytes
}

// Park puts the current turn aside, if it waits for people only, and there is something
// else to do.
func (ts *Turns) Park() bool {
	if !ts.CanPark() {
		return false
	}
	ts.Parked = append(ts.Parked, ts.Turn)
	ts.Turn = nil
	return true
}

// Unpark goes on with a turn that waits for people no more.
func (ts *Turns) Unpark() bool {
	at := ts.unparks()
	if ts.Turn != nil || at < 0 {
		return false
	}
	ts.Turn = ts.Parked[at]
	ts.Parked = slices.Delete(ts.Parked, at, at+1)
	return true
}

func (ts *Turns) unparks() int {
	return slices.IndexFunc(ts.Parked, func(t *Turn) bool { return !t.waitsForPeople() })
}

// waitsForPeople reports whether there is nothing to do in a turn before people have
// decided, here or in the thread of a sub-agent, or clients have answered.
func (t *Turn) waitsForPeople() bool {
	if t.Interrupted != nil || t.Stage == ItemArrived || t.Unhandled() || len(t.Intercepting)+len(t.Joining)+len(t.Cascades) > 0 {
		return false
	}
	waits := false
	for _, r := range t.Runs {
		if r.Phase == PhaseDone {
			continue
		}
		if r.Phase != PhaseTools || !r.runWaits() {
			return false
		}
		waits = true
	}
	return waits
}

func (r *Run) runWaits() bool {
	waits := false
	for _, c := range r.Calls {
		switch c.Stage {
		case Waiting, AtClient:
			waits = true
		case Delegated:
			if !c.subWaits() {
				return false
			}
			waits = true
		case CallSettled:
		case Ready, Ran:
			return false
		}
	}
	return waits
}

// mayPassWaiting reports whether an item may be processed while turns wait for people. Environment
// events always may; what people say may unless an agent that waits, or the post itself, wants
// otherwise.
func (in *Inbox) mayPassWaiting(q *Queued) bool {
	return q.isEnv() || !in.waitsFor(*q, event.OnWaitingHold) && !in.waitsFor(*q, event.OnWaitingCancel)
}

// isEnv reports whether an item is an environment event, and not what a person asks by one.
func (q *Queued) isEnv() bool {
	return len(q.Item.Metadata) > 0 && q.Item.Type != event.TypeUserQuery
}

// waitsFor reports whether an item meets a run that waits for people, and that is to do this
// with it.
func (in *Inbox) waitsFor(q Queued, policy event.OnWaiting) bool {
	s := in.thread
	for _, t := range s.turns() {
		if t.Interrupted == nil && slices.ContainsFunc(t.Runs, func(r *Run) bool { return r.waits() && r.onWaiting(q) == policy }) {
			return true
		}
	}
	return false
}

// waits reports whether a call of the run waits for a person or a client, here or below.
func (r *Run) waits() bool {
	return r.cancellable() || slices.ContainsFunc(r.Calls, (*Call).subWaits)
}

// subWaits reports whether a call waits for a sub-agent that waits for people.
func (c *Call) subWaits() bool {
	s := c.run.turn.thread
	sub := s.sub(c.Sub)
	return c.Stage == Delegated && sub != nil && len(sub.Asks) > 0 && !sub.ended()
}

// cancellable reports whether the run has calls that a message can cancel. The calls of a
// sub-agent are its own.
func (r *Run) cancellable() bool {
	return slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.Stage == Waiting || c.Stage == AtClient })
}

// onWaiting says what an item does to a run that waits for people: as its post says, or else
// the run's agent. Only a person cancels, and what was made of the turn's own event keeps its
// order.
func (r *Run) onWaiting(q Queued) event.OnWaiting {
	t, s := r.turn, r.turn.thread
	if q.Origin != nil && q.Origin.Root == t.root() {
		return event.OnWaitingHold
	}
	policy := cmp.Or(q.OnWaiting, r.OnWaiting, event.OnWaitingAnswer)
	if policy == event.OnWaitingCancel && (!r.cancellable() || !s.fromPerson(q)) {
		return event.OnWaitingAnswer
	}
	return policy
}

func (in *Inbox) fromPerson(q Queued) bool {
	if q.Item.Type == event.TypeUserQuery {
		return true
	}
	return q.Item.Type == event.TypeMessage && q.Origin == nil && in.said(q.Item).SenderType == event.User
}

// cancelledText is the result of a call that a message has cancelled.
const cancelledText = "This call was cancelled before anybody had decided on it, because %s wrote a message instead. It was not run."

// Superseded reports whether a message has come that cancels calls which wait for people.
func (in *Inbox) Superseded() bool {
	return slices.ContainsFunc(in.Queue, func(q Queued) bool { return in.waitsFor(q, event.OnWaitingCancel) })
}

// Supersede cancels the calls that messages in the queue cancel. The first of these joins the
// turn that goes on, unless it says who answers it, or with which tools.
func (in *Inbox) Supersede(now time.Time) {
	s := in.thread
	for i := range in.Queue {
		q := in.Queue[i]
		for _, t := range slices.Clone(s.turns()) {
			if t.Interrupted != nil {
				continue
			}
			for _, r := range t.Runs {
				if r.cancellable() && r.onWaiting(q) == event.OnWaitingCancel {
					r.cancelCalls(now, q.Item)
					in.Queue[i].OnBusy = signals.Steer
				}
			}
		}
	}
}

func (r *Run) cancelCalls(now time.Time, by event.Item) {
	s := r.turn.thread
	who := "somebody"
	if m := s.said(by); by.Type == event.TypeMessage && m.SenderID != "" {
		who = m.SenderID
	}
	for _, c := range r.Calls {
		if c.Stage != Waiting && c.Stage != AtClient {
			continue
		}
		if c.Stage == Waiting {
			made := c.approvalOf(now)
			made.Decision, made.By, made.Votes = event.Deny, "threadmill", c.Votes
			made.Reason = fmt.Sprintf("cancelled by event %s (onWaiting: cancel)", by.ID)
			c.decided(now, made)
		}
		c.Failed = true
		c.settleWithoutRunning(now, fmt.Sprintf(cancelledText, who))
	}
}

// busy reports whether a post would have to wait for a turn in progress.
func (in *Inbox) busy(p signals.Post) bool {
	s := in.thread
	if s.Idle() {
		return false
	}
	q := Queued{OnWaiting: p.OnWaiting, Item: event.Item{Type: cmp.Or(p.Type, event.TypeMessage), Payload: p.Payload, Metadata: p.Metadata}}
	free := s.Turn == nil || s.Turn.waitsForPeople() && s.hasRoomFor(s.Turn)
	return !free || s.unparks() >= 0 || in.nextPassingWaiting() >= 0 || !in.mayPassWaiting(&q)
}

// nextPassingWaiting finds the item to be processed next while a turn waits for people, or -1.
func (in *Inbox) nextPassingWaiting() int {
	return in.best(in.mayPassWaiting)
}

// best finds the item of the highest priority that may be processed, and of equals the one
// that came first, or -1.
func (in *Inbox) best(may func(*Queued) bool) int {
	best := -1
	for i := range in.Queue {
		q := &in.Queue[i]
		if may(q) && (best < 0 || q.Item.Priority > in.Queue[best].Item.Priority) {
			best = i
		}
	}
	return best
}

// HasNext reports whether there is something to be processed next: an item, or a turn that
// waits for people no more.
func (in *Inbox) HasNext() bool {
	s := in.thread
	if len(s.Parked) == 0 {
		return len(in.Queue) > 0
	}
	return s.unparks() >= 0 || in.nextPassingWaiting() >= 0
}

// has reports whether a turn is about an event, or the event joins it.
func (t *Turn) has(eventID string) bool {
	return t.Item.ID == eventID || t.root() == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
}

// means reports whether a control is about a turn.
func (t *Turn) means(ctl signals.Control) bool {
	return t.Interrupted == nil && (ctl.EventID == "" || t.has(ctl.EventID))
}

// othersOpenCalls are the calls of other runs, parked ones among them, that have no result yet.
func (r *Run) othersOpenCalls() (ids []string) {
	for _, t := range r.turn.thread.turns() {
		for _, other := range t.Runs {
			if other != r {
				ids = append(ids, other.openCalls()...)
			}
		}
	}
	return ids
}

func (r *Run) openCalls() (ids []string) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled && c.Stage != Ran {
			ids = append(ids, c.Plan.ID)
		}
	}
	if r.Phase == PhaseReply || r.Phase == PhaseCalls {
		for _, p := range r.Reply.Calls {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// pendingCalls are the calls that a run's agent has made in other runs and that wait for
// approval, by their digests.
func (r *Run) pendingCalls() map[string]string {
	var ids map[string]string
	for _, t := range r.turn.thread.turns() {
		for _, other := range t.Runs {
			if other == r || t.Interrupted != nil || !strings.EqualFold(other.agentOf(), r.agentOf()) {
				continue
			}
			for _, c := range other.Calls {
				if c.Stage != Waiting || c.Plan.Guard == nil {
					continue
				}
				if ids == nil {
					ids = map[string]string{}
				}
				ids[c.Plan.Guard.Digest] = c.Plan.ID
			}
		}
	}
	return ids
}
