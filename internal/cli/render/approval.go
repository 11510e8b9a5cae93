package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/text/term"
)

// Question returns the question whether a tool call may run.
func (r *Renderer) Question(a event.ApprovalRequest) term.Text {
	r.shown["request/"+Asking(a)] = true
	r.line(bold, r.wants(a)+". Allow? [y]es once / [s]ession / [n]o / reason")
	return r.take()
}

// Asking identifies a request: a later round, or a reminder.
func Asking(a event.ApprovalRequest) string {
	return fmt.Sprintf("%s/%d/%d", a.ToolCallID, a.Round, a.Reminder)
}

func (r *Renderer) request(a event.ApprovalRequest) {
	if !r.once("request", Asking(a)) {
		return
	}
	r.line(bold, "? "+r.wants(a))
	if r.opts.Hints {
		round := ""
		if a.Round > 1 {
			round = fmt.Sprintf(" --round %d", a.Round)
		}
		r.line(dim, fmt.Sprintf("  starter approve %[1]s %[2]s%[3]s   or   starter deny %[1]s %[2]s%[3]s", r.opts.ThreadID, visible(a.ToolCallID), round))
	}
}

// wants contains everything that a deciding person needs to know.
func (r *Renderer) wants(a event.ApprovalRequest) string {
	text := callText(a.ToolName, a.Arguments)
	if a.WorkingDirectory != "" {
		text += " in " + visible(a.WorkingDirectory)
	}
	if a.Reminder > 0 {
		text += fmt.Sprintf(" still waits, reminder %d", a.Reminder)
	} else {
		text += " wants to run"
	}
	if a.Round > 1 {
		text += fmt.Sprintf(", asked again (round %d)", a.Round)
	}
	var notes []string
	if a.Reason != "" {
		notes = append(notes, oneLine(a.Reason))
	}
	if a.Quorum > 1 {
		notes = append(notes, fmt.Sprintf("%d of %d have approved", len(a.Votes), a.Quorum)+suffix(": ", voters(a.Votes)))
	}
	if who := a.Deciders(); who != "" {
		notes = append(notes, "for "+visible(who)+" to decide")
	}
	if a.ExpiresAt != nil {
		notes = append(notes, "until "+r.time(*a.ExpiresAt))
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, "; ") + ")"
	}
	return text
}

func voters(votes []event.Vote) string {
	names := make([]string, 0, len(votes))
	for _, v := range votes {
		names = append(names, visible(v.By))
	}
	return strings.Join(names, ", ")
}

func (r *Renderer) time(at time.Time) string { return at.In(r.opts.Location).Format(time.DateTime) }

// decision writes a decision on a call. A call can have several: votes, another round, the end of
// an approval.
func (r *Renderer) decision(a event.Approval) {
	// Values from JSON can be marshalled.
	whole, _ := json.Marshal(a)
	if r.novelty("decision", a.ToolCallID, string(whole)) == known {
		return
	}
	tool, by, reason := visible(a.ToolName), suffix(" by ", visible(a.By)), suffix(": ", oneLine(a.Reason))
	switch a.Decision {
	case event.DecisionApprove:
		r.line(green, "✓ "+tool+approved(a)+reason)
	case event.DecisionDeny:
		r.line(yellow, "✗ "+tool+" denied"+by+reason)
	case event.DecisionExpired:
		r.line(yellow, "✗ "+tool+" expired: no decision in time")
	case event.DecisionRevoked:
		r.line(yellow, "✗ the approval of "+cmp.Or(tool, visible(a.ToolCallID))+" was revoked"+by+reason)
	case event.DecisionWithdrawn:
		r.line(yellow, "✗ "+tool+" no longer waits: the sub-agent went on without it")
	}
}

// approved describes who approved, and the scope.
func approved(a event.Approval) string {
	switch {
	case a.Missing > 0:
		return fmt.Sprintf(" approved by %s, %d more to approve", visible(a.By), a.Missing)
	case a.Grant != "":
		return fmt.Sprintf(" runs without asking: granted by %s with %s", visible(a.By), visible(a.Grant))
	}
	by := visible(a.By)
	if len(a.Votes) > 1 {
		by = voters(a.Votes)
	}
	text := " approved" + suffix(" by ", by)
	switch a.Scope {
	case event.ScopeSession:
		text += " for the session"
	case event.ScopePattern:
		text += " for all calls with " + globs(a.Pattern)
	case event.ScopeOnce:
	}
	if a.ThreadID != "" && a.Scope != event.ScopeOnce {
		text += ", in thread " + visible(a.ThreadID)
	}
	if a.Arguments != "" {
		text += ", with the arguments " + visible(a.Arguments)
	}
	return text
}

// globs returns a pattern in the order of its names.
func globs(pattern map[string]string) string {
	parts := make([]string, 0, len(pattern))
	for name, glob := range pattern {
		parts = append(parts, visible(name)+"="+visible(glob))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (r *Renderer) clientCall(c event.ClientCall) {
	if !r.once("client", c.ToolCallID) {
		return
	}
	r.line(bold, fmt.Sprintf("? %s waits for a client to run it (until %s)", callText(c.ToolName, c.Arguments), r.time(c.ExpiresAt)))
	if r.opts.Hints {
		r.line(dim, fmt.Sprintf("  starter tool-result %s %s <output>", r.opts.ThreadID, visible(c.ToolCallID)))
	}
}
