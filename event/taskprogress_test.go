package event_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func TestTaskProgress(t *testing.T) {
	task := event.Task{ID: "t1~t2", Tool: "build", Agent: "bot", ToolCallID: "call_1"}
	t.Run("S3-54 names the task and the call that started it", func(t *testing.T) {
		e, err := task.Progress(map[string]int{"percent": 40})
		require.NoError(t, err)
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"tool_progress","toolName":"build","toolCallId":"call_1","agent":"bot",
			"data":{"subtype":"task_progress","taskId":"t1~t2","data":{"percent":40}}}`, string(raw))

		var read event.AgentEvent
		require.NoError(t, json.Unmarshal(raw, &read))
		p, ok := read.TaskProgress()
		require.True(t, ok)
		require.Equal(t, event.TaskProgress{Subtype: "task_progress", TaskID: "t1~t2", Data: json.RawMessage(`{"percent":40}`)}, p)
	})
	t.Run("raw JSON stays what it is", func(t *testing.T) {
		e, err := task.Progress(json.RawMessage(`[12345678901234567890]`))
		require.NoError(t, err)
		p, ok := e.TaskProgress()
		require.True(t, ok)
		require.JSONEq(t, `[12345678901234567890]`, string(p.Data))
		require.Contains(t, string(p.Data), "12345678901234567890")
	})
	t.Run("what has no JSON form is refused", func(t *testing.T) {
		for _, data := range []any{json.RawMessage(`{`), func() {}} {
			_, err := task.Progress(data)
			require.Error(t, err)
		}
	})
	for name, e := range map[string]event.AgentEvent{
		"a tool's own progress": {Type: event.EventToolProgress, Data: json.RawMessage(`{"percent":40}`)},
		"progress of no object": {Type: event.EventToolProgress, Data: json.RawMessage(`40`)},
		"without data":          {Type: event.EventToolProgress},
		"another type":          {Type: event.EventToolResult, Data: json.RawMessage(`{"subtype":"task_progress"}`)},
	} {
		t.Run(name+" is none", func(t *testing.T) {
			_, ok := e.TaskProgress()
			require.False(t, ok)
		})
	}
}
