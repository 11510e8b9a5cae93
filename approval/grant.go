package approval

import (
	"time"

	"github.com/threadmill/threadmill/event"
)

// Grant is an approval that covers further calls.
type Grant struct {
	// ID is the id of the call that was approved.
	ID               string            `json:"id"`
	Scope            event.Scope       `json:"scope"`
	Agent            string            `json:"agent"`
	ToolName         string            `json:"toolName"`
	Digest           string            `json:"digest,omitempty"`
	Pattern          map[string]string `json:"pattern,omitempty"`
	Rest             string            `json:"rest,omitempty"`
	Definition       string            `json:"definition,omitempty"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	Reason           string            `json:"reason,omitempty"`
	By               string            `json:"by"`
	GrantedAt        time.Time         `json:"grantedAt"`

	// RevokedAt and RevokedBy are set if the grant was revoked.
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
	RevokedBy string     `json:"revokedBy,omitempty"`
}

// grantOf returns the grant of an approval, if it has one.
func grantOf(a event.Approval) (Grant, bool) {
	// An approval that was itself covered by a grant grants nothing.
	if a.Decision != event.Approve || a.Grant != "" || a.Scope != event.Session && a.Scope != event.Pattern {
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
	case event.Once:
		return false // covers its own call only
	case event.Session:
		digest, err := c.Digest()
		return err == nil && g.Digest == digest
	case event.Pattern:
		rest, err := c.Rest(g.Pattern)
		return err == nil && g.Rest == rest && c.Matches(g.Pattern) == nil
	}
	return false
}
