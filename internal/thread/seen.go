package thread

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// SeenItem is the turn's item as hooks see it.
func (s *State) SeenItem() Seen {
	e := s.seenItem(s.Turn.Item, s.turnID())
	if s.Turn.Recorded {
		// All of it is in the record only.
		e.Event = nil
	}
	e.Hooked = s.Turn.Origin != nil && s.Turn.Origin.Hooked
	e.stored = s.Turn.Stored
	return e
}

func (s *State) seenItem(it event.Item, key string) Seen {
	e := Seen{ID: it.ID, Key: key, Type: it.Type, Parent: it.ParentEventID}
	if env, ok := it.Env(); ok {
		e.Event, e.Env, e.undecided = env, true, true
		return e
	}
	if it.Type != event.TypeMessage {
		e.Event = event.CustomEvent{Type: it.Type, ThreadID: s.ThreadID, Payload: it.Payload}
		return e
	}
	m := s.said(it)
	e.CreatedBy, e.message, e.undecided = m.SenderType, m, true
	switch m.SenderType {
	case event.Agent:
		e.Agent = m.SenderID
	case event.Tool:
		e.Tools = []string{m.SenderID}
	case event.User, event.System:
	}
	e.Event = MessageEvent(m)
	return e
}

// SeenReply is the run's reply as hooks see it.
func (s *State) SeenReply(r *Run) Seen {
	m := r.Reply.Message
	m.SenderID, m.SenderType, m.Role, m.AgentID, m.ReplyToMessageID = r.Agent, event.Agent, event.RoleAssistant, r.Agent, r.ReplyTo
	m.Held = r.Quiet && m.Content != ""
	e := Seen{ID: m.ID, Key: m.ID, Type: event.TypeMessage, Parent: s.Turn.Item.ID, CreatedBy: event.Agent, Agent: r.Agent, message: m}
	e.undecided = slices.Contains(r.Undecided, event.TypeMessage)
	return e
}

// SeenCalls are the reply's calls as hooks see them.
func (s *State) SeenCalls(r *Run) Seen {
	id := event.CallsID(r.MessageID)
	e := Seen{ID: id, Key: id, Type: event.TypeToolCall, Parent: s.Turn.Item.ID, CreatedBy: event.Agent, Agent: r.Agent}
	e.undecided = slices.Contains(r.Undecided, event.TypeToolCall)
	for _, c := range r.Reply.Calls {
		e.Tools = append(e.Tools, c.Name)
	}
	return e
}

// SeenResult is a call's result as hooks see it.
func (s *State) SeenResult(r *Run, c *Call) Seen {
	id := event.ResultID(c.Plan.ID)
	m := event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.Tool, Role: event.RoleTool,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: c.Failed, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	}
	e := Seen{
		ID: id, Key: id, Type: event.TypeMessage, Parent: s.Turn.Item.ID, CreatedBy: event.Tool, Agent: r.Agent,
		Tools: []string{c.Plan.Name}, message: m, undecided: c.Undecided,
	}
	return e
}

// SeenModelCall is the run's next model call as hooks see it.
func (s *State) SeenModelCall(r *Run) Seen {
	id := event.LLMCallID(s.messageID(r))
	return Seen{
		ID: id, Key: id, Type: event.TypeLLMCall, Parent: s.Turn.Item.ID, CreatedBy: event.Agent, Agent: s.agentOf(r),
		Event: event.LLMCallEvent{ThreadID: s.ThreadID, AgentName: s.agentOf(r), Step: r.Step + 1},
	}
}

// agentOf is the run's agent, also before it has answered for the first time, if the
// thread knows what its default agent is called.
func (s *State) agentOf(r *Run) string {
	if r.Agent == "" {
		return s.Default
	}
	return r.Agent
}

// MessageEvent is a stored message as hooks see it.
func MessageEvent(m event.Message) event.MessageEvent {
	return event.MessageEvent{CreatedBy: m.SenderType, ThreadID: m.ThreadID, Message: event.NewMessage{
		ThreadID: m.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
	}}
}

// foresee says what a model call has to leave to hooks that may see its reply, undecided
// the types of the events in the reply on which they decide once it is stored. The agent's
// name, if it is not known yet, may be any.
func (s *State) foresee(r *Run, specs []hook.Spec) (hold, quiet bool, inline []hook.Spec, undecided []string) {
	saysAny, callsAny := false, false
	agent := s.agentOf(r)
	for _, spec := range specs {
		f := spec.Filter
		if agent == "" {
			f.Agents = nil
		}
		f.Tools = nil
		about := hook.Subject{Namespace: s.Namespace, Type: event.TypeMessage, CreatedBy: event.Agent, Agent: agent}
		// A filter on tools never selects what an agent says.
		says := len(spec.Filter.Tools) == 0 && f.Matches(about)
		about.Type = event.TypeToolCall
		calls := f.Matches(about)
		saysAny, callsAny = saysAny || says, callsAny || calls
		if says || calls {
			inline = append(inline, spec)
		}
		quiet = quiet || says && spec.HoldOutput
	}
	if Only(hook.KindInline, inline) {
		return quiet, quiet, inline, nil
	}
	if saysAny {
		undecided = append(undecided, event.TypeMessage)
	}
	if callsAny {
		undecided = append(undecided, event.TypeToolCall)
	}
	return true, quiet, nil, undecided
}
