package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
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
			event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{
				ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello",
			}},
			`{"type":"message","createdBy":"user","threadId":"t1","message":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}}`,
		},
		{
			"S0-02 message with tool calls",
			event.MessageEvent{CreatedBy: event.CreatedByAgent, ThreadID: "t1", Message: event.NewMessage{
				ThreadID: "t1", SenderID: "bot", SenderType: event.CreatedByAgent, ToolCalls: []event.ToolCall{call},
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
		{
			"S2-01 model call",
			event.LLMCallEvent{ThreadID: "t1", AgentName: "bot", Step: 1},
			`{"type":"llm_call","createdBy":"agent","threadId":"t1","agentName":"bot","step":1}`,
		},
		{
			"S2-01 model call that was changed",
			event.LLMCallEvent{ThreadID: "t1", AgentName: "bot", Step: 2, Instructions: "Be brief.", Model: "openai/small"},
			`{"type":"llm_call","createdBy":"agent","threadId":"t1","agentName":"bot","step":2,"instructions":"Be brief.","model":"openai/small"}`,
		},
		{
			"S2-04 custom",
			event.CustomEvent{Type: "order.created", ThreadID: "t1", Payload: json.RawMessage(`{"id":12345678901234567890,"x":null}`)},
			`{"type":"order.created","threadId":"t1","payload":{"id":12345678901234567890,"x":null}}`,
		},
		{
			"S2-04 custom without a payload",
			event.CustomEvent{Type: "tick", ThreadID: "t1", Payload: json.RawMessage(`null`)},
			`{"type":"tick","threadId":"t1","payload":null}`,
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
		{"a model call of a user", `{"type":"llm_call","createdBy":"user","threadId":"t1"}`, "createdBy"},
		{"a model call of nobody", `{"type":"llm_call","threadId":"t1"}`, "createdBy"},
		{"S2-02 a token", `{"type":"token","threadId":"t1","payload":{}}`, "type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := event.Unmarshal([]byte(tc.raw))
			require.ErrorIs(t, err, event.ErrInvalid)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, tc.field, field.Field)
		})
	}
	for _, raw := range []string{``, `[]`, `{"type":1}`, `{"type":"message","createdBy":"user","message":7}`, `{"type":"tool_call","createdBy":"agent","toolCalls":{}}`, `{"type":"llm_call","createdBy":"agent","step":"1"}`, `{"type":"tick","threadId":1}`} {
		_, err := event.Unmarshal([]byte(raw))
		require.Error(t, err, "%s", raw)
	}
}

// TestReserved: only the thread creates events of its own types.
func TestReserved(t *testing.T) {
	own := map[string]bool{event.TypeToolCall: true, event.TypeLLMCall: true} // hooks see these too
	for _, typ := range []string{
		event.TypeLLMCall, event.TypePrompt, event.TypeToolCall, event.TypeApprovalRequest, event.TypeApproval, event.TypeStatus, event.TypeFinal,
		event.TypeError, event.TypeRejected, event.TypeHook, event.TypeToken,
	} {
		require.True(t, event.Reserved(typ), typ)
		_, err := event.Unmarshal([]byte(asJSON(t, map[string]string{"type": typ, "createdBy": "agent", "threadId": "t1"})))
		if own[typ] {
			require.NoError(t, err, typ)
			continue
		}
		require.ErrorIs(t, err, event.ErrInvalid, typ)
	}
	for _, typ := range []string{event.TypeMessage, "order.created", "rag_ingest", "Token", "hooks", "background_task.completed"} {
		require.False(t, event.Reserved(typ), typ)
	}
}

func TestInterception(t *testing.T) {
	require.Equal(t, "e1.0.1.hook", recordid.Interception("e1.0.1"))
	for _, tc := range []struct {
		name   string
		in     event.Interception
		golden string
	}{
		{
			"passed",
			event.Interception{EventID: "e1", EventType: "message", Outcome: event.OutcomePassed, Hooks: []event.HookOutcome{{Name: "audit", Outcome: event.OutcomePassed, Attempts: 1}}},
			`{"eventId":"e1","eventType":"message","outcome":"passed","hooks":[{"name":"audit","outcome":"passed","attempts":1}]}`,
		},
		{
			"a message was replaced, after a failure",
			event.Interception{
				EventID: "e1", EventType: "message", Outcome: event.OutcomeReplaced,
				Hooks:   []event.HookOutcome{{Name: "audit", Outcome: event.OutcomeFailed, Error: "no connection", Attempts: 3}, {Name: "guard", Outcome: event.OutcomeReplaced}},
				Message: &event.Message{ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "…"},
			},
			`{"eventId":"e1","eventType":"message","outcome":"replaced","hooks":[{"name":"audit","outcome":"failed","error":"no connection","attempts":3},` +
				`{"name":"guard","outcome":"replaced"}],"message":{"id":"e1","threadId":"t1","senderId":"ann","senderType":"user","role":"user","content":"…"}}`,
		},
		{
			"calls were edited",
			event.Interception{
				EventID: "e1.0.1.calls", EventType: "tool_call", Outcome: event.OutcomeReplaced, Hooks: []event.HookOutcome{{Name: "dry", Outcome: event.OutcomeReplaced}},
				ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "sh", Arguments: ` {"dry":true}`}}}, Agent: "bot",
			},
			`{"eventId":"e1.0.1.calls","eventType":"tool_call","outcome":"replaced","hooks":[{"name":"dry","outcome":"replaced"}],` +
				`"toolCalls":[{"id":"c1","function":{"name":"sh","arguments":" {\"dry\":true}"}}],"agent":"bot"}`,
		},
		{
			"a model call was changed",
			event.Interception{
				EventID: "e1.0.1.llm", EventType: "llm_call", Outcome: event.OutcomeReplaced, Hooks: []event.HookOutcome{{Name: "cheap", Outcome: event.OutcomeReplaced}},
				LLMCall: &event.LLMCallEvent{ThreadID: "t1", AgentName: "bot", Step: 1, Model: "openai/small"},
			},
			`{"eventId":"e1.0.1.llm","eventType":"llm_call","outcome":"replaced","hooks":[{"name":"cheap","outcome":"replaced"}],` +
				`"llmCall":{"type":"llm_call","createdBy":"agent","threadId":"t1","agentName":"bot","step":1,"model":"openai/small"}}`,
		},
		{
			"it became an event of another type",
			event.Interception{
				EventID: "e1", EventType: "message", Outcome: event.OutcomeReplaced, Hooks: []event.HookOutcome{{Name: "h", Outcome: event.OutcomeReplaced}},
				Custom: &event.CustomEvent{Type: "order.created", ThreadID: "t1", Payload: json.RawMessage(`{"n":1}`)},
			},
			`{"eventId":"e1","eventType":"message","outcome":"replaced","hooks":[{"name":"h","outcome":"replaced"}],` +
				`"custom":{"type":"order.created","threadId":"t1","payload":{"n":1}}}`,
		},
		{
			"S2-24 S2-29 others were produced",
			event.Interception{EventID: "e1", EventType: "order.created", Outcome: event.OutcomeOverwritten, Hooks: []event.HookOutcome{{Name: "p", Outcome: event.OutcomeOverwritten}}, Produced: []string{"a", "b"}},
			`{"eventId":"e1","eventType":"order.created","outcome":"overwritten","hooks":[{"name":"p","outcome":"overwritten"}],"produced":["a","b"]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			record := event.NewRecord(recordid.Interception(tc.in.EventID), event.TypeHook, "", "", time.Unix(0, 0), tc.in)
			require.Equal(t, tc.golden, string(record.Payload))
			var back event.Interception
			require.NoError(t, json.Unmarshal(record.Payload, &back))
			require.Equal(t, tc.in, back)
		})
	}
}

func TestNewMessageValidate(t *testing.T) {
	whole := event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}
	calls := []event.ToolCall{{ID: "c1"}}
	for _, tc := range []struct {
		name   string
		change func(*event.NewMessage)
		field  string
	}{
		{"whole", func(*event.NewMessage) {}, ""},
		{"an agent's calls without text", func(m *event.NewMessage) { m.SenderType, m.Content, m.ToolCalls = event.CreatedByAgent, "", calls }, ""},
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
	// Every field is set, but only the fields of the type may appear.
	full := event.AgentEvent{
		Content: "c", ToolName: "n", ToolArgs: "{}", Data: json.RawMessage(`1`), Output: "o", IsError: true, Error: "e",
		Message: &event.Message{}, Approval: &event.Approval{}, Request: &event.ApprovalRequest{}, Status: &event.StatusChange{}, Detail: "d",
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
	t.Run("S1-07 final has no other field but what it belongs to", func(t *testing.T) {
		e := full
		e.Type, e.Agent, e.MessageID, e.Attempt, e.ToolCallID = event.EventFinal, "bot", "m1", 2, "c1"
		e.EventID, e.CreatedAt = "e1", time.Unix(1700000000, 0)
		require.Equal(t, []string{"agent", "createdAt", "eventId", "messageId", "type"}, slices.Sorted(slices.Values(keys(t, asJSON(t, e)))))
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
		{Type: event.EventMessage, Agent: "bot", Message: &event.Message{ID: "m1", SenderType: event.CreatedByAgent, Content: "hi"}},
		{Type: event.EventApprovalRequest, Request: &event.ApprovalRequest{ToolCallID: "c1", Arguments: "{}"}},
		{Type: event.EventApproval, Approval: &event.Approval{ToolCallID: "c1", Decision: event.DecisionDeny, By: "ann"}},
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
	t.Run("S1-16 S1-17 X1 progress: the type wins, every other field is kept", func(t *testing.T) {
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
	x := event.NewExecutionContext(ctx, "trace-1")
	t.Run("S1-33 S1-36 it is made of a trace id and a signal", func(t *testing.T) {
		require.Equal(t, "trace-1", x.TraceID())
		select {
		case <-x.Signal():
			t.Fatal("the signal is closed before the run must stop")
		default:
		}
		cause := errors.New("stop")
		cancel(cause)
		select {
		case <-x.Signal():
		default:
			t.Fatal("the signal is open though the run must stop")
		}
		require.ErrorIs(t, context.Cause(x.Context()), cause, "the context carries the same signal")
	})
	agentEvent := event.AgentEvent{Type: event.EventStream, Content: "x"}
	toolEvent := event.ToolEvent{Type: event.ToolProgress, ToolName: "n", Data: json.RawMessage(`1`)}
	t.Run("S1-34 what is made is what was given", func(t *testing.T) {
		require.Equal(t, agentEvent, x.AgentEvent(agentEvent))
		require.Equal(t, toolEvent, x.ToolEvent(toolEvent))
	})
	t.Run("S1-35 what a tool tells becomes the agent's", func(t *testing.T) {
		require.Equal(t, event.EventToolProgress, x.AdaptToolEvent(toolEvent).Type)
		require.Equal(t, event.EventToolResult, x.AdaptToolEvent(event.ToolEvent{Type: event.ToolResult, ToolName: "n"}).Type)
	})
}

func TestRoles(t *testing.T) {
	for by, role := range map[event.CreatedBy]string{event.CreatedByUser: "user", event.CreatedByAgent: "assistant", event.CreatedByTool: "tool", event.CreatedBySystem: "system", "robot": ""} {
		require.Equal(t, role, by.Role())
		require.Equal(t, role != "", by.Valid())
	}
}

func TestUsageAdds(t *testing.T) {
	u := event.Usage{InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, CacheWriteHourTokens: 6}
	require.Equal(t, event.Usage{InputTokens: 2, OutputTokens: 4, ReasoningTokens: 6, CachedTokens: 8, CacheWriteTokens: 10, CacheWriteHourTokens: 12}, u.Add(u))
	huge := event.Usage{InputTokens: math.MaxInt, OutputTokens: -1, ModelCalls: 1}
	u.InputTokens, u.ModelCalls = 1<<53-1, 2
	require.Equal(t, u, event.Usage{OutputTokens: 2, ReasoningTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, CacheWriteHourTokens: 6}.Add(huge).Add(huge))
}

func TestItemJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	t.Run("S2-36 X16 the fields of a queued event have one name each", func(t *testing.T) {
		golden := `{"id":"e1","threadId":"t1","type":"order.placed","payload":{"a":1},"status":"pending","priority":7,"ttl":3600000,` +
			`"traceId":"e0","parentEventId":"e0","namespace":"default","createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`
		it := event.Item{
			ID: "e1", ThreadID: "t1", Type: "order.placed", Payload: json.RawMessage(`{"a":1}`), Status: event.ItemPending, Priority: 7,
			TTL: 3600000, TraceID: "e0", ParentEventID: "e0", Namespace: "default", CreatedAt: at, UpdatedAt: at,
		}
		require.Equal(t, golden, asJSON(t, it))
		var back event.Item
		require.NoError(t, json.Unmarshal([]byte(golden), &back))
		require.Equal(t, it, back)
	})
}
