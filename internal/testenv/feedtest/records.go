package feedtest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/stream"
)

// Piece is a piece of a message.
func Piece(after int64, message string, attempt int, text string) stream.Entry {
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventStream, Content: text, MessageID: message, Attempt: attempt, Agent: "bot",
	}}
}

// Progress is a piece of a call's progress.
func Progress(after int64, call, data string) stream.Entry {
	raw, _ := json.Marshal(data)
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventToolProgress, ToolName: "shell_cmd", ToolCallID: call, Data: raw, Agent: "bot",
	}}
}

// Reset begins another attempt at a message.
func Reset(after int64, message string, attempt int) stream.Entry {
	return stream.Entry{After: after, Event: &event.AgentEvent{
		Type: event.EventReset, MessageID: message, Attempt: attempt, Agent: "bot",
	}}
}

// Record is a record without an id.
func Record(typ string, payload any) event.Record {
	return event.NewRecord("", typ, "trace", "", time.Unix(1700000000, 0), payload)
}

// Undated is the JSON of an event of such a record without the time.
func Undated(raw []byte) string {
	return strings.ReplaceAll(string(raw), `,"createdAt":"2023-11-14T22:13:20Z"`, "")
}

// Message is the record of a reply.
func Message(id, content string) event.Record {
	return Record(event.TypeMessage, event.Message{
		ID: id, ThreadID: "t1", SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: content,
	})
}

// Said is the record of a person's message.
func Said(content string) event.Record {
	return Record(event.TypeMessage, event.Message{
		ID: "said " + content, ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: content,
	})
}

// Result is the record of a call's result.
func Result(call, output string) event.Record {
	return Record(event.TypeMessage, event.Message{
		ID: "m-" + call, ThreadID: "t1", SenderID: "shell_cmd", SenderType: event.CreatedByTool, Role: event.RoleTool,
		Content: output, ToolCallID: call, ToolName: "shell_cmd", AgentID: "bot",
	})
}

// Calls is the record of tool calls.
func Calls(ids ...string) event.Record {
	p := event.ToolCallEvent{ThreadID: "t1", AgentName: "bot"}
	for _, id := range ids {
		p.ToolCalls = append(p.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "shell_cmd", Arguments: "{}"}})
	}
	return Record(event.TypeToolCall, p)
}

// LLMCall is the record of a model call without a message.
func LLMCall() event.Record { return Record(event.TypeLLMCall, event.LLMCall{Agent: "bot"}) }

// Closed is the record of the thread's end.
func Closed() event.Record {
	return Record(event.TypeStatus, event.StatusChange{Status: event.StatusClosed})
}

// Thought is a piece of reasoning.
func Thought(after int64, message, text string) stream.Entry {
	e := Piece(after, message, 1, text)
	e.Event.Type = event.EventThought
	return e
}

// WithCalls is the record of a reply with tool calls.
func WithCalls(id, content string, calls ...string) event.Record {
	m := Reply(id, content)
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, event.ToolCall{ID: c, Function: event.Function{Name: "shell_cmd", Arguments: "{}"}})
	}
	return Record(event.TypeMessage, m)
}

// CallOf is the record of the model call of a message.
func CallOf(message string, attempt int) event.Record {
	return Record(event.TypeLLMCall, event.LLMCall{Agent: "bot", MessageID: message, Attempt: attempt})
}

// EnvRecord is the record of an environment event.
func EnvRecord(e event.EnvEvent) event.Record {
	return event.NewRecord(e.ID, event.TypeEnv, e.ID, "", time.Unix(1700000000, 0), e)
}

// FileChanged is an environment event.
var FileChanged = event.EnvEvent{
	ID: "file-1", Type: "file.changed", Timestamp: 1600000000000, Payload: json.RawMessage(`{"path":"a.go","n":12345678901234567890}`),
	Metadata: event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceEnv, Extra: map[string]json.RawMessage{"repo": json.RawMessage(`"x"`)}},
}

// Decided is the record of a decision of hooks.
func Decided(typ string, outcome event.Outcome, hooks []event.HookOutcome, change ...func(*event.Interception)) event.Record {
	d := event.Interception{EventID: "e", EventType: typ, Outcome: outcome, Hooks: hooks}
	for _, c := range change {
		c(&d)
	}
	return Record(event.TypeHook, d)
}

// With sets the message of a decision.
func With(m event.Message) func(*event.Interception) {
	return func(d *event.Interception) { d.EventID, d.Message = m.ID, &m }
}

// Did are the actions of hooks, given as alternating names and outcomes.
func Did(pairs ...string) []event.HookOutcome {
	var out []event.HookOutcome
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, event.HookOutcome{Name: pairs[i], Outcome: event.Outcome(pairs[i+1])})
	}
	return out
}

// Reply is an agent's message.
func Reply(id, content string) event.Message {
	return event.Message{ID: id, ThreadID: "t1", SenderID: "bot", AgentID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: content}
}

// Held is the record of a reply that is held until hooks decide.
func Held(id, content string) event.Record {
	m := Reply(id, content)
	m.Held = true
	return Record(event.TypeMessage, m)
}
