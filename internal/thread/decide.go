package thread

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// CheckDecide reports why a decision would be refused whatever call it names.
func CheckDecide(d signals.Decide) error {
	switch {
	case d.ToolCallID == "":
		return &event.FieldError{Field: "toolCallId", Problem: "is required"}
	case d.Decision != event.Approve && d.Decision != event.Deny:
		return &event.FieldError{Field: "decision", Problem: fmt.Sprintf("%q is neither approve nor deny", d.Decision)}
	case d.Scope != "" && d.Scope != event.Once:
		return &event.FieldError{Field: "scope", Problem: fmt.Sprintf("%q is not supported; decisions are for one call (once)", d.Scope)}
	case d.By == "":
		return &event.FieldError{Field: "by", Problem: "is required: who decides is kept"}
	case len(d.Reason) > 4<<10:
		return &event.FieldError{Field: "reason", Problem: "must be at most 4096 bytes long"}
	}
	return nil
}

// Decide applies a decision to the call that it names, if that call waits for one.
// Whatever else comes back changes nothing. The call that then runs is the stored
// one: a decision carries no call of its own.
func (s *State) Decide(now time.Time, d signals.Decide) signals.DecideOutcome {
	r, c := s.waiting(d.ToolCallID)
	if c == nil {
		return s.settledAs(d)
	}
	if d.Agent != "" && d.Agent != r.Agent || d.ToolName != "" && d.ToolName != c.Plan.Name {
		return signals.Mismatch
	}
	made := event.Approval{
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Agent: r.Agent,
		Decision: d.Decision, Scope: event.Once, Reason: d.Reason, By: d.By, DecidedAt: now,
	}
	s.record(c.Plan.ID+".decision", event.TypeApproval, s.Turn.Item.TraceID, s.Turn.Item.ID, now, made)
	s.passUp(SubDecided{ToolCallID: c.Plan.ID, Approval: &made})
	s.settled(c.Plan.ID, d.Decision)
	if d.Decision == event.Approve {
		c.Stage = Ready
		return signals.Accepted
	}
	text := DeniedText
	if d.Reason != "" {
		text += " Reason: " + d.Reason
	}
	s.settleWithout(now, r, c, text)
	return signals.Accepted
}

// Early reports whether a decision may be ahead of its call: people see a request as
// soon as the reply that makes it is stored, which is before the thread hears of it.
func (s *State) Early(toolCallID string) bool {
	if s.Turn == nil || s.Turn.Interrupted != nil || s.knows(toolCallID) {
		return false
	}
	return slices.ContainsFunc(s.Turn.Runs, func(r *Run) bool {
		return r.Phase == PhaseModel || r.Phase == PhaseReply || r.Phase == PhaseCalls
	})
}

func (s *State) knows(toolCallID string) bool {
	_, c := s.waiting(toolCallID)
	return c != nil || slices.ContainsFunc(s.Settled, func(x Settled) bool { return x.ToolCallID == toolCallID })
}

// maxAhead bounds the decisions that are held back.
const maxAhead = 100

// Hold keeps a decision until its call is known. It reports whether there was room.
func (s *State) Hold(d signals.Decide) bool {
	if len(s.Ahead) >= maxAhead {
		return false
	}
	s.Ahead = append(s.Ahead, d)
	return true
}

// catchUp applies the decisions that were held back, as far as their calls are known
// by now. Those that can no longer meet a call are rejected.
func (s *State) catchUp(now time.Time) {
	held := s.Ahead
	s.Ahead = nil
	for _, d := range held {
		if s.Early(d.ToolCallID) {
			s.Ahead = append(s.Ahead, d)
			continue
		}
		s.DecideOrReject(now, d)
	}
}

// DecideOrReject applies a decision that nobody waits for an answer to: one that
// changes nothing leaves an audit record.
func (s *State) DecideOrReject(now time.Time, d signals.Decide) {
	switch outcome := s.Decide(now, d); outcome {
	case signals.Accepted, signals.AlreadyResolved:
	case signals.Conflict, signals.Mismatch, signals.NotPending:
		s.Reject(now, signals.SignalDecide, d, errors.New(string(outcome)))
	}
}

// waiting finds a call that waits for a decision.
func (s *State) waiting(toolCallID string) (*Run, *Call) {
	if s.Turn == nil || s.Turn.Interrupted != nil {
		return nil, nil
	}
	for _, r := range s.Turn.Runs {
		for _, c := range r.Calls {
			if c.Plan.ID == toolCallID && c.Stage == Waiting {
				return r, c
			}
		}
	}
	return nil, nil
}

func (s *State) settledAs(d signals.Decide) signals.DecideOutcome {
	for i := len(s.Settled) - 1; i >= 0; i-- {
		if s.Settled[i].ToolCallID != d.ToolCallID {
			continue
		}
		if s.Settled[i].Decision == d.Decision {
			return signals.AlreadyResolved
		}
		return signals.Conflict
	}
	return signals.NotPending
}

// Approvals lists the calls that wait for a decision.
func (s *State) Approvals() []event.ApprovalRequest {
	out := []event.ApprovalRequest{}
	for _, sub := range s.Subs {
		out = append(out, sub.Asks...)
	}
	if s.Turn == nil || s.Turn.Interrupted != nil {
		return out
	}
	for _, r := range s.Turn.Runs {
		for _, c := range r.Calls {
			if c.Stage == Waiting {
				out = append(out, *c.Requested)
			}
		}
	}
	return out
}
