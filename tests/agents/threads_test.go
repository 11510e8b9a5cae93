package agents

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestSubAgentThread looks at the thread of a sub-agent, during and after its work, over every
// entry point.
//
//ci:replayed only
func TestSubAgentThread(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	id := w.Open()
	posted := w.Post(id, `use call_agent {"agent":"HELPER","message":"use wait {}","title":"Waits for it"}`)
	check.Arrives(t, g.Reached, "the tool")
	below := check.Sub(w, id, 1)
	require.True(t, strings.HasPrefix(below, id+".s"), below)
	at := signals.WorkflowID(w.TaskQueue, below)
	call := w.Messages(id)[1].ToolCalls[0].ID

	t.Run("its state names the thread above, whose state names it", func(t *testing.T) {
		state, err := w.Threads.State(w.Ctx(), below)
		require.NoError(t, err)
		require.Equal(t, id, state.Parent)
		require.Equal(t, signals.ThreadRunning, state.Status)
		require.Equal(t, []string{"helper"}, state.Agents)
		require.JSONEq(t, `{"parentThreadId":"`+id+`","parentToolCallId":"`+call+`"}`, string(state.Metadata))
		above, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Empty(t, above.Parent)
		run := check.Only(t, above.Turn.Runs)
		require.Equal(t, []string{below}, run.Threads)
		require.Equal(t, []string{"call_agent"}, run.Tools)
	})
	t.Run("Temporal lists it, with what it works for", func(t *testing.T) {
		find := func(q threadclient.ListQuery, id string) (threadclient.Summary, bool) {
			found, err := w.Threads.List(w.Ctx(), q)
			require.NoError(t, err)
			i := slices.IndexFunc(found, func(s threadclient.Summary) bool { return s.ThreadID == id })
			if i < 0 {
				return threadclient.Summary{}, false
			}
			return found[i], true
		}
		require.Eventually(t, func() bool {
			s, ok := find(threadclient.ListQuery{Agent: "helper"}, below)
			return ok && s.Parent == id && s.Title == "Waits for it" && s.Status == signals.StatusOpen
		}, testenv.Patience, testenv.Tick)
		require.Eventually(t, func() bool {
			s, ok := find(threadclient.ListQuery{}, id)
			return ok && s.Parent == ""
		}, testenv.Patience, testenv.Tick)
	})
	t.Run("the API lists it, with what it works for", func(t *testing.T) {
		status, out := check.Request(t, w, http.MethodGet, "/v1/threads?status=open", nil)
		require.Equal(t, http.StatusOK, status)
		parents := map[any]any{}
		for _, v := range out["threads"].([]any) {
			row := v.(map[string]any)
			parents[row["id"]] = row["parent"]
		}
		require.Equal(t, map[any]any{id: nil, below: id}, parents)
		status, out = check.Request(t, w, http.MethodGet, "/v1/threads/"+below, nil)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, id, out["parent"])
		require.Equal(t, "Waits for it", out["title"])
		require.Equal(t, []any{"helper"}, out["agents"])
	})
	t.Run("the command line lists and shows it", func(t *testing.T) {
		d := check.CLI{World: w}
		require.Regexp(t, `(?m)^`+below+` +`+id+` +open .* helper +Waits for it$`, d.Run(t, "list"))
		require.Contains(t, d.Run(t, "show", below), "works for thread "+id)
		require.Contains(t, d.Run(t, "show", id), "tools (call_agent) in "+below)
	})
	t.Run("people find it in Temporal", func(t *testing.T) {
		d, err := w.Temporal.DescribeWorkflow(w.Ctx(), at, "")
		require.NoError(t, err)
		require.Equal(t, signals.DelegateWorkflow, d.WorkflowType.Name)
		require.Equal(t, signals.WorkflowID(w.TaskQueue, id), d.ParentWorkflowExecution.ID)
		summary, err := d.GetStaticSummary()
		require.NoError(t, err)
		require.Equal(t, "Waits for it", summary)
		details, err := d.GetStaticDetails()
		require.NoError(t, err)
		require.Contains(t, details, "Sub-agent `helper` works for thread `"+id+"`")
		var parent string
		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(d.Memo.GetFields()[signals.MemoParent], &parent))
		require.Equal(t, id, parent)
	})

	g.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	awaitClosed(w, below)
	t.Run("it keeps its own history, and the thread above has the answer alone", func(t *testing.T) {
		require.Equal(t, "user assistant: use wait {}\nassistant helper:  [wait {}]\ntool wait: open\nassistant helper: wait returned: open\n", w.Transcript(below))
		require.Equal(t, []string{"ann", "assistant", "call_agent", "assistant"}, senders(w, id))
		result := check.ResultIn(t, w, id, "call_agent")
		require.Equal(t, "wait returned: open", result.Content)
		require.Equal(t, event.Metadata{"threadId": below}, result.Metadata, "where to look")
		for _, r := range w.Records(below) {
			if r.Type != event.TypeStatus {
				require.Equal(t, posted, r.TraceID, "S1-38 one trace in all that the turn does: %s", r.ID)
			}
		}
		log := check.Only(t, check.ToolLogs(w, id))
		require.Equal(t, "call_agent", log.ToolName)
		require.JSONEq(t, `"wait returned: open"`, string(log.Output))
		check.RequireSettled(t, w, id)
		check.RequireSettled(t, w, below)
	})
	t.Run("it is closed, and stays to be read", func(t *testing.T) {
		d := check.CLI{World: w}
		require.Eventually(t, func() bool {
			found, err := w.Threads.List(w.Ctx(), threadclient.ListQuery{})
			return err == nil && !slices.ContainsFunc(found, func(s threadclient.Summary) bool { return s.ThreadID == below })
		}, testenv.Patience, testenv.Tick)
		require.Regexp(t, `(?m)^`+below+` +`+id+` +closed `, d.Run(t, "list", "--all"))
		_, out := check.Request(t, w, http.MethodGet, "/v1/threads/"+below, nil)
		require.Equal(t, "closed", out["status"])
		status, _ := check.Request(t, w, http.MethodPost, "/v1/threads/"+below+"/messages", map[string]any{"content": "and now?"})
		require.Equal(t, http.StatusConflict, status, "it has answered, and takes no more")
	})
	t.Run("the model sees one conversation, the sub-agent another", func(t *testing.T) {
		for _, s := range check.ModelCalls(w) {
			check.RequireAnswered(t, s.Messages)
			if s.Instructions() == "You are helper." {
				require.Equal(t, "use wait {}", s.Messages[1].Content)
				require.NotContains(t, s.Raw, "Waits for it")
			}
		}
	})
}

// senders are the senders of a thread's messages, in order.
func senders(w *harness.Harness, thread string) (out []string) {
	w.T.Helper()
	for _, m := range w.Messages(thread) {
		out = append(out, m.SenderID)
	}
	return out
}

// TestSubAgentsCount adds up the usage of sub-agents, and numbers their threads.
func TestSubAgentsCount(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	w.Say(id, check.Asks("helper", "count 10")+"\n"+check.Asks("helper", "one two three"))
	w.Say(id, check.Asks("helper", "use note {}"))
	all := event.Usage{}
	for _, thread := range []string{id, check.Sub(w, id, 1), check.Sub(w, id, 2), check.Sub(w, id, 3)} {
		for _, r := range check.OfType(w, thread, event.TypeLLMCall) {
			one := harness.Payload[event.LLMCall](w, r).Usage
			one.ModelCalls = 1
			all = all.Add(one)
		}
	}
	require.Positive(t, all.OutputTokens)
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, all, state.Usage)
	require.Len(t, check.Subs(w, id), 3)
}

// TestHooksOnSubAgents: hooks see the messages of a sub-agent, and its answer as the result of the
// call.
//
//ci:replayed
func TestHooksOnSubAgents(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	guard, id := d.Hook("guard", event.TypeMessage, event.TypeToolCall), "guarded"
	// The threads of sub-agents share one rule.
	guard.Func = func(ctx context.Context, e event.Event) (hook.Result, error) {
		c := hook.DepsOf(ctx).Context
		if c.ThreadID != id {
			c.ThreadID = "below"
		}
		d.Note(c, e)
		if rule := d.Rule(c); rule != nil {
			return rule(ctx, e)
		}
		return hook.Pass(), nil
	}
	w := d.Open(t, harness.Options{Agents: check.Team()}, []hook.Hook{guard})
	require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{}, nil))
	d.Set("below", "guard", check.Saying(event.CreatedByAgent, "secret", "******"))
	d.Set(id, "guard", check.Saying(event.CreatedByTool, "tell", "say"))
	out := check.Say(w, id, check.Asks("helper", "I tell you a secret"))
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, []string{"message user", "tool_call", "message tool", "message agent"}, d.Whats(id, "guard"))
	require.Equal(t, []string{"message user", "message agent"}, d.Whats("below", "guard"))
	require.Equal(t, "I tell you a ******", check.ResultIn(t, w, id, "call-agent").Content, "the answer is what hooks have let out")
	shown := check.ModelCalls(w)
	require.Equal(t, "I say you a ******", lastMessage(shown[len(shown)-1]).Content, "and what they make of the result is what the model sees")

	t.Run("a hook answers in place of the sub-agent", func(t *testing.T) {
		d.Set("below", "guard", check.Responding(event.CreatedByUser, hook.Response{Content: "not now"}))
		check.Say(w, id, check.Asks("helper", "hello"))
		results := check.ResultsOf(w, id, "call-agent")
		require.Equal(t, "not now", results[len(results)-1].Content)
	})
	t.Run("a hook refuses the call", func(t *testing.T) {
		d.Set(id, "guard", check.OnCalls(func(c event.ToolCallEvent) hook.Result {
			return hook.Respond(hook.Response{Content: "nobody is asked"})
		}))
		out := check.Say(w, id, check.Asks("helper", "hello"))
		require.Equal(t, "nobody is asked", out.Message.Content)
		check.RequireSettled(t, w, id)
		require.Len(t, check.Subs(w, id), 2)
	})
	t.Run("a hook changes what is asked", func(t *testing.T) {
		d.Set("below", "guard", nil)
		d.Set(id, "guard", check.OnCalls(func(c event.ToolCallEvent) hook.Result {
			raw, err := json.Marshal(map[string]string{"agent": "helper", "message": "changed"})
			if err != nil {
				panic(err)
			}
			c.ToolCalls[0].Function.Arguments = string(raw)
			return hook.Replace(c)
		}))
		check.Say(w, id, check.Asks("helper", "hello"))
		results := check.ResultsOf(w, id, "call-agent")
		require.Equal(t, "changed", results[len(results)-1].Content)
	})
}
