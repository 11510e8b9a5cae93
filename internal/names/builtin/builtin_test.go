package builtin_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/thread"
)

func TestNames(t *testing.T) {
	require.Equal(t, []string{"get_event_info", "search_knowledge", "read_result", "call_agent", "call-agent", "task", "list_tasks", "get_task", "ingest_document", "cancel_task"}, builtin.Names(), "S1-28 S3-54")
	require.Equal(t, []string{thread.ToolListTasks, thread.ToolGetTask, thread.ToolCancelTask, thread.ToolIngestDocument},
		[]string{builtin.ListTasks, builtin.GetTask, builtin.CancelTask, builtin.IngestDocument}, "the thread answers them by these names")
}

func TestLookup(t *testing.T) {
	for _, name := range builtin.Names() {
		d, ok := builtin.Lookup(name)
		require.Equal(t, !slices.Contains([]string{builtin.GetEventInfo, builtin.SearchKnowledge, builtin.ReadResult}, name), ok, name)
		if !ok {
			continue
		}
		require.Equal(t, name, d.Name)
		require.NoError(t, d.Validate())
		require.NotEmpty(t, d.Description, "models have to know what it is for")
		require.Equal(t, d.WithDefaults(), d)
		require.False(t, d.NeedsApproval, "an agent's policy may ask all the same")
		require.Equal(t, 24*time.Hour, d.Deadline)
	}
	_, ok := builtin.Lookup("deploy")
	require.False(t, ok)
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		tool, arguments string
		fits            bool
	}{
		{builtin.CallAgent, `{"agent":"bob","message":"x"}`, true},
		{builtin.CallAgent, `{"agent":"bob","message":"x","title":"y"}`, true},
		{builtin.CallAgent, `{"agent":"bob"}`, false},
		{builtin.CallAgent, `{"message":"x"}`, false},
		{builtin.CallAgent, `{"agent":"bob","message":"x","tools":[]}`, false},
		{builtin.CallAgentHyphen, `{"agent":"bob","message":"x"}`, true},
		{builtin.CallAgentHyphen, `{"agent":1,"message":"x"}`, false},
		{builtin.Task, `{"tool":"add","arguments":{"a":1}}`, true},
		{builtin.Task, `{"agent":"bob","message":"x","title":"y"}`, true},
		{builtin.Task, `{"tool":"add","arguments":"{}"}`, false},
		{builtin.Task, `{"tool":"add","deadline":5}`, false},
		{builtin.ListTasks, `{}`, true},
		{builtin.ListTasks, `{"all":true}`, false},
		{builtin.GetTask, `{"taskId":"t3"}`, true},
		{builtin.GetTask, `{}`, false},
		{builtin.GetTask, `{"taskId":3}`, false},
		{builtin.CancelTask, `{"taskId":"t3"}`, true},
		{builtin.CancelTask, `{"taskId":"t3","reason":"x"}`, false},
	} {
		d, _ := builtin.Lookup(tc.tool)
		err := d.ValidateArguments(tc.arguments)
		require.Equal(t, tc.fits, err == nil, "%s %s: %v", tc.tool, tc.arguments, err)
	}
	for tool, into := range map[string]any{
		builtin.CallAgent: &builtin.AgentArguments{}, builtin.Task: &builtin.TaskArguments{}, builtin.GetTask: &builtin.TaskIDArguments{},
	} {
		d, _ := builtin.Lookup(tool)
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		require.NoError(t, json.Unmarshal(d.Parameters, &schema))
		for name := range schema.Properties {
			value := `"x"`
			if name == "arguments" {
				value = `{"a":1}`
			}
			arguments := []byte(`{"` + name + `":` + value + `}`)
			require.NoError(t, json.Unmarshal(arguments, into))
			read, err := json.Marshal(into)
			require.NoError(t, err)
			require.Contains(t, string(read), `"`+name+`":`+value, "what the schema of %s names is read", tool)
		}
	}
}
