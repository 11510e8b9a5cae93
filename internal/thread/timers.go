package thread

import (
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// NextDue returns the next time at which the thread must act without an external event, and what is due then. ok is false if there is
// none.
func (s *State) NextDue() (at time.Time, what string, ok bool) {
	sooner := func(t time.Time, due string) {
		if !ok || t.Before(at) {
			at, what, ok = t, due, true
		}
	}
	for _, h := range s.Inbox.Debounced {
		sooner(h.Until, "rule "+h.Rule+" holds events back")
	}
	for _, q := range s.Inbox.Queue {
		if end, expires := q.expires(); expires {
			sooner(end, "a queued event expires")
		}
	}
	if due, waits := s.Turns.dueCalls(); waits {
		sooner(due, "a call that waits is reminded of, or expires")
	}
	for _, task := range s.Tasks.Running {
		if !s.Tasks.watched[task.ID] {
			sooner(task.Deadline.Add(taskGrace), "the deadline of a background task")
		}
	}
	return at, what, ok
}

// Release queues the debounced events that are due, in order, and ends the queued events, calls and
// tasks whose time is over.
func (s *State) Release(now time.Time) {
	s.expire(now)
	s.failOverdueTasks(now)
	s.Turns.releaseCalls(now)
	for _, eventID := range s.Inbox.releaseDebounced(now) {
		s.Turns.forgetOutcome(eventID)
	}
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
