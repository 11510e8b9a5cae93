package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// Call is a tool call of a run.
type Call struct {
	run *AgentRun

	Plan      step.PlannedCall       `json:"plan"`
	Stage     CallStage              `json:"stage"`
	Requested *event.ApprovalRequest `json:"requested,omitempty"`

	// Round counts the approval requests, from 1, and Reminders the reminders of the current one.
	// RemindAt is the time of the next reminder. Votes are the approvals so far.
	Round     int          `json:"round,omitempty"`
	Reminders int          `json:"reminders,omitempty"`
	RemindAt  *time.Time   `json:"remindAt,omitempty"`
	Votes     []event.Vote `json:"votes,omitempty"`

	// Ended is the end of the call's approval request, until it has been observed.
	Ended *RequestEnd `json:"ended,omitempty"`

	// DecisionID is the record of the approval. It may contain edited arguments.
	DecisionID string `json:"decisionId,omitempty"`

	// Edited are the arguments with which a person replaced the call's own.
	Edited string `json:"edited,omitempty"`

	// Started means that a worker has started the call.
	Started bool `json:"started,omitempty"`

	// Client is the record that asks connected clients to run the call.
	Client *event.ClientCall `json:"client,omitempty"`

	// Input is the request for a person's input that the call waits for. Answered is the round of the
	// last one that was answered, 0 if none was.
	Input    *event.InputRequest `json:"input,omitempty"`
	Answered int                 `json:"answered,omitempty"`

	// SubAgent is the thread of the sub-agent that works on the call.
	SubAgent string `json:"subAgent,omitempty"`

	// Failed reports whether the result is an error. Decision is the decision of inline hooks on
	// the result.
	Failed   bool               `json:"failed,omitempty"`
	Decision *step.HookDecision `json:"decision,omitempty"`

	// Undecided means that the result is stored before hooks decide on it.
	Undecided bool `json:"undecided,omitempty"`
}

// RequestEnd is the end of an approval request by a decision, an expiry or a grant.
type RequestEnd struct {
	At       time.Time      `json:"at"`
	Decision event.Decision `json:"decision"`
}

// TakeEnded returns the end of the call's approval request once, or nil. A call may be decided while its turn is
// parked or the thread continues as new.
func (c *Call) TakeEnded() *RequestEnd {
	end := c.Ended
	c.Ended = nil
	return end
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
	// CallAtInput means that the call waits for a person's input, and runs again with it.
	CallAtInput CallStage = "input"
	// CallRan means that the result is stored and hooks decide on it.
	CallRan CallStage = "ran"
	// CallSettled means that the call has its final result.
	CallSettled CallStage = "settled"
)

// editedPrefix returns the text that precedes the result of a call whose arguments a person edited,
// since the model sees only its own arguments.
func (c *Call) editedPrefix() string {
	if c.Edited == "" {
		return ""
	}
	return step.EditedText(c.Edited)
}

// cutOff returns the result of an interrupted call.
func (c *Call) cutOff() string {
	if c.Started || c.SubAgent != "" || c.Client != nil {
		return step.InterruptedText
	}
	return step.NotBegunText
}

// ToolStep returns the input of the activity that runs the call. specs are the registered hooks.
func (c *Call) ToolStep(specs []hook.Spec) step.Tool {
	r := c.run
	matching := c.decidingOnResult(specs)
	// If there are hooks of other kinds, the hook workflow runs the inline hooks too.
	var inline []hook.Spec
	if Only(hook.KindInline, matching) {
		// Otherwise a hook workflow asks them all.
		inline = matching
	}
	c.Undecided = len(matching) > len(inline)
	input := step.Tool{
		Run:        r.step(r.MessageID),
		ToolCallID: c.Plan.ID,
		ToolName:   c.Plan.Name,
		User:       r.User,
		Invalid:    c.Plan.Invalid,
		Edited:     r.Edited,
		Inline:     inline,
		Undecided:  c.Undecided,
	}
	c.Started, input.Answered = true, c.Answered
	if c.DecisionID != "" {
		input.Guard, input.DecisionID = c.Plan.Guard, c.DecisionID
	}
	return input
}

// decidingOnResult returns the hooks that decide on a call's result.
func (c *Call) decidingOnResult(specs []hook.Spec) []hook.Spec {
	r, s := c.run, c.run.turn.thread
	return hook.Matching(specs, hook.Subject{
		Namespace: s.Namespace, Type: event.TypeMessage, CreatedBy: event.CreatedByTool, Agent: r.Agent, Tools: []string{c.Plan.Name},
	})
}

// CallRan records that a call's result is stored. Hooks decide on it next.
func (c *Call) CallRan(reply step.ToolReply) {
	c.run.turn.thread.Pace.Took(c.Kind(), reply.Took)
	c.Stage, c.Decision = CallRan, reply.Decision
	c.Failed = reply.Status != "succeeded"
}

// ApplyResultDecision applies the decision of hooks on a call's result.
func (c *Call) ApplyResultDecision(now time.Time, d step.HookDecision) {
	r := c.run
	seen := c.ResultEvent()
	d = c.run.turn.applyDecision(now, seen, d, &r.Deferred)
	c.Stage, c.Decision = CallSettled, nil
	s := c.run.turn.thread
	release(now, &s.Decisions.EarlyInputs, s.ReadAnswer, reading.applicable)
	switch {
	case d.Outcome == event.OutcomeFailed:
		if r.Refused == "" {
			r.Refused = d.Error
		}
	case d.Stopped():
		r.Answered = true
	}
}

// Rewritten reports whether hooks changed the calls of the reply.
func (c *Call) Rewritten() bool { return c.run.Edited }

// NeverStarted records that the step of the call was cancelled before it ran.
func (c *Call) NeverStarted() { c.Started = false }

// CallFailed sets an error as the result of a call that could not be completed.
func (c *Call) CallFailed(now time.Time, why string) {
	c.Failed = true
	c.settleWithoutRunning(now, "Error: "+why)
}

// settleWithoutRunning sets the result of a call that will not run.
func (c *Call) settleWithoutRunning(now time.Time, text string) {
	t, s := c.run.turn, c.run.turn.thread
	if c.Input != nil {
		ended := withdrawn(now, *c.Input)
		s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID, Input: &ended})
	}
	c.Stage, c.Input = CallSettled, nil
	release(now, &s.Decisions.EarlyInputs, s.ReadAnswer, reading.applicable)
	if c.Client != nil {
		// Remember the call, so that a late result of a client is recognised.
		s.Decisions.rememberSettled(answerKey(c.Plan.ID), "settled")
	}
	t.record(now, recordid.Result(c.Plan.ID), event.TypeMessage, c.result(text, true))
}

// result returns the message of a result that the thread itself produced.
func (c *Call) result(text string, isError bool) event.Message {
	r, s := c.run, c.run.turn.thread
	return event.Message{
		ID: recordid.Result(c.Plan.ID), ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.CreatedByTool, Role: event.RoleTool, Content: text,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: isError, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	}
}
