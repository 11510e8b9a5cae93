package event

import (
	"strings"
	"time"
)

// ApprovalRequest is a tool call that waits for a decision: the payload of an
// "approval_request" record. A reminder, or another round, is another record of it.
type ApprovalRequest struct {
	ToolCallID       string     `json:"toolCallId" doc:"The call that waits"`
	ToolName         string     `json:"toolName" doc:"The tool that is called"`
	Arguments        string     `json:"arguments" doc:"The raw JSON of the stored call. Above 16 KiB they are shortened and marked as such; the thread's events have them whole"`
	Agent            string     `json:"agent" doc:"The agent that made the call"`
	MessageID        string     `json:"messageId,omitempty" doc:"The reply that holds the call"`
	WorkingDirectory string     `json:"workingDirectory,omitempty" doc:"Where the call would work, if that is known"`
	Digest           string     `json:"digest,omitempty" doc:"Digest of tool, arguments and working directory: what is to be approved"`
	Definition       string     `json:"definition,omitempty" doc:"Digest of the tool's definition at that time"`
	Reason           string     `json:"reason,omitempty" doc:"Why a decision is needed"`
	Rule             string     `json:"rule,omitempty" doc:"The approval rule that requires the decision. approvals: the agent's own setting for the tool"`
	RequestedAt      time.Time  `json:"requestedAt" doc:"When the decision was requested"`
	Round            int        `json:"round,omitempty" doc:"Counts the requests for the same call, from 2: an approval that no longer holds when the call is to run is requested again. A decision must name the round"`
	Approvers        []string   `json:"approvers,omitempty" doc:"The only people who may decide. Left out: anybody"`
	Groups           []string   `json:"groups,omitempty" doc:"The groups whose members may decide too. Approvers has those who were members when the decision was requested, at most 100 in all"`
	Quorum           int        `json:"quorum,omitempty" doc:"How many have to approve, if more than one. One denial denies"`
	Votes            []Vote     `json:"votes,omitempty" doc:"The approvals so far"`
	ExpiresAt        *time.Time `json:"expiresAt,omitempty" doc:"When the request ends without a decision. Left out: never"`
	Reminder         int        `json:"reminder,omitempty" doc:"Counts the reminders"`
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
	By     string    `json:"by" doc:"Who approved"`
	At     time.Time `json:"at" doc:"When"`
	Reason string    `json:"reason,omitempty" doc:"Why, as the approver wrote"`
}

// Approval is a decision on a tool call: the payload of an "approval" record.
type Approval struct {
	ToolCallID       string            `json:"toolCallId" doc:"The call that was decided on"`
	ToolName         string            `json:"toolName" doc:"The tool that is called"`
	Agent            string            `json:"agent" doc:"The agent that made the call"`
	Decision         Decision          `json:"decision" enum:"approve,deny,expired,revoked,withdrawn" doc:"expired: the request expired without a decision. revoked: the approval and its grant are no longer valid. withdrawn: a sub-agent's call stopped waiting before anybody decided; only parent threads store it"`
	Scope            Scope             `json:"scope" enum:"once,session,pattern" doc:"The calls that the decision covers: this call; the same call in this thread; or calls that match the pattern"`
	Reason           string            `json:"reason,omitempty" doc:"Why, as the approver wrote"`
	By               string            `json:"by" doc:"Who decided"`
	DecidedAt        time.Time         `json:"decidedAt" doc:"When"`
	Digest           string            `json:"digest,omitempty" doc:"Digest of tool, arguments and working directory: what was decided on"`
	Definition       string            `json:"definition,omitempty" doc:"Digest of the tool's definition"`
	WorkingDirectory string            `json:"workingDirectory,omitempty" doc:"Where the call works, if that is known"`
	Round            int               `json:"round,omitempty" doc:"The round of the request, from 2"`
	Arguments        string            `json:"arguments,omitempty" doc:"The arguments that ran instead of the call's own, which the stored call keeps"`
	Pattern          map[string]string `json:"pattern,omitempty" doc:"With scope pattern: globs by argument name"`
	Rest             string            `json:"rest,omitempty" doc:"With scope pattern: digest of tool, working directory and all other arguments"`
	ThreadID         string            `json:"threadId,omitempty" doc:"The sub-agent's thread, if it is a sub-agent's call: the approval and what it grants hold there"`
	Grant            string            `json:"grant,omitempty" doc:"The grant that covers the call, if no approval was requested"`
	Missing          int               `json:"missing,omitempty" doc:"How many more have to approve: the call still waits"`
	Votes            []Vote            `json:"votes,omitempty" doc:"All approvals, once none is missing"`
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
	ToolCallID  string    `json:"toolCallId" doc:"The call that waits"`
	ToolName    string    `json:"toolName" doc:"The tool to run"`
	Arguments   string    `json:"arguments" doc:"The raw JSON of the stored call"`
	Agent       string    `json:"agent" doc:"The agent that made the call"`
	MessageID   string    `json:"messageId,omitempty" doc:"The reply that holds the call"`
	RequestedAt time.Time `json:"requestedAt" doc:"When clients were asked to run it"`
	ExpiresAt   time.Time `json:"expiresAt" doc:"When the call fails unless a client has answered"`
}

// FirstRound is the round of an approval request whose round is 0.
const FirstRound = 1
