package worldview_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

type item = projection.Item[event.WorldEvent]

// newThread returns a thread that is read as the events of a world.
func newThread(t *testing.T, o feedtest.Options) *feedtest.Projected[event.WorldEvent] {
	w := feedtest.New(t, o)
	return &feedtest.Projected[event.WorldEvent]{Thread: w, Projection: worldview.New(w.Feed, w.Store)}
}

// worldMessages reads all pages of messages with a limit.
func worldMessages(w *feedtest.Projected[event.WorldEvent], limit int) []event.WorldMessage {
	w.T.Helper()
	var out []event.WorldMessage
	for after, more := int64(0), true; more; {
		messages, next, err := worldview.Messages(w.Ctx, w.Store, w.Key, after, limit)
		require.NoError(w.T, err)
		out = append(out, messages...)
		after, more = next, next > 0
	}
	return out
}

// tell makes sequences readable: the type and the subject of each event.
func tell(items []item) []string {
	var out []string
	for _, i := range items {
		text := []string{string(i.Event.Type)}
		switch d := i.Event.Data.(type) {
		case event.WorldMessage:
			text = append(text, d.Role, d.MessageID, d.ToolCallID, d.Content)
		case event.WorldSSE:
			text = append(text, string(d.Type), d.MessageID, d.Content)
		case event.WorldTool:
			text = append(text, d.ToolExecution.ToolCallID, d.ToolExecution.Result, d.ToolExecution.Error, string(d.ToolExecution.Progress))
		case event.WorldToolExecution:
			text = append(text, d.ToolName, d.Command, fmt.Sprint(d.ExitCode))
		case event.WorldCRUD:
			text = append(text, string(d.Operation), d.EntityType, d.EntityID)
		case event.WorldSystem:
			text = append(text, d.Content)
		case event.WorldActivity:
			text = append(text, d.Type, d.Source, d.Detail)
		}
		out = append(out, strings.Join(strings.Fields(strings.Join(text, " ")), " "))
	}
	return out
}

// same makes sequences comparable: each read returns the same events with the same ids. Events that
// are only live have no fixed time.
func same(items []item) []string {
	var out []string
	for _, i := range items {
		e := i.Event
		if e.Meta == nil {
			e.Timestamp = time.Time{}
			switch d := e.Data.(type) {
			case event.WorldSystem:
				d.Timestamp = time.Time{}
				e.Data = d
			case event.WorldActivity:
				d.Timestamp = time.Time{}
				e.Data = d
			}
		}
		out = append(out, jsonOf(e))
	}
	return out
}

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

var decidedAt = time.Unix(1700000100, 0).UTC()

// asked is a reply with a call, and the request for its approval.
func asked(message, call, arguments string) []event.Record {
	reply := feedtest.Reply(message, "")
	reply.ReplyToMessageID = "said go"
	reply.ToolCalls = []event.ToolCall{{ID: call, Function: event.Function{Name: "shell_cmd", Arguments: arguments}}}
	calls := feedtest.Record(event.TypeToolCall, event.ToolCallEvent{AgentName: "bot", ToolCalls: reply.ToolCalls})
	calls.ID = message + ".calls"
	used := event.LLMCall{Agent: "bot", MessageID: message, Attempt: 1, Usage: event.Usage{InputTokens: 12, OutputTokens: 3}}
	return []event.Record{feedtest.Record(event.TypeLLMCall, used), feedtest.Record(event.TypeMessage, reply), calls, requested(message, call, arguments, 0)}
}

func requested(message, call, arguments string, round int) event.Record {
	r := feedtest.Record(event.TypeApprovalRequest, event.ApprovalRequest{
		ToolCallID: call, ToolName: "shell_cmd", Arguments: arguments, Agent: "bot", MessageID: message,
		WorkingDirectory: "/desk", Reason: "runs a command", Round: round,
	})
	r.ID = call + ".request"
	if round > 1 {
		r.ID = fmt.Sprintf("%s.request.%d", call, round)
	}
	return r
}

// approval is the record of a decision by ann.
func approval(call string, change func(*event.Approval)) event.Record {
	a := event.Approval{
		ToolCallID: call, ToolName: "shell_cmd", Agent: "bot", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann",
		DecidedAt: decidedAt, WorkingDirectory: "/desk",
	}
	if change != nil {
		change(&a)
	}
	r := feedtest.Record(event.TypeApproval, a)
	r.ID = call + ".decision"
	if a.Round > 1 {
		r.ID = fmt.Sprintf("%s.decision.%d", call, a.Round)
	}
	return r
}

// returned is the record of a call's result.
func returned(message, call, output string, isError bool) event.Record {
	return event.NewRecord(call+".result", event.TypeMessage, "trace", "said go", time.Unix(1700000000, 0), event.Message{
		ID: call + ".result", ThreadID: "t1", SenderID: "shell_cmd", SenderType: event.CreatedByTool, Role: event.RoleTool, Content: output,
		ToolCallID: call, ToolName: "shell_cmd", IsError: isError, AgentID: "bot", ReplyToMessageID: message,
	})
}
