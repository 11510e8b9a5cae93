package signals

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestDecideOf(t *testing.T) {
	message := func(id, agent string, d event.ToolResultData) event.ToolResultMessage {
		d.ToolCallID = id
		content, err := d.Content(agent)
		require.NoError(t, err)
		m, ok, _ := event.ParseContent(content)
		require.True(t, ok)
		return m
	}
	approved := event.ToolResultData{
		Decision: event.DecisionApprove, Scope: event.ScopeSession, ToolName: "shell_cmd", ToolArgs: json.RawMessage(`{"command":"ls"}`), WorkingDirectory: "/desk",
	}
	want := Decide{
		ToolCallID: "call_1", Decision: event.DecisionApprove, Scope: event.ScopeSession, By: "ann", Agent: "bot",
		ToolName: "shell_cmd", ToolArgs: json.RawMessage(`{"command":"ls"}`), WorkingDirectory: "/desk",
	}
	t.Run("S4-04 on the call itself", func(t *testing.T) {
		assert.Equal(t, want, DecideOf(message("call_1", "bot", approved), "ann"))
		assert.NoError(t, want.Validate())
	})
	t.Run("S4-75 on the request for approval", func(t *testing.T) {
		assert.Equal(t, want, DecideOf(message("approval_call_1", "bot", approved), "ann"))
	})
	t.Run("on another round of it", func(t *testing.T) {
		got := DecideOf(message("approval3_call_1", "bot", approved), "ann")
		assert.Equal(t, 3, got.Round)
		assert.Equal(t, "call_1", got.ToolCallID)
	})
	t.Run("S4-93 arguments are descriptive: none are to run", func(t *testing.T) {
		assert.Empty(t, DecideOf(message("call_1", "bot", approved), "ann").Args)
	})
	t.Run("S4-T8 a denial", func(t *testing.T) {
		got := DecideOf(message("call_1", "", event.ToolResultData{Decision: event.DecisionDeny, ToolName: "x"}), "ann")
		assert.Equal(t, Decide{ToolCallID: "call_1", Decision: event.DecisionDeny, By: "ann", ToolName: "x"}, got)
		assert.NoError(t, got.Validate())
	})
	t.Run("what decides nothing is refused", func(t *testing.T) {
		m, ok, _ := event.ParseContent(`{"__type":"tool_result","tool_call_id":"call_1","content":"approve"}`)
		require.True(t, ok)
		assert.EqualError(t, DecideOf(m, "ann").Validate(), `decision: "" is neither approve nor deny`)
	})
}
