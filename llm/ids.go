package llm

import (
	"crypto/rand"

	"github.com/threadmill/threadmill/event"
)

// AssignIDs assigns a new id to each of calls that has no id or the id of an earlier call in
// messages or calls, since the id of a tool call is its idempotency key. It changes calls in place.
func AssignIDs(calls []event.ToolCall, messages []Message) {
	used := map[string]bool{"": true}
	for _, m := range messages {
		for _, c := range m.ToolCalls {
			used[c.ID] = true
		}
	}
	for i := range calls {
		if used[calls[i].ID] {
			calls[i].ID = "call_" + rand.Text()
		}
		used[calls[i].ID] = true
	}
}
