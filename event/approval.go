package event

import "time"

// ApprovalRequest is the payload of an "approval_request" record: a tool call waits for approval.
// Every reminder and every further round adds another record.
type ApprovalRequest struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// Arguments are the raw JSON arguments of the stored call.
	Arguments string `json:"arguments"`
	Agent     string `json:"agent"`

	// MessageID is the reply that contains the call.
	MessageID string `json:"messageId,omitempty"`

	// WorkingDirectory is the directory in which the call would run, if known.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Digest identifies the tool, the arguments and the working directory of the call. Definition
	// is the digest of the tool's definition at the time of the request.
	Digest     string `json:"digest,omitempty"`
	Definition string `json:"definition,omitempty"`

	// Reason says why the call needs approval.
	Reason      string    `json:"reason,omitempty"`
	RequestedAt time.Time `json:"requestedAt"`

	// Round counts the approval requests for the call, if there is more than one: a call needs a
	// new request if its approval is no longer valid when it is about to run. A decision names the
	// round.
	Round int `json:"round,omitempty"`

	// Approvers are the only people who may decide. Empty = anyone.
	Approvers []string `json:"approvers,omitempty"`

	// Quorum is the number of approvals required, if more than one. Votes are the approvals so far.
	Quorum int    `json:"quorum,omitempty"`
	Votes  []Vote `json:"votes,omitempty"`

	// ExpiresAt is when the request expires without a decision. Nil = never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`

	// Reminder is the number of this reminder, from 1. 0 = the request itself.
	Reminder int `json:"reminder,omitempty"`
}

// Vote is one of several approvals that a call requires.
type Vote struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Approval is the payload of an "approval" record: a decision on a tool call and who made it.
type Approval struct {
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Agent      string    `json:"agent"`
	Decision   Decision  `json:"decision"`
	Scope      Scope     `json:"scope"`
	Reason     string    `json:"reason,omitempty"`
	By         string    `json:"by"`
	DecidedAt  time.Time `json:"decidedAt"`

	// Digest, Definition, WorkingDirectory and Round are copied from the request that was decided.
	Digest           string `json:"digest,omitempty"`
	Definition       string `json:"definition,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`
	Round            int    `json:"round,omitempty"`

	// Arguments, if set, replace the arguments of the call. The stored call keeps its own.
	Arguments string `json:"arguments,omitempty"`

	// Pattern maps argument names to globs, for scope "pattern". Rest is the digest of the tool,
	// the working directory and all other arguments.
	Pattern map[string]string `json:"pattern,omitempty"`
	Rest    string            `json:"rest,omitempty"`

	// ThreadID is the thread of the sub-agent that made the call, if the record is in a parent
	// thread. The decision and its grant apply to that thread.
	ThreadID string `json:"threadId,omitempty"`

	// Grant is the id of the call whose approval covers this one, if nobody was asked.
	Grant string `json:"grant,omitempty"`

	// Missing is the number of approvals still required; the call waits until it is 0. Votes are
	// all approvals, once none are missing.
	Missing int    `json:"missing,omitempty"`
	Votes   []Vote `json:"votes,omitempty"`
}

// Decision is the decision on a tool call.
type Decision string

// The decisions that people make.
const (
	Approve Decision = "approve"
	Deny    Decision = "deny"
)

// Further values of [Decision] in "approval" records.
const (
	// ApprovalExpired means that nobody decided in time.
	ApprovalExpired Decision = "expired"
	// ApprovalRevoked means that an approval and its grant were revoked.
	ApprovalRevoked Decision = "revoked"
)

// Scope is the set of calls that an approval covers.
type Scope string

// The scopes of an approval.
const (
	// Once covers this call only.
	Once Scope = "once"
	// Session covers every call of the same tool with the same arguments in the same working
	// directory, by the same agent in the same thread.
	Session Scope = "session"
	// Pattern covers every call of the same tool whose arguments match the globs, by the same agent
	// in the same thread.
	Pattern Scope = "pattern"
)

// ClientCall is the payload of a "client_call" record: a tool call waits for a connected client to
// run it.
type ClientCall struct {
	ToolCallID  string    `json:"toolCallId"`
	ToolName    string    `json:"toolName"`
	Arguments   string    `json:"arguments"`
	Agent       string    `json:"agent"`
	MessageID   string    `json:"messageId,omitempty"`
	RequestedAt time.Time `json:"requestedAt"`

	// ExpiresAt is when the call fails if no client has returned a result.
	ExpiresAt time.Time `json:"expiresAt"`
}
