package signals

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// SignalRestore tells a thread what the store has and its workflow does not, after one of them was
// restored from a backup. It is not for clients: "starter repair" sends it.
const SignalRestore = "restore"

// Bounds of a [Restore].
const (
	MaxRestoreIDs   = 2000
	MaxRestorePosts = 256

	// MaxRestoreSubs is the maximum number of sub-agents, those of one turn.
	MaxRestoreSubs = 50
)

// Restore is the payload of signal [SignalRestore]. Every part is idempotent.
type Restore struct {
	// Title, Agents and Metadata are those of the thread. Empty = unchanged.
	Title    string          `json:"title,omitempty"`
	Agents   []string        `json:"agents,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Known are the ids of events whose turns have ended: posting them again changes nothing.
	Known []string `json:"known,omitempty"`

	// TaskNumber and ChildNumber are the numbers of the last background task and sub-agent. A thread that
	// has had some never decreases its own.
	TaskNumber  int `json:"taskNumber,omitempty"`
	ChildNumber int `json:"childNumber,omitempty"`

	// SubAgents are those that calls had started whose turns have not ended.
	SubAgents []RestoredSubAgent `json:"subAgents,omitempty"`

	// Posts are the events whose turns have not ended, oldest first. Steps that the store has do not
	// run again.
	Posts []Post `json:"posts,omitempty"`

	// Decisions, Results and Inputs are what people and clients said about calls. The thread keeps
	// them until the calls wait.
	Decisions []Decide       `json:"decisions,omitempty"`
	Results   []ToolResult   `json:"results,omitempty"`
	Inputs    []InputAnswers `json:"inputs,omitempty"`

	// Tasks are the background tasks that have ended, and Interrupts end turns that did not complete.
	Tasks      []CompleteTask `json:"tasks,omitempty"`
	Interrupts []Control      `json:"interrupts,omitempty"`
}

// RestoredSubAgent is a sub-agent that a call had started: the call starts it again, with the same thread.
type RestoredSubAgent struct {
	ToolCallID string `json:"toolCallId"`
	ThreadID   string `json:"threadId"`

	// Restore is the [Restore] of the sub-agent's thread, which receives it with its start: before that, it has no
	// workflow to send it to.
	Restore json.RawMessage `json:"restore,omitempty"`
}

// Validate reports the first field that is invalid as a whole. The thread validates each entry as if it had been sent alone.
func (r Restore) Validate() error {
	if len(r.Known) > MaxRestoreIDs {
		return event.FieldErrorf("known", "has %d entries, must have at most %d", len(r.Known), MaxRestoreIDs)
	}
	for _, id := range r.Known {
		if err := ValidateEventID("known", id); err != nil {
			return err
		}
	}
	if len(r.Posts) > MaxRestorePosts {
		return event.FieldErrorf("posts", "has %d entries, must have at most %d", len(r.Posts), MaxRestorePosts)
	}
	if len(r.SubAgents) > MaxRestoreSubs {
		return event.FieldErrorf("subAgents", "has %d entries, must have at most %d", len(r.SubAgents), MaxRestoreSubs)
	}
	for _, sub := range r.SubAgents {
		if err := ValidateID("subAgents.threadId", sub.ThreadID); err != nil {
			return err
		}
	}
	if r.TaskNumber < 0 || r.ChildNumber < 0 {
		return event.FieldErrorf("taskNumber", "and childNumber must not be negative")
	}
	return validateThread(r.Agents, r.Title, r.Metadata)
}
