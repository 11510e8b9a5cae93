package thread

import (
	"time"

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

func (r *AgentRun) retrying() *signals.Retrying {
	if r.Outage == nil {
		return nil
	}
	o := r.Outage
	return &signals.Retrying{Since: o.Since, Attempts: o.Attempts, Class: o.Class, Error: o.Error, NextAttemptAt: o.RetryAt}
}
