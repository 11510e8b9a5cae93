package approval

import "cmp"

// Outcome is the result of [History.Check].
type Outcome struct {
	// CanExecute means that the call runs without further approval; Grant is the grant that covers
	// it, if it needs one. NeedsApproval means that people must approve it first, on the terms of
	// the verdict. Otherwise, the call never runs, and Denied says why.
	CanExecute    bool
	Grant         *Grant
	NeedsApproval bool
	Denied        string
}

// Check decides whether a new call runs, from the verdict of the rules and earlier approvals. It has
// no side effects. A call that cannot be compared with earlier ones, and one whose own approval was
// revoked, needs approval; an unknown effect does too.
func (h History) Check(toolCallID string, c Call, v Verdict) Outcome {
	switch v.Effect {
	case EffectDeny:
		return Outcome{Denied: cmp.Or(v.Reason, "no reason is given")}
	case EffectAllow:
		return Outcome{CanExecute: true}
	case EffectAsk:
	}
	if g, ok := h.FindFor(c, v.Terms); ok && !h.Revoked(toolCallID) {
		return Outcome{CanExecute: true, Grant: &g}
	}
	return Outcome{NeedsApproval: true}
}
