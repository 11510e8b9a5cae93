// Command tool gives an agent a Go function to call, and decides in code which calls may run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

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
func configuration(temporal client.Client, records store.Store) threadmill.Config {
	return threadmill.Config{
		Temporal: temporal,
		Store:    records,
		Models:   map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:    []tool.Tool{refund},
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
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.Default())
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	cfg := configuration(temporal, records)
	cfg.TemporalNamespace, cfg.TaskQueue = options.Namespace, taskQueue
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	go func() {
		if err := runtime.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()

	threads, id := runtime.Client(), signals.NewID()
	if err := threads.Open(ctx, id, signals.Start{}, nil); err != nil {
		return err
	}
	// The offline model calls a tool for each line that begins with "use".
	post := signals.UserMessage(id, "ann", `use refund {"id": "A-1", "euros": 20}
use refund {"id": "A-2", "euros": 900}`)
	post.ID = signals.NewID()
	if _, err := threads.Post(ctx, id, post); err != nil {
		return err
	}
	if err := decide(ctx, threads, id, 2); err != nil {
		return err
	}
	// The message has been posted: this waits for the end of its turn.
	turn, err := threads.Turn(ctx, id, post)
	if err != nil {
		return err
	}
	fmt.Println(turn.Message.Content)

	if err := threads.Control(ctx, id, signals.Control{Action: signals.ControlClose, By: "ann"}); err != nil {
		return err
	}
	return temporal.GetWorkflow(ctx, signals.WorkflowID(threads.Namespace(), id), "").Get(ctx, nil)
}

// decide waits for a number of approval requests, and allows the small orders.
func decide(ctx context.Context, threads *threadclient.Client, id string, calls int) error {
	for calls > 0 {
		waiting, err := threads.Approvals(ctx, id)
		if err != nil {
			return err
		}
		for _, call := range waiting.Approvals {
			var in order
			if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
				return err
			}
			decision := signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "policy"}
			if in.Euros > 100 {
				decision.Decision, decision.Reason = event.DecisionDeny, "ask a manager"
			}
			out, err := threads.Decide(ctx, id, decision)
			if err != nil {
				return err
			}
			fmt.Printf("%s %s: %s, %s\n", call.ToolName, call.Arguments, decision.Decision, out.Result)
			calls--
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
