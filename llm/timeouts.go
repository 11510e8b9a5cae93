package llm

import "time"

// Timeouts end calls to providers that no longer respond, with a retryable error. Only the context
// limits the duration of a whole call.
type Timeouts struct {
	// Start is the maximum time until the reply begins or, if it is not streamed, arrives. Default
	// 10 minutes.
	Start time.Duration

	// Idle is the maximum time between two pieces of a stream. Default 5 minutes.
	Idle time.Duration
}
