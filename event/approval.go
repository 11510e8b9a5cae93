package event

import (
	"strings"
	"time"
)

// ApprovalRequest is a tool call that waits for a decision: the payload of an
// "approval_request" record. A reminder, or another round, is another record of it.
type ApprovalRequest struct {
	// The call that waits.
	ToolCallID string `json:"toolCallId"`

	// The tool that is called.
	ToolName string `json:"toolName"`

	// The raw JSON of the stored call. Above 16 KiB they are shortened and marked as such; the thread's events have
	// them whole.
	Arguments string `json:"arguments"`

	// The agent that made the call.
	Agent string `json:"agent"`

	// The reply that holds the call.
	MessageID string `json:"messageId,omitempty"`

	// Where the call would work, if that is known.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Digest of tool, arguments and working directory: what is to be approved.
	Digest string `json:"digest,omitempty"`

	// Digest of the tool's definition at that time.
	Definition string `json:"definition,omitempty"`

	// Why a decision is needed.
	Reason string `json:"reason,omitempty"`

	// The approval rule that requires the decision. approvals: the agent's own setting for the tool.
	Rule string `json:"rule,omitempty"`

	// When the decision was requested.
	RequestedAt time.Time `json:"requestedAt"`

	// Counts the requests for the same call, from 2: an approval that no longer holds when the call is to run is
	// requested again. A decision must name the round.
	Round int `json:"round,omitempty"`

	// The only people who may decide. Left out: anybody.
	Approvers []string `json:"approvers,omitempty"`

	// The groups whose members may decide too. Approvers has those who were members when the decision was requested, at
	// most 100 in all.
	Groups []string `json:"groups,omitempty"`

	// How many have to approve, if more than one. One denial denies.
	Quorum int `json:"quorum,omitempty"`

	// The approvals so far.
	Votes []Vote `json:"votes,omitempty"`

	// When the request ends without a decision. Left out: never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`

	// Counts the reminders.
	Reminder int `json:"reminder,omitempty"`
}

// Deciders returns who may decide, for people to read, or "" if anybody may.
func (q ApprovalRequest) Deciders() string {
	who := q.Approvers
	for _, group := range q.Groups {
		who = append(who[:len(who):len(who)], "group "+group)
	}
	return strings.Join(who, ", ")
}

// Vote is one of several approvals that a call requires.
type Vote struct {
	// Who approved.
	By string `json:"by"`

	// When.
	At time.Time `json:"at"`

	// Why, as the approver wrote.
	Reason string `json:"reason,omitempty"`
}

// Approval is a decision on a tool call: the payload of an "approval" record.
type Approval struct {
	// The call that was decided on.
	ToolCallID string `json:"toolCallId"`

	// The tool that is called.
	ToolName string `json:"toolName"`

	// The agent that made the call.
	Agent string `json:"agent"`

	// expired: the request expired without a decision. revoked: the approval and its grant are no longer valid.
	// withdrawn: a sub-agent's call stopped waiting before anybody decided; only parent threads store it.
	Decision Decision `json:"decision" enum:"approve,deny,expired,revoked,withdrawn"`

	// The calls that the decision covers: this call; the same call in this thread; or calls that match the pattern.
	Scope Scope `json:"scope" enum:"once,session,pattern"`

	// Why, as the approver wrote.
	Reason string `json:"reason,omitempty"`

	// Who decided.
	By string `json:"by"`

	// When.
	DecidedAt time.Time `json:"decidedAt"`

	// Digest of tool, arguments and working directory: what was decided on.
	Digest string `json:"digest,omitempty"`

	// Digest of the tool's definition.
	Definition string `json:"definition,omitempty"`

	// Where the call works, if that is known.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// The round of the request, from 2.
	Round int `json:"round,omitempty"`

	// The arguments that ran instead of the call's own, which the stored call keeps.
	Arguments string `json:"arguments,omitempty"`

	// With scope pattern: globs by argument name.
	Pattern map[string]string `json:"pattern,omitempty"`

	// With scope pattern: digest of tool, working directory and all other arguments.
	Rest string `json:"rest,omitempty"`

	// The sub-agent's thread, if it is a sub-agent's call: the approval and what it grants hold there.
	ThreadID string `json:"threadId,omitempty"`

	// The grant that covers the call, if no approval was requested.
	Grant string `json:"grant,omitempty"`

	// How many more have to approve: the call still waits.
	Missing int `json:"missing,omitempty"`

	// All approvals, once none is missing.
	Votes []Vote `json:"votes,omitempty"`
}

// Decision is the decision on a tool call.
type Decision string

// The decisions of approvers.
const (
	DecisionApprove Decision = "approve"
	DecisionDeny    Decision = "deny"
)

// Further values of [Decision] in "approval" records.
const (
	// DecisionExpired means that the request expired without a decision.
	DecisionExpired Decision = "expired"
	// DecisionRevoked means that an approval and its grant were revoked.
	DecisionRevoked Decision = "revoked"
	// DecisionWithdrawn means that a sub-agent's call stopped waiting before anybody decided. Only
	// parent threads store it; in the call's own thread, its result ends the request.
	DecisionWithdrawn Decision = "withdrawn"
)

// Scope is the set of calls that an approval covers.
type Scope string

// The scopes of an approval.
const (
	// ScopeOnce covers this call only.
	ScopeOnce Scope = "once"
	// ScopeSession covers every call of the same tool with the same arguments in the same working
	// directory, by the same agent in the same thread.
	ScopeSession Scope = "session"
	// ScopePattern covers every call of the same tool whose arguments match the globs, by the same agent
	// in the same thread.
	ScopePattern Scope = "pattern"
)

// ClientCall is a tool call that waits for a connected client to run it: the payload of a
// "client_call" record.
type ClientCall struct {
	// The call that waits.
	ToolCallID string `json:"toolCallId"`

	// The tool to run.
	ToolName string `json:"toolName"`

	// The raw JSON of the stored call.
	Arguments string `json:"arguments"`

	// The agent that made the call.
	Agent string `json:"agent"`

	// The reply that holds the call.
	MessageID string `json:"messageId,omitempty"`

	// When clients were asked to run it.
	RequestedAt time.Time `json:"requestedAt"`

	// When the call fails unless a client has answered.
	ExpiresAt time.Time `json:"expiresAt"`
}

// FirstRound is the round of an approval request whose round is 0.
const FirstRound = 1
