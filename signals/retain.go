package signals

import "time"

// Retained is the receipt of a pass of retention. It contains nothing that was said.
type Retained struct {
	// When the pass began.
	StartedAt time.Time `json:"startedAt,omitzero"`

	// When it had found nothing more.
	FinishedAt time.Time `json:"finishedAt,omitzero"`

	// Idle threads that were closed.
	Closed int `json:"closed"`

	// Closed threads that were erased; each has its own receipt.
	Erased int `json:"erased"`

	// What belonged to the erased threads.
	Contents ErasedCounts `json:"contents"`

	// Logs of tool calls that were deleted from other threads.
	ToolLogs int `json:"toolLogs"`

	// Threads that could not be closed, or erased in time; the next pass tries again.
	Failed int `json:"failed,omitempty"`
}
