package llm

import (
	"fmt"
	"math"
	"time"
)

// Retry is the retry policy of model calls that failed with a retryable error. The zero value has
// the defaults.
type Retry struct {
	// For is the time for which a call is retried, from its first failure. Default 2 hours.
	For time.Duration

	// InitialInterval is the delay before the first retry. Default 1 second. Each further delay is
	// Backoff (default 2) times as long, up to MaxInterval (default 1 minute). A longer delay that
	// the provider requires takes precedence.
	InitialInterval time.Duration
	MaxInterval     time.Duration
	Backoff         float64

	// MaxAttempts is the maximum number of attempts. Default: no limit other than For.
	MaxAttempts int
}

// Defaults and limits of a [Retry].
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

// WithDefaults returns the policy with the defaults of zero fields.
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

// Validate reports the first field that is out of range.
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

// Delay returns the delay after a number of failed attempts.
func (r Retry) Delay(failed int) time.Duration {
	r = r.WithDefaults()
	d := float64(r.InitialInterval) * math.Pow(r.Backoff, float64(max(failed, 1)-1))
	if d > float64(r.MaxInterval) {
		return r.MaxInterval
	}
	return time.Duration(d)
}

// The classes of failed model calls.
const (
	// ClassContextOverflow: the request does not fit into the model's context.
	ClassContextOverflow = "context_overflow"
	// ClassReplyTooLarge: the response is larger than [Request].MaxReplyBytes.
	ClassReplyTooLarge = CodeReplyTooLarge
	ClassRateLimit     = "rate_limit"
	ClassServerError   = "server_error"
	// ClassUnreachable: there is no response, or it broke off.
	ClassUnreachable = "unreachable"
	// ClassSlow: no part of the response has arrived in time: see [Fallback].FirstToken.
	ClassSlow = "slow"
	// ClassRefused: the provider rejects the request, or the model refuses to answer.
	ClassRefused = "refused"
)

// Class returns the class of the error: one of the Class constants.
func (e *Error) Class() string {
	switch {
	case e.ContextOverflow:
		return ClassContextOverflow
	case e.Code == CodeReplyTooLarge:
		return ClassReplyTooLarge
	case e.Slow:
		return ClassSlow
	case e.StatusCode == 429:
		return ClassRateLimit
	case e.StatusCode != 0 && !RetryableStatus(e.StatusCode), e.StatusCode == 0 && !e.Retryable:
		return ClassRefused
	case e.StatusCode == 0:
		return ClassUnreachable
	}
	return ClassServerError
}
