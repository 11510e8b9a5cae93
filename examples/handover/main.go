// Command handover lets people continue where agents cannot: two agents that talk past each other
// reach their turn limit, and another asks for help with a decision.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

var agents = []agent.Agent{
	{Name: "clerk", Model: "offline/clerk", Instructions: "Help customers. The depot knows where parcels are. Ask @human about money."},
	{Name: "depot", Model: "offline/depot", Instructions: "Tell where parcels are, by their number."},
}

// lines are replies as models might give them to these instructions. No agent answers a message
// that mentions a person, such as @ann or @human.
var lines = script{
	"clerk": {
		"@depot Where is the parcel for ann?",
		"It is the one for ann.",
		"@ann Your parcel left this morning.",
		"@human Ann wants 5 euros back, because her parcel is late.",
		"@ann You get 5 euros back.",
	},
	"depot": {
		"Which number has it?",
		"We know parcels by their number.",
		"@clerk Number 7 left this morning.",
	},
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
		Agents: agents,
		Models: map[string]llm.Provider{"offline": lines},
	})
	if err != nil {
		return err
	}
	go func() {
		if err := runtime.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}()

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
	return runtime.Close(ctx, id)
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

// script replaces the models: each says its lines, one after another.
type script map[string][]string

// Generate implements [llm.Provider].
func (s script) Generate(_ context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	said := 0
	for _, m := range req.Messages {
		if m.Role == event.RoleAssistant {
			said++
		}
	}
	if said >= len(s[req.Model]) {
		return llm.Response{}, &llm.Error{Provider: "offline", Message: req.Model + " has no more lines"}
	}
	line := s[req.Model][said]
	if onDelta != nil {
		onDelta(llm.Delta{Text: line})
	}
	return llm.Response{Type: llm.TypeText, Content: line, Model: req.Model}, nil
}
