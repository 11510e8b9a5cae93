package approval

import (
	"time"

	"github.com/threadmill/threadmill/event"
)

// Grant is an approval that covers more calls than the one it was given for.
type Grant struct {
	// The tool call it was given for.
	ID string `json:"id"`

	// The calls that the grant covers.
	Scope event.Scope `json:"scope" enum:"session,pattern"`

	// The agent whose calls it covers.
	Agent string `json:"agent"`

	// The tool whose calls it covers.
	ToolName string `json:"toolName"`

	// With scope session: digest of tool, arguments and working directory.
	Digest string `json:"digest,omitempty"`

	// With scope pattern: globs by argument name.
	Pattern map[string]string `json:"pattern,omitempty"`

	// With scope pattern: digest of tool, working directory and all other arguments.
	Rest string `json:"rest,omitempty"`

	// Digest of the tool's definition: when that changes, the grant covers nothing.
	Definition string `json:"definition,omitempty"`

	// Where the calls work, if that is known.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Why, as the approver wrote.
	Reason string `json:"reason,omitempty"`

	// Who gave it.
	By string `json:"by"`

	// When it was granted.
	GrantedAt time.Time `json:"grantedAt"`

	// Since when it covers nothing.
	RevokedAt *time.Time `json:"revokedAt,omitempty"`

	// Who revoked it.
	RevokedBy string `json:"revokedBy,omitempty"`
}

// grantOf returns the grant of an approval, if it has one.
func grantOf(a event.Approval) (Grant, bool) {
	// An approval that was itself covered by a grant grants nothing.
	if a.Decision != event.DecisionApprove || a.Grant != "" || a.Scope != event.ScopeSession && a.Scope != event.ScopePattern {
		return Grant{}, false
	}
	return Grant{
		ID: a.ToolCallID, Scope: a.Scope, Agent: a.Agent, ToolName: a.ToolName, Digest: a.Digest, Pattern: a.Pattern, Rest: a.Rest,
		Definition: a.Definition, WorkingDirectory: a.WorkingDirectory, Reason: a.Reason, By: a.By, GrantedAt: a.DecidedAt,
	}, true
}

// Covers reports whether the grant covers a call.
func (g Grant) Covers(c Call) bool {
	if g.RevokedAt != nil || !sameName(g.Agent, c.Agent) || !sameName(g.ToolName, c.Tool) || g.Definition != c.Definition {
		return false
	}
	switch g.Scope {
	case event.ScopeOnce:
		return false // covers its own call only
	case event.ScopeSession:
		digest, err := c.Digest()
		return err == nil && g.Digest == digest
	case event.ScopePattern:
		rest, err := c.Rest(g.Pattern)
		return err == nil && g.Rest == rest && c.Matches(g.Pattern) == nil
	}
	return false
}
