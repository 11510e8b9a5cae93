package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Outage says that a model has not answered for a while, and when it is called again. Until
// then no activity runs: the thread waits, visibly, and hears whatever comes.
type Outage struct {
	// Since is when the first attempt failed, Attempts is how many have.
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`

	// Class and Error are those of the last failure.
	Class string `json:"class,omitempty"`
	Error string `json:"error"`

	// RetryAt is when the next attempt is due.
	RetryAt time.Time `json:"retryAt"`
}

// Unavailable takes in that the model of a run has not answered.
func (r *Run) Unavailable(o Outage) {
	o.Error = Why(o.Error)
	r.Outage, r.Calling = &o, false
}

// RetryDue is how long a run has to wait before its model is called again.
func (r *Run) RetryDue(now time.Time) time.Duration {
	if r.Outage == nil {
		return 0
	}
	return max(r.Outage.RetryAt.Sub(now), 0)
}

// HasSteered reports whether a message waits to join the turn.
func (in *Inbox) HasSteered() bool {
	for _, q := range in.Queue {
		if in.joinsTurn(q) {
			return true
		}
	}
	return false
}

// joinsTurn reports whether a queued message asks to join the turn. One that says who answers
// it, or with which tools, waits for a turn of its own.
func (in *Inbox) joinsTurn(q Queued) bool {
	s := in.thread
	if s.Turn.IsEnv() && len(s.Parked) > 0 && in.waitsFor(q, event.OnWaitingHold) {
		// It is meant for the turn that waits, not for what is handled meanwhile.
		return false
	}
	return q.OnBusy == signals.Steer && q.Item.Type == event.TypeMessage && len(q.Agents) == 0 && q.Tools == nil && !q.Unloaded
}

func (r *Run) retrying() *signals.Retrying {
	if r.Outage == nil {
		return nil
	}
	o := r.Outage
	return &signals.Retrying{Since: o.Since, Attempts: o.Attempts, Class: o.Class, Error: o.Error, NextAttemptAt: o.RetryAt}
}
