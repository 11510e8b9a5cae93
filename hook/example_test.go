package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// said returns a message for hooks.
func said(by event.CreatedBy, sender, content string) event.MessageEvent {
	return event.MessageEvent{CreatedBy: by, ThreadID: "t1", Message: event.NewMessage{
		ThreadID: "t1", SenderID: sender, SenderType: by, Content: content,
	}}
}

// show runs a hook as a thread does and prints its decision.
func show(h hook.Hook, e event.Event) {
	answer, err := h.Run(context.Background(), e, hook.Deps{})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println(answer.Outcome)
	for _, r := range answer.Responses {
		fmt.Println(" ", r.Content)
	}
	if answer.Event != nil {
		raw, err := json.Marshal(answer.Event)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(" ", string(raw))
	}
}

// A hook that answers instead of the agent. After a response, no model is called.
func ExampleOnMessage() {
	guard := hook.OnMessage("guard", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		if strings.Contains(m.Message.Content, "password") {
			return hook.Respond(hook.Response{Content: "I do not talk about passwords.", SenderType: event.CreatedBySystem}), nil
		}
		return hook.Pass(), nil
	})
	guard.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}

	show(guard, said(event.CreatedByUser, "ann", "hello"))
	show(guard, said(event.CreatedByUser, "ann", "tell me the password"))
	// Output:
	// passed
	// responded
	//   I do not talk about passwords.
}

// A hook that redacts replies. With HoldOutput, nobody sees a reply before the hook has run.
func ExampleOnMessage_redact() {
	redact := hook.OnMessage("redact", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		m.Message.Content = strings.ReplaceAll(m.Message.Content, "4711", "…")
		return hook.Replace(m), nil
	})
	redact.Filter.CreatedBy = []event.CreatedBy{event.CreatedByAgent}
	redact.HoldOutput = true

	show(redact, said(event.CreatedByAgent, "clerk", "The code is 4711."))
	show(redact, said(event.CreatedByAgent, "clerk", "There is no code."))
	// Output:
	// replaced
	//   {"type":"message","createdBy":"agent","threadId":"t1","message":{"threadId":"t1","senderId":"clerk","senderType":"agent","content":"The code is …."}}
	// passed
}

// A hook that removes a tool call of an agent before it runs.
func ExampleOnToolCall() {
	noDeletes := hook.OnToolCall("no-deletes", func(_ context.Context, c event.ToolCallEvent) (hook.Result, error) {
		var kept []event.ToolCall
		for _, call := range c.ToolCalls {
			if call.Function.Name != "delete" {
				kept = append(kept, call)
			}
		}
		c.ToolCalls = kept
		return hook.Replace(c), nil
	})

	show(noDeletes, event.ToolCallEvent{ThreadID: "t1", AgentName: "clerk", ToolCalls: []event.ToolCall{
		{ID: "call_1", Function: event.Function{Name: "find", Arguments: `{"id": 7}`}},
		{ID: "call_2", Function: event.Function{Name: "delete", Arguments: `{"id": 7}`}},
	}})
	// Output:
	// replaced
	//   {"type":"tool_call","createdBy":"agent","threadId":"t1","agentName":"clerk","toolCalls":[{"id":"call_1","function":{"name":"find","arguments":"{\"id\": 7}"}}]}
}

// A hook that adds to an agent's instructions for one model call.
func ExampleOnLLMCall() {
	hurry := hook.OnLLMCall("hurry", func(_ context.Context, c event.LLMCallEvent) (hook.Result, error) {
		if c.Step < 3 {
			return hook.Pass(), nil
		}
		c.Instructions = "Come to an end."
		return hook.Replace(c), nil
	})

	show(hurry, event.LLMCallEvent{ThreadID: "t1", AgentName: "clerk", Step: 3})
	// Output:
	// replaced
	//   {"type":"llm_call","createdBy":"agent","threadId":"t1","agentName":"clerk","step":3,"instructions":"Come to an end."}
}

// An inline hook runs in the thread's workflow. It costs nothing while it lets events pass.
func ExampleInline() {
	polite := hook.Inline("polite", func(_ hook.Context, e event.Event) (hook.Result, error) {
		if m, ok := e.(event.MessageEvent); ok && strings.ToUpper(m.Message.Content) == m.Message.Content {
			return hook.Respond(hook.Response{Content: "Please do not shout.", SenderType: event.CreatedBySystem}), nil
		}
		return hook.Pass(), nil
	})
	polite.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}

	show(polite, said(event.CreatedByUser, "ann", "HELLO"))
	// Output:
	// responded
	//   Please do not shout.
}

// A hook sends its idempotency key to a service, so that a second attempt does not count twice.
func ExampleDepsOf() {
	audit := hook.OnEvent("audit", func(ctx context.Context, e event.Event) (hook.Result, error) {
		deps := hook.DepsOf(ctx)
		fmt.Printf("PUT /audit/%s %s, attempt %d\n", deps.Context.Key(), e.EventType(), deps.Context.Attempt)
		return hook.Pass(), nil
	})

	deps := hook.Deps{Context: hook.Context{Hook: "audit", Namespace: "default", ThreadID: "t1", EventID: "e1", Attempt: 2}}
	if _, err := audit.Run(context.Background(), said(event.CreatedByUser, "ann", "hello"), deps); err != nil {
		fmt.Println(err)
	}
	// Output:
	// PUT /audit/default/t1/e1/audit message, attempt 2
}

// A processor for a custom type turns its events into messages.
func ExampleProcess() {
	type order struct {
		Customer string `json:"customer"`
		Item     string `json:"item"`
	}
	orders := hook.Process("order.placed", func(_ context.Context, o order, _ hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.Message(event.CreatedByUser, "shop", o.Customer+" has ordered a "+o.Item+". Thank them.")}, nil
	})

	placed := event.CustomEvent{Type: "order.placed", ThreadID: "t1", Payload: json.RawMessage(`{"customer": "ann", "item": "kettle"}`)}
	answer, err := orders.Run(context.Background(), placed, hook.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Outcome)
	for _, made := range answer.Produced {
		fmt.Println(made.Type, string(made.Payload))
	}
	// Output:
	// overwritten
	// message {"threadId":"t1","senderId":"shop","senderType":"user","content":"ann has ordered a kettle. Thank them."}
}

// A hook workflow, in any language, is registered by its type. This is the result with which it
// answers a message.
func ExampleInWorkflow() {
	review := hook.InWorkflow("review", hook.Workflow{Type: "Review", TaskQueue: "reviews"})
	review.Filter.CreatedBy = []event.CreatedBy{event.CreatedByAgent}
	if err := review.Validate(); err != nil {
		fmt.Println(err)
	}

	var verdict hook.Verdict
	if err := json.Unmarshal([]byte(`{"responses": [{"content": "Nobody has released the reply.", "senderType": "system"}]}`), &verdict); err != nil {
		fmt.Println(err)
	}
	answer, err := verdict.Read(said(event.CreatedByAgent, "clerk", "You get nothing."))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Outcome, "·", answer.Responses[0].Content)
	// Output:
	// responded · Nobody has released the reply.
}
