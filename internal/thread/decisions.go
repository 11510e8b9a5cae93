package thread

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/signals"
)

// Decisions contains the decisions of people, and the results of clients, on tool calls.
type Decisions struct {
	// Settled are the outcomes of the last calls.
	Settled []Settled `json:"settled,omitempty"`

	// Early are decisions that arrived before the thread knew their calls. EarlyResults
	// are results of clients that arrived before their calls waited for them.
	Early        []signals.Decide     `json:"early,omitempty"`
	EarlyResults []signals.ToolResult `json:"earlyResults,omitempty"`

	// EarlyInputs are answers that arrived before the thread knew their requests.
	EarlyInputs []signals.InputAnswers `json:"earlyInputs,omitempty"`

	// ToCheck are decisions that must be validated before they take effect.
	ToCheck []signals.Decide `json:"toCheck,omitempty"`

	// Listed reports whether the thread's search attribute says that it waits for approval.
	Listed bool `json:"listed,omitempty"`

	// Restored is what the store has about calls that the thread has yet to make again.
	Restored *Restored `json:"restored,omitempty"`
}

// Ruling is a decision that was read, with the call that waits for it here or in a sub-agent's thread.
type Ruling struct {
	signals.Decide
	About

	request *event.ApprovalRequest // nil = no call waits for the decision
}

// ReadDecision finds the call that a decision is about.
func (s *State) ReadDecision(d signals.Decide) Ruling {
	r := Ruling{Decide: d, About: About{thread: s}}
	r.sub, r.request = s.Children.approval(d.ToolCallID)
	switch c := s.Turns.call(d.ToolCallID); {
	case c == nil:
		r.early = r.sub == nil && !s.Decisions.knows(d.ToolCallID) && s.mayAsk()
	case c.Stage == CallReady:
		r.early = max(d.Round, event.FirstRound) > max(c.Round, event.FirstRound)
	case c.Stage == CallWaiting:
		r.call, r.request = c, c.Requested
	}
	return r
}

// Keep keeps a decision until its call is known. ok is false if there is no room.
func (r Ruling) Keep() (out signals.DecideOutcome, ok bool) {
	return signals.DecideAccepted, keep(&r.thread.Decisions.Early, r.Decide, maxDecisionBytes)
}

// Unchecked returns the step that validates the edited arguments or the pattern of a decision, or that somebody who was
// no member of a group when people were asked is one by now. ok is false if there is nothing to validate or the call is
// not waiting.
func (r Ruling) Unchecked() (check step.Check, ok bool) {
	c := r.call
	if c == nil || c.differs(r.Decide) {
		return step.Check{}, false
	}
	late := !addresses(*r.request, r.By) && len(r.request.Groups) > 0
	if r.Checked() == "" && !late {
		return step.Check{}, false
	}
	return step.Check{
		Late:   late,
		Thread: r.thread.Ref(), Agent: c.run.Agent, MessageID: c.run.MessageID, ToolCallID: r.ToolCallID, Tools: c.run.turn.Tools,
		WorkingDirectory: workingDirectory(r.thread.Metadata), Guard: c.Plan.Guard, By: r.By, Args: string(r.Args), Pattern: r.Pattern,
	}, true
}

// Problem rejects edited arguments and wider scopes for a call that several people must approve:
// all of them must approve the same call.
func (r Ruling) Problem() error {
	if r.request == nil || r.request.Quorum <= 1 {
		return nil
	}
	field := "args"
	switch {
	case len(r.Args) > 0:
	case r.Scope == event.ScopeSession || r.Scope == event.ScopePattern:
		field = "scope"
	default:
		return nil
	}
	return event.FieldErrorf(field, "requires a call that one person decides on; this one needs several approvals: each must approve it once, unchanged")
}

// Apply applies a decision to its call, if that call waits for one; any other outcome changes nothing.
// The stored call runs, unless the decision contains edited arguments. checked is the result of the
// decision's validation, if it needs one (see [Ruling.Unchecked]): the decision was read after it.
func (r Ruling) Apply(now time.Time, checked step.CheckReply) (out signals.DecideResult) {
	c := r.call
	switch {
	case c == nil:
		return signals.DecideResult{Result: r.thread.Decisions.settled(r.ToolCallID, r.Decision)}
	case c.expired(now):
		// The timer has not fired yet, for example because no worker was running.
		c.expireCall(now)
		return signals.DecideResult{Result: r.thread.Decisions.settled(r.ToolCallID, r.Decision)}
	case c.differs(r.Decide):
		return signals.DecideResult{Result: signals.DecideMismatch}
	case !mayDecide(r.By, *r.request, checked.Member, r.thread.agentNames()):
		return signals.DecideResult{Result: signals.DecideNotAllowed}
	case r.Checked() != "" && checked.Guard == nil:
		// The edited arguments or the pattern were not validated, and the unedited call was not
		// approved.
		return signals.DecideResult{Result: signals.DecideMismatch}
	}
	out = c.decide(now, r.Decide, checked)
	if c.Stage == CallReady && (r.Scope == event.ScopeSession || r.Scope == event.ScopePattern) {
		c.cascade()
	}
	return out
}

// decide applies a decision to its call.
func (c *Call) decide(now time.Time, d signals.Decide, checked step.CheckReply) signals.DecideResult {
	t := c.run.turn
	made := c.approvalOf(now)
	made.Decision, made.Reason, made.By = d.Decision, d.Reason, d.By
	if d.Decision == event.DecisionDeny {
		made.Votes = c.Votes
		c.decided(now, made)
		text := step.DeniedText
		if d.Reason != "" {
			text += " Reason: " + d.Reason
		}
		c.settleWithoutRunning(now, text)
		return signals.DecideResult{Result: signals.DecideAccepted}
	}
	if quorum := c.Requested.Quorum; quorum > 1 {
		if slices.ContainsFunc(c.Votes, func(v event.Vote) bool { return addressing.SamePerson(v.By, d.By) }) {
			return signals.DecideResult{Result: signals.DecideAlreadyResolved, Missing: quorum - len(c.Votes)}
		}
		c.Votes = append(c.Votes, event.Vote{By: d.By, At: now, Reason: d.Reason})
		c.Requested.Votes = c.Votes
		if made.Missing = quorum - len(c.Votes); made.Missing > 0 {
			t.record(now, recordid.Vote(c.Plan.ID, c.Round, len(c.Votes)), event.TypeApproval, made)
			t.thread.ParentLink.tell(t.thread.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID, Approval: &made})
			return signals.DecideResult{Result: signals.DecideAccepted, Missing: made.Missing}
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
	c.Stage, c.DecisionID = CallReady, recordid.Decision(c.Plan.ID, c.Round)
	c.decided(now, made)
	return signals.DecideResult{Result: signals.DecideAccepted}
}

// decided records the end of an approval request.
func (c *Call) decided(now time.Time, made event.Approval) {
	t, s := c.run.turn, c.run.turn.thread
	t.record(now, recordid.Decision(c.Plan.ID, c.Round), event.TypeApproval, made)
	s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID, Approval: &made})
	s.Decisions.rememberSettled(c.Plan.ID, made.Decision)
	c.RemindAt, c.Ended = nil, &RequestEnd{now, made.Decision}
}

// differs reports whether a decision describes a different call than the waiting one.
func (c *Call) differs(d signals.Decide) bool {
	if len(d.ToolArgs) > 0 && (c.Plan.Guard == nil || step.ArgumentsDigest(string(d.ToolArgs)) != c.Plan.Guard.Arguments) {
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

// mayDecide reports whether a person may decide on a call: they must be one of its approvers, if it
// has any, or a member of one of its groups, and not one of the agents. If several people must approve, each needs a name, since
// nothing tells whether two votes without a name are those of two people.
func mayDecide(by string, q event.ApprovalRequest, member bool, agents []string) bool {
	if !addresses(q, by) && !member || q.Quorum > 1 && event.Anonymous(by) {
		return false
	}
	return !addressing.SamePerson(q.Agent, by) && !isAgent(agents, by)
}

// addresses reports whether a request names a person, or leaves the decision to anybody.
func addresses(q event.ApprovalRequest, by string) bool {
	return len(q.Approvers)+len(q.Groups) == 0 || slices.Contains(q.Approvers, by)
}

// plain returns JSON without the escapes that Go adds, such as \u003e for >, since people and
// models read it.
func plain(raw json.RawMessage) string {
	if text, err := strictjson.Canonical(string(raw)); err == nil {
		return string(text)
	}
	return string(raw)
}

// Take applies a decision that was sent by signal, or schedules its validation. It keeps one
// that arrived before its call.
func (r Ruling) Take(now time.Time) {
	if r.early {
		if _, kept := r.Keep(); kept {
			return
		}
	}
	if err := r.Problem(); err != nil {
		r.thread.Reject(now, signals.SignalDecide, r.Decide, err)
		return
	}
	if _, ok := r.Unchecked(); !ok {
		r.rejectUnless(now, r.Apply(now, step.CheckReply{}).Result, signals.SignalDecide, r.Decide)
		return
	}
	if !keep(&r.thread.Decisions.ToCheck, r.Decide, maxDecisionBytes) {
		r.thread.Reject(now, signals.SignalDecide, r.Decide, errors.New("too many decisions wait to be checked; decide again"))
	}
}

func (r Ruling) restorable() bool {
	return r.call != nil && max(r.call.Round, event.FirstRound) == max(r.Round, event.FirstRound)
}

// NextToCheck returns the first decision by signal that must be validated. ok is false if there is none.
func (ds *Decisions) NextToCheck() (d signals.Decide, ok bool) {
	if len(ds.ToCheck) == 0 {
		return d, false
	}
	return ds.ToCheck[0], true
}

// ApplyChecked applies the decision of [Decisions.NextToCheck], given the result of its validation.
func (s *State) ApplyChecked(now time.Time, checked step.CheckReply) {
	d := s.Decisions.ToCheck[0]
	s.Decisions.ToCheck = s.Decisions.ToCheck[1:]
	if checked.Problem != "" {
		s.Reject(now, signals.SignalDecide, d, checked.Err())
		return
	}
	r := s.ReadDecision(d)
	r.rejectUnless(now, r.Apply(now, checked).Result, signals.SignalDecide, d)
}

// call returns the call with this id, or nil.
func (ts *Turns) call(toolCallID string) (found *Call) {
	ts.eachCall(func(c *Call) {
		if c.Plan.ID == toolCallID {
			found = c
		}
	})
	return found
}

// settled returns the outcome of a decision on a request, by its key, that no longer waits.
func (ds *Decisions) settled(key string, as event.Decision) signals.DecideOutcome {
	for i := len(ds.Settled) - 1; i >= 0; i-- {
		if ds.Settled[i].Key != key {
			continue
		}
		if ds.Settled[i].Decision == as {
			return signals.DecideAlreadyResolved
		}
		return signals.DecideConflict
	}
	return signals.DecideNotPending
}

// knows reports whether a request, by its key, no longer waits.
func (ds *Decisions) knows(key string) bool {
	return slices.ContainsFunc(ds.Settled, func(x Settled) bool { return x.Key == key })
}

// Approvals returns the approval requests that are pending, including those of sub-agents.
func (s *State) Approvals() []event.ApprovalRequest {
	out := []event.ApprovalRequest{}
	for _, sub := range s.Children.SubAgents {
		out = append(out, sub.Approvals...)
	}
	s.Turns.eachCall(func(c *Call) {
		if c.Stage == CallWaiting {
			out = append(out, *c.Requested)
		}
	})
	return out
}

// Settled is the outcome of a tool call that needed approval, or of a request for input.
type Settled struct {
	// Key identifies the request: the call, or the record of the answer to a request for input.
	Key string `json:"toolCallId"`

	// Decision is empty if the call ended without a decision, by an interrupt. Of an answer to a request for input, it is
	// the hash of the answers.
	Decision event.Decision `json:"decision,omitempty"`
}

func (ds *Decisions) rememberSettled(key string, d event.Decision) {
	ds.Settled = keepLast(append(ds.Settled, Settled{key, d}), maxDecided)
}
