package event_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestParseContent(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    event.ToolResultMessage
	}{
		"S4-15 a decision": {
			`{"__type":"tool_result","tool_call_id":"approval_c1","agentId":"bot","content":"{\"decision\":\"approve\",\"scope\":\"session\",\"toolName\":\"shell_cmd\",\"toolArgs\":{\"command\":\"ls\"},\"workingDirectory\":\"/desk\"}"}`,
			event.ToolResultMessage{
				ToolCallID: "approval_c1", TargetAgentID: "bot",
				Content: `{"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":{"command":"ls"},"workingDirectory":"/desk"}`,
				Data: event.ToolResultData{
					ToolCallID: "approval_c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, ToolName: "shell_cmd",
					ToolArgs: json.RawMessage(`{"command":"ls"}`), WorkingDirectory: "/desk",
				},
			},
		},
		"S4-15 an object for its content": {
			`{"__type":"tool_result","tool_call_id":"c1","content":{"decision":"deny","toolName":"x"}}`,
			event.ToolResultMessage{
				ToolCallID: "c1", Content: `{"decision":"deny","toolName":"x"}`,
				Data: event.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny, ToolName: "x"},
			},
		},
		"null is nothing": {
			`{"__type":"tool_result","tool_call_id":"c1","agentId":null,"content":"{\"decision\":\"deny\",\"scope\":null,\"toolArgs\":null}"}`,
			event.ToolResultMessage{
				ToolCallID: "c1", Content: `{"decision":"deny","scope":null,"toolArgs":null}`,
				Data: event.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny},
			},
		},
		"words decide nothing":           {`{"__type":"tool_result","tool_call_id":"c1","content":"approve"}`, nothing("approve")},
		"nor does no content":            {`{"__type":"tool_result","tool_call_id":"c1","content":null}`, nothing("")},
		"nor a field of another type":    {`{"__type":"tool_result","tool_call_id":"c1","content":{"decision":"approve","toolName":7}}`, nothing(`{"decision":"approve","toolName":7}`)},
		"nor one for an unreadable name": {`{"__type":"tool_result","tool_call_id":"c1","agentId":7,"content":{"decision":"approve"}}`, nothing(`{"decision":"approve"}`)},
		"nor one in another case":        {`{"__type":"tool_result","tool_call_id":"c1","content":{"Decision":"approve"}}`, nothing(`{"Decision":"approve"}`)},
		"nor two":                        {`{"__type":"tool_result","tool_call_id":"c1","content":"{\"decision\":\"deny\",\"decision\":\"approve\"}"}`, nothing(`{"decision":"deny","decision":"approve"}`)},
		"nor one beside another case":    {`{"__type":"tool_result","tool_call_id":"c1","content":"{\"decision\":\"deny\",\"DECISION\":\"approve\"}"}`, nothing(`{"decision":"deny","DECISION":"approve"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok, warning := event.ParseContent(test.content)
			assert.True(t, ok)
			assert.Empty(t, warning)
			assert.Equal(t, test.want, got)
		})
	}
	for _, content := range []string{
		"", "approve", "null", "7", `"__type"`, `[{"__type":"tool_result"}]`, `{"__type":"tool_result"`, `{"a":1}`,
		`{"tool_call_id":"c1"}`, `{"__type":"text","tool_call_id":"c1"}`, `{"__type":7,"tool_call_id":"c1"}`, `{"__TYPE":"tool_result","tool_call_id":"c1"}`,
	} {
		t.Run("S4-16 taken as it is: "+content, func(t *testing.T) {
			got, ok, warning := event.ParseContent(content)
			assert.False(t, ok)
			assert.Empty(t, warning)
			assert.Zero(t, got)
		})
	}
	for _, content := range []string{
		`{"__type":"tool_result","content":"{}"}`, `{"__type":"tool_result","tool_call_id":""}`, `{"__type":"tool_result","tool_call_id":7}`,
	} {
		t.Run("S4-17 a warning: "+content, func(t *testing.T) {
			got, ok, warning := event.ParseContent(content)
			assert.False(t, ok)
			assert.Contains(t, warning, "no tool_call_id")
			assert.Zero(t, got)
		})
	}
}

// nothing returns a tool result for call c1 with empty data.
func nothing(content string) event.ToolResultMessage {
	return event.ToolResultMessage{ToolCallID: "c1", Content: content, Data: event.ToolResultData{ToolCallID: "c1"}}
}

func TestToolResultContent(t *testing.T) {
	d := event.ToolResultData{
		ToolCallID: "c1", Decision: event.DecisionApprove, Scope: event.ScopeSession, ToolName: "shell_cmd",
		ToolArgs: json.RawMessage(`{"command":"a && b","env":{"list":[1,{"deep":true}]}}`), WorkingDirectory: "/desk",
	}
	content, err := d.Content("bot")
	require.NoError(t, err)
	t.Run("S4-T1 S4-04 structure", func(t *testing.T) {
		var fields map[string]string
		require.NoError(t, json.Unmarshal([]byte(content), &fields))
		assert.Equal(t, "tool_result", fields["__type"])
		assert.Equal(t, "c1", fields["tool_call_id"])
		assert.Equal(t, "bot", fields["agentId"])
		assert.Equal(t, `{"decision":"approve","scope":"session","toolName":"shell_cmd","toolArgs":{"command":"a && b","env":{"list":[1,{"deep":true}]}},"workingDirectory":"/desk"}`,
			fields["content"], "S4-T4 its content is JSON, S4-T10 nested arguments as they are")
	})
	t.Run("S4-T7 it can be parsed", func(t *testing.T) {
		m, ok, warning := event.ParseContent(content)
		require.True(t, ok)
		assert.Empty(t, warning)
		assert.Equal(t, d, m.Data)
		assert.Equal(t, "bot", m.TargetAgentID)
	})
	t.Run("S4-T8 as little as a denial", func(t *testing.T) {
		content, err := event.ToolResultData{ToolCallID: "c1", Decision: event.DecisionDeny, ToolName: "x"}.Content("")
		require.NoError(t, err)
		assert.Equal(t, `{"__type":"tool_result","tool_call_id":"c1","content":"{\"decision\":\"deny\",\"toolName\":\"x\"}"}`, content)
	})
	t.Run("arguments that are no JSON", func(t *testing.T) {
		_, err := event.ToolResultData{ToolArgs: json.RawMessage("{")}.Content("")
		require.EqualError(t, err, "toolArgs: is not valid JSON: unexpected end of JSON input")
	})
}

func TestApprovalCallID(t *testing.T) {
	for id, want := range map[string]struct {
		call  string
		round int
	}{
		"approval_call_1":   {"call_1", 1},
		"approval2_call_1":  {"call_1", 2},
		"approval12_2_x.y":  {"2_x.y", 12},
		"approval_approval": {"approval", 1},
	} {
		call, round := event.ParseApprovalCallID(id)
		assert.Equal(t, want.call, call)
		assert.Equal(t, want.round, round)
		assert.Equal(t, id, event.ApprovalCallID(call, round))
	}
	assert.Equal(t, "approval_x", event.ApprovalCallID("x", 0), "a request without a round is the first")
	for _, id := range []string{"", "call_1", "approval", "approval_", "approvalx_1", "approval1_x", "approval02_x", "approval-2_x", "approval99999999999999999999_x"} {
		call, round := event.ParseApprovalCallID(id)
		assert.Equal(t, id, call, "the call itself")
		assert.Zero(t, round)
	}
}

func TestParseContentTakesOneMeaningOnly(t *testing.T) {
	for _, content := range []string{
		`{"__type":"tool_result","tool_call_id":"c1","TOOL_CALL_ID":"c2","content":{"decision":"approve"}}`,
		`{"__type":"tool_result","tool_call_id":"c1","tool_call_id":"c2","content":{"decision":"approve"}}`,
		`{"__type":"text","__type":"tool_result","tool_call_id":"c1","content":{"decision":"deny"},"Content":{"decision":"approve"}}`,
		`{"__type":"tool_result","tool_call_id":"c1","content":{"decision":"deny","decision":"approve"}}`,
	} {
		m, ok, warning := event.ParseContent(content)
		require.False(t, ok)
		require.Zero(t, m)
		require.Contains(t, warning, "is ambiguous")
	}
}

func FuzzParseContent(f *testing.F) {
	f.Add("hello", "c1", "bot", `{"a":1}`, "approve")
	f.Add(`{"__type":"tool_result","tool_call_id":"c1","content":"{}"}`, "", "", "", "deny")
	f.Add(`{"__type":"tool_result","content":{"toolArgs":[[[]]]}}`, "\xff", "\u2028", `"x"`, "")
	f.Fuzz(func(t *testing.T, content, id, agent, args, decision string) {
		m, ok, warning := event.ParseContent(content)
		if ok {
			require.NotEmpty(t, m.ToolCallID)
			require.Equal(t, m.ToolCallID, m.Data.ToolCallID)
			require.True(t, json.Valid([]byte(content)), "only JSON is a decision")
			require.Empty(t, warning)
		} else {
			require.Zero(t, m, "all else is taken as it is")
		}
		made, err := event.ToolResultData{ToolCallID: id, Decision: event.Decision(decision), ToolArgs: json.RawMessage(args)}.Content(agent)
		if err != nil {
			require.Error(t, event.ValidateJSON("toolArgs", []byte(args)))
			return
		}
		m, ok, _ = event.ParseContent(made)
		require.Equal(t, id != "", ok, "what is made can be read")
		if !ok {
			return
		}
		again, err := m.Data.Content(m.TargetAgentID)
		require.NoError(t, err)
		same, ok, _ := event.ParseContent(again)
		require.True(t, ok)
		require.Equal(t, m.Data, same.Data)
		require.Equal(t, m.TargetAgentID, same.TargetAgentID)
	})
}
