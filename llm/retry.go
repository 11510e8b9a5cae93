package llm

import (
	"fmt"
	"math"
	"time"
)

// Retry says when a model call that failed in a way that may pass is made again, and for how
// long. Zero fields have the defaults.
type Retry struct {
	// For is how long a call is retried, from its first failure on. Default 2 hours.
	For time.Duration

	// InitialInterval is the time before the first retry, by default 1 second. Each further
	// one is Backoff times as long, by default 2, up to MaxInterval, by default 1 minute. A
	// provider that asks for more time gets it.
	InitialInterval time.Duration
	MaxInterval     time.Duration
	Backoff         float64

	// MaxAttempts bounds the attempts in all. Default: no limit but For.
	MaxAttempts int
}

// Defaults and bounds of a [Retry].
const (
	DefaultRetryFor      = 2 * time.Hour
	DefaultRetryInitial  = time.Second
	DefaultRetryInterval = time.Minute
	DefaultRetryBackoff  = 2

	MinRetryInterval = 100 * time.Millisecond
	MaxRetryInterval = time.Hour
	MaxRetryFor      = 30 * 24 * time.Hour
	MaxRetryBackoff  = 10
)

// WithDefaults returns the policy with defaults in the place of zeros.
func (r Retry) WithDefaults() Retry {
	if r.For == 0 {
		r.For = DefaultRetryFor
	}
	if r.InitialInterval == 0 {
		r.InitialInterval = DefaultRetryInitial
	}
	if r.MaxInterval == 0 {
		r.MaxInterval = max(DefaultRetryInterval, r.InitialInterval)
	}
	if r.Backoff == 0 {
		r.Backoff = DefaultRetryBackoff
	}
	return r
}

// Validate names the first field that is out of its bounds.
func (r Retry) Validate() error {
	d := r.WithDefaults()
	switch {
	case d.For < 0 || d.For > MaxRetryFor:
		return fmt.Errorf("For is %s, must be positive and at most %s", r.For, MaxRetryFor) //nolint:staticcheck // the name of the field
	case d.InitialInterval < MinRetryInterval || d.InitialInterval > MaxRetryInterval:
		return fmt.Errorf("InitialInterval is %s, must be %s to %s", r.InitialInterval, MinRetryInterval, MaxRetryInterval)
	case d.MaxInterval < d.InitialInterval || d.MaxInterval > MaxRetryInterval:
		return fmt.Errorf("MaxInterval is %s, must be %s (InitialInterval) to %s", r.MaxInterval, d.InitialInterval, MaxRetryInterval)
	case !(d.Backoff >= 1 && d.Backoff <= MaxRetryBackoff):
		return fmt.Errorf("Backoff is %v, must be 1 to %d", r.Backoff, MaxRetryBackoff) //nolint:staticcheck // the name of the field
	case d.MaxAttempts < 0:
		return fmt.Errorf("MaxAttempts is %d, must be positive", r.MaxAttempts)
	}
	return nil
}

// Delay is the time between a number of failed attempts and the next one.
func (r Retry) Delay(failed int) time.Duration {
	r = r.WithDefaults()
	d := float64(r.InitialInterval) * math.Pow(r.Backoff, float64(max(failed, 1)-1))
	if d > float64(r.MaxInterval) {
		return r.MaxInterval
	}
	return time.Duration(d)
}

// Class sorts failures for people and programs: rate_limit, unreachable (no answer came),
// server_error, or refused.
func (e *Error) Class() string {
	switch {
	case e.StatusCode == 429:
		return "rate_limit"
	case e.StatusCode == 0:
		return "unreachable"
	case RetryableStatus(e.StatusCode):
		return "server_error"
	}
	return "refused"
}
