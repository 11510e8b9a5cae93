// Command fallback shows a chain of models: when the first choice breaks off in the middle of a
// reply, the second one replies instead, and later messages go there directly.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

// tired is a model that breaks off after the first words of each reply.
func tired() llm.Provider {
	overloaded := &llm.Error{Provider: "tired", StatusCode: 529, Message: "overloaded", Retryable: true}
	return scripted.New(scripted.Reply{Text: "Let me think. I", Err: overloaded, Always: true})
}

func main() {
	taskQueue := flag.String("task-queue", "example-fallback", "task queue of the threads")
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
		Agents:    []agent.Agent{{Name: "echo", Model: "main"}},
		Models:    map[string]llm.Provider{"tired": tired(), "demo": demo.New(demo.Config{Quiet: true})},
		Fallbacks: map[string]llm.Fallback{"main": {Chain: []string{"tired/first", "demo/second"}}},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	if err := runtime.Client().Open(ctx, id, signals.Start{}, nil); err != nil {
		return err
	}
	for _, text := range []string{"Is anybody there?", "Still there?"} {
		if err := say(ctx, runtime, id, text); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, id)
}

// say sends a message, and prints the turn as a viewer sees it.
func say(ctx context.Context, runtime *threadmill.Runtime, thread, text string) error {
	fmt.Printf("ann: %s\n", text)
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: thread, SenderID: "ann", Content: text}, threadmill.SendOptions{Stream: true})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		switch {
		case err != nil:
			return err
		case e.Type == event.EventStatus && e.Status.Retry != nil:
			fmt.Printf("  (%s)\n", e.Status.Detail)
		case e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent:
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
		}
	}
	_, err = turn.Wait(ctx)
	return err
}
