package step

import "time"

// Event is the input of handle_event, which runs the function of a rule, and of ingest, which has no rule.
type Event struct {
	Thread  Ref    `json:"thread"`
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root and Ends have the meaning of those in [Model]. Ends is stored after the function has
	// succeeded.
	Root string `json:"root,omitempty"`
	Ends string `json:"ends,omitempty"`

	Rule        string        `json:"rule"`
	Timeout     time.Duration `json:"timeout"`
	MaxAttempts int           `json:"maxAttempts"`

	// By is the person or the agent that caused the event, if it is known.
	By string `json:"by,omitempty"`

	Flush Flush `json:"flush"`
}
