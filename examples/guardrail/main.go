// Command guardrail intercepts events before they take effect: its hooks block a question, hide a
// number in a reply from all viewers, and deny a tool.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"regexp"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

var card = regexp.MustCompile(`\b\d{4} \d{4} \d{4} \d{4}\b`)

// hooks run in this order.
func hooks() []hook.Hook {
	// A response in place of a question means that no model is called.
	block := hook.OnMessage("block", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		if strings.Contains(m.Message.Content, "password") {
			return hook.Respond(hook.Response{Content: "I do not talk about passwords."}), nil
		}
		return hook.Pass(), nil
	})
	block.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}

	// A replacement is what viewers and models see. Until then, viewers see neither the reply nor its
	// pieces.
	redact := hook.OnMessage("redact", func(_ context.Context, m event.MessageEvent) (hook.Result, error) {
		m.Message.Content = card.ReplaceAllString(m.Message.Content, "[card number]")
		return hook.Replace(m), nil
	})
	redact.Filter.CreatedBy, redact.HoldOutput = []event.CreatedBy{event.CreatedByAgent}, true

	// A response in place of tool calls means that none of them runs.
	deny := hook.OnToolCall("deny", func(_ context.Context, _ event.ToolCallEvent) (hook.Result, error) {
		return hook.Respond(hook.Response{SenderType: event.CreatedBySystem, SenderID: "policy", Content: "Orders are not deleted here."}), nil
	})
	deny.Filter.Tools = []string{"delete_order"}
	return []hook.Hook{block, redact, deny}
}

var deleteOrder = tool.MustFunc("delete_order", "Deletes an order.",
	func(context.Context, tool.Call, struct{}) (string, error) {
		return "deleted", nil
	})

func main() {
	taskQueue := flag.String("task-queue", "example-guardrail", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "clerk", Model: "demo/any", Tools: []string{"delete_order"}}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:  []tool.Tool{deleteOrder},
		Hooks:  hooks(),
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	for _, said := range []string{"what is the password?", "my card is 4111 1111 1111 1111", "use delete_order"} {
		if err := talk(ctx, runtime, event.NewMessage{ThreadID: id, SenderID: "ann", Content: said}); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, id)
}

// talk prints a turn as a viewer of the thread sees it, including pieces of replies.
func talk(ctx context.Context, runtime *threadmill.Runtime, m event.NewMessage) error {
	run, err := runtime.Send(ctx, m, threadmill.SendOptions{Stream: true, Start: signals.Start{Agents: []string{"clerk"}}})
	if err != nil {
		return err
	}
	for e, err := range run.Events() {
		if err != nil {
			return err
		}
		switch e.Type {
		case event.EventStream:
			fmt.Printf("a piece: %q\n", e.Content)
		case event.EventMessage:
			if e.Message.Content != "" {
				fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
			}
		case event.EventToolCall:
			fmt.Printf("%s calls %s\n", e.Agent, e.ToolName)
		case event.EventToolResult:
			fmt.Printf("%s: %s\n", e.ToolName, e.Output)
		case event.EventStatus:
			if !e.EndsTurn() {
				fmt.Printf("  (%s)\n", e.Status.Detail)
			}
		default:
		}
	}
	_, err = run.Wait(ctx)
	return err
}
