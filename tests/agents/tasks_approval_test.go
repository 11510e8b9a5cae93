package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestTaskApproval: a task needs approval before it starts, like any call.
func TestTaskApproval(t *testing.T) {
	t.Parallel()
	work := check.NewJobs()
	deploy := work.Tool("deploy", tool.Background(), tool.NeedsApproval("it goes live"))
	erase, build := work.Tool("erase", tool.NeedsApproval("it is gone then")), work.Tool("build", tool.Background())
	with := func(name string, policies map[string]agent.Policy) agent.Agent {
		a := check.TaskAgent(deploy, erase, build)
		a.Name, a.Approvals = name, policies
		return a
	}
	const byTask = `use task {"tool":%q,"arguments":{"job":"a"}}`
	w := check.OpenTasks(t, harness.Options{Agents: []agent.Agent{
		with("plain", nil),
		with("strict", map[string]agent.Policy{"build": agent.PolicyAlways}),
		with("wary", map[string]agent.Policy{"task": agent.PolicyAlways}),
		with("bold", map[string]agent.Policy{"*": agent.PolicyNever, "build": agent.PolicyAlways}),
		with("bolder", map[string]agent.Policy{"task": agent.PolicyNever}),
		with("reckless", map[string]agent.Policy{"deploy": agent.PolicyNever, "erase": agent.PolicyNever}),
	}}, deploy, erase, build)

	for _, c := range []struct {
		who, says string
		reason    string
	}{
		{"plain", check.Use("deploy", "a"), "it goes live"},
		{"plain", fmt.Sprintf(byTask, "deploy"), "it goes live"},
		{"plain", fmt.Sprintf(byTask, "erase"), "it is gone then"},
		{"strict", check.Use("build", "a"), ""},
		{"strict", fmt.Sprintf(byTask, "build"), ""},
		{"wary", fmt.Sprintf(byTask, "build"), ""},
		{"bold", fmt.Sprintf(byTask, "build"), ""},
		{"bolder", fmt.Sprintf(byTask, "erase"), "it is gone then"},
	} {
		t.Run("S3-54 asks: "+c.who+" "+c.says, func(t *testing.T) {
			id := w.Open(c.who)
			posted := w.Post(id, c.says)
			request := w.AwaitApproval(id, 1)[0]
			require.Equal(t, c.reason, request.Reason)
			require.JSONEq(t, strings.SplitN(c.says, " ", 3)[2], request.Arguments)
			require.Empty(t, check.TasksOf(w, id), "nothing has started")
			require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, request.ToolCallID))
			require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
			task := check.Only(t, check.TasksOf(w, id))
			require.Equal(t, request.ToolCallID, task.ToolCallID)
			work.Of("a").Begins(t)
			work.Of("a").Returns("done")
			require.Equal(t, `"done"`, string(check.AwaitTold(t, w, task).End.Result))
		})
	}
	t.Run("denied, nothing starts", func(t *testing.T) {
		id := w.Open("plain")
		posted := w.Post(id, fmt.Sprintf(byTask, "deploy"))
		request := w.AwaitApproval(id, 1)[0]
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: request.ToolCallID, Decision: event.DecisionDeny, By: "ann", Reason: "not on a Friday"})
		require.NoError(t, err)
		require.Equal(t, signals.DecideAccepted, out.Result)
		require.Contains(t, w.Await(id, posted).Message.Content, "not on a Friday")
		require.Empty(t, check.TasksOf(w, id))
		require.Empty(t, work.Of("a").Begun)
	})
	for _, says := range []string{check.Use("build", "a"), fmt.Sprintf(byTask, "build")} {
		t.Run("does not ask: plain "+says, func(t *testing.T) { taskUnasked(t, w, work, "plain", says) })
	}
	for _, name := range []string{"deploy", "erase"} {
		t.Run("does not ask: reckless "+name, func(t *testing.T) { taskUnasked(t, w, work, "reckless", fmt.Sprintf(byTask, name)) })
	}
}

func taskUnasked(t *testing.T, w *harness.Harness, work *check.Jobs, who, says string) {
	t.Helper()
	task := check.StartTask(t, w, w.Open(who), says)
	work.Of("a").Begins(t)
	work.Of("a").Returns("done")
	require.Equal(t, event.TypeBackgroundTaskCompleted, check.AwaitTold(t, w, task).Event.Type)
}

// TestTaskHooks: hooks see, change and reject the start and the end of a task.
func TestTaskHooks(t *testing.T) {
	t.Parallel()
	work, d := check.NewJobs(), check.NewDesk()
	build := work.Tool("build", tool.Background())
	open := func(t *testing.T, h hook.Hook) *harness.Harness {
		return d.Open(t, harness.Options{Agents: []agent.Agent{check.TaskAgent(build)}, Tools: []tool.Tool{build}}, []hook.Hook{h})
	}
	for kind, h := range map[string]hook.Hook{"in a workflow": d.Hook("first"), "inline": d.Inline("first")} {
		w := open(t, h)
		t.Run("S0-30 "+kind+" they see the result of the call that starts it", func(t *testing.T) {
			id := w.Open()
			d.Set(id, "first", check.Saying(event.CreatedByTool, "Started in the background", "Begun"))
			task := check.StartTask(t, w, id, check.Use("build", "a"))
			made := check.DecisionOn(w, id, recordid.Result(task.ToolCallID))
			require.Equal(t, event.OutcomeReplaced, made.Outcome)
			require.Contains(t, made.Message.Content, "Begun as task "+task.ID)
			require.Contains(t, w.Messages(id)[3].Content, "Begun as task "+task.ID, "the model has seen what they made of it")
			work.Of("a").Begins(t)
			work.Of("a").Returns("1")
			require.Equal(t, "1", string(check.AwaitTold(t, w, task).End.Result), "and the task goes on")
		})
		t.Run("S0-30 "+kind+" what they make of the call is what runs", func(t *testing.T) {
			id := w.Open()
			d.Set(id, "first", check.OnCalls(func(c event.ToolCallEvent) hook.Result {
				c.ToolCalls[0].Function.Arguments = `{"job":"b"}`
				return hook.Replace(c)
			}))
			task := check.StartTask(t, w, id, check.Use("build", "a"))
			require.JSONEq(t, `{"job":"b"}`, work.Of("b").Begins(t).Arguments)
			work.Of("b").Returns("2")
			require.Equal(t, "2", string(check.AwaitTold(t, w, task).End.Result))
			require.Empty(t, work.Of("a").Begun)
		})
		t.Run("S0-30 "+kind+" they see the event, and what they make of it is what the agent is shown", func(t *testing.T) {
			id := w.Open()
			d.Set(id, "first", func(_ context.Context, e event.Event) (hook.Result, error) {
				env, ok := e.(event.EnvEvent)
				if !ok {
					return hook.Pass(), nil
				}
				env.Payload = json.RawMessage(strings.ReplaceAll(string(env.Payload), "secret", "…"))
				return hook.Replace(env), nil
			})
			task := check.StartTask(t, w, id, check.Use("build", "a"))
			work.Of("a").Begins(t)
			work.Of("a").Returns("the secret")
			require.Equal(t, signals.TurnCompleted, check.AwaitTold(t, w, task).Turn.Status)
			require.Contains(t, w.Messages(id)[6].Content, "the …")
			require.Empty(t, check.ModelsOf(w, "the secret"))
			d.Set(id, "first", nil)
		})
	}
	w := open(t, d.Hook("first"))
	t.Run("S0-30 one that answers in place of the call starts nothing", func(t *testing.T) {
		id := w.Open()
		d.Set(id, "first", check.OnCalls(func(_ event.ToolCallEvent) hook.Result {
			return hook.Respond(hook.Response{Content: "not today", SenderType: event.CreatedBySystem})
		}))
		require.Equal(t, "not today", check.Say(w, id, check.Use("build", "c")).Message.Content)
		require.Empty(t, check.TasksOf(w, id))
		require.Empty(t, work.Of("c").Begun)
		check.RequireSettled(t, w, id)
	})
}
