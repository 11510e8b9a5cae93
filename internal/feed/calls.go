package feed

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
)

// Calls returns the tool calls that records are about. A call has its result also while hooks hold that back from viewers.
func Calls(records []event.Record) *turn.Calls {
	calls := &turn.Calls{}
	for _, r := range records {
		if id, is := recordid.CallOfResult(r.ID); is {
			calls.Apply(event.AgentEvent{Type: event.EventToolResult, ToolCallID: id})
		}
		for _, e := range Events(r) {
			calls.Apply(e)
		}
	}
	return calls
}
