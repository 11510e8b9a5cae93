// Command debate lets two agents argue until their turn limit, and a third, who has not seen the
// debate, judge the arguments that they send to it.
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
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

// A message with a mention at the beginning of a line is only for the mentioned agents: the judge
// does not see what the debaters say to each other.
var agents = []agent.Agent{
	debater("tabs"),
	debater("spaces"),
	{Name: "judge", Model: "offline/judge", Instructions: "Hear both sides, then decide. End your verdict with <world>DONE</world>."},
}

func debater(side string) agent.Agent {
	return agent.Agent{
		Name: side, Model: "offline/" + side,
		Instructions: "Argue for " + side + ", in one sentence. Told to plead, end your plea with <world>TO:judge</world>.",
	}
}

// model gives the replies that models might give to these instructions. Compare them with the
// resulting messages: an answer to an agent without a mention gets a mention of that agent, TO
// becomes a mention, and after DONE nobody answers.
func model() llm.Provider {
	return scripted.New(
		scripted.Say("@spaces With tabs, everybody sees the width that they like.").For("tabs"),
		scripted.Say("With spaces, everybody sees the same.").For("spaces"),
		scripted.Say("With tabs, one key is enough.").For("tabs"),
		scripted.Say("With spaces, the editor presses the keys.").For("spaces"),
		scripted.Say("Code in columns stays in columns. <world>TO:judge</world>").For("spaces").On("Plead"),
		scripted.Say("@tabs And what do you say?").For("judge"),
		scripted.Say("A tab means one thing: a level deeper.").For("tabs"),
		scripted.Say("What means one thing is what a machine can lay out: tabs. Whoever disagrees, run gofmt. <world>DONE</world>").For("judge"),
	)
}

// talk are ann's messages. Each agent may make two model calls until the next one.
var talk = []string{
	"@tabs Are tabs better than spaces? Argue with spaces about it.",
	"@spaces Enough. Plead before the judge.",
}

const turnLimit = 2

func main() {
	taskQueue := flag.String("task-queue", "example-debate", "task queue of the threads")
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
		Agents: agents,
		Models: map[string]llm.Provider{"offline": model()},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	for _, content := range talk {
		if err := say(ctx, runtime, id, content); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, id)
}

// say posts a message of ann's and prints the conversation until nobody answers any more.
func say(ctx context.Context, runtime *threadmill.Runtime, threadID, content string) error {
	start := signals.Start{Agents: []string{"tabs", "spaces", "judge"}, TurnLimit: turnLimit}
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: "ann", Content: content}, threadmill.SendOptions{Start: start})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		if e.Type == event.EventMessage {
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
		}
	}
	_, err = turn.Wait(ctx)
	return err
}
