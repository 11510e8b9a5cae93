package thread

import (
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Call is a tool call on its way to its result.
type Call struct {
	run *Run

	Plan      PlannedCall            `json:"plan"`
	Stage     Stage                  `json:"stage"`
	Requested *event.ApprovalRequest `json:"requested,omitempty"`

	// Round counts how often people were asked about it, from 1, Reminders how often they
	// were reminded; RemindAt is when they are next. Votes have approved it.
	Round     int          `json:"round,omitempty"`
	Reminders int          `json:"reminders,omitempty"`
	RemindAt  *time.Time   `json:"remindAt,omitempty"`
	Votes     []event.Vote `json:"votes,omitempty"`

	// DecisionID is the record by which it may run. Other arguments may be in there.
	DecisionID string `json:"decisionId,omitempty"`

	// Edited are the arguments that a person has put in the place of the call's own.
	Edited string `json:"edited,omitempty"`

	// Begun: it has been given to a worker to run.
	Begun bool `json:"begun,omitempty"`

	// Client is how a connected client was asked to run it.
	Client *event.ClientCall `json:"client,omitempty"`

	// Sub is the thread of the sub-agent that the call asks.
	Sub string `json:"sub,omitempty"`

	// Failed says what its result is, Decision what inline hooks have made of that.
	Failed   bool      `json:"failed,omitempty"`
	Decision *Decision `json:"decision,omitempty"`

	// Undecided: its result is stored before hooks decide on it.
	Undecided bool `json:"undecided,omitempty"`
}

// editedPrefix is what goes before the result of a call whose arguments a person has changed: its
// model sees those that it wrote itself.
func (c *Call) editedPrefix() string {
	if c.Edited == "" {
		return ""
	}
	return EditedText(c.Edited)
}

// cutOff is the result of a call that was interrupted.
func (c *Call) cutOff() string {
	if c.Begun || c.Sub != "" || c.Client != nil {
		return InterruptedText
	}
	return NotBegunText
}

// EditedText tells a model that a person has changed the arguments of its call.
func EditedText(arguments string) string {
	const limit = 4 << 10 // bytes
	if len(arguments) > limit {
		arguments = cutText(arguments, limit) + "…"
	}
	return fmt.Sprintf("(A person has changed the arguments of this call to %s)\n", arguments)
}

// Stage is where a call stands.
type Stage string

// The stages of a call.
const (
	// Waiting for a person's decision.
	Waiting Stage = "waiting"
	// Ready to run, or running.
	Ready Stage = "ready"
	// Delegated: a sub-agent works on it.
	Delegated Stage = "delegated"
	// AtClient: a connected client runs it.
	AtClient Stage = "client"
	// Ran: the result is stored, and hooks decide on it.
	Ran Stage = "ran"
	// CallSettled: the call has its result.
	CallSettled Stage = "settled"
)
