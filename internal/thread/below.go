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
func (s *State) SubAsked(a SubAsks) {
	sub := s.sub(a.ThreadID)
	if sub == nil {
		return
	}
	known := slices.ContainsFunc(sub.Asks, func(q event.ApprovalRequest) bool { return q.ToolCallID == a.Request.ToolCallID })
	if known != (a.Request.Reminder > 0) {
		return
	}
	s.record(event.RequestID(a.Request), event.TypeApprovalRequest, s.traceOf(sub), sub.ToolCallID, a.Request.RequestedAt, a.Request)
	s.noteAbove(SubAsks{ThreadID: s.ThreadID, Request: a.Request, Listed: a.Listed, Agents: a.Agents})
	sub.Agents = withNames(sub.Agents, a.Agents...)
	if known {
		return
	}
	sub.Listed = sub.Listed || a.Listed
	kept := a.Request
	if limit := min(maxAskedArguments, max(maxAskedTotal-s.askedBytes(), 0)); len(kept.Arguments) > limit {
		kept.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them)", cutText(kept.Arguments, limit), len(kept.Arguments))
	}
	sub.Asks = append(sub.Asks, kept)
}

// askedBytes is how much the thread keeps of the arguments of sub-agents' calls.
func (s *State) askedBytes() int {
	n := 0
	for _, sub := range s.Subs {
		for _, ask := range sub.Asks {
			n += len(ask.Arguments)
		}
	}
	return n
}

// SubHasDecided takes in that a call of a sub-agent waits no more.
func (s *State) SubHasDecided(now time.Time, d SubDecided) {
	sub := s.sub(d.ThreadID)
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
		s.record(event.DecisionID(d.ToolCallID, d.Approval.Round), event.TypeApproval, s.traceOf(sub), sub.ToolCallID, now, *d.Approval)
	}
	s.settled(d.ToolCallID, decision)
	s.passUp(SubDecided{ToolCallID: d.ToolCallID, Approval: d.Approval})
}

// traceOf is the trace of what a sub-agent works for.
func (s *State) traceOf(sub *Sub) string {
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

// AskedBelow finds the sub-agent whose call waits for approval.
func (s *State) AskedBelow(toolCallID string) (threadID string, request event.ApprovalRequest, ok bool) {
	for _, sub := range s.Subs {
		for _, ask := range sub.Asks {
			if ask.ToolCallID == toolCallID {
				return sub.ThreadID, ask, true
			}
		}
	}
	return "", event.ApprovalRequest{}, false
}

// PassPatience is how long a decision waits for the sub-agent that it is for.
const PassPatience = 10 * time.Second

// PassDown says whether a decision is to be passed on to the sub-agent whose call it is
// about: it is if it is accepted. Signals between threads may overtake each other, so the
// first decision that comes here is the only one that goes there. One that has not settled
// the call in its time was refused there, which nobody hears of: then another one goes.
func (s *State) PassDown(now time.Time, d signals.Decide) (threadID string, out signals.DecideOutcome, err error) {
	threadID, ask, ok := s.AskedBelow(d.ToolCallID)
	switch {
	case !ok:
		return "", signals.NotPending, nil
	case differs(d, ask), len(d.ToolArgs) > 0 && json.Valid([]byte(ask.Arguments)) && !sameArguments(string(d.ToolArgs), ask.Arguments):
		// The thread below would say the same, but to nobody. What is kept cut here is
		// compared there.
		return threadID, signals.Mismatch, nil
	case !s.mayDecide(d.By, ask) || s.sub(threadID).isAgent(d.By):
		return threadID, signals.NotAllowed, nil
	}
	if err := checkAlone(d, ask); err != nil {
		return threadID, "", err
	}
	if field := d.Checked(); field != "" {
		return threadID, "", &event.FieldError{Field: field, Problem: fmt.Sprintf("of a sub-agent's call is decided on in its own thread, %s", threadID)}
	}
	sub := s.sub(threadID)
	if ask.Quorum > 1 && d.Decision == event.Approve {
		// Each of several is passed on.
		if slices.Contains(sub.Voted, vote(d)) {
			return threadID, signals.AlreadyResolved, nil
		}
		sub.Voted = append(sub.Voted, vote(d))
		return threadID, signals.Accepted, nil
	}
	if now.Sub(sub.PassedAt[d.ToolCallID]) >= PassPatience {
		delete(sub.Passed, d.ToolCallID)
	}
	switch sub.Passed[d.ToolCallID] {
	case d.Decision:
		return threadID, signals.AlreadyResolved, nil
	case "":
	default:
		return threadID, signals.Conflict, nil
	}
	if sub.Passed == nil {
		sub.Passed = map[string]event.Decision{}
	}
	if sub.PassedAt == nil {
		sub.PassedAt = map[string]time.Time{}
	}
	sub.Passed[d.ToolCallID], sub.PassedAt[d.ToolCallID] = d.Decision, now
	return threadID, signals.Accepted, nil
}

// isAgent reports whether a name is that of an agent of the threads below.
func (sub *Sub) isAgent(by string) bool {
	return slices.ContainsFunc(sub.Agents, func(name string) bool { return SamePerson(name, by) })
}

func vote(d signals.Decide) string { return d.ToolCallID + "/" + d.By }

// Several reports whether a call of a sub-agent needs more than one approval: a decision
// need not settle it.
func (s *State) Several(toolCallID string) bool {
	_, ask, _ := s.AskedBelow(toolCallID)
	return ask.Quorum > 1
}

// NotPassed takes back what was passed on of a call, when it could not be: the sub-agent is
// gone.
func (s *State) NotPassed(threadID, toolCallID string) {
	if sub := s.sub(threadID); sub != nil {
		sub.forgetPassed(toolCallID)
	}
}

func (sub *Sub) forgetPassed(toolCallID string) {
	delete(sub.Passed, toolCallID)
	delete(sub.PassedAt, toolCallID)
	sub.Voted = slices.DeleteFunc(sub.Voted, func(v string) bool { return strings.HasPrefix(v, toolCallID+"/") })
}

// DecidedBelow says what became of a decision that was passed on to a sub-agent.
func (s *State) DecidedBelow(d signals.Decide) signals.DecideOutcome {
	if out := s.settledAs(d); out != signals.AlreadyResolved {
		return out
	}
	return signals.Accepted
}

// Note is what a sub-agent's thread has to tell the thread above.
type Note struct {
	Asks    *SubAsks    `json:"asks,omitempty"`
	Decided *SubDecided `json:"decided,omitempty"`
}

// askAbove has people asked in the thread above, if there is one.
func (s *State) askAbove(c *Call, q event.ApprovalRequest) {
	s.noteAbove(SubAsks{ThreadID: s.ThreadID, Request: q, Listed: c.listed()})
}

// noteAbove has a request told above, with those who may not decide on it here: the thread
// above is to refuse them, since it does not hear what is refused here.
func (s *State) noteAbove(asks SubAsks) {
	if s.Parent != nil {
		asks.Agents = withNames(asks.Agents, s.agentNames()...)
		s.Notes = append(s.Notes, Note{Asks: &asks})
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

func (s *State) passUp(d SubDecided) {
	if s.Parent != nil {
		d.ThreadID = s.ThreadID
		s.Notes = append(s.Notes, Note{Decided: &d})
	}
}

// NoteSent forgets the first note.
func (s *State) NoteSent() { s.Notes = slices.Delete(s.Notes, 0, 1) }
