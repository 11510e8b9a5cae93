// Command approval holds back an agent's reply until a person has released it. The hook is a
// workflow of the application, which may wait for any time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

// review names the workflow in review.go; its worker is that of the threads. Its responses are
// system messages, which the filter does not match.
func review() hook.Hook {
	h := hook.InWorkflow("review", hook.Workflow{Type: "Review"})
	h.Filter = hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByAgent}}
	h.HoldOutput = true
	return h
}

func main() {
	taskQueue := flag.String("task-queue", "example-approval", "task queue of the threads")
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
	runtime, err := threadmill.New(threadmill.Config{
		Temporal: temporal, TemporalNamespace: options.Namespace, TaskQueue: taskQueue, Store: records,
		Agents:       []agent.Agent{{Name: "clerk", Model: "demo/any"}},
		Models:       map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Hooks:        []hook.Hook{review()},
		RegisterWith: func(w worker.Registry) { w.RegisterWorkflow(Review) },
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	if err := turn(ctx, runtime, temporal, id, "Your refund is on its way.", Ruling{Release: true, By: "bob"}); err != nil {
		return err
	}
	if err := turn(ctx, runtime, temporal, id, "You get nothing.", Ruling{By: "bob"}); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, id)
}

// turn posts a message, which the offline model repeats, and sends a ruling on the reply.
func turn(ctx context.Context, runtime *threadmill.Runtime, temporal client.Client, threadID, content string, ruling Ruling) error {
	run, err := runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: "ann", Content: content}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	// The id of an agent's first reply to an event is the event's id with this suffix.
	reply := run.EventID() + ".0.1"
	hooks := signals.HookWorkflowID(runtime.Client().Namespace(), threadID, reply)
	if err := rule(ctx, temporal, hooks+"/review", ruling); err != nil {
		return err
	}
	for e, err := range run.Events() {
		if err != nil {
			return err
		}
		if e.Type == event.EventMessage {
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
		}
	}
	_, err = run.Wait(ctx)
	return err
}

// rule signals a hook workflow once it exists.
func rule(ctx context.Context, temporal client.Client, workflowID string, ruling Ruling) error {
	for {
		err := temporal.SignalWorkflow(ctx, workflowID, "", "rule", ruling)
		var missing *serviceerror.NotFound
		if !errors.As(err, &missing) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
