package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// SubAsked takes in that a call of a sub-agent waits for approval: people are asked here,
// too.
func (ch *Children) SubAsked(a SubAsks) {
	s := ch.thread
	sub := ch.sub(a.ThreadID)
	if sub == nil {
		return
	}
	known := slices.ContainsFunc(sub.Asks, func(q event.ApprovalRequest) bool { return q.ToolCallID == a.Request.ToolCallID })
	if known != (a.Request.Reminder > 0) {
		return
	}
	s.record(event.RequestID(a.Request), event.TypeApprovalRequest, ch.traceOf(sub), sub.ToolCallID, a.Request.RequestedAt, a.Request)
	s.notifyParentAsked(SubAsks{ThreadID: s.ThreadID, Request: a.Request, Listed: a.Listed, Agents: a.Agents})
	sub.Agents = withNames(sub.Agents, a.Agents...)
	if known {
		return
	}
	sub.Listed = sub.Listed || a.Listed
	kept := a.Request
	if limit := min(maxAskedArguments, max(maxAskedTotal-ch.askedBytes(), 0)); len(kept.Arguments) > limit {
		kept.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them)", cutText(kept.Arguments, limit), len(kept.Arguments))
	}
	sub.Asks = append(sub.Asks, kept)
}

// askedBytes is how much the thread keeps of the arguments of sub-agents' calls.
func (ch *Children) askedBytes() int {
	n := 0
	for _, sub := range ch.Subs {
		for _, ask := range sub.Asks {
			n += len(ask.Arguments)
		}
	}
	return n
}

// SubDecided takes in that a call of a sub-agent waits no more.
func (ch *Children) SubDecided(now time.Time, d SubDecided) {
	s := ch.thread
	sub := ch.sub(d.ThreadID)
	if sub == nil {
		return
	}
	at := slices.IndexFunc(sub.Asks, func(q event.ApprovalRequest) bool { return q.ToolCallID == d.ToolCallID })
	if at < 0 {
		return
	}
	sub.Asks = slices.Delete(sub.Asks, at, at+1)
	sub.forgetPassed(d.ToolCallID)
	var decision event.Decision
	if d.Approval != nil {
		decision = d.Approval.Decision
		// What it grants, it grants there.
		d.Approval.ThreadID = cmp.Or(d.Approval.ThreadID, d.ThreadID)
		s.record(event.DecisionID(d.ToolCallID, d.Approval.Round), event.TypeApproval, ch.traceOf(sub), sub.ToolCallID, now, *d.Approval)
	}
	s.rememberSettled(d.ToolCallID, decision)
	s.notifyParentDecided(SubDecided{ToolCallID: d.ToolCallID, Approval: d.Approval})
}

// traceOf is the trace of what a sub-agent works for.
func (ch *Children) traceOf(sub *Sub) string {
	s := ch.thread
	if i := s.taskAt(sub.TaskID); i >= 0 {
		return s.Tasks[i].TraceID
	}
	for _, t := range s.turns() {
		if t.delegatedTo(sub.ThreadID) {
			return t.Item.TraceID
		}
	}
	return ""
}

// ChildRequest finds the sub-agent whose call waits for approval.
func (ch *Children) ChildRequest(toolCallID string) (threadID string, request event.ApprovalRequest, ok bool) {
	for _, sub := range ch.Subs {
		for _, ask := range sub.Asks {
			if ask.ToolCallID == toolCallID {
				return sub.ThreadID, ask, true
			}
		}
	}
	return "", event.ApprovalRequest{}, false
}

// ForwardTimeout is how long a decision waits for the sub-agent that it is for.
const ForwardTimeout = 10 * time.Second

// ForwardDecision says whether a decision is to be passed on to the sub-agent whose call it is
// about: it is if it is accepted. Signals between threads may overtake each other, so the
// first decision that comes here is the only one that goes there. One that has not settled
// the call in its time was refused there, which nobody hears of: then another one goes.
func (ch *Children) ForwardDecision(now time.Time, d signals.Decide) (threadID string, out signals.DecideOutcome, err error) {
	s := ch.thread
	threadID, ask, ok := ch.ChildRequest(d.ToolCallID)
	switch {
	case !ok:
		return "", signals.NotPending, nil
	case differs(d, ask), len(d.ToolArgs) > 0 && json.Valid([]byte(ask.Arguments)) && !sameArguments(string(d.ToolArgs), ask.Arguments):
		// The thread below would say the same, but to nobody. What is kept cut here is
		// compared there.
		return threadID, signals.Mismatch, nil
	case !s.mayDecide(d.By, ask) || ch.sub(threadID).isAgent(d.By):
		return threadID, signals.NotAllowed, nil
	}
	if err := checkAlone(d, ask); err != nil {
		return threadID, "", err
	}
	if field := d.Checked(); field != "" {
		return threadID, "", &event.FieldError{Field: field, Problem: fmt.Sprintf("of a sub-agent's call is decided on in its own thread, %s", threadID)}
	}
	sub := ch.sub(threadID)
	if ask.Quorum > 1 && d.Decision == event.Approve {
		// Each of several is passed on.
		if slices.Contains(sub.Voted, vote(d)) {
			return threadID, signals.AlreadyResolved, nil
		}
		sub.Voted = append(sub.Voted, vote(d))
		return threadID, signals.Accepted, nil
	}
	if now.Sub(sub.ForwardedAt[d.ToolCallID]) >= ForwardTimeout {
		delete(sub.Forwarded, d.ToolCallID)
	}
	switch sub.Forwarded[d.ToolCallID] {
	case d.Decision:
		return threadID, signals.AlreadyResolved, nil
	case "":
	default:
		return threadID, signals.Conflict, nil
	}
	if sub.Forwarded == nil {
		sub.Forwarded = map[string]event.Decision{}
	}
	if sub.ForwardedAt == nil {
		sub.ForwardedAt = map[string]time.Time{}
	}
	sub.Forwarded[d.ToolCallID], sub.ForwardedAt[d.ToolCallID] = d.Decision, now
	return threadID, signals.Accepted, nil
}

// isAgent reports whether a name is that of an agent of the threads below.
func (sub *Sub) isAgent(by string) bool {
	return slices.ContainsFunc(sub.Agents, func(name string) bool { return SamePerson(name, by) })
}

func vote(d signals.Decide) string { return d.ToolCallID + "/" + d.By }

// NeedsSeveral reports whether a call of a sub-agent needs more than one approval: a decision
// need not settle it.
func (ch *Children) NeedsSeveral(toolCallID string) bool {
	_, ask, _ := ch.ChildRequest(toolCallID)
	return ask.Quorum > 1
}

// DecisionNotForwarded takes back what was passed on of a call, when it could not be: the sub-agent is
// gone.
func (ch *Children) DecisionNotForwarded(threadID, toolCallID string) {
	if sub := ch.sub(threadID); sub != nil {
		sub.forgetPassed(toolCallID)
	}
}

func (sub *Sub) forgetPassed(toolCallID string) {
	delete(sub.Forwarded, toolCallID)
	delete(sub.ForwardedAt, toolCallID)
	sub.Voted = slices.DeleteFunc(sub.Voted, func(v string) bool { return strings.HasPrefix(v, toolCallID+"/") })
}

// ForwardedOutcome says what became of a decision that was passed on to a sub-agent.
func (ch *Children) ForwardedOutcome(d signals.Decide) signals.DecideOutcome {
	s := ch.thread
	if out := s.settledAs(d); out != signals.AlreadyResolved {
		return out
	}
	return signals.Accepted
}

// ParentNotice is what a sub-agent's thread has to tell the thread above.
type ParentNotice struct {
	Asks    *SubAsks    `json:"asks,omitempty"`
	Decided *SubDecided `json:"decided,omitempty"`
}

// forwardRequest has people asked in the thread above, if there is one.
func (c *Call) forwardRequest(q event.ApprovalRequest) {
	s := c.run.turn.thread
	s.notifyParentAsked(SubAsks{ThreadID: s.ThreadID, Request: q, Listed: c.listed()})
}

// notifyParentAsked has a request told above, with those who may not decide on it here: the thread
// above is to refuse them, since it does not hear what is refused here.
func (p *ParentLink) notifyParentAsked(asks SubAsks) {
	s := p.thread
	if p.Parent != nil {
		asks.Agents = withNames(asks.Agents, s.agentNames()...)
		p.Notices = append(p.Notices, ParentNotice{Asks: &asks})
	}
}

// agentNames are those of the thread's agents, and of all that work in it.
func (s *State) agentNames() []string {
	names := append([]string{s.Default}, s.Agents...)
	if s.Parent != nil {
		names = append(names, s.Parent.Agent)
	}
	for _, t := range s.turns() {
		for _, r := range t.Runs {
			names = append(names, r.Agent)
		}
	}
	return names
}

// withNames adds names to a list, each once, as far as there is room.
func withNames(list []string, names ...string) []string {
	out := slices.Clone(list)
	for _, name := range names {
		among := func(other string) bool { return SamePerson(name, other) }
		if name != "" && len(out) < maxAgentsBelow && !slices.ContainsFunc(out, among) {
			out = append(out, name)
		}
	}
	return out
}

func (p *ParentLink) notifyParentDecided(d SubDecided) {
	s := p.thread
	if p.Parent != nil {
		d.ThreadID = s.ThreadID
		p.Notices = append(p.Notices, ParentNotice{Decided: &d})
	}
}

// NoticeSent forgets the first note.
func (p *ParentLink) NoticeSent() { p.Notices = slices.Delete(p.Notices, 0, 1) }
