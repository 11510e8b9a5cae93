// Package retention is the vocabulary of what is deleted by its age: the steps of workers, the API (GET /v1/retention) and
// "starter retention" share it.
package retention

import (
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Kind is the kind of the document with the receipt of the last pass, Last its name.
const (
	Kind = "retention"
	Last = "last"
)

// Old reports whether a thread of a page is old enough: an open one must be idle. The threads of sub-agents go with their
// parent threads.
func Old(row store.Thread, before time.Time) bool {
	return row.Parent == "" && row.UpdatedAt.Before(before) && (row.Status == store.ThreadClosed || row.Activity == store.ActivityIdle)
}

// Due is what the next pass of the retention would do.
type Due struct {
	Enabled bool `json:"enabled" doc:"Whether anything is deleted"`

	IdleThreads   string `json:"idleThreads,omitempty" doc:"The age at which idle threads are closed"`
	ClosedThreads string `json:"closedThreads,omitempty" doc:"The age at which closed threads are erased"`
	ToolLogAge    string `json:"toolLogAge,omitempty" doc:"The age at which logs of tool calls are deleted"`
	Every         string `json:"every" doc:"The time between two passes"`

	Close    []string `json:"close" nullable:"false" doc:"Idle threads that would be closed, at most 10,000"`
	Erase    []string `json:"erase" nullable:"false" doc:"Closed threads that would be erased, at most 10,000, with those of their sub-agents"`
	ToolLogs int      `json:"toolLogs" doc:"The number of logs of tool calls that would be deleted"`

	Last *signals.Retained `json:"last,omitempty" doc:"The receipt of the last pass"`
}
