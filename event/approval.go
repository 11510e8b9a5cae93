package event

import "time"

// ApprovalRequest is the payload of an "approval_request" record: a tool call waits for a
// person. When a person is reminded, or asked anew, there is another record of it.
type ApprovalRequest struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`

	// Arguments are the raw JSON arguments of the stored call.
	Arguments string `json:"arguments"`
	Agent     string `json:"agent"`

	// MessageID is the reply that holds the call.
	MessageID string `json:"messageId,omitempty"`

	// WorkingDirectory is where the call would work, if that is known.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Digest is of what is to be approved: tool, arguments and working directory.
	// Definition is of the tool's definition at that time.
	Digest     string `json:"digest,omitempty"`
	Definition string `json:"definition,omitempty"`

	// Reason says why a person is asked.
	Reason      string    `json:"reason,omitempty"`
	RequestedAt time.Time `json:"requestedAt"`

	// Round counts how often the call was asked about, when that is more than once: it
	// was approved, but that no longer held when it was to run. A decision names it.
	Round int `json:"round,omitempty"`

	// Approvers are the only ones who may decide. Empty = anybody.
	Approvers []string `json:"approvers,omitempty"`

	// Quorum is how many of them have to approve, when that is more than one. Votes are
	// those who have.
	Quorum int    `json:"quorum,omitempty"`
	Votes  []Vote `json:"votes,omitempty"`

	// ExpiresAt is when the request ends without a decision. Nil = never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`

	// Reminder counts the reminders, of which this is one.
	Reminder int `json:"reminder,omitempty"`
}

// Vote is one of several approvals that a call needs.
type Vote struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

// Approval is the payload of an "approval" record: what was decided on a call, by whom.
type Approval struct {
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Agent      string    `json:"agent"`
	Decision   Decision  `json:"decision"`
	Scope      Scope     `json:"scope"`
	Reason     string    `json:"reason,omitempty"`
	By         string    `json:"by"`
	DecidedAt  time.Time `json:"decidedAt"`

	// Digest, Definition, WorkingDirectory and Round are those of the request: what was
	// decided on.
	Digest           string `json:"digest,omitempty"`
	Definition       string `json:"definition,omitempty"`
	WorkingDirectory string `json:"workingDirectory,omitempty"`
	Round            int    `json:"round,omitempty"`

	// Arguments, if set, were put in the place of the call's own, which stay as they are
	// in the stored call.
	Arguments string `json:"arguments,omitempty"`

	// Pattern of an approval with scope "pattern": globs by the names of arguments.
	// Rest is the digest of tool, working directory and all other arguments.
	Pattern map[string]string `json:"pattern,omitempty"`
	Rest    string            `json:"rest,omitempty"`

	// ThreadID is the thread of the sub-agent whose call it is, in the thread above: that is
	// where it holds, and what it grants.
	ThreadID string `json:"threadId,omitempty"`

	// Grant is the call whose approval covers this one, when nobody was asked.
	Grant string `json:"grant,omitempty"`

	// Missing is how many more have to approve: the call still waits. Votes are all of
	// them, once it does no more.
	Missing int    `json:"missing,omitempty"`
	Votes   []Vote `json:"votes,omitempty"`
}

// Decision is what was decided on a tool call.
type Decision string

// The decisions that people make.
const (
	Approve Decision = "approve"
	Deny    Decision = "deny"
)

// What else an "approval" record can say.
const (
	// ApprovalExpired: nobody has decided in time.
	ApprovalExpired Decision = "expired"
	// ApprovalRevoked: an approval, and what it grants, holds no more.
	ApprovalRevoked Decision = "revoked"
)

// Scope is how far an approval reaches.
type Scope string

// The scopes.
const (
	// Once is for this one call.
	Once Scope = "once"
	// Session is for every call of the same tool with the same arguments in the same
	// working directory, by the same agent in the same thread.
	Session Scope = "session"
	// Pattern is for every call of the same tool whose arguments fit the globs, by the
	// same agent in the same thread.
	Pattern Scope = "pattern"
)

// ClientCall is the payload of a "client_call" record: a tool call waits for a connected
// client to run it.
type ClientCall struct {
	ToolCallID  string    `json:"toolCallId"`
	ToolName    string    `json:"toolName"`
	Arguments   string    `json:"arguments"`
	Agent       string    `json:"agent"`
	MessageID   string    `json:"messageId,omitempty"`
	RequestedAt time.Time `json:"requestedAt"`

	// ExpiresAt is when the call fails if no client has answered.
	ExpiresAt time.Time `json:"expiresAt"`
}
