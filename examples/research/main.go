// Command research lets an agent ask three others at the same time, each of which has its own
// source, and combine their findings into one answer.
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
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

// shelves are the sources and their contents.
var shelves = map[string]string{
	"papers": "sagas undo, logs replay",
	"news":   "two companies run it for their agents",
	"code":   "a workflow is an ordinary function",
}

// lookup is the tool's input, which a model fills in.
type lookup struct {
	Shelf string `json:"shelf" jsonschema:"papers, news or code"`
	Topic string `json:"topic"`
}

var lookUp = tool.MustFunc("look_up", "Looks a topic up.", func(_ context.Context, _ tool.Call, in lookup) (string, error) {
	found, ok := shelves[in.Shelf]
	if !ok {
		return "", fmt.Errorf("there is no shelf %q", in.Shelf)
	}
	return found, nil
})

// team is an agent that may ask others, and those others. It only needs the tool call_agent.
func team() []agent.Agent {
	agents := []agent.Agent{{
		Name:         "researcher",
		Instructions: "Ask papers, news and code at the same time, and make one answer of theirs.",
		Model:        "offline/researcher",
		Tools:        []string{"call_agent"},
		Limits:       agent.Limits{MaxSteps: 5},
	}}
	for _, shelf := range []string{"papers", "news", "code"} {
		agents = append(agents, agent.Agent{
			Name:         shelf,
			Instructions: "Look up what you are asked for in " + shelf + ". Answer in one line.",
			Model:        "offline/" + shelf,
			Tools:        []string{"look_up"},
		})
	}
	return agents
}

func main() {
	taskQueue := flag.String("task-queue", "example-research", "task queue of the threads")
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
		Agents: team(), Tools: []tool.Tool{lookUp},
		Models: map[string]llm.Provider{"offline": offline()},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	if err := ask(ctx, runtime, id, "durable execution"); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, id)
}

// ask posts a message, and prints the calls of the other agents and the answer. Their output
// arrives as progress of the calls; their threads contain all of it.
func ask(ctx context.Context, runtime *threadmill.Runtime, threadID, topic string) error {
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: "ann", Content: topic}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		switch {
		case e.Type == event.EventToolCall:
			fmt.Printf("%s: %s %s\n", e.Agent, e.ToolName, e.ToolArgs)
		case e.Type == event.EventMessage && e.Message.Content != "" && e.Message.Role != event.RoleTool:
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
		}
	}
	_, err = turn.Wait(ctx)
	return err
}
