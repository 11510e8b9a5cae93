package thread

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// ItemEvent returns the turn's item for hooks.
func (t *Turn) ItemEvent() HookEvent {
	e := t.event(t.TurnID())
	if t.Recorded {
		// Only the record has all of it.
		e.Event = nil
	}
	e.Hooked = t.Origin != nil && t.Origin.Hooked
	e.stored = t.Stored
	return e
}

// event returns an item for hooks.
func (q *Queued) event(key string) HookEvent {
	it := q.Item
	e := HookEvent{ID: it.ID, Key: key, Type: it.Type, Parent: it.ParentEventID, user: q.User}
	read := q.read()
	if read.Env != nil {
		e.Event, e.Env, e.undecided = *read.Env, true, true
		return e
	}
	if read.Message == nil {
		e.Event = event.CustomEvent{Type: it.Type, ThreadID: it.ThreadID, Payload: it.Payload}
		return e
	}
	m := q.message()
	e.CreatedBy, e.message, e.undecided = m.SenderType, m, true
	switch m.SenderType {
	case event.CreatedByAgent:
		e.Agent = m.SenderID
	case event.CreatedByTool:
		e.Tools = []string{m.SenderID}
	case event.CreatedByUser, event.CreatedBySystem:
	}
	e.Event = step.MessageEvent(m)
	return e
}

// ReplyEvent returns the run's reply for hooks.
func (r *AgentRun) ReplyEvent() HookEvent {
	t := r.turn
	m := r.Reply.Message
	m.SenderID, m.SenderType, m.Role, m.AgentID, m.ReplyToMessageID = r.Agent, event.CreatedByAgent, event.RoleAssistant, r.Agent, r.ReplyTo
	m.Held, m.Usage = r.Quiet && m.Content != "", r.Reply.Usage
	e := HookEvent{ID: m.ID, Key: m.ID, Type: event.TypeMessage, Parent: t.Item.ID, CreatedBy: event.CreatedByAgent, Agent: r.Agent, message: m}
	e.undecided = slices.Contains(r.Undecided, event.TypeMessage)
	return e
}

// CallsEvent returns the tool calls of the run's reply for hooks.
func (r *AgentRun) CallsEvent() HookEvent {
	t := r.turn
	id := recordid.Calls(r.MessageID)
	e := HookEvent{ID: id, Key: id, Type: event.TypeToolCall, Parent: t.Item.ID, CreatedBy: event.CreatedByAgent, Agent: r.Agent}
	e.undecided = slices.Contains(r.Undecided, event.TypeToolCall)
	for _, c := range r.Reply.Calls {
		e.Tools = append(e.Tools, c.Name)
	}
	return e
}

// ResultEvent returns the result of a call for hooks.
func (c *Call) ResultEvent() HookEvent {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	id := recordid.Result(c.Plan.ID)
	m := event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.CreatedByTool, Role: event.RoleTool,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: c.Failed, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	}
	e := HookEvent{
		ID: id, Key: id, Type: event.TypeMessage, Parent: t.Item.ID, CreatedBy: event.CreatedByTool, Agent: r.Agent,
		Tools: []string{c.Plan.Name}, message: m, undecided: c.Undecided,
	}
	return e
}

// ModelCallEvent returns the run's next model call for hooks.
func (r *AgentRun) ModelCallEvent() HookEvent {
	t, s := r.turn, r.turn.thread
	id := recordid.LLMCall(r.messageID())
	return HookEvent{
		ID: id, Key: id, Type: event.TypeLLMCall, Parent: t.Item.ID, CreatedBy: event.CreatedByAgent, Agent: r.agentOf(),
		Event: event.LLMCallEvent{ThreadID: s.ThreadID, AgentName: r.agentOf(), Step: r.Step + 1},
	}
}

// agentOf returns the name of the run's agent. Before the default agent's first reply, it is the
// name under which the default agent replied last, if any.
func (r *AgentRun) agentOf() string {
	s := r.turn.thread
	if r.Agent == "" {
		return s.Roster.Default
	}
	return r.Agent
}

// hookRequirements returns what a model call must do for hooks that match its reply: hold back the
// end of the run (hold), hide the reply from viewers (quiet), run inline hooks itself (inline), and
// mark the records of events that hooks decide on after they are stored (undecided). An unknown
// agent name matches all hooks.
func (r *AgentRun) hookRequirements(specs []hook.Spec) (hold, quiet bool, inline []hook.Spec, undecided []string) {
	s := r.turn.thread
	saysAny, callsAny := false, false
	agent := r.agentOf()
	for _, spec := range specs {
		f := spec.Filter
		if agent == "" {
			f.Agents = nil
		}
		f.Tools = nil
		about := hook.Subject{Namespace: s.Namespace, Type: event.TypeMessage, CreatedBy: event.CreatedByAgent, Agent: agent}
		// A filter on tools never matches an agent's message.
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
