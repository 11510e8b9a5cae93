package turn

import (
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Calls are the tool calls of a thread, or of a turn, from its events. The zero value has none.
type Calls struct {
	byID    map[string]*Call
	waiting []*Call // in the order of their requests
}

// Find returns a call, or nil.
func (cs *Calls) Find(id string) *Call { return cs.byID[id] }

// Waiting returns the calls that wait, in the order of their requests.
func (cs *Calls) Waiting() []*Call { return slices.Clone(cs.waiting) }

// Apply adds the next event.
func (cs *Calls) Apply(e event.AgentEvent) {
	asks := false
	var c *Call
	switch {
	case e.Request != nil:
		c = cs.call(e, e.Request.ToolCallID)
		asks = c.ask(e.Request)
	case e.Approval != nil:
		c = cs.call(e, e.Approval.ToolCallID)
		c.decide(e.Approval)
	case e.ClientCall != nil:
		c = cs.call(e, e.ClientCall.ToolCallID)
		c.Client, c.Foreign, asks = e.ClientCall, false, true
	case e.Input != nil:
		c = cs.call(e, e.Input.ToolCallID)
		asks = c.askInput(e.Input)
	case e.Received != nil:
		c = cs.call(e, e.Received.ToolCallID)
		c.receive(e.Received)
	case e.Type == event.EventToolResult:
		c = cs.call(e, e.ToolCallID)
		c.Result, c.Input, c.Client = &Result{e.Output, e.IsError}, nil, nil
	case e.Type == event.EventToolCall:
		c = cs.call(e, e.ToolCallID)
		c.show(e)
	case e.EndsTurn():
		cs.end(e.EventID)
		return
	default: // about no call, or live only
		return
	}
	cs.place(c, asks)
}

// call returns the call that an event is about. It is a sub-agent's until an event shows it.
func (cs *Calls) call(e event.AgentEvent, id string) *Call {
	if cs.byID == nil {
		cs.byID = map[string]*Call{}
	}
	if cs.byID[id] == nil {
		cs.byID[id] = &Call{ID: id, EventID: e.EventID, Foreign: true}
	}
	return cs.byID[id]
}

// place puts a call that waits among the others: behind them if it has begun to wait for something else.
func (cs *Calls) place(c *Call, again bool) {
	i, waits := slices.Index(cs.waiting, c), c.Waits()
	if i >= 0 && (again || !waits) {
		cs.waiting, i = slices.Delete(cs.waiting, i, i+1), -1
	}
	if i < 0 && waits {
		cs.waiting = append(cs.waiting, c)
	}
}

// end ends the calls of a turn. Those of its sub-agents have ends of their own.
func (cs *Calls) end(eventID string) {
	for _, c := range cs.byID {
		if c.EventID == eventID && !c.Foreign && !c.State().Settled() {
			c.Over, c.Input, c.Client = true, nil, nil
			cs.place(c, false)
		}
	}
}
