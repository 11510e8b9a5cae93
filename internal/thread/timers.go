package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// NextDue returns the next time at which the thread must act without an external event. ok is false
// if there is none.
func (s *State) NextDue() (at time.Time, ok bool) {
	for _, h := range s.Inbox.Debounced {
		if !ok || h.Until.Before(at) {
			at, ok = h.Until, true
		}
	}
	for _, q := range s.Inbox.Queue {
		if end, expires := q.expires(); expires && (!ok || end.Before(at)) {
			at, ok = end, true
		}
	}
	if due, waits := s.Turns.dueCalls(); waits && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	for _, task := range s.Tasks.Running {
		if s.Tasks.watched[task.ID] {
			continue
		}
		if end := task.Deadline.Add(taskGrace); !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	return at, ok
}

// Release queues the debounced events that are due, in order, and ends the queued events, calls and
// tasks whose time is over.
func (s *State) Release(now time.Time) {
	s.Inbox.expire(now)
	s.failOverdueTasks(now)
	s.Turns.releaseCalls(now)
	kept := s.Inbox.Debounced[:0:0]
	var due []Debounced
	for _, h := range s.Inbox.Debounced {
		if h.Until.After(now) {
			kept = append(kept, h)
		} else if h.Last != nil {
			due = append(due, h)
		}
	}
	slices.SortStableFunc(due, func(a, b Debounced) int { return a.Until.Compare(b.Until) })
	for _, h := range due {
		q := *h.Last
		q.Released = &Released{Count: h.Count - 1, Since: h.Since, IDs: h.Before}
		q.Item.Status, q.Item.UpdatedAt = event.ItemPending, now
		// The TTL does not apply to the time of the debounce.
		q.Item.TTL = 0
		s.Turns.forgetOutcome(q.Item.ID)
		s.Inbox.Ended = slices.DeleteFunc(s.Inbox.Ended, func(it event.Item) bool { return it.ID == q.Item.ID })
		s.Inbox.Queue = append(s.Inbox.Queue, q.onItsOwn())
		if h.Throttle > 0 {
			kept = append(kept, Debounced{Rule: h.Rule, Throttle: h.Throttle, Since: now, Until: now.Add(h.Throttle)})
		}
	}
	s.Inbox.Debounced = kept
}

// dueCalls returns the time of the next reminder or expiry of a waiting call. ok is false if there
// is none.
func (ts *Turns) dueCalls() (at time.Time, ok bool) {
	sooner := func(t *time.Time) {
		if t != nil && (!ok || t.Before(at)) {
			at, ok = *t, true
		}
	}
	ts.eachCall(func(c *Call) {
		if c.Stage == CallWaiting {
			sooner(c.Requested.ExpiresAt)
			sooner(c.RemindAt)
		}
		if c.Stage == CallAtClient {
			sooner(&c.Client.ExpiresAt)
		}
	})
	return at, ok
}

// releaseCalls sends due reminders and ends the calls that have expired.
func (ts *Turns) releaseCalls(now time.Time) {
	ts.eachCall(func(c *Call) {
		switch {
		case c.expired(now):
			c.expireCall(now)
		case c.run.turn.Interrupted != nil:
			// The expiry ended the turn.
		case c.Stage == CallWaiting && c.RemindAt != nil && !c.RemindAt.After(now):
			c.remind(now)
		case c.Stage == CallAtClient && !c.Client.ExpiresAt.After(now):
			c.CallFailed(now, fmt.Sprintf("no client has answered the call within %s", c.Plan.ClientTime))
		}
	})
}

// expired reports whether the approval request of a call has expired.
func (c *Call) expired(now time.Time) bool {
	return c.Stage == CallWaiting && c.Requested.ExpiresAt != nil && !c.Requested.ExpiresAt.After(now)
}

// expiredText is the result of a call whose approval request expired.
const expiredText = "Nobody has decided on this call within %s. It was not run."

func (c *Call) expireCall(now time.Time) {
	t, s := c.run.turn, c.run.turn.thread
	made := c.approvalOf(now)
	made.Decision, made.By, made.Votes = event.DecisionExpired, "threadmill", c.Votes
	c.decided(now, made)
	text := fmt.Sprintf(expiredText, c.Plan.Approval.Expires)
	c.settleWithoutRunning(now, text)
	if c.Plan.Approval.EndsTurn {
		s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "threadmill", Reason: text, EventID: t.Item.ID})
	}
}

// remind repeats the approval request to those who have not decided yet.
func (c *Call) remind(now time.Time) {
	t := c.run.turn
	c.Reminders++
	at := now.Add(c.Plan.Approval.Remind)
	c.RemindAt = &at
	q := *c.Requested
	q.Votes, q.Reminder = c.Votes, c.Reminders
	t.record(now, recordid.Request(q), event.TypeApprovalRequest, q)
	c.forwardRequest(q)
}
