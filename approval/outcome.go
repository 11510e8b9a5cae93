package approval

import (
	"cmp"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// Outcome is the result of a check.
type Outcome struct {
	NeedsApproval bool
	CanExecute    bool

	// Grant is the grant that covers the call, if any. Request is the approval request otherwise.
	Grant   *Grant
	Request *event.ApprovalRequest

	// Denied is the reason why the call never runs, or "".
	Denied string
}

// CheckTool decides whether a call runs, from the verdict of the rules and the history. A call that
// cannot be checked needs approval.
//
// The caller sets the times of the request. A call that was requested before, and whose approval is
// not valid, is requested in the next round.
func (h History) CheckTool(toolCallID string, c Call, v Verdict) Outcome {
	if v.Effect == EffectDeny {
		return Outcome{Denied: cmp.Or(v.Reason, fmt.Sprintf("rule %q denies it", v.Rule))}
	}
	s := h.calls[toolCallID]
	if why := s.refused(); why != "" {
		return Outcome{Denied: why}
	}
	if v.Effect == EffectAllow || v.Effect == "" {
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

// isOf reports whether an approval is for exactly this call.
func isOf(a event.Approval, c Call, digest string) bool {
	return a.Digest == digest && a.Definition == c.Definition && sameName(a.ToolName, c.Tool) && sameName(a.Agent, c.Agent)
}

// refused returns the reason why a call must not be requested again, or "".
func (s standing) refused() string {
	if s.decision == nil {
		return ""
	}
	switch s.decision.Decision {
	case event.DecisionApprove, event.DecisionRevoked:
		return ""
	case event.DecisionExpired:
		return "nobody has decided on it in time"
	case event.DecisionDeny:
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
