package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// While a turn only waits for people, the thread parks it and processes environment events and
// messages. The turn continues when it can.

// maxParked is the maximum number of parked turns.
const maxParked = 8

// CanPark reports whether the current turn only waits for people while there is other work: a
// parked turn that can continue, or an item that may be processed meanwhile.
func (s *State) CanPark() bool {
	t := s.Turns.Current
	if t == nil || s.Closing != nil || !t.waitsForPeople() {
		return false
	}
	return s.Turns.unparks() >= 0 || s.Inbox.nextPassingWaiting(&s.Turns) >= 0 && s.Turns.hasRoomFor(t)
}

// hasRoomFor reports whether the turn can be parked. If not, events stay in the queue, whose size
// is limited too.
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

// Park parks the current turn if it only waits for people and there is other work.
func (s *State) Park() bool {
	if !s.CanPark() {
		return false
	}
	s.Turns.park()
	return true
}

func (ts *Turns) park() {
	ts.Parked = append(ts.Parked, ts.Current)
	ts.Current = nil
}

// Unpark continues a parked turn that no longer waits for people.
func (ts *Turns) Unpark() bool {
	at := ts.unparks()
	if ts.Current != nil || at < 0 {
		return false
	}
	ts.Current = ts.Parked[at]
	ts.Parked = slices.Delete(ts.Parked, at, at+1)
	return true
}

func (ts *Turns) unparks() int {
	return slices.IndexFunc(ts.Parked, func(t *Turn) bool { return !t.waitsForPeople() })
}

// waitsForPeople reports whether the turn can only continue when people have decided, here or in a
// child thread, or clients have returned results.
func (t *Turn) waitsForPeople() bool {
	if t.Interrupted != nil || t.Stage == ItemArrived || t.handlingPending() || len(t.Intercepting)+len(t.Joining)+len(t.Cascades) > 0 {
		return false
	}
	waits := false
	for _, r := range t.Runs {
		if r.Done() {
			continue
		}
		if r.Phase != PhaseTools || !r.runWaits() {
			return false
		}
		waits = true
	}
	return waits
}

// waitsForPeople reports whether a call waits for a decision, a client or input.
func (c *Call) waitsForPeople() bool {
	return c.Stage == CallWaiting || c.Stage == CallAtClient || c.Stage == CallAtInput
}

func (r *AgentRun) runWaits() bool {
	waits := false
	for _, c := range r.Calls {
		switch c.Stage {
		case CallWaiting, CallAtClient, CallAtInput:
			waits = true
		case CallDelegated:
			if !c.waitsForSubAgent() {
				return false
			}
			waits = true
		case CallSettled:
		case CallReady, CallRan:
			return false
		}
	}
	return waits
}

// mayPassWaiting reports whether an item may be processed while turns wait for people. Environment
// events always may; messages may unless a waiting agent or the post says otherwise. Items must not
// overtake a message that hooks decide on.
func (ts *Turns) mayPassWaiting(q *Queued) bool {
	return q.isEnv() || ts.decidesOn(q) || !ts.waitsFor(*q, event.OnWaitingHold) && !ts.waitsFor(*q, event.OnWaitingCancel)
}

// isEnv reports whether an item is an environment event other than a user_query.
func (q *Queued) isEnv() bool {
	return len(q.Item.Metadata) > 0 && q.Item.Type != event.TypeUserQuery
}

// waitsFor reports whether the item affects a run that waits for people by the given policy.
func (ts *Turns) waitsFor(q Queued, policy event.OnWaiting) bool {
	for _, t := range ts.all() {
		if t.Interrupted == nil && slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return r.waits() && r.onWaiting(q) == policy }) {
			return true
		}
	}
	return false
}

// waits reports whether a call of the run waits for a person or a client, here or in a child
// thread.
func (r *AgentRun) waits() bool {
	return r.cancellable() || slices.ContainsFunc(r.Calls, (*Call).waitsForSubAgent)
}

// waitsForSubAgent reports whether a call waits for a sub-agent that waits for people.
func (c *Call) waitsForSubAgent() bool {
	s := c.run.turn.thread
	sub := s.Children.find(c.SubAgent)
	return c.Stage == CallDelegated && sub != nil && len(sub.Approvals)+len(sub.Inputs) > 0 && !sub.ended()
}

// cancellable reports whether the run has calls that a message can cancel. Calls of sub-agents
// cannot be cancelled.
func (r *AgentRun) cancellable() bool {
	return slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.waitsForPeople() })
}

// onWaiting returns the effect of an item on a run that waits for people: the setting of its post
// or, by default, of the run's agent. Only users' messages cancel, and events derived from the
// turn's own root keep their order.
func (r *AgentRun) onWaiting(q Queued) event.OnWaiting {
	t := r.turn
	if q.Origin != nil && q.Origin.Root == t.root() {
		return event.OnWaitingHold
	}
	policy := cmp.Or(q.OnWaiting, r.OnWaiting, event.OnWaitingAnswer)
	if policy == event.OnWaitingCancel && (!r.cancellable() || !q.fromPerson()) {
		return event.OnWaitingAnswer
	}
	return policy
}

func (q *Queued) fromPerson() bool {
	if q.Item.Type == event.TypeUserQuery {
		return true
	}
	return q.Origin == nil && q.fromUser()
}

// cancelledText is the result of a call that a message cancelled.
const cancelledText = "This call was cancelled before anybody had decided on it, because %s wrote a message instead. It was not run."

// Superseding returns a queued message that cancels calls that wait for people, unless hooks are
// deciding on it.
func (s *State) Superseding() (Queued, bool) {
	for _, q := range s.Inbox.Queue {
		if s.Turns.waitsFor(q, event.OnWaitingCancel) && !s.Turns.decidesOn(&q) {
			return q, true
		}
	}
	return Queued{}, false
}

// Supersede cancels the calls that a queued message cancels. The message joins the turn that
// continues, unless it names its agents or tools.
func (s *State) Supersede(now time.Time, q Queued) {
	for _, t := range slices.Clone(s.Turns.all()) {
		if t.Interrupted != nil {
			continue
		}
		for _, r := range t.Runs {
			if r.cancellable() && r.onWaiting(q) == event.OnWaitingCancel {
				r.cancelCalls(now, &q)
				if queued := s.Inbox.find(q.Item.ID); queued != nil {
					queued.OnBusy = event.OnBusySteer
				}
			}
		}
	}
}

func (r *AgentRun) cancelCalls(now time.Time, q *Queued) {
	by := q.Item
	who := "somebody"
	if m := q.read().Message; m != nil && m.SenderID != "" {
		who = m.SenderID
	}
	for _, c := range r.Calls {
		if !c.waitsForPeople() {
			continue
		}
		if c.Stage == CallWaiting {
			made := c.approvalOf(now)
			made.Decision, made.By, made.Votes = event.DecisionDeny, "threadmill", c.Votes
			made.Reason = fmt.Sprintf("cancelled by event %s (onWaiting: cancel)", by.ID)
			c.decided(now, made)
		}
		c.Failed = true
		c.settleWithoutRunning(now, fmt.Sprintf(cancelledText, who))
	}
}

// busy reports whether a post would have to wait for a turn in progress.
func (s *State) busy(p Incoming) bool {
	if s.idle() {
		return false
	}
	q := Queued{content: &p.content, OnWaiting: p.OnWaiting, Item: event.Item{Type: cmp.Or(p.Type, event.TypeMessage), Payload: p.Payload, Metadata: p.Metadata}}
	free := s.Turns.Current == nil || s.Turns.Current.waitsForPeople() && s.Turns.hasRoomFor(s.Turns.Current)
	return !free || len(s.Turns.Deciding) > 0 || s.Turns.unparks() >= 0 || s.Inbox.nextPassingWaiting(&s.Turns) >= 0 || !s.Turns.mayPassWaiting(&q)
}

// nextPassingWaiting returns the index of the next item to process while turns wait for people, or
// -1.
func (in *Inbox) nextPassingWaiting(ts *Turns) int {
	if next := in.best(ts, ts.mayPassWaiting); next >= 0 {
		return next
	}
	// A message that hooks decide on, perhaps for days, holds up other messages only.
	return in.best(ts, (*Queued).isEnv)
}

// best returns the index of the oldest item with the highest priority that may be processed, or -1.
// Nothing overtakes a message that hooks decide on.
func (in *Inbox) best(ts *Turns, may func(*Queued) bool) int {
	best := -1
	for i := range in.Queue {
		q := &in.Queue[i]
		if may(q) && (best < 0 || q.Item.Priority > in.Queue[best].Item.Priority) {
			best = i
		}
	}
	if best >= 0 && ts.decidesOn(&in.Queue[best]) {
		return -1
	}
	return best
}

func everything(*Queued) bool { return true }

// HasNext reports whether there is something to process: an item, or a parked turn that can
// continue.
func (s *State) HasNext() bool {
	if len(s.Turns.Parked) == 0 {
		return s.Inbox.best(&s.Turns, everything) >= 0
	}
	return s.Turns.unparks() >= 0 || s.Inbox.nextPassingWaiting(&s.Turns) >= 0
}

// othersOpenCalls returns the calls of other runs, including those in parked turns, that have no
// result yet.
func (r *AgentRun) othersOpenCalls() (ids []string) {
	for _, t := range r.turn.thread.Turns.all() {
		for _, other := range t.Runs {
			if other != r {
				ids = append(ids, other.openCalls()...)
			}
		}
	}
	return ids
}

func (r *AgentRun) openCalls() (ids []string) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled && c.Stage != CallRan {
			ids = append(ids, c.Plan.ID)
		}
	}
	if r.hasReply() {
		for _, p := range r.Reply.Calls {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// pendingCalls maps the digests of the calls of the run's agent in other runs that wait for
// approval to their ids.
func (r *AgentRun) pendingCalls() map[string]string {
	var ids map[string]string
	for _, t := range r.turn.thread.Turns.all() {
		for _, other := range t.Runs {
			if other == r || t.Interrupted != nil || !strings.EqualFold(other.agentOf(), r.agentOf()) {
				continue
			}
			for _, c := range other.Calls {
				if c.Stage != CallWaiting || c.Plan.Guard == nil {
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

// Overdue reports whether a separate activity must store something that viewers wait for: the
// underWay running steps began earlier, and no step is about to begin. leaving means that no step
// begins because the thread continues as new. Between turns, the thread stores everything.
func (s *State) Overdue(underWay int, leaving bool) bool {
	switch {
	case s.Turns.Current == nil || !s.Outbox.Unstored() || underWay > 0 && !s.Outbox.unsent():
		return false
	case leaving || s.Turns.Current.Interrupted != nil:
		return underWay > 0
	case slices.ContainsFunc(s.Turns.Deciding, func(t *Turn) bool { return len(t.Intercepting) == 0 }):
		return false
	}
	return s.Turns.Current.steps() <= underWay && !s.CanPark()
}

// steps counts the steps of the current turn that are running or about to begin. Calls that wait
// for people, clients or sub-agents have none.
func (t *Turn) steps() (n int) {
	if len(t.Cascades) > 0 {
		n++
	}
	if t.Stage == ItemArrived || t.handlingPending() {
		return n + 1
	}
	waits := false
	for _, r := range t.Runs {
		steps, waiting := r.steps()
		n += steps
		waits = waits || waiting
	}
	if n == 0 && !waits {
		return 1 // the turn ends
	}
	return n
}

func (r *AgentRun) steps() (n int, waits bool) {
	switch r.Phase {
	case PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
		return 0, false
	case PhaseModel:
		if r.Outage != nil {
			return 0, true
		}
		return 1, false
	case PhaseReply, PhaseCalls, PhasePlan:
		return 1, false
	case PhaseTools:
	}
	for _, c := range r.Calls {
		switch c.Stage {
		case CallReady, CallRan:
			n++
		case CallWaiting, CallAtClient, CallAtInput, CallDelegated:
			waits = true
		case CallSettled:
		}
	}
	if n == 0 && !waits {
		return 1, false // the model call is next
	}
	return n, waits
}
