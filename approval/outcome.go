package approval

import (
	"cmp"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// Outcome is what a check comes to.
type Outcome struct {
	NeedsApproval bool
	CanExecute    bool

	// Grant is what covers the call, Request whom to ask about it otherwise.
	Grant   *Grant
	Request *event.ApprovalRequest

	// Denied says why it never runs.
	Denied string
}

// CheckTool says whether a call runs, by what rules and records say. One that cannot be
// checked needs approval.
//
// The request has no times: whoever asks knows what time it is. A call that was asked
// about before, and whose approval does not hold, is asked about in the next round.
func (h History) CheckTool(toolCallID string, c Call, v Verdict) Outcome {
	if v.Effect == Deny {
		return Outcome{Denied: cmp.Or(v.Reason, fmt.Sprintf("rule %q denies it", v.Rule))}
	}
	s := h.calls[toolCallID]
	if why := s.refused(); why != "" {
		return Outcome{Denied: why}
	}
	if v.Effect == Allow || v.Effect == "" {
		return Outcome{CanExecute: true}
	}
	digest, err := c.Digest()
	if err != nil {
		v.Reason = "the call cannot be compared with what was approved before: " + err.Error()
		return Outcome{NeedsApproval: true, Request: s.request(toolCallID, c, v, "")}
	}
	if a, ok := h.FindOnce(toolCallID); ok && a.Grant == "" && isOf(a, c, digest) {
		return Outcome{CanExecute: true}
	}
	if g, ok := h.FindFor(c, v.Terms); ok {
		return Outcome{CanExecute: true, Grant: &g}
	}
	return Outcome{NeedsApproval: true, Request: s.request(toolCallID, c, v, digest)}
}

// isOf reports whether an approval is of this very call.
func isOf(a event.Approval, c Call, digest string) bool {
	return a.Digest == digest && a.Definition == c.Definition && sameName(a.ToolName, c.Tool) && sameName(a.Agent, c.Agent)
}

// refused says why a call is not to be asked about again.
func (s standing) refused() string {
	if s.decision == nil {
		return ""
	}
	switch s.decision.Decision {
	case event.Approve, event.ApprovalRevoked:
		return ""
	case event.ApprovalExpired:
		return "nobody has decided on it in time"
	case event.Deny:
		return cmp.Or(s.decision.Reason, s.decision.By+" has denied it")
	}
	return fmt.Sprintf("what was decided on it, %q, is no approval", s.decision.Decision)
}

func (s standing) request(toolCallID string, c Call, v Verdict, digest string) *event.ApprovalRequest {
	q := &event.ApprovalRequest{
		ToolCallID: toolCallID, ToolName: c.Tool, Arguments: c.Arguments, Agent: c.Agent, WorkingDirectory: c.WorkingDirectory,
		Digest: digest, Definition: c.Definition, Reason: v.Reason, Approvers: v.Terms.Approvers, Votes: s.votes,
	}
	if v.Terms.Quorum > 1 {
		q.Quorum = v.Terms.Quorum
	}
	round := max(s.round, 1)
	if s.decision != nil {
		round++
	}
	if round > 1 {
		q.Round = round
	}
	return q
}
