package threadmilltest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest"
	"github.com/threadmill/threadmill/tool"
)

// expiring asks for approval of refunds, within a day.
var expiring = []approval.Rule{{
	Name: "money", Tools: []string{"refund"}, Effect: approval.EffectAsk,
	Terms: approval.Terms{Expires: 24 * time.Hour, Remind: 10 * time.Hour},
}}

func TestAdvanceExpiresApprovals(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(scripted.Call("refund", order{"A-1", 20}), scripted.Say("Nobody has decided.")))
	cfg.ApprovalRules = expiring
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.WaitForApproval("t1")
	rt.Advance("t1", 23*time.Hour)
	require.Len(t, rt.WaitForApprovals("t1", 1), 1, "an hour is left")
	rt.Advance("t1", time.Hour)
	require.Equal(t, "Nobody has decided.", rt.Wait(turn).Message.Content)
	require.Equal(t, `ann: Please pay back A-1.
clerk calls refund {"id":"A-1","euros":20}
  needs approval within 24h0m0s: moves money
  reminder: needs approval within 24h0m0s: moves money
  reminder: needs approval within 24h0m0s: moves money
  expired
  failed: Nobody has decided on this call within 24h0m0s. It was not run.
clerk: Nobody has decided.
-- turn completed
`, rt.Transcript("t1"))
}

func TestAdvanceRetriesModels(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.RateLimited(time.Hour), scripted.Overloaded(), scripted.Say("hello").BreakOff(), scripted.Say("hello again"))
	rt := threadmilltest.New(t, desk(model))
	turn := rt.Say("t1", "hello")
	rt.Advance("t1", 2*time.Hour)
	require.Equal(t, "hello again", rt.Wait(turn).Message.Content)
	require.Len(t, model.Requests(), 4)
}

// TestAdvanceGivesUp: the time for which a model call is retried is that of the thread.
func TestAdvanceGivesUp(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Reply{Err: scripted.Overloaded().Err, Always: true})
	cfg := desk(model)
	cfg.ModelRetries = map[string]llm.Retry{"scripted": {For: 330 * time.Minute, InitialInterval: time.Hour, MaxInterval: time.Hour, Backoff: 1}}
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "hello")
	rt.Advance("t1", 4*time.Hour+30*time.Minute)
	require.Len(t, model.Requests(), 5)
	rt.Advance("t1", time.Hour)
	require.Contains(t, rt.Fails(turn), "overloaded (gave up after")
	require.Len(t, model.Requests(), 6)
}

func TestAdvanceDebounces(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(scripted.Say("I have seen the change.").OnEvent("file.changed")))
	cfg.Rules = []rule.Rule{{Events: []string{"file.changed"}, Priority: 50, Debounce: time.Hour, Agent: &rule.Agent{Name: "clerk"}}}
	rt := threadmilltest.New(t, cfg)
	rt.Open("t1", signals.Start{})
	for i := range 3 {
		rt.Emit("t1", "file.changed", map[string]int{"line": i})
	}
	rt.Advance("t1", 59*time.Minute)
	require.NotContains(t, rt.Transcript("t1"), "clerk:")
	rt.Advance("t1", time.Minute)
	rt.WaitIdle("t1")
	require.Contains(t, rt.Transcript("t1"), "clerk: I have seen the change.")
}

func TestAdvanceExpiresMessages(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, desk(scripted.New(scripted.Call("refund", order{"A-1", 20}))))
	rt.Say("t1", "Please pay back A-1.")
	rt.WaitForApproval("t1")
	late, err := rt.Send(t.Context(), event.NewMessage{ThreadID: "t1", Content: "Are you there?"},
		threadmill.SendOptions{TTL: time.Hour, OnWaiting: event.OnWaitingHold})
	require.NoError(t, err)
	rt.Advance("t1", 61*time.Minute)
	require.Equal(t, signals.TurnExpired, rt.Wait(late).Status)
}

// review is a hook workflow that releases a message after a day.
func review(ctx workflow.Context, _ hook.Request) (hook.Verdict, error) {
	return hook.Verdict{}, workflow.Sleep(ctx, 24*time.Hour)
}

// TestAdvanceHooks: hook workflows, which are children of children of the thread, go along. What is left
// of the time passes for the thread.
func TestAdvanceHooks(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(scripted.Call("refund", order{"A-1", 20}).On("A-1"), scripted.Say("done")))
	h := hook.InWorkflow("review", hook.Workflow{Type: "review"})
	h.Filter = hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}
	cfg.Hooks = []hook.Hook{h}
	cfg.RegisterWith = func(w worker.Registry) {
		w.RegisterWorkflowWithOptions(review, workflow.RegisterOptions{Name: "review"})
	}
	cfg.ApprovalRules = expiring
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "Please pay back A-1.")
	require.Equal(t, signals.HookWorkflowID(rt.Client().Namespace(), "t1", turn.EventID())+"/review", rt.WaitForHook("t1", "review"))
	rt.Advance("t1", 23*time.Hour)
	require.NotContains(t, rt.Transcript("t1"), "calls refund")
	rt.Advance("t1", 13*time.Hour) // one for the hook, and half a day for the approval
	rt.WaitForApproval("t1")
	rt.Advance("t1", 13*time.Hour)
	require.Equal(t, "done", rt.Wait(turn).Message.Content)
	require.Contains(t, rt.Transcript("t1"), "  expired\n")
}

// TestAdvanceSubAgents: the request of a sub-agent expires, and the agents above go on.
func TestAdvanceSubAgents(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(
		scripted.Call("call_agent", map[string]string{"agent": "cashier", "message": "Pay back A-1."}).For("clerk"),
		scripted.Call("refund", order{"A-1", 20}).For("cashier"),
		scripted.Say("Nobody has decided.").For("cashier"),
		scripted.Say("Sorry.").For("clerk"),
	))
	cfg.Agents = []agent.Agent{
		{Name: "clerk", Model: "scripted/clerk", Tools: []string{"call_agent"}},
		{Name: "cashier", Model: "scripted/cashier", Tools: []string{"refund"}},
	}
	cfg.ApprovalRules = expiring
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.WaitForApproval("t1")
	rt.Advance("t1", 25*time.Hour)
	require.Equal(t, "Sorry.", rt.Wait(turn).Message.Content)
}

// TestAdvanceTasks: a background task that nobody completes fails at its deadline.
func TestAdvanceTasks(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(
		scripted.Call("survey", nil), scripted.Say("I have asked for a survey."),
		scripted.Say("The survey failed.").OnEvent(event.TypeBackgroundTaskFailed),
	))
	cfg.Tools = []tool.Tool{tool.MustFunc("survey", "Asks people.", func(context.Context, tool.Call, struct{}) (string, error) {
		return "", tool.ErrPending
	}, tool.Background(), tool.Deadline(6*time.Hour))}
	cfg.Agents[0].Tools = []string{"survey"}
	rt := threadmilltest.New(t, cfg)
	require.Equal(t, "I have asked for a survey.", rt.Ask("t1", "Please ask people."))
	rt.Advance("t1", 7*time.Hour)
	rt.WaitIdle("t1")
	require.Contains(t, rt.Transcript("t1"), "clerk: The survey failed.")
}

// TestAdvanceMissesNothing: what would be due while a child keeps the thread's clock from moving fails the
// test, and what is not due does not.
func TestAdvanceMissesNothing(t *testing.T) {
	t.Parallel()
	said := fails(t, func(t testing.TB) {
		cfg := desk(scripted.New(scripted.Call("survey", nil), scripted.Say("I have asked for a survey.")))
		cfg.Tools = []tool.Tool{tool.MustFunc("survey", "Asks people.", func(context.Context, tool.Call, struct{}) (string, error) {
			return "", tool.ErrPending
		}, tool.Background(), tool.Deadline(6*time.Hour))}
		cfg.Agents[0].Tools = []string{"survey"}
		cfg.Rules = []rule.Rule{{Events: []string{"file.changed"}, Priority: 50, Debounce: time.Hour, Agent: &rule.Agent{Name: "clerk"}}}
		rt := threadmilltest.New(t, cfg)
		rt.Ask("t1", "Please ask people.")
		rt.Emit("t1", "file.changed", nil)
		rt.WaitIdle("t1")
		rt.Advance("t1", 30*time.Minute)
		rt.Advance("t1", 2*time.Hour)
	})
	require.Contains(t, said, `Advance by 2h0m0s: a timer of the thread is due after `)
	require.NotContains(t, said, "Advance by 30m0s")
}
