package feed_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
)

func (w *world) openWorld(from feed.EnvFrom) *feed.WorldReader {
	w.t.Helper()
	r, err := w.feed.OpenWorld(w.ctx, w.key, from)
	require.NoError(w.t, err)
	w.t.Cleanup(r.Close)
	return r
}

func (w *world) nextWorld(r *feed.WorldReader) feed.WorldItem {
	w.t.Helper()
	return next[feed.WorldItem](w, r)
}

// restWorld reads a finite reader to its end.
func (w *world) restWorld(at feed.EnvCursor) []feed.WorldItem {
	w.t.Helper()
	r := w.openWorld(feed.EnvFrom{Cursor: at, Finite: true})
	defer r.Close()
	return rest[feed.WorldItem](w, r)
}

// worldPages reads all pages of a size.
func (w *world) worldPages(limit int) []feed.WorldItem {
	w.t.Helper()
	var out []feed.WorldItem
	var at feed.EnvCursor
	for next := &at; next != nil; {
		items, more, err := w.feed.WorldPage(w.ctx, w.key, *next, limit)
		require.NoError(w.t, err)
		require.LessOrEqual(w.t, len(items), limit)
		out, next = append(out, items...), more
	}
	return out
}

// worldMessages reads all pages of messages of a size.
func (w *world) worldMessages(limit int) []event.WorldMessage {
	w.t.Helper()
	var out []event.WorldMessage
	for after, more := int64(0), true; more; {
		messages, next, err := w.feed.WorldMessages(w.ctx, w.key, after, limit)
		require.NoError(w.t, err)
		out = append(out, messages...)
		after, more = next, next > 0
	}
	return out
}

// performWorld runs a script while a reader watches, and returns what it saw.
func performWorld(w *world, s script) []feed.WorldItem {
	r := w.openWorld(feed.EnvFrom{})
	done := make(chan []feed.WorldItem, 1)
	go func() {
		defer close(done) // also when the reader fails
		var out []feed.WorldItem
		for len(out) == 0 || !out[len(out)-1].Closed {
			out = append(out, w.nextWorld(r))
		}
		done <- out
	}()
	for _, step := range s {
		step(w)
	}
	return <-done
}

// tellWorld makes sequences readable: the type, and what it is about.
func tellWorld(items []feed.WorldItem) []string {
	var out []string
	for _, item := range items {
		text := []string{string(item.Event.Type)}
		switch d := item.Event.Data.(type) {
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

// sameWorld makes sequences comparable: events have the same id and say the same whenever
// they are read. What is live only has no time of its own.
func sameWorld(items []feed.WorldItem) []string {
	var out []string
	for _, item := range items {
		e := item.Event
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

// asked is a reply that asks for a call, and the request for its approval.
func asked(message, call, arguments string) []event.Record {
	reply := reply(message, "")
	reply.ReplyToMessageID = "said go"
	reply.ToolCalls = []event.ToolCall{{ID: call, Function: event.Function{Name: "shell_cmd", Arguments: arguments}}}
	calls := record(event.TypeToolCall, event.ToolCallEvent{AgentName: "bot", ToolCalls: reply.ToolCalls})
	calls.ID = message + ".calls"
	used := event.LLMCall{Agent: "bot", MessageID: message, Attempt: 1, Usage: event.Usage{InputTokens: 12, OutputTokens: 3}}
	return []event.Record{record(event.TypeLLMCall, used), record(event.TypeMessage, reply), calls, requested(message, call, arguments, 0)}
}

func requested(message, call, arguments string, round int) event.Record {
	r := record(event.TypeApprovalRequest, event.ApprovalRequest{
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
		ToolCallID: call, ToolName: "shell_cmd", Agent: "bot", Decision: event.Approve, Scope: event.Session, By: "ann",
		DecidedAt: decidedAt, WorkingDirectory: "/desk",
	}
	if change != nil {
		change(&a)
	}
	r := record(event.TypeApproval, a)
	r.ID = call + ".decision"
	if a.Round > 1 {
		r.ID = fmt.Sprintf("%s.decision.%d", call, a.Round)
	}
	return r
}

// returned is the record of a call's result.
func returned(message, call, output string, isError bool) event.Record {
	return event.NewRecord(call+".result", event.TypeMessage, "trace", "said go", time.Unix(1700000000, 0), event.Message{
		ID: call + ".result", ThreadID: "t1", SenderID: "shell_cmd", SenderType: event.Tool, Role: event.RoleTool, Content: output,
		ToolCallID: call, ToolName: "shell_cmd", IsError: isError, AgentID: "bot", ReplyToMessageID: message,
	})
}
