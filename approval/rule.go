package approval

import (
	"time"
)

// Effect is what a rule makes of a call.
type Effect string

// The effects.
const (
	// Allow runs the call without asking.
	Allow Effect = "allow"
	// Ask waits for a person.
	Ask Effect = "ask"
	// Deny never runs it, whoever has approved it.
	Deny Effect = "deny"
)

// Rule says what becomes of the calls that it matches.
type Rule struct {
	// Name is shown to people, and kept with what the rule has denied.
	Name string

	// Tools and Agents are the names of those whose calls the rule looks at, compared
	// without regard to case. Empty, or "*" among them: all.
	Tools  []string
	Agents []string

	// When is an expression in CEL that is true of the calls that match. Empty = always.
	// It sees tool, agent, ns (the namespace), thread and workingDirectory as text, args as
	// a map, and paths as a map from argument to resolved path.
	When string

	Effect Effect

	// Reason tells the person who is asked, or the model whose call is denied, why.
	Reason string

	// Terms of asking.
	Terms Terms
}

// Terms are how people are asked. The zero value asks anybody, once, without an end.
type Terms struct {
	// Approvers are the only ones who may decide, as they call themselves in "by". Empty =
	// anybody.
	Approvers []string

	// Quorum is how many of them have to approve. Default 1. One denial denies.
	Quorum int

	// Expires is after how long a request ends without a decision. Default never; at
	// least a second, at most 365 days.
	Expires time.Duration

	// Remind is how often people are reminded until then. Default never; at least a
	// second.
	Remind time.Duration

	// OnExpiry says what the end of a request means. Default [DenyCall].
	OnExpiry OnExpiry
}

// OnExpiry says what the end of a request without a decision means.
type OnExpiry string

// What it can mean. Nothing ever runs because nobody has answered.
const (
	// DenyCall does not run the call; the agent is told so and goes on.
	DenyCall OnExpiry = "deny"
	// EndTurn interrupts the agent's turn.
	EndTurn OnExpiry = "interrupt"
)

// IsZero reports whether nothing is said.
func (t Terms) IsZero() bool {
	return len(t.Approvers) == 0 && t.Quorum == 0 && t.Expires == 0 && t.Remind == 0 && t.OnExpiry == ""
}

// Verdict is what rules make of a call.
type Verdict struct {
	// Effect is empty if no rule matches.
	Effect Effect

	// Rule is the name of the one that decided.
	Rule   string
	Reason string
	Terms  Terms
}
