package threadmilltest_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/threadmilltest"
)

// example stands in for the *testing.T of a test.
func example() *failing {
	f := &failing{}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

func ExampleNew() {
	t := example() // the *testing.T of your test
	defer t.end()

	rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(), scripted.New(
		scripted.Call("refund", order{"A-1", 20}),
		scripted.Say("A manager has to do this."),
	)))
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.Deny("t1", rt.WaitForApproval("t1"), "ask a manager")
	rt.Wait(turn)
	fmt.Print(rt.Transcript("t1"))
	// Output:
	// ann: Please pay back A-1.
	// clerk calls refund {"id":"A-1","euros":20}
	//   needs approval within 24h0m0s: moves money
	//   denied by ann: ask a manager
	//   failed: Tool execution was denied by the user. Reason: ask a manager
	// clerk: A manager has to do this.
	// -- turn completed
}

func ExampleRunHook() {
	t := example() // the *testing.T of your test

	polite := hook.OnMessage("polite", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		if m.Message.Content == "drat" {
			return hook.Respond(hook.Response{SenderType: event.CreatedBySystem, SenderID: "polite", Content: "Please."}), nil
		}
		return hook.Pass(), nil
	})
	out := threadmilltest.RunHook(t, polite, event.MessageEvent{
		CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: "ann", Content: "drat"},
	})
	fmt.Println(out.Outcome, out.Responses[0].Content)
	// Output: responded Please.
}

func ExampleMatchRule() {
	t := example() // the *testing.T of your test

	rules := []rule.Rule{{
		Events: []string{"order.placed"}, Where: []rule.Condition{{Field: "payload.euros", Above: new(1000.0)}},
		Priority: 50, Agent: &rule.Agent{Name: "clerk"},
	}}
	matched := threadmilltest.MatchRule(t, rules, event.EnvEvent{Type: "order.placed", Payload: json.RawMessage(`{"euros": 2000}`)})
	fmt.Println(matched.Name, matched.Agent.Name)
	// Output: order.placed clerk
}

func ExamplePolicy() {
	t := example() // the *testing.T of your test

	cfg := configuration()
	cfg.ApprovalRules = []approval.Rule{{Name: "small", When: "args.euros <= 50", Effect: approval.EffectAllow}}
	for _, euros := range []int{20, 900} {
		verdict := threadmilltest.Policy(t, cfg, "clerk", "refund", order{"A-1", euros})
		fmt.Printf("%d %s %q\n", euros, verdict.Effect, verdict.Reason)
	}
	// Output:
	// 20 allow ""
	// 900 ask "moves money"
}

func ExampleCallTool() {
	t := example() // the *testing.T of your test
	defer t.end()

	result, err := threadmilltest.CallTool(t, refund, order{"A-1", 20})
	fmt.Println(result.Output, err)
	_, err = threadmilltest.CallTool(t, refund, map[string]any{"id": "A-1", "euros": "many"})
	fmt.Println(err)
	// Output:
	// paid back 20 euros for A-1 <nil>
	// Tool parameter validation failed for refund: euros: must be an integer, but is a string
}
