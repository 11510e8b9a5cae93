package threadclient_test

import (
	"context"
	"fmt"
	"log"

	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// A message is posted, and its turn awaited. The id makes both idempotent: a client that repeats
// them after a crash gets the result of the same turn.
func ExampleClient_Turn() {
	ctx := context.Background()
	temporal, err := client.Dial(client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	threads, err := threadclient.New(threadclient.Config{Temporal: temporal})
	if err != nil {
		log.Fatal(err)
	}
	message := event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "What is new?"}
	result, err := threads.Turn(ctx, "t1", signals.NewPost("order-17", message))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.Message.Content)
}
