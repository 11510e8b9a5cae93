package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// SubAsked takes in that a call of a sub-agent waits for approval: people are asked here,
// too.
func (s *State) SubAsked(a SubAsks) {
	sub := s.sub(a.ThreadID)
	if sub == nil || slices.ContainsFunc(sub.Asks, func(q event.ApprovalRequest) bool { return q.ToolCallID == a.Request.ToolCallID }) {
		return
	}
	kept := a.Request
	if limit := min(maxAskedArguments, max(maxAskedTotal-s.askedBytes(), 0)); len(kept.Arguments) > limit {
		kept.Arguments = fmt.Sprintf("%s… (%d bytes in all; the approval_request record has them)", cutText(kept.Arguments, limit), len(kept.Arguments))
	}
	sub.Asks = append(sub.Asks, kept)
	s.record(a.Request.ToolCallID+".request", event.TypeApprovalRequest, s.traceOf(sub), sub.ToolCallID, a.Request.RequestedAt, a.Request)
	s.askAbove(a.Request)
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
	delete(sub.Passed, d.ToolCallID)
	var decision event.Decision
	if d.Approval != nil {
		decision = d.Approval.Decision
		s.record(d.ToolCallID+".decision", event.TypeApproval, s.traceOf(sub), sub.ToolCallID, now, *d.Approval)
	}
	s.settled(d.ToolCallID, decision)
	s.passUp(SubDecided{ToolCallID: d.ToolCallID, Approval: d.Approval})
}

// traceOf is the trace of what a sub-agent works for.
func (s *State) traceOf(sub *Sub) string {
	if i := s.taskAt(sub.TaskID); i >= 0 {
		return s.Tasks[i].TraceID
	}
	if s.Turn != nil {
		return s.Turn.Item.TraceID
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

// PassDown says whether a decision is to be passed on to the sub-agent whose call it is
// about: it is if it is accepted. Signals between threads may overtake each other, so the
// first decision that comes here is the only one that goes there.
func (s *State) PassDown(d signals.Decide) (threadID string, out signals.DecideOutcome) {
	threadID, ask, ok := s.AskedBelow(d.ToolCallID)
	if !ok {
		return "", signals.NotPending
	}
	if d.Agent != "" && d.Agent != ask.Agent || d.ToolName != "" && d.ToolName != ask.ToolName {
		return threadID, signals.Mismatch
	}
	sub := s.sub(threadID)
	switch sub.Passed[d.ToolCallID] {
	case d.Decision:
		return threadID, signals.AlreadyResolved
	case "":
	default:
		return threadID, signals.Conflict
	}
	if sub.Passed == nil {
		sub.Passed = map[string]event.Decision{}
	}
	sub.Passed[d.ToolCallID] = d.Decision
	return threadID, signals.Accepted
}

// NotPassed takes back a decision that could not be passed on.
func (s *State) NotPassed(threadID, toolCallID string) {
	if sub := s.sub(threadID); sub != nil {
		delete(sub.Passed, toolCallID)
	}
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
func (s *State) askAbove(q event.ApprovalRequest) {
	if s.Parent != nil {
		s.Notes = append(s.Notes, Note{Asks: &SubAsks{ThreadID: s.ThreadID, Request: q}})
	}
}

func (s *State) passUp(d SubDecided) {
	if s.Parent != nil {
		d.ThreadID = s.ThreadID
		s.Notes = append(s.Notes, Note{Decided: &d})
	}
}

// NoteSent forgets the first note.
func (s *State) NoteSent() { s.Notes = slices.Delete(s.Notes, 0, 1) }
