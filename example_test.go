package threadmill_test

import (
	"context"
	"fmt"
	"log"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/store/sqlite"
)

// A worker and a message in one process. The Temporal server is that of `go run ./devserver`.
func Example() {
	ctx := context.Background()
	records, err := sqlite.Open(ctx, sqlite.Config{Path: "threads.db"})
	if err != nil {
		log.Fatal(err)
	}
	runtime, err := threadmill.New(threadmill.Config{
		Store:  records,
		Agents: []agent.Agent{{Name: "echo", Model: "demo/any"}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{})},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := runtime.Start(ctx); err != nil {
		log.Fatal(err)
	}

	turn, err := runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: "Hello"}, threadmill.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := turn.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Message.Content)
	if err := runtime.Stop(ctx); err != nil {
		log.Fatal(err)
	}
}

// Events are the pieces of a reply, and everything else that happens in the turn.
func ExampleTurn_Events() {
	var turn *threadmill.Turn // of Runtime.Send, with SendOptions.Stream
	for e, err := range turn.Events() {
		if err != nil {
			log.Fatal(err)
		}
		if e.Type == event.EventStream {
			fmt.Print(e.Content)
		}
	}
}
