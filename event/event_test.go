package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// keys returns the names of an object's fields.
func keys(t *testing.T, raw string) []string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(raw), &fields))
	out := make([]string, 0, len(fields))
	for k := range fields {
		out = append(out, k)
	}
	return out
}

func TestEventJSON(t *testing.T) {
	call := event.ToolCall{ID: "call_1", Function: event.Function{Name: "add", Arguments: `{"a":1}`}}
	for _, tc := range []struct {
		name   string
		event  event.Event
		golden string
	}{
		{
			"S0-02 message",
			event.MessageEvent{CreatedBy: event.User, ThreadID: "t1", Message: event.NewMessage{
				ThreadID: "t1", SenderID: "ann", SenderType: event.User, Content: "hello",
			}},
			`{"type":"message","createdBy":"user","threadId":"t1","message":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}}`,
		},
		{
			"S0-02 message with tool calls",
			event.MessageEvent{CreatedBy: event.Agent, ThreadID: "t1", Message: event.NewMessage{
				ThreadID: "t1", SenderID: "bot", SenderType: event.Agent, ToolCalls: []event.ToolCall{call},
			}},
			`{"type":"message","createdBy":"agent","threadId":"t1","message":{"threadId":"t1","senderId":"bot","senderType":"agent","content":"",` +
				`"toolCalls":[{"id":"call_1","function":{"name":"add","arguments":"{\"a\":1}"}}]}}`,
		},
		{
			"S0-04 tool call",
			event.ToolCallEvent{ThreadID: "t1", AgentName: "bot", ToolCalls: []event.ToolCall{call, call}},
			`{"type":"tool_call","createdBy":"agent","threadId":"t1","agentName":"bot","toolCalls":[` +
				`{"id":"call_1","function":{"name":"add","arguments":"{\"a\":1}"}},{"id":"call_1","function":{"name":"add","arguments":"{\"a\":1}"}}]}`,
		},
	} {
		t.Run("S0-01 "+tc.name, func(t *testing.T) {
			require.Equal(t, tc.golden, asJSON(t, tc.event))
			back, err := event.Unmarshal([]byte(tc.golden))
			require.NoError(t, err)
			require.Equal(t, tc.event, back)
			require.Equal(t, tc.golden, asJSON(t, back))
		})
	}
}

func TestEventRefused(t *testing.T) {
	for _, tc := range []struct{ name, raw, field string }{
		{"S0-01 a type outside the union", `{"type":"status"}`, "type"},
		{"S0-01 no type", `{}`, "type"},
		{"S0-02 createdBy missing", `{"type":"message","threadId":"t1"}`, "createdBy"},
		{"S0-02 createdBy of another kind", `{"type":"message","createdBy":"robot"}`, "createdBy"},
		{"S0-04 a tool call of a user", `{"type":"tool_call","createdBy":"user","threadId":"t1"}`, "createdBy"},
		{"S0-04 a tool call of nobody", `{"type":"tool_call","threadId":"t1"}`, "createdBy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := event.Unmarshal([]byte(tc.raw))
			require.ErrorIs(t, err, event.ErrInvalid)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, tc.field, field.Field)
		})
	}
	for _, raw := range []string{``, `[]`, `{"type":1}`, `{"type":"message","createdBy":"user","message":7}`, `{"type":"tool_call","createdBy":"agent","toolCalls":{}}`} {
		_, err := event.Unmarshal([]byte(raw))
		require.Error(t, err, "%s", raw)
	}
}

func TestNewMessageValidate(t *testing.T) {
	whole := event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.User, Content: "hello"}
	calls := []event.ToolCall{{ID: "c1"}}
	for _, tc := range []struct {
		name   string
		change func(*event.NewMessage)
		field  string
	}{
		{"whole", func(*event.NewMessage) {}, ""},
		{"an agent's calls without text", func(m *event.NewMessage) { m.SenderType, m.Content, m.ToolCalls = event.Agent, "", calls }, ""},
		{"no thread", func(m *event.NewMessage) { m.ThreadID = "" }, "threadId"},
		{"no sender", func(m *event.NewMessage) { m.SenderID = "" }, "senderId"},
		{"no sender type", func(m *event.NewMessage) { m.SenderType = "" }, "senderType"},
		{"unknown sender type", func(m *event.NewMessage) { m.SenderType = "robot" }, "senderType"},
		{"no content", func(m *event.NewMessage) { m.Content = "" }, "content"},
		{"a person's calls without text", func(m *event.NewMessage) { m.Content, m.ToolCalls = "", calls }, "content"},
	} {
		t.Run("S0-03 "+tc.name, func(t *testing.T) {
			m := whole
			tc.change(&m)
			err := m.Validate()
			if tc.field == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, event.ErrInvalid)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, tc.field, field.Field)
		})
	}
}

func TestArgumentsStayAString(t *testing.T) {
	for _, arguments := range []string{
		`{ "a" :  1 ,"b":12345678901234567890.10}`, `{"a":1e400}`, `not json`, ``, "{\n\t\"x\": \"\\u003c & < ü \\ud83d\\ude00\"}", `{"a":1,"a":2}`,
	} {
		e := event.ToolCallEvent{ThreadID: "t1", AgentName: "bot", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "f", Arguments: arguments}}}}
		record := event.NewRecord("r1", event.TypeToolCall, "", "", time.Unix(0, 0), e)
		back, err := event.Unmarshal(record.Payload)
		require.NoError(t, err)
		require.Equal(t, arguments, back.(event.ToolCallEvent).ToolCalls[0].Function.Arguments, "S0-05")
		var m event.Message
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, event.Message{ID: "m", ToolCalls: e.ToolCalls})), &m))
		require.Equal(t, arguments, m.ToolCalls[0].Function.Arguments, "S0-05")
	}
}

func TestRecordPayloadWithoutJSONForm(t *testing.T) {
	require.PanicsWithValue(t, "event: payload of record r1 has no JSON form: json: unsupported type: chan int", func() {
		event.NewRecord("r1", "x", "", "", time.Unix(0, 0), make(chan int))
	})
}

func TestAgentEventBaseTypes(t *testing.T) {
	require.Equal(t, []event.AgentEventType{"thought", "tool_call", "tool_progress", "tool_result", "stream", "final", "error"}, event.BaseEventTypes, "S1-01")
	// Every field is set: only those of the type may show.
	full := event.AgentEvent{
		Content: "c", ToolName: "n", ToolArgs: "{}", Data: json.RawMessage(`1`), Output: "o", IsError: true, Error: "e",
		Message: &event.Message{}, Approval: &event.Approval{}, ApprovalRequest: &event.ApprovalRequest{}, Status: &event.StatusChange{}, Detail: "d",
	}
	for _, tc := range []struct {
		name   string
		typ    event.AgentEventType
		golden string
	}{
		{"S1-02 thought", event.EventThought, `{"type":"thought","content":"c"}`},
		{"S1-03 tool_call", event.EventToolCall, `{"type":"tool_call","toolName":"n","toolArgs":"{}"}`},
		{"S1-04 tool_progress", event.EventToolProgress, `{"type":"tool_progress","toolName":"n","data":1}`},
		{"S1-05 tool_result", event.EventToolResult, `{"type":"tool_result","toolName":"n","output":"o","isError":true}`},
		{"S1-06 stream", event.EventStream, `{"type":"stream","content":"c"}`},
		{"S1-07 final", event.EventFinal, `{"type":"final"}`},
		{"S1-08 error", event.EventError, `{"type":"error","error":"e"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := full
			e.Type = tc.typ
			require.Equal(t, tc.golden, asJSON(t, e))
			var back event.AgentEvent
			require.NoError(t, json.Unmarshal([]byte(tc.golden), &back))
			require.Equal(t, tc.golden, asJSON(t, back))
			require.Equal(t, tc.typ == event.EventFinal || tc.typ == event.EventError, e.Terminal(), "S1-23")
		})
	}
	t.Run("S1-07 final has no other field", func(t *testing.T) {
		e := full
		e.Type, e.Agent, e.MessageID, e.Attempt, e.ToolCallID = event.EventFinal, "bot", "m1", 2, "c1"
		require.Equal(t, []string{"type"}, keys(t, asJSON(t, e)))
	})
	t.Run("required fields show when they are empty", func(t *testing.T) {
		for typ, golden := range map[event.AgentEventType]string{
			event.EventThought:      `{"type":"thought","content":""}`,
			event.EventToolCall:     `{"type":"tool_call","toolName":"","toolArgs":""}`,
			event.EventToolProgress: `{"type":"tool_progress","toolName":"","data":null}`,
			event.EventToolResult:   `{"type":"tool_result","toolName":"","output":""}`,
			event.EventStream:       `{"type":"stream","content":""}`,
			event.EventError:        `{"type":"error","error":""}`,
		} {
			require.Equal(t, golden, asJSON(t, event.AgentEvent{Type: typ}))
		}
	})
}

func TestAgentEventExtensions(t *testing.T) {
	for _, e := range []event.AgentEvent{
		{Type: event.EventStream, Content: "x", MessageID: "m1", Attempt: 2, Agent: "bot"},
		{Type: event.EventToolResult, ToolName: "n", Output: "o", ToolCallID: "c1", Agent: "bot"},
		{Type: event.EventMessage, Agent: "bot", Message: &event.Message{ID: "m1", SenderType: event.Agent, Content: "hi"}},
		{Type: event.EventApprovalRequest, ApprovalRequest: &event.ApprovalRequest{ToolCallID: "c1", Arguments: "{}"}},
		{Type: event.EventApproval, Approval: &event.Approval{ToolCallID: "c1", Decision: event.Deny, By: "ann"}},
		{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusOpened, Agents: []string{"a"}}},
		{Type: event.EventReset, MessageID: "m1", Attempt: 2},
		{Type: event.EventGap, Detail: "some"},
	} {
		var back event.AgentEvent
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, e)), &back))
		require.Equal(t, e, back)
	}
	var newer event.AgentEvent
	require.NoError(t, json.Unmarshal([]byte(`{"type":"hologram","depth":3}`), &newer), "an older client survives a newer server")
	require.Equal(t, event.AgentEventType("hologram"), newer.Type)
}

func TestToolEvents(t *testing.T) {
	x := event.NewExecutionContext(context.Background(), "trace")
	t.Run("S1-16 S1-17 progress: the type wins, every other field is kept", func(t *testing.T) {
		in := event.ToolEvent{Type: event.ToolProgress, ToolName: "sh", Data: json.RawMessage(`{"type":"progress"}`)}
		require.Equal(t, `{"type":"progress","toolName":"sh","data":{"type":"progress"}}`, asJSON(t, in))
		out := x.AdaptToolEvent(in)
		require.Equal(t, event.AgentEvent{Type: event.EventToolProgress, ToolName: "sh", Data: in.Data}, out)
		require.Equal(t, `{"type":"tool_progress","toolName":"sh","data":{"type":"progress"}}`, asJSON(t, out))
	})
	t.Run("S1-16 S1-17 result", func(t *testing.T) {
		in := event.ToolEvent{Type: event.ToolResult, ToolName: "sh", Output: "done", IsError: true}
		require.Equal(t, `{"type":"result","toolName":"sh","output":"done","isError":true}`, asJSON(t, in))
		require.Equal(t, event.AgentEvent{Type: event.EventToolResult, ToolName: "sh", Output: "done", IsError: true}, x.AdaptToolEvent(in))
	})
	t.Run("S1-18 data is opaque", func(t *testing.T) {
		for _, data := range []string{`"text"`, `12345678901234567890`, `1.0`, `null`, `true`, `[1,"a",{"b":null}]`, `{"subtype":"stdout_chunk","content":"a\nb"}`} {
			out := asJSON(t, x.AdaptToolEvent(event.ToolEvent{Type: event.ToolProgress, ToolName: "new", Data: json.RawMessage(data)}))
			var back event.AgentEvent
			require.NoError(t, json.Unmarshal([]byte(out), &back))
			require.Equal(t, data, string(back.Data))
		}
	})
}

func TestExecutionContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	x := event.NewExecutionContext(ctx, "trace-1") // S1-36
	require.Equal(t, "trace-1", x.TraceID(), "S1-33")
	select {
	case <-x.Signal():
		t.Fatal("S1-33 the signal is closed before the run must stop")
	default:
	}
	cause := errors.New("stop")
	cancel(cause)
	<-x.Signal()
	require.ErrorIs(t, context.Cause(x.Context()), cause, "S1-33 the context carries the same signal")

	agentEvent := event.AgentEvent{Type: event.EventStream, Content: "x"}
	toolEvent := event.ToolEvent{Type: event.ToolProgress, ToolName: "n", Data: json.RawMessage(`1`)}
	require.Equal(t, agentEvent, x.AgentEvent(agentEvent), "S1-34")
	require.Equal(t, toolEvent, x.ToolEvent(toolEvent), "S1-34")
	require.Equal(t, event.EventToolProgress, x.AdaptToolEvent(toolEvent).Type, "S1-35")
}

func TestRoles(t *testing.T) {
	for by, role := range map[event.CreatedBy]string{event.User: "user", event.Agent: "assistant", event.Tool: "tool", event.System: "system", "robot": ""} {
		require.Equal(t, role, by.Role())
		require.Equal(t, role != "", by.Valid())
	}
}

func TestUsageAdds(t *testing.T) {
	u := event.Usage{InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4}
	require.Equal(t, event.Usage{InputTokens: 2, OutputTokens: 4, ReasoningTokens: 6, CachedTokens: 8}, u.Add(u))
}
