package thread

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// ParentLink connects a sub-agent's thread to its parent thread.
type ParentLink struct {
	// Parent is set in a sub-agent's thread. Notices are pending notices for the parent thread.
	Parent  *step.Parent   `json:"parent,omitempty"`
	Notices []ParentNotice `json:"notices,omitempty"`
}

// ParentNotice is a notice of a sub-agent's thread for its parent thread.
type ParentNotice struct {
	Approvals *step.SubAgentRequest  `json:"approvals,omitempty"`
	Decided   *step.SubAgentDecision `json:"decided,omitempty"`
}

// DelegatedBy makes the thread that of a sub-agent of a parent thread. stored adds the parent thread to
// the thread's first row; it requires that the parent thread has started this one. Nothing else adds
// it: the store erases the two together, and metadata that names a parent thread may come from clients.
func (s *State) DelegatedBy(parent *step.Parent, stored bool) {
	s.ParentLink.Parent = parent
	if stored {
		s.Outbox.Row.Parent = parent.ThreadID
	}
}

// FirstID returns the id of the first event of a sub-agent's thread.
func (p *ParentLink) FirstID(ref step.Ref) string {
	return firstID(ref.Namespace, ref.ThreadID, *p.Parent)
}

// FirstIDOf returns the id of the first event of the sub-agent's thread that a call starts.
func FirstIDOf(namespace, threadID, toolCallID string) string {
	return firstID(namespace, threadID, step.Parent{ToolCallID: toolCallID})
}

// firstID depends on the call: a thread that was terminated and opened again may reuse the numbers
// of its sub-agents, and must not take an old answer for a new one.
func firstID(namespace, threadID string, parent step.Parent) string {
	return signals.EventID(namespace, threadID, "first", parent.ToolCallID)
}

// AnswerStored reports whether the sub-agent's turn has ended, or will never start because its
// message was rejected.
func (s *State) AnswerStored() bool {
	return s.ParentLink.Parent != nil && len(s.Turns.all()) == 0 && !s.Awaits(s.ParentLink.FirstID(s.Ref()))
}

// EndStep returns the input of the activity that ends a sub-agent's thread.
func (s *State) EndStep() step.End {
	out, ended := s.Turns.Outcome(s.ParentLink.FirstID(s.Ref()))
	if !ended {
		out = signals.TurnResult{EventID: s.ParentLink.FirstID(s.Ref()), Status: signals.TurnFailed, Error: "its thread has refused the message"}
	}
	return step.End{Thread: s.Ref(), Parent: *s.ParentLink.Parent, EventID: out.EventID, Status: out.Status, Error: out.Error, Flush: s.Outbox.Flush()}
}

// maxSteps returns an agent's limit of model calls in this thread: its own limit or, if lower, the
// limit of the parent thread.
func (p *ParentLink) maxSteps(own int) int {
	if p.Parent != nil && p.Parent.MaxSteps > 0 {
		return min(own, p.Parent.MaxSteps)
	}
	return own
}

// withParent adds the metadata that names the parent thread and call of a sub-agent.
func (p *ParentLink) withParent(metadata json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if p.Parent == nil || json.Unmarshal(metadata, &fields) != nil {
		return metadata
	}
	fields[signals.MetadataParent], fields[signals.MetadataParentCall] = rawJSON(p.Parent.ThreadID), rawJSON(p.Parent.ToolCallID)
	return rawJSON(fields)
}

// askParent sends a request to the parent thread, if there is one, with the names that may not decide
// on it: the parent thread must reject their decisions, since it is not told when this thread rejects
// them.
func (s *State) askParent(a step.SubAgentRequest) {
	a.ThreadID, a.Agents = s.ThreadID, withNames(a.Agents, s.agentNames()...)
	s.ParentLink.notify(ParentNotice{Approvals: &a})
}

// tell sends the end of a request, or a vote, to the parent thread, if there is one.
func (p *ParentLink) tell(threadID string, d step.SubAgentDecision) {
	d.ThreadID = threadID
	p.notify(ParentNotice{Decided: &d})
}

func (p *ParentLink) notify(n ParentNotice) {
	if p.Parent != nil {
		p.Notices = append(p.Notices, n)
	}
}

// ReportToParent makes the sub-agent report its end by signal, because the parent thread has continued
// as new.
func (p *ParentLink) ReportToParent() { p.Parent.ReportRequested = true }

// NoticeSent removes the first notice.
func (p *ParentLink) NoticeSent() { p.Notices = slices.Delete(p.Notices, 0, 1) }

// forwardRequest sends an approval request to the parent thread, if there is one.
func (c *Call) forwardRequest(q event.ApprovalRequest) {
	c.run.turn.thread.askParent(step.SubAgentRequest{Request: q, Listed: c.listed()})
}
