// Command hello is the smallest program with an agent: one message, one reply.
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
	// In memory: messages are lost when the program ends.
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()

	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "echo", Model: "demo/any"}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	// A message without a thread opens one.
	turn, err := runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: "Hello, is anybody there?"}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	result, err := turn.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", result.Message.SenderID, result.Message.Content)

	// A thread lives until it is closed.
	return runtime.CloseThread(ctx, turn.ThreadID())
}
