package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// SubAgentRequested handles a request of a sub-agent: it becomes a request of this thread too.
func (s *State) SubAgentRequested(a step.SubAgentRequest) {
	sub := s.Children.find(a.ThreadID)
	if sub == nil {
		return
	}
	if q := a.Input; q != nil {
		if sub.input(q.ToolCallID, q.Round) >= 0 {
			return
		}
		s.recordForSubAgent(sub, recordid.InputRequest(q.ToolCallID, q.Round), event.TypeInputRequest, q.RequestedAt, *q)
		s.askParent(step.SubAgentRequest{Input: q, Agents: a.Agents})
		s.Children.keepInput(sub, a)
		return
	}
	known := sub.approval(a.Request.ToolCallID) >= 0
	if known != (a.Request.Reminder > 0) {
		return
	}
	s.recordForSubAgent(sub, recordid.Request(a.Request), event.TypeApprovalRequest, a.Request.RequestedAt, a.Request)
	s.askParent(step.SubAgentRequest{Request: a.Request, Listed: a.Listed, Agents: a.Agents})
	s.Children.keepApproval(sub, a)
}

// keepApproval keeps an approval request of a sub-agent, with as much of the arguments as there is room
// for. A reminder only adds agents that may not decide.
func (ch *Children) keepApproval(sub *SubAgent, a step.SubAgentRequest) {
	sub.Agents = withNames(sub.Agents, a.Agents...)
	if sub.approval(a.Request.ToolCallID) >= 0 {
		return
	}
	sub.Listed = sub.Listed || a.Listed
	kept := a.Request
	room, _ := ch.room()
	if limit := min(maxRequestArguments, room); len(kept.Arguments) > limit {
		kept.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them)", step.Cut(kept.Arguments, limit), len(kept.Arguments))
	}
	sub.Approvals = append(sub.Approvals, kept)
}

// keepInput keeps a request for input of a sub-agent, with short questions if there is no room.
func (ch *Children) keepInput(sub *SubAgent, a step.SubAgentRequest) {
	q := *a.Input
	sub.Agents = withNames(sub.Agents, a.Agents...)
	if _, room := ch.room(); len(rawJSON(q.Questions)) > room {
		q.Questions, q.Truncated = briefQuestions(q.Questions), true
	}
	sub.Inputs = append(sub.Inputs, q)
}

// briefQuestions returns what the thread has to know of questions for which it has no room.
func briefQuestions(questions []event.InputQuestion) []event.InputQuestion {
	const (
		maxMessage = 100     // bytes
		maxURL     = 2 << 10 // bytes
	)
	var out []event.InputQuestion
	for _, one := range questions {
		brief := event.InputQuestion{ID: one.ID, Kind: one.Kind, Message: one.Message, Login: one.Login}
		if len(brief.Message) > maxMessage {
			brief.Message = step.Cut(brief.Message, maxMessage) + "… (the input_request record has all of it)"
		}
		if len(one.URL) <= maxURL {
			brief.URL = one.URL
		}
		out = append(out, brief)
	}
	return out
}

// approval returns the index of an approval request, or -1.
func (sub *SubAgent) approval(toolCallID string) int {
	return slices.IndexFunc(sub.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == toolCallID })
}

// input returns the index of a request for input, or -1.
func (sub *SubAgent) input(toolCallID string, round int) int {
	return slices.IndexFunc(sub.Inputs, func(q event.InputRequest) bool { return q.ToolCallID == toolCallID && q.Round == round })
}

// room returns how many more bytes the thread can keep of the arguments of sub-agents' calls, and of their
// questions. Neither takes the room of the other: people decide on the arguments.
func (ch *Children) room() (arguments, questions int) {
	arguments, questions = maxRequestTotal, maxRequestTotal
	for _, sub := range ch.SubAgents {
		for _, ask := range sub.Approvals {
			arguments -= len(ask.Arguments)
		}
		for _, q := range sub.Inputs {
			questions -= len(rawJSON(q.Questions))
		}
	}
	return max(arguments, 0), max(questions, 0)
}

// SubAgentDecided handles the notice of a vote on a call of a sub-agent, or that it no longer waits.
func (s *State) SubAgentDecided(now time.Time, d step.SubAgentDecision) {
	sub := s.Children.find(d.ThreadID)
	switch {
	case sub == nil:
		return
	case d.Input != nil:
		s.subAgentInputEnded(now, sub, *d.Input)
		return
	}
	at := sub.approval(d.ToolCallID)
	if at < 0 {
		return
	}
	if d.Approval != nil {
		// The grant applies to the sub-agent's thread.
		d.Approval.ThreadID = cmp.Or(d.Approval.ThreadID, d.ThreadID)
	}
	if d.Approval != nil && d.Approval.Missing > 0 {
		votes, first := sub.vote(at, *d.Approval)
		if !first {
			return
		}
		s.recordForSubAgent(sub, recordid.Vote(d.ToolCallID, d.Approval.Round, votes), event.TypeApproval, now, *d.Approval)
		s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: d.ToolCallID, Approval: d.Approval})
		return
	}
	if d.Approval == nil {
		s.Decisions.rememberSettled(d.ToolCallID, "")
	}
	s.subAgentRequestEnded(now, sub, at, d.Approval)
}

// subAgentRequestEnded removes an approval request of a sub-agent, which was decided on or, without a
// decision, stopped waiting.
func (s *State) subAgentRequestEnded(now time.Time, sub *SubAgent, at int, made *event.Approval) {
	q := sub.Approvals[at]
	sub.Approvals = slices.Delete(sub.Approvals, at, at+1)
	sub.forgetPassed(q.ToolCallID)
	recorded := event.Approval{
		ToolCallID: q.ToolCallID, ToolName: q.ToolName, Agent: q.Agent, Round: q.Round, ThreadID: sub.ThreadID,
		Decision: event.DecisionWithdrawn, Scope: event.ScopeOnce, By: "threadmill", DecidedAt: now,
	}
	if made != nil {
		recorded = *made
		s.Decisions.rememberSettled(q.ToolCallID, made.Decision)
	}
	s.recordForSubAgent(sub, recordid.Decision(q.ToolCallID, recorded.Round), event.TypeApproval, now, recorded)
	s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: q.ToolCallID, Approval: made})
}

// vote adds an approval of a call that needs several. It returns the number of votes; first is false if
// the person has already voted.
func (sub *SubAgent) vote(at int, a event.Approval) (votes int, first bool) {
	q := &sub.Approvals[at]
	if slices.ContainsFunc(q.Votes, func(v event.Vote) bool { return addressing.SamePerson(v.By, a.By) }) {
		return len(q.Votes), false
	}
	q.Votes = append(q.Votes, event.Vote{By: a.By, At: a.DecidedAt, Reason: a.Reason})
	return len(q.Votes), true
}

// subAgentInputEnded removes a request for input of a sub-agent, which was answered or withdrawn.
func (s *State) subAgentInputEnded(now time.Time, sub *SubAgent, got event.InputReceived) {
	at := sub.input(got.ToolCallID, got.Round)
	if at < 0 {
		return
	}
	sub.Inputs = slices.Delete(sub.Inputs, at, at+1)
	id := recordid.InputReceived(got.ToolCallID, got.Round)
	sub.forgetPassed(id)
	s.recordForSubAgent(sub, id, event.TypeInputReceived, now, got)
	if !got.Withdrawn {
		s.Decisions.rememberSettled(id, inputSum(got.Answers))
	}
	s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: got.ToolCallID, Input: &got})
}

// recordForSubAgent records what viewers of this thread see of a sub-agent's request: in the turn that
// waits for the sub-agent, which may be parked. No turn waits for one in the background: its records
// have the trace of the task only, whichever turn runs meanwhile.
func (s *State) recordForSubAgent(sub *SubAgent, id, typ string, at time.Time, payload any) {
	var eventID, trace string
	if i := s.Tasks.index(sub.TaskID); i >= 0 {
		trace = s.Tasks.Running[i].TraceID
	}
	for _, t := range s.Turns.all() {
		if t.delegatedTo(sub.ThreadID) {
			eventID, trace = t.root(), t.Item.TraceID
		}
	}
	s.Outbox.recordIn(eventID, id, typ, trace, sub.ToolCallID, at, payload)
}

// approval returns the approval request for a sub-agent's call, and the sub-agent that sent it, or nil.
func (ch *Children) approval(toolCallID string) (*SubAgent, *event.ApprovalRequest) {
	for i := range ch.SubAgents {
		sub := &ch.SubAgents[i]
		if at := sub.approval(toolCallID); at >= 0 {
			return sub, &sub.Approvals[at]
		}
	}
	return nil, nil
}

// input returns the request of a sub-agent that an answer is for, and the sub-agent, or nil.
func (ch *Children) input(a signals.InputAnswers) (*SubAgent, *event.InputRequest) {
	for i := range ch.SubAgents {
		sub := &ch.SubAgents[i]
		if at := sub.input(a.ToolCallID, roundOf(a)); at >= 0 {
			return sub, &sub.Inputs[at]
		}
	}
	return nil, nil
}

// ForwardTimeout is the time that a decision waits for the outcome in the child thread.
const ForwardTimeout = 10 * time.Second

// Forward is a decision on a call of a child thread, or an answer to its request for input. Signal and
// Payload forward it to that thread if the Outcome is Accepted.
type Forward struct {
	ThreadID string
	Signal   string
	Payload  any
	Outcome  signals.DecideOutcome

	// key is the key of the request in [SubAgent].Forwarded and [Decisions].Settled, as what is decided.
	key string
	as  event.Decision
}

// Forward decides whether to forward a decision to the child thread of its call, which waits there: see [About.Below]. Signals between
// threads may arrive out of order, so only the first decision is forwarded. The parent thread is not
// told if the child thread rejects it; if the call still waits after [ForwardTimeout], another decision
// is forwarded.
func (r Ruling) Forward(now time.Time) (Forward, error) {
	out, err := r.forward(now)
	return Forward{ThreadID: r.sub.ThreadID, Signal: signals.SignalDecide, Payload: r.Decide, Outcome: out, key: r.ToolCallID, as: r.Decision}, err
}

func (r Ruling) forward(now time.Time) (signals.DecideOutcome, error) {
	d, ask, sub := r.Decide, *r.request, r.sub
	switch {
	case differs(d, ask), len(d.ToolArgs) > 0 && json.Valid([]byte(ask.Arguments)) && !sameArguments(string(d.ToolArgs), ask.Arguments):
		// The child thread would reject it too, but without telling anyone. It compares what was
		// cut here.
		return signals.DecideMismatch, nil
	case len(ask.Groups) > 0 && !addresses(ask, d.By):
		return "", event.FieldErrorf("by", "is not one of the approvers; if %q has become a member of %s since they were asked, decide in the sub-agent's own thread, %s",
			d.By, strings.Join(ask.Groups, ", "), sub.ThreadID)
	case !mayDecide(d.By, ask, false, append(r.thread.agentNames(), sub.Agents...)):
		return signals.DecideNotAllowed, nil
	}
	if err := r.Problem(); err != nil {
		return "", err
	}
	if field := d.Checked(); field != "" {
		return "", event.FieldErrorf(field, "of a sub-agent's call must be decided in its own thread, %s", sub.ThreadID)
	}
	if ask.Quorum > 1 && d.Decision == event.DecisionApprove {
		// All approvals are forwarded if several are required.
		if slices.Contains(sub.Voted, vote(d)) {
			return signals.DecideAlreadyResolved, nil
		}
		sub.Voted = append(sub.Voted, vote(d))
		return signals.DecideAccepted, nil
	}
	return sub.forward(now, d.ToolCallID, d.Decision), nil
}

// Forward is [Ruling.Forward] for an answer. The error is that of [Answer.Apply].
func (a Answer) Forward(now time.Time) (Forward, error) {
	f := Forward{
		ThreadID: a.sub.ThreadID, Signal: signals.SignalAnswerInput, Payload: a.InputAnswers, Outcome: signals.DecideNotPending, key: a.key(), as: inputSum(a.Answers),
	}
	if agents := append(a.thread.agentNames(), a.request.Agent); isAgent(append(agents, a.sub.Agents...), a.By) {
		f.Outcome = signals.DecideNotAllowed
		return f, nil
	}
	if err := checkAnswers(a.request.Questions, a.Answers); err != nil {
		return f, err
	}
	f.Outcome = a.sub.forward(now, f.key, f.as)
	return f, nil
}

// forward notes that the first decision on a request is forwarded.
func (sub *SubAgent) forward(now time.Time, key string, as event.Decision) signals.DecideOutcome {
	if now.Sub(sub.ForwardedAt[key]) >= ForwardTimeout {
		delete(sub.Forwarded, key)
	}
	switch sub.Forwarded[key] {
	case as:
		return signals.DecideAlreadyResolved
	case "":
	default:
		return signals.DecideConflict
	}
	if sub.Forwarded == nil {
		sub.Forwarded = map[string]event.Decision{}
	}
	if sub.ForwardedAt == nil {
		sub.ForwardedAt = map[string]time.Time{}
	}
	sub.Forwarded[key], sub.ForwardedAt[key] = as, now
	return signals.DecideAccepted
}

func vote(d signals.Decide) string { return d.ToolCallID + "/" + d.By }

// Waits reports whether the request still waits that a decision or answer is for.
func (ch *Children) Waits(f Forward) bool {
	if a, is := f.Payload.(signals.InputAnswers); is {
		sub, _ := ch.input(a)
		return sub != nil
	}
	sub, _ := ch.approval(f.key)
	return sub != nil
}

// NeedsSeveral reports whether a sub-agent's call needs more than one approval, so a single
// decision may not settle it.
func (ch *Children) NeedsSeveral(f Forward) bool {
	_, ask := ch.approval(f.key)
	return ask != nil && ask.Quorum > 1
}

// NotForwarded undoes the forwarding of decisions on a request that could not be sent: the
// child thread is gone.
func (ch *Children) NotForwarded(f Forward) {
	if sub := ch.find(f.ThreadID); sub != nil {
		sub.forgetPassed(f.key)
	}
}

func (sub *SubAgent) forgetPassed(key string) {
	delete(sub.Forwarded, key)
	delete(sub.ForwardedAt, key)
	sub.Voted = slices.DeleteFunc(sub.Voted, func(v string) bool { return strings.HasPrefix(v, key+"/") })
}

// Forwarded returns the outcome of a decision or answer whose request no longer waits. Another
// one may have been forwarded first.
func (ds *Decisions) Forwarded(f Forward) signals.DecideOutcome {
	out := ds.settled(f.key, f.as)
	if f.Outcome == signals.DecideAccepted && out == signals.DecideAlreadyResolved {
		return signals.DecideAccepted
	}
	return out
}

// withNames adds names to a list, without duplicates, up to its maximum length.
func withNames(list []string, names ...string) []string {
	out := slices.Clone(list)
	for _, name := range names {
		among := func(other string) bool { return addressing.SamePerson(name, other) }
		if name != "" && len(out) < maxChildAgents && !slices.ContainsFunc(out, among) {
			out = append(out, name)
		}
	}
	return out
}

// sameArguments reports whether arguments are equal as JSON.
func sameArguments(a, b string) bool {
	sum := step.ArgumentsDigest(a)
	return sum != "" && sum == step.ArgumentsDigest(b)
}
