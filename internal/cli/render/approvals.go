package render

import (
	"fmt"
	"math"
	"strconv"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Approvals returns a table of calls that wait for approval, in the given order. It is empty
// without calls. The columns round, directory and approvers appear if a call has them.
func Approvals(calls []threadclient.WaitingApproval, opts TableOptions) string {
	t := table{head: []string{"THREAD", "CALL", "TOOL", "ARGUMENTS", "AGENT", "REASON", "SINCE", "EXPIRES", "VOTES", "ROUND", "DIRECTORY", "APPROVERS"}}
	t.rare = t.head[9:]
	for _, c := range calls {
		r := c.Request
		votes, round := "", ""
		if r.Quorum > 1 {
			votes = fmt.Sprintf("%d of %d", len(r.Votes), r.Quorum) + suffix(": ", voters(r.Votes))
		}
		if r.Round > 1 {
			round = strconv.Itoa(r.Round)
		}
		t.row(visible(c.ThreadID), visible(r.ToolCallID), visible(r.ToolName), opts.shorten(visible(r.Arguments), math.MaxInt), visible(r.Agent), visible(r.Reason),
			opts.time(r.RequestedAt), opts.optionalTime(r.ExpiresAt), votes, round, visible(r.WorkingDirectory), visible(r.Deciders()))
	}
	return t.String()
}

// ClientCalls returns a table of calls that wait for a client, in the given order. It is empty
// without calls.
func ClientCalls(calls []threadclient.WaitingCall, opts TableOptions) string {
	t := table{head: []string{"THREAD", "CLIENT CALL", "TOOL", "ARGUMENTS", "AGENT", "SINCE", "EXPIRES"}}
	for _, c := range calls {
		t.row(visible(c.ThreadID), visible(c.Call.ToolCallID), visible(c.Call.ToolName), opts.shorten(visible(c.Call.Arguments), math.MaxInt), visible(c.Call.Agent),
			opts.time(c.Call.RequestedAt), opts.time(c.Call.ExpiresAt))
	}
	return t.String()
}

// Grants returns a table of grants in the given order. It is empty without grants. Revoked grants
// add columns.
func Grants(grants []approval.Grant, opts TableOptions) string {
	t := table{head: []string{"GRANT", "SCOPE", "TOOL", "AGENT", "COVERS", "BY", "GRANTED", "REASON", "DIRECTORY", "REVOKED", "REVOKED BY"}}
	t.rare = t.head[7:]
	for _, g := range grants {
		covers := "the same call"
		if g.Scope == event.ScopePattern {
			covers = globs(g.Pattern)
		}
		t.row(visible(g.ID), visible(string(g.Scope)), visible(g.ToolName), visible(g.Agent), covers, visible(g.By), opts.time(g.GrantedAt),
			visible(g.Reason), visible(g.WorkingDirectory), opts.optionalTime(g.RevokedAt), visible(g.RevokedBy))
	}
	return t.String()
}
