package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Outage means that a model is unavailable, and says when it is called again. Until then, no
// activity runs: the thread waits on a timer and handles other events.
type Outage struct {
	// Since is the time of the first failed attempt, Attempts the number of failed attempts.
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`

	// Class and Error describe the last failure.
	Class string `json:"class,omitempty"`
	Error string `json:"error"`

	// RetryAt is the time of the next attempt.
	RetryAt time.Time `json:"retryAt"`
}

// Unavailable records that the model of a run is unavailable.
func (r *AgentRun) Unavailable(o Outage) {
	o.Error = Why(o.Error)
	r.Outage, r.InFlight = &o, false
}

// RetryDue returns how long a run must wait before its next model call.
func (r *AgentRun) RetryDue(now time.Time) time.Duration {
	if r.Outage == nil {
		return 0
	}
	return max(r.Outage.RetryAt.Sub(now), 0)
}

// HasSteered reports whether a queued message joins the turn.
func (in *Inbox) HasSteered() bool {
	for _, q := range in.Queue {
		if in.joinsTurn(q) {
			return true
		}
	}
	return false
}

// joinsTurn reports whether a queued message joins the turn. A message that names its agents or
// tools gets a turn of its own.
func (in *Inbox) joinsTurn(q Queued) bool {
	s := in.thread
	if s.Turn.IsEnv() && len(s.Parked) > 0 && in.waitsFor(q, event.OnWaitingHold) {
		// The message is for the waiting turn, not for the event that is handled meanwhile.
		return false
	}
	return q.OnBusy == signals.OnBusySteer && q.Item.Type == event.TypeMessage && len(q.Agents) == 0 && q.Tools == nil && !q.Unloaded
}

func (r *AgentRun) retrying() *signals.Retrying {
	if r.Outage == nil {
		return nil
	}
	o := r.Outage
	return &signals.Retrying{Since: o.Since, Attempts: o.Attempts, Class: o.Class, Error: o.Error, NextAttemptAt: o.RetryAt}
}
