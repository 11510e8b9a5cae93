// Command handover lets people continue where agents cannot: two agents that talk past each other
// reach their turn limit, and another asks for help with a decision.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

var agents = []agent.Agent{
	{Name: "clerk", Model: "offline/clerk", Instructions: "Help customers. The depot knows where parcels are. Ask @human about money."},
	{Name: "depot", Model: "offline/depot", Instructions: "Tell where parcels are, by their number."},
}

// model gives the replies that models might give to these instructions. No agent answers a message
// that mentions a person, such as @ann or @human.
func model() llm.Provider {
	return scripted.New(
		scripted.Say("@depot Where is the parcel for ann?").For("clerk"),
		scripted.Say("Which number has it?").For("depot"),
		scripted.Say("It is the one for ann.").For("clerk"),
		scripted.Say("We know parcels by their number.").For("depot"),
		scripted.Say("@clerk Number 7 left this morning.").For("depot"),
		scripted.Say("@ann Your parcel left this morning.").For("clerk"),
		scripted.Say("@human Ann wants 5 euros back, because her parcel is late.").For("clerk").On("5 euros"),
		scripted.Say("@ann You get 5 euros back.").For("clerk").On("She can."),
	)
}

// configuration declares the agents and their model.
func configuration() threadmill.Config {
	return threadmill.Config{Agents: agents, Models: map[string]llm.Provider{"offline": model()}}
}

// cases are the questions of ann, a customer, and the help of bob, who is on duty, if it is needed.
var cases = []struct{ question, help string }{
	{"@clerk Where is my parcel?", "@depot She means number 7. Tell the clerk where it is."},
	{"@clerk It is late. Can I have 5 euros back?", "@clerk She can."},
}

const turnLimit = 2

func main() {
	taskQueue := flag.String("task-queue", "example-handover", "task queue of the threads")
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
	cfg := configuration()
	cfg.TaskQueue, cfg.Store = taskQueue, records
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	for _, c := range cases {
		handedOver, err := say(ctx, runtime, id, "ann", c.question)
		if err != nil {
			return err
		}
		if !handedOver {
			continue
		}
		// The thread is idle. It waits for the next message, for a minute or a month.
		if _, err := say(ctx, runtime, id, "bob", c.help); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, id)
}

// say posts a person's message and prints the conversation until nobody answers any more. It
// reports whether people are asked to take over.
func say(ctx context.Context, runtime *threadmill.Runtime, threadID, person, content string) (handedOver bool, err error) {
	start := signals.Start{Agents: []string{"clerk", "depot"}, TurnLimit: turnLimit}
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: person, Content: content}, threadmill.SendOptions{Start: start})
	if err != nil {
		return false, err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return false, err
		}
		if e.Type == event.EventMessage {
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
			handedOver = handedOver || strings.HasPrefix(e.Message.Content, "@human ")
		}
	}
	_, err = turn.Wait(ctx)
	return handedOver, err
}
