package llm

import "fmt"

// Limits limit the calls of a provider with one API key, by all workers together. Zero = no limit.
type Limits struct {
	// RequestsPerMinute is the maximum number of model calls per minute.
	RequestsPerMinute int

	// TokensPerMinute is the maximum number of input and output tokens per minute.
	TokensPerMinute int
}

// Limits of a [Limits].
const (
	MaxRequestsPerMinute = 1_000_000
	MaxTokensPerMinute   = 10_000_000_000
)

// Validate reports the first field that is out of range.
func (l Limits) Validate() error {
	switch {
	case l.RequestsPerMinute < 0 || l.RequestsPerMinute > MaxRequestsPerMinute:
		return fmt.Errorf("RequestsPerMinute is %d, must be 1 to %d, or 0 for no limit", l.RequestsPerMinute, MaxRequestsPerMinute)
	case l.TokensPerMinute < 0 || l.TokensPerMinute > MaxTokensPerMinute:
		return fmt.Errorf("TokensPerMinute is %d, must be 1 to %d, or 0 for no limit", l.TokensPerMinute, MaxTokensPerMinute)
	}
	return nil
}
