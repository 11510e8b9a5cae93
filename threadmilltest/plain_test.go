package threadmilltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/threadmilltest"
	"github.com/threadmill/threadmill/tool"
)

func said(by event.CreatedBy, content string) event.MessageEvent {
	return event.MessageEvent{CreatedBy: by, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: by, Content: content}}
}

// swear answers messages of users with a bad word.
var swear = hook.Hook{
	Name: "swear", Filter: hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByUser}},
	Func: func(ctx context.Context, e event.Event) (hook.Result, error) {
		switch m := e.(event.MessageEvent); m.Message.Content {
		case "drat":
			return hook.Respond(hook.Response{SenderType: event.CreatedBySystem, SenderID: hook.DepsOf(ctx).Context.Hook, Content: "Please."}), nil
		case "break":
			return hook.Result{}, errors.New("broken")
		}
		return hook.Pass(), nil
	},
}

func TestRunHook(t *testing.T) {
	out := threadmilltest.RunHook(t, swear, said(event.CreatedByUser, "drat"))
	require.Equal(t, event.OutcomeResponded, out.Outcome)
	require.Equal(t, "Please.", out.Responses[0].Content)
	require.Equal(t, "swear", out.Responses[0].SenderID)
	require.Equal(t, event.OutcomePassed, threadmilltest.RunHook(t, swear, said(event.CreatedByUser, "hello")).Outcome)
	require.Equal(t, event.OutcomePassed, threadmilltest.RunHook(t, swear, said(event.CreatedByAgent, "drat")).Outcome, "the filter does not select it")

	calls := hook.OnToolCall("none", func(_ context.Context, c event.ToolCallEvent) (hook.Result, error) {
		c.ToolCalls = nil
		return hook.Replace(c), nil
	})
	calls.Filter.Tools, calls.Filter.Agents = []string{"refund"}, []string{"clerk"}
	call := event.ToolCallEvent{ThreadID: "t1", AgentName: "clerk", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "refund", Arguments: "{}"}}}}
	require.Equal(t, event.OutcomeReplaced, threadmilltest.RunHook(t, calls, call).Outcome)
	call.AgentName = "depot"
	require.Equal(t, event.OutcomePassed, threadmilltest.RunHook(t, calls, call).Outcome)
}

func TestRunHookFails(t *testing.T) {
	require.Equal(t, "hook \"swear\" fails on message: broken\n", fails(t, func(t testing.TB) {
		threadmilltest.RunHook(t, swear, said(event.CreatedByUser, "break"))
	}))
	require.Contains(t, fails(t, func(t testing.TB) {
		threadmilltest.RunHook(t, hook.InWorkflow("review", hook.Workflow{Type: "Review"}), said(event.CreatedByUser, "x"))
	}), `hook "review" is a workflow: run it with the test environment of Temporal's SDK, or with New`)
	require.Contains(t, fails(t, func(t testing.TB) { threadmilltest.RunHook(t, hook.Hook{}, said(event.CreatedByUser, "x")) }), "hooks[0]: hook name")
}

func TestMatchRule(t *testing.T) {
	rules := []rule.Rule{{Name: "big", Events: []string{"order.*"}, Where: []rule.Condition{{Field: "payload.euros", Above: new(100.0)}}, Priority: 50, Agent: &rule.Agent{Name: "clerk"}}}
	placed := func(euros string) event.EnvEvent {
		return event.EnvEvent{Type: "order.placed", Payload: json.RawMessage(`{"euros":` + euros + `}`)}
	}
	require.Equal(t, "clerk", threadmilltest.MatchRule(t, rules, placed("101")).Agent.Name)
	require.Equal(t, rule.NameFallback, threadmilltest.MatchRule(t, rules, placed("99")).Name)
	require.Contains(t, fails(t, func(t testing.TB) { threadmilltest.MatchRule(t, []rule.Rule{{}}, placed("1")) }), "rules[0].")
}

func TestPolicy(t *testing.T) {
	cfg := desk(scripted.New())
	cfg.ApprovalRules = []approval.Rule{
		{Name: "small", Tools: []string{"refund"}, When: "args.euros <= 50", Effect: approval.EffectAllow},
		{Name: "huge", Tools: []string{"refund"}, When: "args.euros > 1000", Effect: approval.EffectDeny, Reason: "ask the owner"},
	}
	require.Equal(t, approval.EffectAllow, threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", 20}).Effect)
	require.Equal(t, approval.Verdict{Effect: approval.EffectAsk, Rule: "approvals", Reason: "moves money"}, threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", 100}))
	require.Equal(t, approval.Verdict{Effect: approval.EffectDeny, Rule: "huge", Reason: "ask the owner"}, threadmilltest.Policy(t, cfg, "clerk", "refund", `{"id":"A-1","euros":2000}`))
	cfg.Agents[0].Approvals = map[string]agent.Policy{"refund": agent.PolicyDeny}
	require.Equal(t, approval.EffectDeny, threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", 20}).Effect)

	for want, call := range map[string]func(t testing.TB){
		`Config.Agents has no "depot"`: func(t testing.TB) { threadmilltest.Policy(t, cfg, "depot", "refund", nil) },
		`Config.Tools has no "pay"`:    func(t testing.TB) { threadmilltest.Policy(t, cfg, "clerk", "pay", nil) },
		`the call of refund cannot run`: func(t testing.TB) {
			threadmilltest.Policy(t, cfg, "clerk", "refund", map[string]string{"euros": "many"})
		},
		`have no JSON form`: func(t testing.TB) { threadmilltest.Policy(t, cfg, "clerk", "refund", make(chan int)) },
		`agent "guest" has no tool "refund"`: func(t testing.TB) {
			cfg := desk(scripted.New())
			cfg.Agents = append(cfg.Agents, agent.Agent{Name: "guest", Model: "scripted/guest"})
			threadmilltest.Policy(t, cfg, "guest", "refund", nil)
		},
	} {
		require.Contains(t, fails(t, call), want)
	}
}

func TestCallTool(t *testing.T) {
	out, err := threadmilltest.CallTool(t, refund, order{"A-1", 20})
	require.NoError(t, err)
	require.Equal(t, "paid back 20 euros for A-1", out.Output)
	_, err = threadmilltest.CallTool(t, refund, map[string]any{"id": 7})
	var wrong *tool.ArgumentError
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "id")
}
