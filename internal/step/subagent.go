package step

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Parent is the parent thread of a sub-agent.
type Parent struct {
	ThreadID string `json:"threadId"`

	// Agent called the tool ToolName with ToolCallID in message MessageID.
	Agent      string `json:"agent"`
	ToolName   string `json:"toolName"`
	ToolCallID string `json:"toolCallId"`
	MessageID  string `json:"messageId"`

	// User is the person for whom the call was made. Empty if there is none.
	User string `json:"user,omitempty"`

	// EditedPrefix precedes the answer. It tells the agent that a person edited the arguments of
	// its call.
	EditedPrefix string `json:"editedPrefix,omitempty"`

	// Undecided means that hooks of the parent thread decide on the answer.
	Undecided bool `json:"undecided,omitempty"`

	// TraceID and EventID identify the turn of the parent thread.
	TraceID string `json:"traceId"`
	EventID string `json:"eventId"`

	// Root has the meaning of [Run.Root].
	Root string `json:"root,omitempty"`

	// Depth is the number of ancestor threads. MaxSteps limits the model calls of each run of the
	// sub-agent, in addition to its own limit; 0 = no further limit.
	Depth    int `json:"depth"`
	MaxSteps int `json:"maxSteps,omitempty"`

	// Background is the task that the sub-agent works on, if it works in the background.
	Background *event.Task `json:"background,omitempty"`

	// ReportRequested means that the parent thread has continued as new and must be notified of the
	// sub-agent's end by signal.
	ReportRequested bool `json:"reportRequested,omitempty"`
}

// Delegate is the input of a sub-agent's workflow.
type Delegate struct {
	signals.Start
	Parent *Parent `json:"parent,omitempty"`

	// Restore is what the store has of the thread, if it starts again after Temporal was restored from a backup:
	// a [signals.Restore].
	Restore json.RawMessage `json:"restore,omitempty"`
}

// DelegateReply is the result of a sub-agent's workflow.
type DelegateReply struct {
	Status signals.TurnStatus `json:"status"`
	Usage  event.Usage        `json:"usage"`

	// Answer is the result of the call. It is cut to MaxCarriedContent if Truncated; the store has
	// all of it. Failed reports whether it is an error.
	Answer    string `json:"answer,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Failed    bool   `json:"failed,omitempty"`

	// Result and Error are the result of a background task. Cancelled reports whether its workflow
	// was cancelled.
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	Cancelled bool            `json:"cancelled,omitempty"`
}

// Task returns the result of the background task that the sub-agent worked on.
func (r DelegateReply) Task() TaskReply {
	return TaskReply{Result: r.Result, Error: r.Error, Cancelled: r.Cancelled}
}

// SubAgentEnded is the payload of signal "subagent_ended".
type SubAgentEnded struct {
	ThreadID string `json:"threadId"`
	DelegateReply
}

// SubAgentRequest is the payload of signal "subagent_approvals": a request for a decision or, with
// Input, one for input.
type SubAgentRequest struct {
	ThreadID string                `json:"threadId"`
	Request  event.ApprovalRequest `json:"request,omitzero"`
	Input    *event.InputRequest   `json:"input,omitempty"`

	// Listed reports whether the request lists the parent thread as waiting for approval.
	Listed bool `json:"listed,omitempty"`

	// Agents are the agents of the threads that forwarded the request. None of them may decide.
	Agents []string `json:"agents,omitempty"`
}

// SubAgentDecision is the payload of signal "subagent_decision". An Approval with Missing is a vote;
// the call still waits. Approval is nil if the call no longer waits although nobody decided. Input is
// how a request for input ended, if the call waited for that.
type SubAgentDecision struct {
	ThreadID   string               `json:"threadId"`
	ToolCallID string               `json:"toolCallId"`
	Approval   *event.Approval      `json:"approval,omitempty"`
	Input      *event.InputReceived `json:"input,omitempty"`
}

// End is the input of end_delegate, which stores the remaining records of a sub-agent's thread
// and, in the parent thread, the result of the waiting call.
type End struct {
	Thread Ref    `json:"thread"`
	Parent Parent `json:"parent"`

	// EventID is the event of the sub-agent's turn. Status and Error are the turn's result.
	EventID string             `json:"eventId"`
	Status  signals.TurnStatus `json:"status"`
	Error   string             `json:"error,omitempty"`
	Flush   Flush              `json:"flush"`
}

// EndReply is the result of end_delegate: see [DelegateReply] for Answer, Truncated and Failed.
type EndReply struct {
	// Answer, Truncated and Failed are as in [DelegateReply].
	Answer    string `json:"answer,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Failed    bool   `json:"failed,omitempty"`

	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}
