package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// ApplyApprovals handles an approval request of a sub-agent: it becomes an approval request of this
// thread too.
func (ch *Children) ApplyApprovals(a SubAgentApprovals) {
	s := ch.thread
	sub := ch.find(a.ThreadID)
	if sub == nil {
		return
	}
	known := slices.ContainsFunc(sub.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == a.Request.ToolCallID })
	if known != (a.Request.Reminder > 0) {
		return
	}
	s.record(recordid.Request(a.Request), event.TypeApprovalRequest, ch.traceOf(sub), sub.ToolCallID, a.Request.RequestedAt, a.Request)
	s.ParentLink.notifyApproval(SubAgentApprovals{ThreadID: s.ThreadID, Request: a.Request, Listed: a.Listed, Agents: a.Agents})
	sub.Agents = withNames(sub.Agents, a.Agents...)
	if known {
		return
	}
	sub.Listed = sub.Listed || a.Listed
	kept := a.Request
	if limit := min(maxRequestArguments, max(maxRequestTotal-ch.requestBytes(), 0)); len(kept.Arguments) > limit {
		kept.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them)", cutText(kept.Arguments, limit), len(kept.Arguments))
	}
	sub.Approvals = append(sub.Approvals, kept)
}

// requestBytes returns the size of the arguments that the thread keeps for sub-agents' calls.
func (ch *Children) requestBytes() int {
	n := 0
	for _, sub := range ch.SubAgents {
		for _, ask := range sub.Approvals {
			n += len(ask.Arguments)
		}
	}
	return n
}

// ApplyDecision handles the notice of a vote on a call of a sub-agent, or that it no longer waits.
func (ch *Children) ApplyDecision(now time.Time, d SubAgentDecision) {
	s := ch.thread
	sub := ch.find(d.ThreadID)
	if sub == nil {
		return
	}
	at := slices.IndexFunc(sub.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == d.ToolCallID })
	if at < 0 {
		return
	}
	if d.Approval != nil {
		// The grant applies to the sub-agent's thread.
		d.Approval.ThreadID = cmp.Or(d.Approval.ThreadID, d.ThreadID)
	}
	if d.Approval != nil && d.Approval.Missing > 0 {
		q := &sub.Approvals[at]
		if slices.ContainsFunc(q.Votes, func(v event.Vote) bool { return SamePerson(v.By, d.Approval.By) }) {
			return
		}
		q.Votes = append(q.Votes, event.Vote{By: d.Approval.By, At: d.Approval.DecidedAt, Reason: d.Approval.Reason})
		s.record(recordid.Vote(d.ToolCallID, d.Approval.Round, len(q.Votes)), event.TypeApproval, ch.traceOf(sub), sub.ToolCallID, now, *d.Approval)
		s.ParentLink.notifyDecided(SubAgentDecision{ToolCallID: d.ToolCallID, Approval: d.Approval})
		return
	}
	sub.Approvals = slices.Delete(sub.Approvals, at, at+1)
	sub.forgetPassed(d.ToolCallID)
	var decision event.Decision
	if d.Approval != nil {
		decision = d.Approval.Decision
		s.record(recordid.Decision(d.ToolCallID, d.Approval.Round), event.TypeApproval, ch.traceOf(sub), sub.ToolCallID, now, *d.Approval)
	}
	s.Decisions.rememberSettled(d.ToolCallID, decision)
	s.ParentLink.notifyDecided(SubAgentDecision{ToolCallID: d.ToolCallID, Approval: d.Approval})
}

// traceOf returns the trace of the call or task that a sub-agent works on.
func (ch *Children) traceOf(sub *SubAgent) string {
	s := ch.thread
	if i := s.Tasks.index(sub.TaskID); i >= 0 {
		return s.Tasks.Running[i].TraceID
	}
	for _, t := range s.Turns.all() {
		if t.delegatedTo(sub.ThreadID) {
			return t.Item.TraceID
		}
	}
	return ""
}

// Request returns the approval request for a sub-agent's call, and the child thread that sent
// it.
func (ch *Children) Request(toolCallID string) (threadID string, request event.ApprovalRequest, ok bool) {
	for _, sub := range ch.SubAgents {
		for _, ask := range sub.Approvals {
			if ask.ToolCallID == toolCallID {
				return sub.ThreadID, ask, true
			}
		}
	}
	return "", event.ApprovalRequest{}, false
}

// ForwardTimeout is the time that a decision waits for the outcome in the child thread.
const ForwardTimeout = 10 * time.Second

// Forward decides whether to forward a decision to the child thread of its call: Accepted
// means to forward it. Signals between threads may arrive out of order, so only the first decision
// is forwarded. The parent thread is not told if the child thread rejects it; if the call still
// waits after [ForwardTimeout], another decision is forwarded.
func (ch *Children) Forward(now time.Time, d signals.Decide) (threadID string, out signals.DecideOutcome, err error) {
	s := ch.thread
	threadID, ask, ok := ch.Request(d.ToolCallID)
	switch {
	case !ok:
		return "", signals.DecideNotPending, nil
	case differs(d, ask), len(d.ToolArgs) > 0 && json.Valid([]byte(ask.Arguments)) && !sameArguments(string(d.ToolArgs), ask.Arguments):
		// The child thread would reject it too, but without telling anyone. It compares what was
		// cut here.
		return threadID, signals.DecideMismatch, nil
	case !s.Decisions.mayDecide(d.By, ask) || ch.find(threadID).isAgent(d.By):
		return threadID, signals.DecideNotAllowed, nil
	}
	if err := checkAlone(d, ask); err != nil {
		return threadID, "", err
	}
	if field := d.Checked(); field != "" {
		return threadID, "", event.FieldErrorf(field, "of a sub-agent's call must be decided in its own thread, %s", threadID)
	}
	sub := ch.find(threadID)
	if ask.Quorum > 1 && d.Decision == event.DecisionApprove {
		// All approvals are forwarded if several are required.
		if slices.Contains(sub.Voted, vote(d)) {
			return threadID, signals.DecideAlreadyResolved, nil
		}
		sub.Voted = append(sub.Voted, vote(d))
		return threadID, signals.DecideAccepted, nil
	}
	if now.Sub(sub.ForwardedAt[d.ToolCallID]) >= ForwardTimeout {
		delete(sub.Forwarded, d.ToolCallID)
	}
	switch sub.Forwarded[d.ToolCallID] {
	case d.Decision:
		return threadID, signals.DecideAlreadyResolved, nil
	case "":
	default:
		return threadID, signals.DecideConflict, nil
	}
	if sub.Forwarded == nil {
		sub.Forwarded = map[string]event.Decision{}
	}
	if sub.ForwardedAt == nil {
		sub.ForwardedAt = map[string]time.Time{}
	}
	sub.Forwarded[d.ToolCallID], sub.ForwardedAt[d.ToolCallID] = d.Decision, now
	return threadID, signals.DecideAccepted, nil
}

// isAgent reports whether a name is that of an agent of the child threads.
func (sub *SubAgent) isAgent(by string) bool {
	return slices.ContainsFunc(sub.Agents, func(name string) bool { return SamePerson(name, by) })
}

func vote(d signals.Decide) string { return d.ToolCallID + "/" + d.By }

// NeedsSeveral reports whether a sub-agent's call needs more than one approval, so a single
// decision may not settle it.
func (ch *Children) NeedsSeveral(toolCallID string) bool {
	_, ask, _ := ch.Request(toolCallID)
	return ask.Quorum > 1
}

// NotForwarded undoes the forwarding of decisions on a call that could not be sent: the
// child thread is gone.
func (ch *Children) NotForwarded(threadID, toolCallID string) {
	if sub := ch.find(threadID); sub != nil {
		sub.forgetPassed(toolCallID)
	}
}

func (sub *SubAgent) forgetPassed(toolCallID string) {
	delete(sub.Forwarded, toolCallID)
	delete(sub.ForwardedAt, toolCallID)
	sub.Voted = slices.DeleteFunc(sub.Voted, func(v string) bool { return strings.HasPrefix(v, toolCallID+"/") })
}

// ForwardedOutcome returns the outcome of a decision that was forwarded to a child thread.
func (ch *Children) ForwardedOutcome(d signals.Decide) signals.DecideOutcome {
	s := ch.thread
	if out := s.Decisions.settledAs(d); out != signals.DecideAlreadyResolved {
		return out
	}
	return signals.DecideAccepted
}

// agentNames returns the names of the thread's agents and of all agents with a run in it.
func (s *State) agentNames() []string {
	names := append([]string{s.Roster.Default}, s.Roster.Agents...)
	if s.ParentLink.Parent != nil {
		names = append(names, s.ParentLink.Parent.Agent)
	}
	for _, t := range s.Turns.all() {
		for _, r := range t.Runs {
			names = append(names, r.Agent)
		}
	}
	return names
}

// withNames adds names to a list, without duplicates, up to its maximum length.
func withNames(list []string, names ...string) []string {
	out := slices.Clone(list)
	for _, name := range names {
		among := func(other string) bool { return SamePerson(name, other) }
		if name != "" && len(out) < maxChildAgents && !slices.ContainsFunc(out, among) {
			out = append(out, name)
		}
	}
	return out
}
