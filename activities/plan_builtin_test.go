package activities_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// risky is a tool that needs approval.
var risky = tool.MustFunc("risky", "Asks.", func(context.Context, tool.Call, struct{}) (string, error) {
	return "risked", nil
}, tool.NeedsApproval("it is risky"))

// long is a tool that may run for days, even after its thread was closed.
var long = tool.MustFunc("long", "Takes long.", func(context.Context, tool.Call, struct{}) (string, error) {
	return "done", nil
}, tool.Background(), tool.Deadline(72*time.Hour), tool.Detached())

// planOf plans a call, and returns its result if it cannot run.
func planOf(t *testing.T, change func(*activities.Config), c event.ToolCall) (step.PlannedCall, string) {
	t.Helper()
	w := newFixture(t, func(cfg *activities.Config) {
		withOwnTools(cfg)
		if change != nil {
			change(cfg)
		}
	}, add, risky, long)
	input := w.asked(c)
	out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, Only: []string{c.ID}})
	require.NoError(t, err)
	require.Len(t, out.Calls, 1)
	p := out.Calls[0]
	if !p.Invalid {
		return p, ""
	}
	input.Invalid = true
	_, err = w.runTool(input)
	require.NoError(t, err)
	m := stored[event.Message](w, recordid.Result(c.ID))
	require.True(t, m.IsError, "S1-32 S4-72")
	return p, m.Content
}

// policy sets the approval policy of a tool.
func policy(name string, p agent.Policy) func(*activities.Config) {
	return func(c *activities.Config) {
		agents := c.Agents.(agent.Fixed)
		agents[0].Approvals = map[string]agent.Policy{name: p}
	}
}

func TestPlanOfOwnTools(t *testing.T) {
	day := 24 * time.Hour
	for _, tc := range []struct {
		name      string
		tool      string
		arguments string
		change    func(*activities.Config)
		want      step.PlannedCall
	}{
		{
			"a sub-agent", "call_agent", `{"agent":"BOB","message":"do it","title":"Help"}`, nil,
			step.PlannedCall{By: step.ByAgent, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it", Title: "Help"}},
		},
		{
			"S1-28 a sub-agent, by the older name", "call-agent", `{"agent":"bob","message":"do it"}`, nil,
			step.PlannedCall{By: step.ByAgent, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it"}},
		},
		{
			"a sub-agent that people have to allow", "call_agent", `{"agent":"bob","message":"do it"}`, policy("call_agent", agent.PolicyAlways),
			step.PlannedCall{
				By: step.ByAgent, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it"},
				NeedsApproval: true, Arguments: `{"agent":"bob","message":"do it"}`, Rule: "approvals",
			},
		},
		{
			"S3-54 a task", "task", `{"tool":"add","arguments":{"a":1,"b":2},"title":"Add them"}`, nil,
			step.PlannedCall{By: step.ByTask, Task: &step.TaskPlan{Tool: "add", Title: "Add them", Deadline: day}},
		},
		{
			"a task without arguments and title", "task", `{"tool":"long"}`, nil,
			step.PlannedCall{By: step.ByTask, Task: &step.TaskPlan{Tool: "long", Title: "long", Deadline: 3 * day, Detached: true}},
		},
		{
			"a task of a tool that asks", "task", `{"tool":"risky"}`, nil,
			step.PlannedCall{
				By: step.ByTask, Task: &step.TaskPlan{Tool: "risky", Title: "risky", Deadline: day},
				NeedsApproval: true, Arguments: `{"tool":"risky"}`, Reason: "it is risky", Rule: "approvals",
			},
		},
		{
			"a task of a tool that need not ask any more", "task", `{"tool":"risky"}`, policy("risky", agent.PolicyNever),
			step.PlannedCall{By: step.ByTask, Task: &step.TaskPlan{Tool: "risky", Title: "risky", Deadline: day}},
		},
		{
			"tasks of which people are asked", "task", `{"tool":"add","arguments":{"a":1,"b":2}}`, policy("task", agent.PolicyAlways),
			step.PlannedCall{
				By: step.ByTask, Task: &step.TaskPlan{Tool: "add", Title: "add", Deadline: day},
				NeedsApproval: true, Arguments: `{"tool":"add","arguments":{"a":1,"b":2}}`, Rule: "approvals",
			},
		},
		{
			"a sub-agent in the background", "task", `{"agent":"bob","message":"do it","title":"Help"}`, nil,
			step.PlannedCall{
				By: step.ByTask, Task: &step.TaskPlan{Title: "Help", Deadline: day}, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it", Title: "Help"},
			},
		},
		{
			"a sub-agent in the background that people have to allow", "task", `{"agent":"bob","message":"do it"}`, policy("call_agent", agent.PolicyAlways),
			step.PlannedCall{
				By: step.ByTask, Task: &step.TaskPlan{Deadline: day}, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it"},
				NeedsApproval: true, Arguments: `{"agent":"bob","message":"do it"}`, Rule: "approvals",
			},
		},
		{"S3-54 all tasks", "list_tasks", `{}`, nil, step.PlannedCall{By: step.ByThread}},
		{"one task", "get_task", `{"taskId":"t3"}`, nil, step.PlannedCall{By: step.ByThread, TaskID: "t3"}},
		{"to cancel a task", "cancel_task", `{"taskId":"t1~t3"}`, nil, step.PlannedCall{By: step.ByThread, TaskID: "t1~t3"}},
		{
			"S3-01 a tool that runs in the background", "long", `{}`, nil,
			step.PlannedCall{By: step.ByTask, Task: &step.TaskPlan{Tool: "long", Title: "long", Deadline: 3 * day, Detached: true}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.ID, tc.want.Name = "c1", tc.tool
			got, _ := planOf(t, tc.change, call("c1", tc.tool, tc.arguments))
			require.Equal(t, got.NeedsApproval, got.Approval != nil && got.Guard != nil, "who is asked is told how, and about what")
			got.Approval, got.Guard = nil, nil
			require.Equal(t, tc.want, got)
		})
	}
}

// TestOwnToolsThatCannotRun: the model gets the reason, and no approval is requested.
func TestOwnToolsThatCannotRun(t *testing.T) {
	for _, tc := range []struct{ name, tool, arguments, want string }{
		{"S1-32 an unknown agent", "call_agent", `{"agent":"eve","message":"do it"}`, `Error: unknown agent: "eve"; known are [assistant bob]`},
		{"S1-32 an unknown agent, by the older name", "call-agent", `{"agent":"eve","message":"do it"}`, `Error: unknown agent: "eve"`},
		{"no agent", "call_agent", `{"agent":"","message":"do it"}`, "Error: agent is required"},
		{"nothing to do", "call_agent", `{"agent":"bob","message":""}`, "Error: message is required"},
		{"too much to do", "call_agent", `{"agent":"bob","message":"` + strings.Repeat("x", 128<<10) + `"}`, "Error: message is 131074 bytes as JSON, must be at most 131072"},
		{"markup, which takes more", "call_agent", `{"agent":"bob","message":"` + strings.Repeat("<", 22<<10) + `"}`, "Error: message is 135170 bytes as JSON"},
		{"no message at all", "call_agent", `{"agent":"bob"}`, "Error: Tool parameter validation failed for call_agent"},
		{"more than it takes", "call_agent", `{"agent":"bob","message":"x","model":"y"}`, "Error: Tool parameter validation failed for call_agent"},
		{"a task of nothing", "task", `{}`, `Error: unknown tool "": a task runs one of your other tools`},
		{"a task of an unknown tool", "task", `{"tool":"deploy"}`, `Error: unknown tool "deploy"`},
		{"a task of a task", "task", `{"tool":"task","arguments":{"tool":"add"}}`, `Error: unknown tool "task"`},
		{"a task of the other way to ask an agent", "task", `{"tool":"call_agent","arguments":{"agent":"bob","message":"x"}}`, `Error: unknown tool "call_agent"`},
		{"a task with arguments that do not fit", "task", `{"tool":"add","arguments":{"a":"x"}}`, "Error: Tool parameter validation failed for add"},
		{"a task of both", "task", `{"tool":"add","agent":"bob","message":"x"}`, "Error: tool and agent exclude each other"},
		{"a task of an unknown agent", "task", `{"agent":"eve","message":"x"}`, `Error: unknown agent: "eve"`},
		{"a task of an agent that has nothing to do", "task", `{"agent":"bob"}`, "Error: message is required"},
		{"no task", "get_task", `{}`, "Error: Tool parameter validation failed for get_task"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, why := planOf(t, policy(tc.tool, agent.PolicyAlways), call("c1", tc.tool, tc.arguments))
			require.Equal(t, step.PlannedCall{ID: "c1", Name: tc.tool, Invalid: true, Quick: true}, p)
			require.True(t, strings.HasPrefix(why, tc.want), why)
		})
	}
}

// TestOwnToolsAreForThoseThatListThem: agents have built-in tools only if they list them.
func TestOwnToolsAreForThoseThatListThem(t *testing.T) {
	w := newFixture(t, nil, add)
	for name, arguments := range map[string]string{
		"call_agent": `{"agent":"bob","message":"x"}`, "call-agent": `{"agent":"bob","message":"x"}`, "task": `{"tool":"add"}`,
		"list_tasks": `{}`, "get_task": `{"taskId":"t1"}`, "cancel_task": `{"taskId":"t1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.append(store.Batch{Records: []event.Record{message(event.Message{
				ID: "m." + name, SenderType: event.CreatedByAgent, AgentID: "assistant", ToolCalls: []event.ToolCall{call("c."+name, name, arguments)},
			})}})
			out, err := w.planCalls(step.Plan{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "m." + name}, Only: []string{"c." + name}})
			require.NoError(t, err)
			require.True(t, out.Calls[0].Invalid)
			require.Empty(t, out.Calls[0].By)
		})
	}
}

// TestLongTitles: a model's title of a task is cut, not rejected.
func TestLongTitles(t *testing.T) {
	title := strings.Repeat("é", 200)
	p, _ := planOf(t, nil, call("c1", "call_agent", `{"agent":"bob","message":"x","title":"`+title+`"}`))
	require.Equal(t, title[:200]+"…", p.SubAgent.Title)
	p, _ = planOf(t, nil, call("c1", "task", `{"tool":"long","title":"`+title+`"}`))
	require.Equal(t, title[:200]+"…", p.Task.Title)
}

// TestAgentMayNotAskOthersByATask: tasks need the tool for it.
func TestAgentMayNotAskOthersByATask(t *testing.T) {
	only := func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: []string{"task", "add"}}, {Name: "bob", Model: "fake/small"}}
	}
	p, why := planOf(t, only, call("c1", "task", `{"agent":"bob","message":"x"}`))
	require.True(t, p.Invalid)
	require.Equal(t, `Error: agent "bob" cannot be called: that requires the tool call_agent; your tools are [task add]`, why)
}

// TestModelsAreToldOfOwnTools: model calls describe them like other tools.
func TestModelsAreToldOfOwnTools(t *testing.T) {
	w := newFixture(t, withOwnTools, add)
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	var names []string
	for _, described := range w.model.requests[0].Tools {
		names = append(names, described.Name)
		require.NotEmpty(t, described.Description)
		require.NotEmpty(t, described.Parameters)
	}
	require.Equal(t, []string{"add", "task", "call_agent", "call-agent", "list_tasks", "get_task", "cancel_task"}, names)
}
