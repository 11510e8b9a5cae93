package thread

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// A message that interrupts turns (onBusy) or cancels their waiting calls (onWaiting) takes effect
// once hooks have passed it. They decide ahead of the message's turn, and meanwhile the message
// stays in the queue.

// Ahead returns the hooks that decide on a queued message before it takes effect on turns in
// progress. specs are the registered hooks.
func (s *State) Ahead(q Queued, specs []hook.Spec) []hook.Spec {
	if q.Hooked {
		return nil
	}
	t := &Turn{thread: s, Queued: q}
	e := t.ItemEvent()
	return e.Processing(hook.Matching(specs, e.Subject(s.Namespace)))
}

// BeginAhead begins the turn of a queued message for the decision of hooks, and records the message.
// A message that will join a turn is recorded in it.
func (s *State) BeginAhead(now time.Time, q Queued) *Turn {
	root := q.root()
	if joined := s.Turns.cancelledBy(q); joined != nil && q.mayJoin() {
		q.Item.TraceID, root = joined.Item.TraceID, joined.root()
	}
	s.recordItemIn(now, root, &q)
	q.Stored = true
	if queued := s.Inbox.find(q.Item.ID); queued != nil {
		*queued = q
	}
	// As long as no activity has received the record, a decision can still change it.
	q.Stored = q.Item.Attempt > 0
	t := &Turn{thread: s, Queued: q, StartedAt: now, Before: tokens(s.Usage), Stage: ItemArrived}
	s.Turns.decide(t)
	return t
}

// decide adds a turn for whose message hooks decide ahead.
func (ts *Turns) decide(t *Turn) { ts.Deciding = append(ts.Deciding, t) }

// NextAhead returns a turn from [State.BeginAhead] whose hooks nobody awaits in this workflow run.
func (ts *Turns) NextAhead() *Turn {
	for _, t := range ts.Deciding {
		if !t.awaited {
			return t
		}
	}
	return nil
}

// AwaitAhead marks the turn as awaited in this workflow run.
func (t *Turn) AwaitAhead() { t.awaited = true }

// ReportedAhead reports whether a hook workflow has reported its decision by signal.
func (t *Turn) ReportedAhead() bool {
	d, _ := t.HooksPending(t.ItemEvent())
	return d != nil
}

// IsQueued reports whether the turn's item is in the queue.
func (t *Turn) IsQueued() bool { return t.thread.Inbox.index(t.Item.ID) >= 0 }

// GiveUpAhead ends the decision on a message that has left the queue.
func (t *Turn) GiveUpAhead() {
	ts := &t.thread.Turns
	for _, in := range t.Intercepting {
		ts.abandonHook(in)
	}
	ts.Deciding = slices.DeleteFunc(ts.Deciding, func(other *Turn) bool { return other == t })
}

// DecidedAhead applies the decision of hooks on a queued message. It returns the message if it takes
// effect on the turns in progress. If its processing is over, the message leaves the queue.
func (t *Turn) DecidedAhead(now time.Time, d step.HookDecision) (q Queued, effective bool) {
	s := t.thread
	t.GiveUpAhead()
	if !t.IsQueued() {
		return Queued{}, false
	}
	d = t.applyDecision(now, t.ItemEvent(), d, nil)
	over := t.settle(now, d)
	at := s.Inbox.index(t.Item.ID) // behind what the hooks made of it
	queued := &s.Inbox.Queue[at]
	queued.Hooked, queued.Replaced = t.Hooked, t.Replaced
	q = *queued
	if over {
		s.Inbox.takeAt(at)
		t.End(now)
	}
	// A processor handles the message instead of an agent, so hooks have passed it.
	return q, d.Outcome == event.OutcomePassed || d.Outcome == event.OutcomeReplaced
}

// decidesOn reports whether hooks decide on a queued message ahead of its turn.
func (ts *Turns) decidesOn(q *Queued) bool {
	return slices.ContainsFunc(ts.Deciding, func(t *Turn) bool { return t.Item.ID == q.Item.ID })
}

// InterruptBy returns the request of a queued message to interrupt the turns in progress.
func InterruptBy(q Queued) (signals.Control, bool) {
	return signals.Control{Action: signals.ControlInterrupt, Reason: "interrupted by message " + q.Item.ID}, q.OnBusy == event.OnBusyInterrupt
}

// cancelledBy returns the first turn that has calls which a queued message cancels, or nil.
func (ts *Turns) cancelledBy(q Queued) *Turn {
	for _, t := range ts.all() {
		if t.Interrupted == nil && slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return r.cancellable() && r.onWaiting(q) == event.OnWaitingCancel }) {
			return t
		}
	}
	return nil
}
