// Command custom posts events of a custom type: a processor turns them into messages, which an
// agent answers.
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
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

const orderPlaced = "order.placed"

// order is the payload of such an event.
type order struct {
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Gift     bool   `json:"gift,omitempty"`
}

// orders turns an order into a message, which takes the order's place in the queue.
func orders() hook.Processor {
	p := hook.Process(orderPlaced, func(_ context.Context, o order, _ hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.Message(event.CreatedByUser, "shop", fmt.Sprintf("Dear %s, your %s is on its way.", o.Customer, o.Item))}, nil
	})
	// Gifts are handled elsewhere: the event is stored, and nothing else happens.
	p.ShouldProcess = func(_ context.Context, e event.Event, _ hook.Deps) (bool, error) {
		placed, ok := e.(event.CustomEvent)
		if !ok {
			return false, nil
		}
		var o order
		err := json.Unmarshal(placed.Payload, &o)
		return !o.Gift, err
	}
	return p
}

func main() {
	taskQueue := flag.String("task-queue", "example-custom", "task queue of the threads")
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
		Agents:     []agent.Agent{{Name: "clerk", Model: "demo/any"}},
		Models:     map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Processors: []hook.Processor{orders()},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	threads, id := runtime.Client(), signals.NewID()
	if err := threads.Open(ctx, id, signals.Start{}, nil); err != nil {
		return err
	}
	if err := place(ctx, threads, id, "order-1", order{Customer: "ann", Item: "kettle"}); err != nil {
		return err
	}
	if err := place(ctx, threads, id, "order-2", order{Customer: "bob", Item: "ring", Gift: true}); err != nil {
		return err
	}
	// A closed thread has stored everything.
	if err := runtime.CloseThread(ctx, id); err != nil {
		return err
	}
	return show(ctx, records, store.Key{Namespace: threads.Namespace(), ThreadID: id})
}

// place posts an order and waits until all derived events have been processed.
func place(ctx context.Context, threads *threadclient.Client, threadID, eventID string, o order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	turn, err := threads.Turn(ctx, threadID, signals.Post{ID: eventID, Type: orderPlaced, Payload: payload})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", eventID, turn.Status)
	if turn.Message != nil {
		fmt.Printf("%s: %s\n", turn.Message.SenderID, turn.Message.Content)
	}
	return nil
}

// show prints the records of the orders, each with its trace and its parent: 0 is none.
func show(ctx context.Context, records store.Store, key store.Key) error {
	all, err := records.Records(ctx, key, store.Query{})
	if err != nil {
		return err
	}
	seq := map[string]int64{}
	for _, r := range all {
		seq[r.ID] = r.Seq
		if r.TraceID != "" {
			fmt.Printf("%d %s, trace %s, parent %d\n", r.Seq, r.Type, r.TraceID, seq[r.ParentEventID])
		}
	}
	return nil
}
