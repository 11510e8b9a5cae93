// Command tool gives an agent a Go function to call, and decides in code which calls may run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

// order is the tool's input, which the model fills in. Its JSON Schema is derived from this type.
type order struct {
	ID    string `json:"id" jsonschema:"number of the order"`
	Euros int    `json:"euros" jsonschema:"how much to pay back"`
}

var refund = tool.MustFunc("refund", "Pays back an order.",
	func(_ context.Context, _ tool.Call, in order) (string, error) {
		return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
	}, tool.NeedsApproval("moves money"))

// configuration declares the agent, its model and its tool.
func configuration(records store.Store) threadmill.Config {
	return threadmill.Config{
		Store:  records,
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:  []tool.Tool{refund},
		Agents: []agent.Agent{{
			Name:         "clerk",
			Instructions: "You handle refunds.",
			Model:        "demo/any",
			Tools:        []string{"refund"},
		}},
	}
}

func main() {
	taskQueue := flag.String("task-queue", "example-tool", "task queue of the threads")
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
	cfg := configuration(records)
	cfg.TaskQueue = taskQueue
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	// The offline model calls a tool for each line that begins with "use".
	turn, err := runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: `use refund {"id": "A-1", "euros": 20}
use refund {"id": "A-2", "euros": 900}`}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	if err := decide(ctx, runtime.Client(), turn, 2); err != nil {
		return err
	}
	result, err := turn.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Println(result.Message.Content)
	return runtime.CloseThread(ctx, turn.ThreadID())
}

// decide watches the turn for a number of approval requests, and allows the small orders.
func decide(ctx context.Context, threads *threadclient.Client, turn *threadmill.Turn, calls int) error {
	for e, err := range turn.Events() {
		switch {
		case err != nil:
			return err
		case e.Type != event.EventApprovalRequest:
			continue
		}
		var in order
		if err := json.Unmarshal([]byte(e.Request.Arguments), &in); err != nil {
			return err
		}
		decision := signals.Decide{ToolCallID: e.Request.ToolCallID, Decision: event.DecisionApprove, By: "policy"}
		if in.Euros > 100 {
			decision.Decision, decision.Reason = event.DecisionDeny, "ask a manager"
		}
		out, err := threads.Decide(ctx, turn.ThreadID(), decision)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s: %s, %s\n", e.Request.ToolName, e.Request.Arguments, decision.Decision, out.Result)
		if calls--; calls == 0 {
			break
		}
	}
	return nil
}
