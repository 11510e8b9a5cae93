package thread

import (
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Call is a tool call of a run.
type Call struct {
	run *AgentRun

	Plan      PlannedCall            `json:"plan"`
	Stage     CallStage              `json:"stage"`
	Requested *event.ApprovalRequest `json:"requested,omitempty"`

	// Round counts the approval requests, from 1, and Reminders the reminders of the current one.
	// RemindAt is the time of the next reminder. Votes are the approvals so far.
	Round     int          `json:"round,omitempty"`
	Reminders int          `json:"reminders,omitempty"`
	RemindAt  *time.Time   `json:"remindAt,omitempty"`
	Votes     []event.Vote `json:"votes,omitempty"`

	// DecisionID is the record of the approval. It may contain edited arguments.
	DecisionID string `json:"decisionId,omitempty"`

	// Edited are the arguments with which a person replaced the call's own.
	Edited string `json:"edited,omitempty"`

	// Started means that a worker has started the call.
	Started bool `json:"started,omitempty"`

	// Client is the record that asks connected clients to run the call.
	Client *event.ClientCall `json:"client,omitempty"`

	// SubAgent is the thread of the sub-agent that works on the call.
	SubAgent string `json:"subAgent,omitempty"`

	// Failed reports whether the result is an error. Decision is the decision of inline hooks on
	// the result.
	Failed   bool          `json:"failed,omitempty"`
	Decision *HookDecision `json:"decision,omitempty"`

	// Undecided means that the result is stored before hooks decide on it.
	Undecided bool `json:"undecided,omitempty"`
}

// editedPrefix returns the text that precedes the result of a call whose arguments a person edited,
// since the model sees only its own arguments.
func (c *Call) editedPrefix() string {
	if c.Edited == "" {
		return ""
	}
	return EditedText(c.Edited)
}

// cutOff returns the result of an interrupted call.
func (c *Call) cutOff() string {
	if c.Started || c.SubAgent != "" || c.Client != nil {
		return InterruptedText
	}
	return NotBegunText
}

// EditedText returns the text that tells a model that a person edited the arguments of its call.
func EditedText(arguments string) string {
	const limit = 4 << 10 // bytes
	if len(arguments) > limit {
		arguments = cutText(arguments, limit) + "…"
	}
	return fmt.Sprintf("(A person has changed the arguments of this call to %s)\n", arguments)
}

// CallStage is the stage of a call.
type CallStage string

// The stages of a call.
const (
	// CallWaiting means that the call waits for a decision.
	CallWaiting CallStage = "waiting"
	// CallReady means that the call may run or is running.
	CallReady CallStage = "ready"
	// CallDelegated means that a sub-agent works on the call.
	CallDelegated CallStage = "delegated"
	// CallAtClient means that the call waits for a connected client to run it.
	CallAtClient CallStage = "client"
	// CallRan means that the result is stored and hooks decide on it.
	CallRan CallStage = "ran"
	// CallSettled means that the call has its final result.
	CallSettled CallStage = "settled"
)
