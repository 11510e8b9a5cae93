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
	if e.EndsTurn() {
		cs.end(e.EventID)
	}
	id := callOf(e)
	if id == "" {
		return
	}
	c := cs.byID[id]
	if c == nil {
		c = &Call{ID: id, EventID: e.EventID, Foreign: true} // until an event shows it
		if cs.byID == nil {
			cs.byID = map[string]*Call{}
		}
		cs.byID[id] = c
	}
	cs.place(c, c.apply(e))
}

// callOf returns the call that an event is about, or "".
func callOf(e event.AgentEvent) string {
	switch {
	case e.Request != nil:
		return e.Request.ToolCallID
	case e.Approval != nil:
		return e.Approval.ToolCallID
	case e.ClientCall != nil:
		return e.ClientCall.ToolCallID
	case e.Input != nil:
		return e.Input.ToolCallID
	case e.Received != nil:
		return e.Received.ToolCallID
	case e.Type == event.EventToolCall, e.Type == event.EventToolResult:
		return e.ToolCallID
	}
	return ""
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
