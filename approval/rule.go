package approval

import (
	"slices"
	"time"
)

// Effect is the effect of a rule on a call.
type Effect string

// The effects.
const (
	// EffectAllow runs the call without approval.
	EffectAllow Effect = "allow"
	// EffectAsk requires approval.
	EffectAsk Effect = "ask"
	// EffectDeny never runs the call, even if it was approved.
	EffectDeny Effect = "deny"
)

// Rule decides on the calls that it matches.
type Rule struct {
	// Name is shown to people, and recorded with denied calls.
	Name string

	// Tools and Agents are the names of tools and agents that the rule applies to, ignoring case.
	// Empty, or containing "*" = all. Among Tools, "server__*" stands for all tools of an MCP server.
	Tools  []string
	Agents []string

	// When is a CEL expression that is true for the calls that match. Empty = always. Its variables
	// are the strings tool, agent, ns (the namespace), thread and workingDirectory, the map args,
	// and the map paths from argument to resolved path.
	When string

	Effect Effect

	// Reason is shown to the approvers, or to the model whose call is denied.
	Reason string

	// Terms are the terms of an approval request.
	Terms Terms
}

// Terms are the terms of an approval request. With the zero value, anyone may approve, and the
// request never expires.
type Terms struct {
	// Approvers are the only people who may decide, by their names in "by". Empty = anyone, or
	// only the members of Groups if there are any.
	Approvers []string

	// Groups are groups whose members may decide too: see [Groups].
	Groups []string

	// Quorum is the number of approvals required. Default 1. One denial denies the call.
	Quorum int

	// Expires is the time after which a request expires. Default never; at least a second, at most
	// 365 days.
	Expires time.Duration

	// Remind is the interval of reminders. Default never; at least a second.
	Remind time.Duration

	// OnExpiry says what happens when a request expires. Default [OnExpiryDeny].
	OnExpiry OnExpiry
}

// OnExpiry says what happens when a request expires.
type OnExpiry string

// The values of [OnExpiry]. A call never runs because a request expired.
const (
	// OnExpiryDeny denies the call; the agent is told and continues.
	OnExpiryDeny OnExpiry = "deny"
	// OnExpiryInterrupt interrupts the agent's turn.
	OnExpiryInterrupt OnExpiry = "interrupt"
)

// IsZero reports whether all terms have their zero value.
func (t Terms) IsZero() bool {
	return !t.Restricted() && t.Quorum == 0 && t.Expires == 0 && t.Remind == 0 && t.OnExpiry == ""
}

// Restricted reports whether only certain people may decide.
func (t Terms) Restricted() bool { return len(t.Approvers) > 0 || len(t.Groups) > 0 }

// MayApprove reports whether a person is one of the approvers, by the exact name. It does not look into groups.
func (t Terms) MayApprove(name string) bool {
	return !t.Restricted() || slices.Contains(t.Approvers, name)
}

// Verdict is the decision of rules on a call.
type Verdict struct {
	// Effect is empty if no rule matches.
	Effect Effect

	// Rule is the name of the rule that decided.
	Rule   string
	Reason string
	Terms  Terms
}
