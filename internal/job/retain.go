package job

import (
	"time"

	"github.com/threadmill/threadmill/signals"
)

// Names for retention.
const (
	// RetainWorkflow deletes what has become too old, again and again. There is one for each namespace of Threadmill, with the
	// id [RetainWorkflowID]. Its input is a [RetainStep].
	RetainWorkflow = "retain"

	// ActivityRetainFind finds a batch of what has become too old, and prunes the logs of tool calls. ActivityRetainClose closes
	// a thread if it is still idle, and ActivityRetainCheck says whether a closed one is still to be erased. ActivityRetainDone
	// stores the receipt of a pass.
	ActivityRetainFind  = "retain_find"
	ActivityRetainClose = "retain_close"
	ActivityRetainCheck = "retain_check"
	ActivityRetainDone  = "retain_done"

	// SignalRetain sets the [RetainLimits]: workers send theirs when they start.
	SignalRetain = "limits"
)

// RetainLimits say how long things are kept. Zero = for ever.
type RetainLimits struct {
	// ClosedThreads is the age at which closed threads are erased, IdleThreads that at which idle threads are closed. The age of a
	// thread counts from its last record. ToolLogs is the age at which the logs of tool calls are deleted.
	ClosedThreads time.Duration `json:"closedThreads,omitempty"`
	IdleThreads   time.Duration `json:"idleThreads,omitempty"`
	ToolLogs      time.Duration `json:"toolLogs,omitempty"`

	// Every is the time between two passes.
	Every time.Duration `json:"every,omitempty"`
}

// Off reports whether everything is kept for ever.
func (l RetainLimits) Off() bool { return l.ClosedThreads+l.IdleThreads+l.ToolLogs <= 0 }

// RetainWorkflowID returns the id of the workflow that deletes what has become too old in a namespace.
func RetainWorkflowID(namespace string) string { return "retain/" + namespace }

// RetainStep is a place in a pass of retention.
type RetainStep struct {
	Namespace string       `json:"namespace"`
	Limits    RetainLimits `json:"limits"`

	// Phase is one of the phases below; empty = the first. UpdatedAt and ThreadID are the place in it.
	Phase     RetainPhase `json:"phase,omitempty"`
	UpdatedAt time.Time   `json:"updatedAt,omitzero"`
	ThreadID  string      `json:"threadId,omitempty"`

	// Pass is what the pass has done so far.
	Pass signals.Retained `json:"pass,omitzero"`
}

// RetainPhase is a part of a pass of retention.
type RetainPhase string

// The phases, in order.
const (
	RetainIdle     RetainPhase = "idle"
	RetainClosed   RetainPhase = "closed"
	RetainToolLogs RetainPhase = "toolLogs"
)

// RetainFound is the result of "retain_find".
type RetainFound struct {
	// Close are idle threads to be closed, Erase closed threads to be erased.
	Close []string `json:"close,omitempty"`
	Erase []string `json:"erase,omitempty"`

	// ToolLogs is the number of logs that the step has deleted.
	ToolLogs int `json:"toolLogs,omitempty"`

	// Next is the place of the next batch, nil if the pass is over.
	Next *RetainStep `json:"next,omitempty"`
}

// RetainClose is the input of "retain_close".
type RetainClose struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`

	// IdleThreads is the age at which it is closed.
	IdleThreads time.Duration `json:"idleThreads"`
}

// RetainCheck is the input of "retain_check".
type RetainCheck struct {
	Namespace string `json:"namespace"`
	ThreadID  string `json:"threadId"`

	// ClosedThreads is the age at which it is erased.
	ClosedThreads time.Duration `json:"closedThreads"`
}
