package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/internal/uistream/agui"
)

// events returns the events of chunks, one line each.
func events(t *testing.T, run *agui.Run, chunks ...uistream.Chunk) string {
	t.Helper()
	var lines []string
	for _, c := range chunks {
		for _, e := range run.Events(c) {
			data, err := json.Marshal(e)
			require.NoError(t, err)
			lines = append(lines, string(data))
		}
	}
	return strings.Join(lines, "\n")
}

var reply = []uistream.Chunk{
	{Type: "start"},
	{Type: "start-step"},
	{Type: "data-agent", Data: map[string]string{"name": "bot"}},
	{Type: "text-start", ID: "r"},
	{Type: "text-delta", ID: "r", Delta: "a"},
	{Type: "text-delta", ID: "r"},
	{Type: "text-end", ID: "r"},
}

func TestText(t *testing.T) {
	run := agui.NewRun("t", "run", nil)
	assert.Equal(t, `{"type":"RUN_STARTED","threadId":"t","runId":"run","protocolVersion":"1.0"}
{"type":"TEXT_MESSAGE_START","messageId":"r","role":"assistant","name":"bot"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"r","delta":"a"}
{"type":"TEXT_MESSAGE_END","messageId":"r"}`, events(t, run, reply...))
	assert.Contains(t, events(t, run, uistream.Chunk{Type: "text-start", ID: "r"}), `"messageId":"r.2"`, "ids are used once")
	known := agui.NewRun("t", "run", map[string]bool{"r": true})
	assert.Equal(t, `{"type":"RUN_STARTED","threadId":"t","runId":"run","protocolVersion":"1.0"}`, events(t, known, reply...), "the client has it")
}

func TestOutcomes(t *testing.T) {
	call := uistream.Chunk{Type: "tool-input-available", ToolCallID: "c", ToolName: "f", Input: json.RawMessage(`{}`), Reply: "r"}
	request := uistream.Chunk{Type: "data-approval", ID: "c", Data: &event.ApprovalRequest{ToolCallID: "c", ToolName: "f", Agent: "bot"}}
	done := uistream.Chunk{Type: "tool-output-available", ToolCallID: "c", Output: json.RawMessage(`"x"`)}
	pause := uistream.Chunk{Type: "finish", FinishReason: "tool-calls"}
	for name, c := range map[string]struct {
		chunks []uistream.Chunk
		want   string
	}{
		"success":       {[]uistream.Chunk{{Type: "finish", FinishReason: "stop"}}, `"outcome":{"type":"success"}`},
		"cancelled":     {[]uistream.Chunk{{Type: "abort"}, {Type: "finish", FinishReason: "other", MessageMetadata: &uistream.UIMetadata{Turn: "interrupted"}}}, `"outcome":{"type":"cancelled"}`},
		"interrupt":     {[]uistream.Chunk{call, request, pause}, `"outcome":{"type":"interrupt","interrupts":[{"id":"c","reason":"tool_approval","message":"bot wants to call f"`},
		"frontend tool": {[]uistream.Chunk{call, pause}, `"outcome":{"type":"success","pendingToolCallIds":["c"]}`},
		"decided":       {[]uistream.Chunk{call, request, done, {Type: "finish", FinishReason: "stop"}}, `"outcome":{"type":"success"}`},
	} {
		t.Run(name, func(t *testing.T) { assert.Contains(t, events(t, agui.NewRun("t", "run", nil), c.chunks...), c.want) })
	}
	failed := events(t, agui.NewRun("t", "run", nil), uistream.Chunk{Type: "error", ErrorText: "why"}, uistream.Chunk{Type: "finish", FinishReason: "error"})
	assert.Equal(t, `{"type":"RUN_ERROR","message":"why"}`, failed, "nothing follows an error")
}

func TestSubAgents(t *testing.T) {
	call := uistream.Chunk{Type: "tool-input-available", ToolCallID: "c", ToolName: "call_agent", Input: json.RawMessage(`{"agent":"helper"}`), Reply: "r"}
	run := agui.NewRun("t", "run", nil)
	assert.Contains(t, events(t, run, call), `{"type":"SUBAGENT_STARTED","name":"helper","parentMessageId":"r","subagentRunId":"c","parentToolCallId":"c"}`)
	assert.Contains(t, events(t, run, uistream.Chunk{Type: "finish", FinishReason: "tool-calls"}), `{"type":"SUBAGENT_FINISHED","outcome":{"type":"suspended"},"subagentRunId":"c"}`)

	run = agui.NewRun("t", "run", map[string]bool{"c": true})
	assert.Contains(t, events(t, run, call), "SUBAGENT_STARTED", "each run says what goes on")
	assert.Contains(t, events(t, run, uistream.Chunk{Type: "tool-output-error", ToolCallID: "c", ErrorText: "why"}), `{"type":"SUBAGENT_ERROR","message":"why","subagentRunId":"c"}`)
	assert.NotContains(t, events(t, run, uistream.Chunk{Type: "finish"}), "SUBAGENT")

	done := agui.NewRun("t", "run", map[string]bool{"c": true, agui.ResultID("c"): true})
	assert.Empty(t, events(t, done, call, uistream.Chunk{Type: "tool-output-available", ToolCallID: "c", Output: json.RawMessage(`"x"`)}))
}

func TestCallsWithoutTextSayWhoseTheyAre(t *testing.T) {
	agent := uistream.Chunk{Type: "data-agent", Data: map[string]string{"name": "bot"}}
	call := func(id string) uistream.Chunk {
		return uistream.Chunk{Type: "tool-input-available", ToolCallID: id, ToolName: "f", Input: json.RawMessage(`{}`), Reply: "r"}
	}
	run := agui.NewRun("t", "run", nil)
	assert.Equal(t, `{"type":"TEXT_MESSAGE_START","messageId":"r","role":"assistant","name":"bot"}
{"type":"TEXT_MESSAGE_END","messageId":"r"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"r"}
{"type":"TOOL_CALL_ARGS","delta":"{}","toolCallId":"c"}
{"type":"TOOL_CALL_END","toolCallId":"c"}`, events(t, run, agent, call("c")))
	assert.NotContains(t, events(t, run, call("d")), "TEXT_MESSAGE", "once")
	assert.NotContains(t, events(t, agui.NewRun("t", "run", map[string]bool{"r": true}), agent, call("c")), "TEXT_MESSAGE", "the client has it")
}

func TestRetrievalOnce(t *testing.T) {
	found := uistream.Chunk{Type: "data-retrieval", ID: "r", Data: map[string]string{"messageId": "r"}}
	want := `{"type":"CUSTOM","name":"threadmill.retrieval","value":{"messageId":"r"}}`
	assert.Equal(t, want, events(t, agui.NewRun("t", "run", nil), found, uistream.Chunk{Type: "source-document", SourceID: "p"}))
	assert.Empty(t, events(t, agui.NewRun("t", "run", map[string]bool{"r": true}), found), "the client has the reply")
	loaded := agui.Messages{}
	loaded.Apply(agui.NewRun("t", "", nil), found)
	assert.Len(t, loaded.Retrieved(), 1, "messages do not have it")
	assert.Empty(t, loaded.List())
}
