package step

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Tool is the input of run_tool.
type Tool struct {
	Run
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// User is the person for whom the call runs. Empty if there is none.
	User string `json:"user,omitempty"`

	// Invalid is copied from the plan.
	Invalid bool `json:"invalid,omitempty"`

	// Edited means that a hook changed the calls. The record of its decision contains the call to
	// run; it may be part of Flush.
	Edited bool `json:"edited,omitempty"`

	// Guard is copied from the plan of an approved call. DecisionID is the record of the approval,
	// which may be part of Flush.
	Guard      *Guard `json:"guard,omitempty"`
	DecisionID string `json:"decisionId,omitempty"`

	// Answered is the round of the last request for input that was answered, 0 if none was. The
	// record of the answer may be part of Flush.
	Answered int `json:"answered,omitempty"`

	// Inline are inline hooks for the activity to run on the result; if set, no other hooks match.
	Inline []hook.Spec `json:"inline,omitempty"`

	// Undecided means that hooks decide on the result after it is stored.
	Undecided bool `json:"undecided,omitempty"`
}

// ToolReply is the result of run_tool. Arguments and Result are only for readers of the history;
// the workflow does not depend on them.
type ToolReply struct {
	ToolCallID string `json:"toolCallId"`
	Underway

	// Arguments are the arguments that the tool ran with, and Result its stored result. Each is cut
	// to MaxCarriedContent; Truncated reports whether one was cut.
	Arguments string `json:"arguments,omitempty"`
	Result    string `json:"result,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`

	// Decision is the decision of the inline hooks on the result, if they ran.
	Decision *HookDecision `json:"decision,omitempty"`

	// Status is the status in the tool log: succeeded, failed, interrupted, unknown or denied.
	Status string `json:"status"`

	// Approval is the call's new plan if the call did not run because its approval is no longer valid.
	Approval *PlannedCall `json:"approval,omitempty"`

	// Input is set instead of a result if the tool needs input of a person before it can continue.
	Input *event.InputRequest `json:"input,omitempty"`
}

// toolFailed is the status of a tool that has failed.
const toolFailed = "failed"

// Failure is what people who look at the thread's workflow are told of a tool that failed, or "".
func (r *ToolReply) Failure() string {
	if r.Status != toolFailed {
		return ""
	}
	return r.Result
}
