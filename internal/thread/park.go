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

// turns are those in progress: the current one, and those that are parked.
func (s *State) turns() []*Turn {
	if s.Turn == nil {
		return s.Parked
	}
	return append([]*Turn{s.Turn}, s.Parked...)
}

// within lets f act on a turn that may be parked.
func (s *State) within(t *Turn, f func()) {
	current := s.Turn
	s.Turn = t
	defer func() { s.Turn = current }()
	f()
}

// Parks reports whether the current turn only waits for people, while there is something
// else to do: a parked turn that can go on, or an item that may be processed meanwhile.
func (s *State) Parks() bool {
	t := s.Turn
	if t == nil || s.Closing != nil || !s.waitsForPeople(t) {
		return false
	}
	return s.unparks() >= 0 || s.nextBeside() >= 0 && s.hasRoomFor(t)
}

// hasRoomFor reports whether another turn can be parked. One that is not keeps the events
// in the queue, which is bounded, too.
func (s *State) hasRoomFor(t *Turn) bool {
	if len(s.Parked) == maxParked {
		return false
	}
	size := len(rawJSON(t))
	for _, p := range s.Parked {
		size += len(rawJSON(p))
	}
	return size <= maxParkedBytes
}

// Park puts the current turn aside, if it waits for people only, and there is something
// else to do.
func (s *State) Park() bool {
	if !s.Parks() {
		return false
	}
	s.Parked = append(s.Parked, s.Turn)
	s.Turn = nil
	return true
}

// Unpark goes on with a turn that waits for people no more.
func (s *State) Unpark() bool {
	at := s.unparks()
	if s.Turn != nil || at < 0 {
		return false
	}
	s.Turn = s.Parked[at]
	s.Parked = slices.Delete(s.Parked, at, at+1)
	return true
}

func (s *State) unparks() int {
	return slices.IndexFunc(s.Parked, func(t *Turn) bool { return !s.waitsForPeople(t) })
}

// waitsForPeople reports whether there is nothing to do in a turn before people have
// decided, here or in the thread of a sub-agent, or clients have answered.
func (s *State) waitsForPeople(t *Turn) bool {
	if t.Interrupted != nil || t.Arrived || t.Unhandled() || len(t.Intercepting)+len(t.Joining)+len(t.Cascades) > 0 {
		return false
	}
	waits := false
	for _, r := range t.Runs {
		if r.Phase == PhaseDone {
			continue
		}
		if r.Phase != PhaseTools || !s.runWaits(r) {
			return false
		}
		waits = true
	}
	return waits
}

func (s *State) runWaits(r *Run) bool {
	waits := false
	for _, c := range r.Calls {
		switch c.Stage {
		case Waiting, AtClient:
			waits = true
		case Delegated:
			if !s.subWaits(c) {
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

// beside reports whether an item may be processed while turns wait for people. Environment
// events always may; what people say may unless an agent that waits, or the post itself, wants
// otherwise.
func (s *State) beside(q *Queued) bool {
	return q.isEnv() || !s.waitsFor(*q, event.OnWaitingHold) && !s.waitsFor(*q, event.OnWaitingCancel)
}

// isEnv reports whether an item is an environment event, and not what a person asks by one.
func (q *Queued) isEnv() bool {
	return len(q.Item.Metadata) > 0 && q.Item.Type != event.TypeUserQuery
}

// waitsFor reports whether an item meets a run that waits for people, and that is to do this
// with it.
func (s *State) waitsFor(q Queued, policy event.OnWaiting) bool {
	for _, t := range s.turns() {
		if t.Interrupted == nil && slices.ContainsFunc(t.Runs, func(r *Run) bool { return s.waits(r) && s.onWaiting(q, t, r) == policy }) {
			return true
		}
	}
	return false
}

// waits reports whether a call of the run waits for a person or a client, here or below.
func (s *State) waits(r *Run) bool {
	return r.cancellable() || slices.ContainsFunc(r.Calls, s.subWaits)
}

// subWaits reports whether a call waits for a sub-agent that waits for people.
func (s *State) subWaits(c *Call) bool {
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
func (s *State) onWaiting(q Queued, t *Turn, r *Run) event.OnWaiting {
	if q.Origin != nil && q.Origin.Root == t.root() {
		return event.OnWaitingHold
	}
	policy := cmp.Or(q.OnWaiting, r.OnWaiting, event.OnWaitingAnswer)
	if policy == event.OnWaitingCancel && (!r.cancellable() || !s.fromPerson(q)) {
		return event.OnWaitingAnswer
	}
	return policy
}

func (s *State) fromPerson(q Queued) bool {
	if q.Item.Type == event.TypeUserQuery {
		return true
	}
	return q.Item.Type == event.TypeMessage && q.Origin == nil && s.said(q.Item).SenderType == event.User
}

// cancelledText is the result of a call that a message has cancelled.
const cancelledText = "This call was cancelled before anybody had decided on it, because %s wrote a message instead. It was not run."

// Superseded reports whether a message has come that cancels calls which wait for people.
func (s *State) Superseded() bool {
	return slices.ContainsFunc(s.Queue, func(q Queued) bool { return s.waitsFor(q, event.OnWaitingCancel) })
}

// Supersede cancels the calls that messages in the queue cancel. The first of these joins the
// turn that goes on, unless it says who answers it, or with which tools.
func (s *State) Supersede(now time.Time) {
	for i := range s.Queue {
		q := s.Queue[i]
		for _, t := range slices.Clone(s.turns()) {
			if t.Interrupted != nil {
				continue
			}
			for _, r := range t.Runs {
				if r.cancellable() && s.onWaiting(q, t, r) == event.OnWaitingCancel {
					s.within(t, func() { s.cancelCalls(now, r, q.Item) })
					s.Queue[i].OnBusy = signals.Steer
				}
			}
		}
	}
}

func (s *State) cancelCalls(now time.Time, r *Run, by event.Item) {
	who := "somebody"
	if m := s.said(by); by.Type == event.TypeMessage && m.SenderID != "" {
		who = m.SenderID
	}
	for _, c := range r.Calls {
		if c.Stage != Waiting && c.Stage != AtClient {
			continue
		}
		if c.Stage == Waiting {
			made := s.approvalOf(r, c, now)
			made.Decision, made.By, made.Votes = event.Deny, "threadmill", c.Votes
			made.Reason = fmt.Sprintf("cancelled by event %s (onWaiting: cancel)", by.ID)
			s.decided(now, r, c, made)
		}
		c.Failed = true
		s.settleWithout(now, r, c, fmt.Sprintf(cancelledText, who))
	}
}

// busy reports whether a post would have to wait for a turn in progress.
func (s *State) busy(p signals.Post) bool {
	if s.Idle() {
		return false
	}
	q := Queued{OnWaiting: p.OnWaiting, Item: event.Item{Type: cmp.Or(p.Type, event.TypeMessage), Payload: p.Payload, Metadata: p.Metadata}}
	free := s.Turn == nil || s.waitsForPeople(s.Turn) && s.hasRoomFor(s.Turn)
	return !free || s.unparks() >= 0 || s.nextBeside() >= 0 || !s.beside(&q)
}

// nextBeside finds the item to be processed next while a turn waits for people, or -1.
func (s *State) nextBeside() int {
	return s.best(s.beside)
}

// best finds the item of the highest priority that may be processed, and of equals the one
// that came first, or -1.
func (s *State) best(may func(*Queued) bool) int {
	best := -1
	for i := range s.Queue {
		q := &s.Queue[i]
		if may(q) && (best < 0 || q.Item.Priority > s.Queue[best].Item.Priority) {
			best = i
		}
	}
	return best
}

// HasNext reports whether there is something to be processed next: an item, or a turn that
// waits for people no more.
func (s *State) HasNext() bool {
	if len(s.Parked) == 0 {
		return len(s.Queue) > 0
	}
	return s.unparks() >= 0 || s.nextBeside() >= 0
}

// has reports whether a turn is about an event, or the event joins it.
func (t *Turn) has(eventID string) bool {
	return t.Item.ID == eventID || t.root() == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
}

// means reports whether a control is about a turn.
func (t *Turn) means(ctl signals.Control) bool {
	return t.Interrupted == nil && (ctl.EventID == "" || t.has(ctl.EventID))
}

// openCalls are the calls of other runs, parked ones among them, that have no result yet.
func (s *State) openCalls(of *Run) []string {
	var ids []string
	for _, t := range s.turns() {
		for _, r := range t.Runs {
			if r != of {
				ids = append(ids, r.openCalls()...)
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
func (s *State) pendingCalls(of *Run) map[string]string {
	var ids map[string]string
	for _, t := range s.turns() {
		for _, r := range t.Runs {
			if r == of || t.Interrupted != nil || !strings.EqualFold(s.agentOf(r), s.agentOf(of)) {
				continue
			}
			for _, c := range r.Calls {
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
