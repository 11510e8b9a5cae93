package activities

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

const (
	// maxStoredCalls is the maximum number of tool calls of a reply that are stored. It exceeds the
	// maximum of [agent.Limits].MaxToolCalls.
	maxStoredCalls = 512

	// maxCallName is the maximum length of the name of a stored call, in bytes. Names of tools are
	// shorter.
	maxCallName = 128

	// maxPlannedArguments is the maximum size of the arguments in the plans of a reply's calls, in
	// bytes, so that the activity's result stays below Temporal's limit of 2 MiB.
	maxPlannedArguments = 512 << 10
)

// excess are the tool calls of a reply beyond the agent's limit.
type excess struct {
	limit, made int

	// rejected calls at the end of those that are stored do not run. dropped are not even stored.
	rejected, dropped int
}

// bound returns the calls of a reply that are stored, and the excess. It gives each call an id that is
// unique in the thread, since some providers number the calls of each reply. Results, approvals and
// logs refer to this id, and all providers accept its form.
func (c *modelCall) bound(calls []event.ToolCall) ([]event.ToolCall, excess) {
	over := excess{limit: c.agent.Limits.MaxToolCalls, made: len(calls)}
	if len(calls) > maxStoredCalls {
		over.dropped, calls = len(calls)-maxStoredCalls, calls[:maxStoredCalls]
	}
	over.rejected = max(0, len(calls)-over.limit)
	for i := range calls {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", c.in.Thread.Namespace, c.in.Thread.ThreadID, c.in.MessageID, i))
		calls[i].ID = "call_" + hex.EncodeToString(sum[:12])
		if name := calls[i].Function.Name; len(name) > maxCallName {
			calls[i].Function.Name = strings.ToValidUTF8(name[:maxCallName], "") + "…"
		}
	}
	return calls, over
}

// results returns the results of the rejected calls among calls.
func (x excess) results(c *modelCall, calls []event.ToolCall, now time.Time) []event.Record {
	rejected := calls[len(calls)-x.rejected:]
	out := make([]event.Record, 0, len(rejected))
	text := fmt.Sprintf("Error: not run. A reply may have at most %d tool calls (limits.maxToolCalls), and this one has %d. "+
		"Call the tool again in a later reply if it is still needed.", x.limit, x.made)
	for i, call := range rejected {
		if i == len(rejected)-1 && x.dropped > 0 {
			text += fmt.Sprintf(" The last %d calls of the reply are not shown.", x.dropped)
		}
		m := event.Message{
			ID: recordid.Result(call.ID), ThreadID: c.in.Thread.ThreadID, SenderID: call.Function.Name, SenderType: event.CreatedByTool,
			Role: event.RoleTool, Content: text, ToolCallID: call.ID, ToolName: call.Function.Name, IsError: true, AgentID: c.agent.Name,
			ReplyToMessageID: c.in.MessageID,
		}
		out = append(out, event.NewRecord(m.ID, event.TypeMessage, c.in.TraceID, c.in.EventID, now, m).In(c.eventID()))
	}
	return out
}

// argumentBytes is the size of the arguments in the plans of a reply's calls.
type argumentBytes int

// bound returns the plan of a call. If the arguments of the reply's calls are too large together,
// people are shown the beginning of those of further calls, and further calls of clients do not run.
func (b *argumentBytes) bound(p step.PlannedCall, call event.ToolCall) step.PlannedCall {
	*b += argumentBytes(len(p.Arguments))
	switch {
	case *b <= maxPlannedArguments:
	case p.By == step.ByClient:
		return invalidCall(call)
	default:
		p.Arguments = step.CarryArguments(call.Function.Arguments, maxPlannedArguments/maxStoredCalls)
	}
	return p
}
