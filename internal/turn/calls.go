package turn

import (
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Calls are the tool calls of a thread, or of a turn, from its events. The zero value has none.
type Calls struct {
	byID  map[string]*Call
	order []*Call // those last that were asked about last
}

// Find returns a call, or nil.
func (cs *Calls) Find(id string) *Call { return cs.byID[id] }

// Waiting returns the calls that wait, in the order of their requests.
func (cs *Calls) Waiting() []*Call {
	return slices.DeleteFunc(slices.Clone(cs.order), func(c *Call) bool { return !c.Waits() })
}

// Apply adds the next event.
func (cs *Calls) Apply(e event.AgentEvent) {
	switch e.Type {
	case event.EventToolCall:
		c := cs.call(e.EventID, e.ToolCallID)
		if c.Foreign {
			c.Agent, c.Foreign = e.Agent, false
		}
		c.Tool, c.Arguments = e.ToolName, e.ToolArgs // a hook may have changed them
	case event.EventToolResult:
		c := cs.call(e.EventID, e.ToolCallID)
		c.Result, c.Input, c.Client = &Result{e.Output, e.IsError}, nil, nil
	case event.EventApprovalRequest:
		if c := cs.call(e.EventID, e.Request.ToolCallID); c.ask(e.Request) {
			cs.last(c)
		}
	case event.EventApproval:
		cs.call(e.EventID, e.Approval.ToolCallID).decide(e.Approval)
	case event.EventClientCall:
		c := cs.call(e.EventID, e.ClientCall.ToolCallID)
		c.Client, c.Foreign = e.ClientCall, false
		cs.last(c)
	case event.EventInputRequest:
		if c := cs.call(e.EventID, e.Input.ToolCallID); c.askInput(e.Input) {
			cs.last(c)
		}
	case event.EventInputReceived:
		cs.call(e.EventID, e.Received.ToolCallID).receive(e.Received)
	case event.EventStatus:
		if e.EndsTurn() {
			cs.end(e.EventID)
		}
	default: // about no call, or live only
	}
}

// call returns a call, which is a sub-agent's until an event shows it.
func (cs *Calls) call(eventID, id string) *Call {
	c := cs.byID[id]
	if c == nil {
		c = &Call{ID: id, EventID: eventID, Foreign: true}
		if cs.byID == nil {
			cs.byID = map[string]*Call{}
		}
		cs.byID[id] = c
		cs.order = append(cs.order, c)
	}
	return c
}

// last puts a call behind the others.
func (cs *Calls) last(c *Call) {
	i := slices.Index(cs.order, c)
	cs.order = append(slices.Delete(cs.order, i, i+1), c)
}

// end ends the calls of a turn. Those of its sub-agents have ends of their own.
func (cs *Calls) end(eventID string) {
	for _, c := range cs.order {
		if c.EventID == eventID && !c.Foreign && !c.State().Settled() {
			c.Over, c.Input, c.Client = true, nil, nil
		}
	}
}
