// Command hello is the smallest program with an agent: one message, one reply.
package main

import (
	"context"
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
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

func main() {
	taskQueue := flag.String("task-queue", "example-hello", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	// The address comes from the TEMPORAL_* environment, by default localhost:7233.
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

	// In memory: messages are lost when the program ends.
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()

	runtime, err := threadmill.New(threadmill.Config{
		Temporal: temporal, TemporalNamespace: options.Namespace, TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "echo", Model: "demo/any"}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
	})
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
	turn, err := threads.Turn(ctx, id, signals.UserMessage(id, "ann", "Hello, is anybody there?"))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", turn.Message.SenderID, turn.Message.Content)

	// A thread lives until it is closed.
	if err := threads.Control(ctx, id, signals.Control{Action: signals.ControlClose, By: "ann"}); err != nil {
		return err
	}
	return temporal.GetWorkflow(ctx, signals.WorkflowID(threads.Namespace(), id), "").Get(ctx, nil)
}
