package thread

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/signals"
)

// Decide applies a decision to the call that it names, if that call waits for one.
// Whatever else comes back changes nothing. The call that then runs is the stored one,
// unless the decision says openly what is to run in its place: then it has to have been
// checked, see [State.DecideChecked].
func (s *State) Decide(now time.Time, d signals.Decide) signals.DecideOutcome {
	return s.DecideChecked(now, d, CheckReply{}).Result
}

// Unchecked reports whether a decision would have something run, or granted, that has to be
// checked first, and whether there is a call that it could be about.
func (s *State) Unchecked(d signals.Decide) (CheckStep, bool) {
	if d.Checked() == "" {
		return CheckStep{}, false
	}
	t, r, c := s.waiting(d.ToolCallID)
	if c == nil || c.differs(d) {
		return CheckStep{}, false
	}
	return CheckStep{
		Thread: s.Ref(), Agent: r.Agent, MessageID: r.MessageID, ToolCallID: d.ToolCallID, Tools: t.Tools,
		WorkingDirectory: s.workingDirectory(), Guard: c.Plan.Guard, By: d.By, Args: string(d.Args), Pattern: d.Pattern,
	}, true
}

// CheckAlone refuses to edit or to widen what several people have to approve: each of them
// is asked about the same.
func (s *State) CheckAlone(d signals.Decide) error {
	if _, _, c := s.waiting(d.ToolCallID); c != nil {
		return checkAlone(d, *c.Requested)
	}
	return nil
}

func checkAlone(d signals.Decide, q event.ApprovalRequest) error {
	if q.Quorum <= 1 {
		return nil
	}
	field := "args"
	switch {
	case len(d.Args) > 0:
	case d.Scope == event.Session || d.Scope == event.Pattern:
		field = "scope"
	default:
		return nil
	}
	return &event.FieldError{Field: field, Problem: "goes with a call that one person decides on; several have to approve this one, each the same: once, as it is"}
}

// DecideChecked is [State.Decide] with what the check of the decision has come to.
func (s *State) DecideChecked(now time.Time, d signals.Decide, checked CheckReply) (out signals.DecideResult) {
	t, r, c := s.waiting(d.ToolCallID)
	switch {
	case c == nil:
		return signals.DecideResult{Result: s.settledAs(d)}
	case c.expired(now):
		// The timer has not rung yet, as when no worker ran in time to hear it.
		s.within(t, func() { s.expireCall(now, r, c) })
		return signals.DecideResult{Result: s.settledAs(d)}
	case c.differs(d):
		return signals.DecideResult{Result: signals.Mismatch}
	case !s.mayDecide(d.By, *c.Requested):
		return signals.DecideResult{Result: signals.NotAllowed}
	case d.Checked() != "" && checked.Guard == nil:
		// What was to run, or to be granted, is not known to fit. The call as it is was not approved.
		return signals.DecideResult{Result: signals.Mismatch}
	}
	s.within(t, func() { out = s.decide(now, r, c, d, checked) })
	if c.Stage == Ready && (d.Scope == event.Session || d.Scope == event.Pattern) {
		s.cascade(r, c)
	}
	return out
}

// decide applies a decision to the call that it is about.
func (s *State) decide(now time.Time, r *Run, c *Call, d signals.Decide, checked CheckReply) signals.DecideResult {
	made := s.approvalOf(r, c, now)
	made.Decision, made.Reason, made.By = d.Decision, d.Reason, d.By
	if d.Decision == event.Deny {
		made.Votes = c.Votes
		s.decided(now, r, c, made)
		text := DeniedText
		if d.Reason != "" {
			text += " Reason: " + d.Reason
		}
		s.settleWithout(now, r, c, text)
		return signals.DecideResult{Result: signals.Accepted}
	}
	if quorum := c.Requested.Quorum; quorum > 1 {
		if slices.ContainsFunc(c.Votes, func(v event.Vote) bool { return SamePerson(v.By, d.By) }) {
			return signals.DecideResult{Result: signals.AlreadyResolved, Missing: quorum - len(c.Votes)}
		}
		c.Votes = append(c.Votes, event.Vote{By: d.By, At: now, Reason: d.Reason})
		c.Requested.Votes = c.Votes
		if made.Missing = quorum - len(c.Votes); made.Missing > 0 {
			s.record(event.VoteID(c.Plan.ID, c.Round, len(c.Votes)), event.TypeApproval,
				s.Turn.Item.TraceID, s.Turn.Item.ID, now, made)
			return signals.DecideResult{Result: signals.Accepted, Missing: made.Missing}
		}
		made.Votes = c.Votes
	}
	if len(d.Args) > 0 {
		edited := plain(d.Args)
		made.Arguments, c.Plan.Guard, c.Edited = edited, checked.Guard, edited
		made.Digest, made.Definition = checked.Guard.Digest, checked.Guard.Definition
	}
	if d.Scope != "" {
		made.Scope, made.Pattern, made.Rest = d.Scope, d.Pattern, checked.Rest
	}
	c.Stage, c.DecisionID = Ready, event.DecisionID(c.Plan.ID, c.Round)
	s.decided(now, r, c, made)
	return signals.DecideResult{Result: signals.Accepted}
}

// decided records the end of a request.
func (s *State) decided(now time.Time, r *Run, c *Call, made event.Approval) {
	s.record(event.DecisionID(c.Plan.ID, c.Round), event.TypeApproval, s.Turn.Item.TraceID, s.Turn.Item.ID, now, made)
	s.passUp(SubDecided{ToolCallID: c.Plan.ID, Approval: &made})
	s.settled(c.Plan.ID, made.Decision)
	c.RemindAt = nil
}

// differs reports whether a decision is about another call than the one that waits.
func (c *Call) differs(d signals.Decide) bool {
	if len(d.ToolArgs) > 0 && (c.Plan.Guard == nil || ArgumentsSum(string(d.ToolArgs)) != c.Plan.Guard.Arguments) {
		return true
	}
	return differs(d, *c.Requested)
}

func differs(d signals.Decide, q event.ApprovalRequest) bool {
	return d.Agent != "" && !strings.EqualFold(d.Agent, q.Agent) ||
		d.ToolName != "" && !strings.EqualFold(d.ToolName, q.ToolName) ||
		d.WorkingDirectory != "" && d.WorkingDirectory != q.WorkingDirectory ||
		d.Digest != "" && d.Digest != q.Digest ||
		max(d.Round, event.FirstRound) != max(q.Round, event.FirstRound)
}

// mayDecide reports whether somebody may decide on a call: one of those who were asked, and
// never an agent.
func (s *State) mayDecide(by string, q event.ApprovalRequest) bool {
	if len(q.Approvers) > 0 && !slices.Contains(q.Approvers, by) {
		return false
	}
	return !SamePerson(q.Agent, by) && !s.isAgent(by)
}

// isAgent reports whether a name is that of one of the thread's agents, or of one that works
// in it.
func (s *State) isAgent(by string) bool {
	return slices.ContainsFunc(s.agentNames(), func(name string) bool { return SamePerson(name, by) })
}

// SamePerson reports whether two names are somebody's: nobody becomes another one by case,
// or by a space that nobody sees.
func SamePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// plain is JSON without the escapes that Go gives to text on its way here, such as \u003e
// for >: people and models read it.
func plain(raw json.RawMessage) string {
	if text, err := strictjson.Canonical(string(raw)); err == nil {
		return string(text)
	}
	return string(raw)
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
	_, _, c := s.waiting(toolCallID)
	return c != nil || slices.ContainsFunc(s.Settled, func(x Settled) bool { return x.ToolCallID == toolCallID })
}

// maxAhead bounds the decisions that are held back, and maxDecisionBytes all that they carry, as
// the next run of the workflow takes them along.
const (
	maxAhead         = 100
	maxDecisionBytes = 160 << 10
)

// hasRoom reports whether another decision can be kept beside some.
func (s *State) hasRoom(kept []signals.Decide, d signals.Decide) bool {
	if len(kept) >= maxAhead {
		return false
	}
	size := len(rawJSON(d))
	for _, one := range kept {
		size += len(rawJSON(one))
	}
	return size <= maxDecisionBytes
}

// Hold keeps a decision until its call is known. It reports whether there was room.
func (s *State) Hold(d signals.Decide) bool {
	if !s.hasRoom(s.Ahead, d) {
		return false
	}
	s.Ahead = append(s.Ahead, d)
	return true
}

// catchUp applies the decisions, and results, that were held back, as far as their calls are
// known by now. Those that can no longer meet a call are rejected.
func (s *State) catchUp(now time.Time) {
	release(&s.Ahead, func(d signals.Decide) bool { return s.Early(d.ToolCallID) }, func(d signals.Decide) { s.TakeDecision(now, d) })
	s.catchUpResults(now)
}

// release takes in what was held back, but for what is early still.
func release[T any](held *[]T, early func(T) bool, take func(T)) {
	all := *held
	*held = nil
	for _, one := range all {
		if early(one) {
			*held = append(*held, one)
		} else {
			take(one)
		}
	}
}

// TakeDecision applies a decision that nobody waits for an answer to, or has it checked
// first.
func (s *State) TakeDecision(now time.Time, d signals.Decide) {
	if err := s.CheckAlone(d); err != nil {
		s.Reject(now, signals.SignalDecide, d, err)
		return
	}
	if _, ok := s.Unchecked(d); ok && s.hasRoom(s.ToCheck, d) {
		s.ToCheck = append(s.ToCheck, d)
		return
	}
	s.DecideOrReject(now, d, CheckReply{})
}

// DecideOrReject applies a decision that nobody waits for an answer to: one that
// changes nothing leaves an audit record.
func (s *State) DecideOrReject(now time.Time, d signals.Decide, checked CheckReply) {
	if checked.Problem != "" {
		s.Reject(now, signals.SignalDecide, d, checked.Err())
		return
	}
	if _, ok := s.Unchecked(d); ok && checked.Guard == nil && checked.Rest == "" {
		s.Reject(now, signals.SignalDecide, d, errors.New("too many decisions wait to be checked; decide again"))
		return
	}
	switch outcome := s.DecideChecked(now, d, checked).Result; outcome {
	case signals.Accepted, signals.AlreadyResolved:
	case signals.Conflict, signals.Mismatch, signals.NotPending, signals.NotAllowed:
		s.Reject(now, signals.SignalDecide, d, errors.New(string(outcome)))
	}
}

// waiting finds a call that waits for a decision.
func (s *State) waiting(toolCallID string) (turn *Turn, run *Run, call *Call) {
	s.eachCall(func(r *Run, c *Call) {
		if c.Plan.ID == toolCallID && c.Stage == Waiting {
			turn, run, call = s.Turn, r, c
		}
	})
	return turn, run, call
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
	s.eachCall(func(_ *Run, c *Call) {
		if c.Stage == Waiting {
			out = append(out, *c.Requested)
		}
	})
	return out
}
