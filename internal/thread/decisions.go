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

// Unchecked returns the step that validates the edited arguments or the pattern of a decision, or that somebody who was
// no member of a group when people were asked is one by now. ok is false if there is nothing to validate or the call is
// not waiting.
func (s *State) Unchecked(d signals.Decide) (step.Check, bool) {
	c := s.Turns.waiting(d.ToolCallID)
	if c == nil || c.differs(d) {
		return step.Check{}, false
	}
	late := !addresses(*c.Requested, d.By) && len(c.Requested.Groups) > 0
	if d.Checked() == "" && !late {
		return step.Check{}, false
	}
	return step.Check{
		Late:   late,
		Thread: s.Ref(), Agent: c.run.Agent, MessageID: c.run.MessageID, ToolCallID: d.ToolCallID, Tools: c.run.turn.Tools,
		WorkingDirectory: s.workingDirectory(), Guard: c.Plan.Guard, By: d.By, Args: string(d.Args), Pattern: d.Pattern,
	}, true
}

// CheckAlone rejects edited arguments and wider scopes for a call that several people must approve:
// all of them must approve the same call.
func (s *State) CheckAlone(d signals.Decide) error {
	if c := s.Turns.waiting(d.ToolCallID); c != nil {
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
	case d.Scope == event.ScopeSession || d.Scope == event.ScopePattern:
		field = "scope"
	default:
		return nil
	}
	return event.FieldErrorf(field, "requires a call that one person decides on; this one needs several approvals: each must approve it once, unchanged")
}

// Decide applies a decision to its call, if that call waits for one; any other outcome changes nothing.
// The stored call runs, unless the decision contains edited arguments. checked is the result of the
// decision's validation, if it needs one: see [State.Unchecked].
func (s *State) Decide(now time.Time, d signals.Decide, checked step.CheckReply) (out signals.DecideResult) {
	c := s.Turns.waiting(d.ToolCallID)
	switch {
	case c == nil:
		return signals.DecideResult{Result: s.Decisions.settledAs(d)}
	case c.expired(now):
		// The timer has not fired yet, for example because no worker was running.
		c.expireCall(now)
		return signals.DecideResult{Result: s.Decisions.settledAs(d)}
	case c.differs(d):
		return signals.DecideResult{Result: signals.DecideMismatch}
	case !s.mayDecide(d.By, *c.Requested, checked.Member):
		return signals.DecideResult{Result: signals.DecideNotAllowed}
	case d.Checked() != "" && checked.Guard == nil:
		// The edited arguments or the pattern were not validated, and the unedited call was not
		// approved.
		return signals.DecideResult{Result: signals.DecideMismatch}
	}
	out = c.decide(now, d, checked)
	if c.Stage == CallReady && (d.Scope == event.ScopeSession || d.Scope == event.ScopePattern) {
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
			t.thread.tellParent(step.SubAgentDecision{ToolCallID: c.Plan.ID, Approval: &made})
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
	s.tellParent(step.SubAgentDecision{ToolCallID: c.Plan.ID, Approval: &made})
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
// has any, or a member of one of its groups, and not an agent. If several people must approve, each needs a name, since
// nothing tells whether two votes without a name are those of two people.
func (s *State) mayDecide(by string, q event.ApprovalRequest, member bool) bool {
	if !addresses(q, by) && !member {
		return false
	}
	if q.Quorum > 1 && event.Anonymous(by) {
		return false
	}
	return !addressing.SamePerson(q.Agent, by) && !s.isAgent(by)
}

// addresses reports whether a request names a person, or leaves the decision to anybody.
func addresses(q event.ApprovalRequest, by string) bool {
	return len(q.Approvers)+len(q.Groups) == 0 || slices.Contains(q.Approvers, by)
}

// isAgent reports whether a name is that of an agent of the thread, or of an agent with a run in
// it.
func (s *State) isAgent(by string) bool {
	return slices.ContainsFunc(s.agentNames(), func(name string) bool { return addressing.SamePerson(name, by) })
}

// plain returns JSON without the escapes that Go adds, such as \u003e for >, since people and
// models read it.
func plain(raw json.RawMessage) string {
	if text, err := strictjson.Canonical(string(raw)); err == nil {
		return string(text)
	}
	return string(raw)
}

// IsEarlyDecision reports whether a decision may arrive before its request: people see a request as soon as the step that
// makes it has stored it. The thread may be further behind than that step: if a worker is lost, what it did in its last
// workflow task is done again, and a restored thread repeats whole turns.
func (s *State) IsEarlyDecision(d signals.Decide) bool {
	if c := s.Turns.call(d.ToolCallID); c != nil {
		return c.Stage == CallReady && max(d.Round, event.FirstRound) > max(c.Round, event.FirstRound)
	}
	return !s.knows(d.ToolCallID) && s.mayAsk()
}

// knows reports whether a call of no turn in progress has been decided on, or waits in a sub-agent's thread.
func (s *State) knows(toolCallID string) bool {
	_, _, below := s.Children.Request(toolCallID)
	return below || slices.ContainsFunc(s.Decisions.Settled, func(x Settled) bool { return x.Key == toolCallID })
}

// mayAsk reports whether the thread is on its way to calls that it does not know yet, or has a sub-agent that may be. A thread
// that only waits for people is not, nor is one whose model is unavailable.
func (s *State) mayAsk() bool {
	delegated := false
	s.Turns.eachCall(func(c *Call) { delegated = delegated || c.Stage == CallDelegated })
	switch t := s.Turns.Current; {
	case s.Closing != nil:
		return false
	case delegated:
		return true
	case t == nil || t.Interrupted != nil || s.CanPark():
		return s.HasNext()
	default:
		return t.Stage == ItemArrived || t.handlingPending() || len(t.Intercepting)+len(t.Joining) > 0 || slices.ContainsFunc(t.Runs, (*AgentRun).mayAsk)
	}
}

func (r *AgentRun) mayAsk() bool {
	switch r.Phase {
	case PhaseModel:
		return r.Outage == nil || r.InFlight
	case PhaseReply, PhaseCalls, PhasePlan:
		return true
	case PhaseTools:
		return !slices.ContainsFunc(r.Calls, (*Call).waitsForPeople) // the model is called when no call waits any more
	case PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
	}
	return false
}

// maxEarly is the maximum number of early decisions, and maxDecisionBytes the maximum size of all
// kept decisions, since the state carries them over continue-as-new.
const (
	maxEarly         = 100
	maxDecisionBytes = 160 << 10
)

// hasRoom reports whether one more decision can be kept.
func (ds *Decisions) hasRoom(kept []signals.Decide, d signals.Decide) bool {
	if len(kept) >= maxEarly {
		return false
	}
	size := len(rawJSON(d))
	for _, one := range kept {
		size += len(rawJSON(one))
	}
	return size <= maxDecisionBytes
}

// BufferEarly keeps a decision until its call is known. It reports whether there was room.
func (ds *Decisions) BufferEarly(d signals.Decide) bool {
	if !ds.hasRoom(ds.Early, d) {
		return false
	}
	ds.Early = append(ds.Early, d)
	return true
}

// applyEarly applies the early decisions, results and answers whose calls are now known. It rejects those whose calls can no longer
// appear. Decisions on the calls of sub-agents are left to [State.NextEarly].
func (s *State) applyEarly(now time.Time) {
	release(&s.Decisions.Early, func(d signals.Decide) bool {
		_, _, below := s.Children.Request(d.ToolCallID)
		return below || s.IsEarlyDecision(d)
	}, func(d signals.Decide) { s.TakeDecision(now, d) })
	s.applyEarlyResults(now)
	s.applyEarlyInputs(now)
}

// EarlyDue reports whether a decision, a result or an answer is no longer early.
func (s *State) EarlyDue() bool {
	ds := &s.Decisions
	return slices.ContainsFunc(ds.Early, func(d signals.Decide) bool { return !s.IsEarlyDecision(d) }) ||
		slices.ContainsFunc(ds.EarlyResults, func(res signals.ToolResult) bool { return !s.IsEarlyResult(res.ToolCallID) }) ||
		slices.ContainsFunc(ds.EarlyInputs, func(a signals.InputAnswers) bool { return !s.IsEarlyInput(a) })
}

// NextEarly applies the results that are no longer early, and removes and returns the next decision or answer that is not: its
// request may be one of a sub-agent. Both are nil if there is none.
func (s *State) NextEarly(now time.Time) (d *signals.Decide, a *signals.InputAnswers) {
	s.applyEarlyResults(now)
	d = takeFirst(&s.Decisions.Early, func(d signals.Decide) bool { return !s.IsEarlyDecision(d) })
	if d == nil {
		a = takeFirst(&s.Decisions.EarlyInputs, func(a signals.InputAnswers) bool { return !s.IsEarlyInput(a) })
	}
	return d, a
}

// takeFirst removes and returns the first value of a list for which is says so, or nil.
func takeFirst[T any](list *[]T, is func(T) bool) *T {
	i := slices.IndexFunc(*list, is)
	if i < 0 {
		return nil
	}
	first := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return &first
}

// release passes the held values that are no longer early to take, and keeps the others.
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

// TakeDecision applies a decision that was sent by signal, or schedules its validation. It keeps one
// that arrived before its call.
func (s *State) TakeDecision(now time.Time, d signals.Decide) {
	if s.IsEarlyDecision(d) && s.Decisions.BufferEarly(d) {
		return
	}
	if err := s.CheckAlone(d); err != nil {
		s.Reject(now, signals.SignalDecide, d, err)
		return
	}
	if _, ok := s.Unchecked(d); !ok {
		s.decideOrReject(now, d, step.CheckReply{})
		return
	}
	if !s.Decisions.keepToCheck(d) {
		s.Reject(now, signals.SignalDecide, d, errors.New("too many decisions wait to be checked; decide again"))
	}
}

// keepToCheck keeps a decision that must be validated. It reports whether there was room.
func (ds *Decisions) keepToCheck(d signals.Decide) bool {
	if !ds.hasRoom(ds.ToCheck, d) {
		return false
	}
	ds.ToCheck = append(ds.ToCheck, d)
	return true
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
	s.decideOrReject(now, d, checked)
}

// decideOrReject applies a decision that was sent by signal. A decision that changes nothing leaves
// an audit record.
func (s *State) decideOrReject(now time.Time, d signals.Decide, checked step.CheckReply) {
	if checked.Problem != "" {
		s.Reject(now, signals.SignalDecide, d, checked.Err())
		return
	}
	switch outcome := s.Decide(now, d, checked).Result; outcome {
	case signals.DecideAccepted, signals.DecideAlreadyResolved:
	case signals.DecideConflict, signals.DecideMismatch, signals.DecideNotPending, signals.DecideNotAllowed:
		s.Reject(now, signals.SignalDecide, d, errors.New(string(outcome)))
	}
}

// waiting returns the call with this id if it waits for a decision, or nil.
func (ts *Turns) waiting(toolCallID string) *Call { return ts.callAt(toolCallID, CallWaiting) }

// callAt returns the call with this id if it is at a stage, or nil.
func (ts *Turns) callAt(toolCallID string, stage CallStage) (found *Call) {
	ts.eachCall(func(c *Call) {
		if c.Plan.ID == toolCallID && c.Stage == stage {
			found = c
		}
	})
	return found
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

func (ds *Decisions) settledAs(d signals.Decide) signals.DecideOutcome {
	return ds.settled(d.ToolCallID, d.Decision)
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
