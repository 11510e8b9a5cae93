// Command build lets an agent start a long build. The agent does not wait for it: the conversation
// continues, and the agent reports when the build has ended.
package main

import (
	"context"
	"encoding/json"
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
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

// source is the input of a build, and built its result.
type source struct {
	Branch string `json:"branch"`
}

type built struct {
	Branch string `json:"branch"`
	URL    string `json:"url"`
}

// newBuild returns a tool whose calls run in the background, for at most an hour. A build whose
// worker is lost starts again.
func newBuild(compile func(ctx context.Context, branch string) error) tool.Tool {
	return tool.MustFunc("build", "Builds a branch.",
		func(ctx context.Context, call tool.Call, in source) (built, error) {
			call.Progress("compiling " + in.Branch)
			if err := compile(ctx, in.Branch); err != nil {
				return built{}, err
			}
			return built{in.Branch, "https://example.com/builds/" + in.Branch}, nil
		}, tool.Background(), tool.Deadline(time.Hour), tool.Idempotent())
}

// report forwards the end of a task, and then lets the agent report it. It replaces the default
// rule of that name, which also runs the agent.
func report(ends chan<- event.EnvEvent) rule.Rule {
	return rule.Rule{
		Name: rule.NameBackgroundTask, Events: []string{"background_task.*"}, Priority: 80,
		Function: func(_ context.Context, _ rule.Context, e event.EnvEvent) error {
			select {
			case ends <- e:
			default: // an earlier attempt sent it
			}
			return nil
		},
		Agent: &rule.Agent{Prompt: "Say in one sentence what has come of the task."},
	}
}

// offline is a model that answers as a real one would from the conversation.
func offline() llm.Provider { return scripted.New(scripted.Answer(reply)) }

func reply(req llm.Request) scripted.Reply {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == event.RoleTool:
		return scripted.Say("The build has begun. I will tell you how it ends.")
	case strings.HasPrefix(last.Content, "Process event: "):
		var end event.TaskEnd
		var b built
		if scripted.ReadPayload(req, &end) != nil || json.Unmarshal(end.Result, &b) != nil {
			return scripted.Say("The build has failed: " + end.Error)
		}
		return scripted.Say(fmt.Sprintf("The build of %s is at %s", b.Branch, b.URL))
	case last.Content == "Please build main.":
		return scripted.Call("build", source{Branch: "main"})
	}
	return scripted.Say(last.Content)
}

func main() {
	taskQueue := flag.String("task-queue", "example-build", "task queue of the threads")
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

	// Here a build takes as long as the talk about the weather.
	compiled, ends := make(chan struct{}), make(chan event.EnvEvent, 1)
	compile := func(ctx context.Context, _ string) error {
		select {
		case <-compiled:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "clerk", Model: "offline/any", Tools: []string{"build"}}},
		Models: map[string]llm.Provider{"offline": offline()},
		Tools:  []tool.Tool{newBuild(compile)},
		Rules:  []rule.Rule{report(ends)},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	id := signals.NewID()
	if err := talk(ctx, runtime, id, func() { close(compiled) }, ends); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, id)
}

// talk starts a build, talks about something else, and waits for the report.
func talk(ctx context.Context, runtime *threadmill.Runtime, id string, finish func(), ends <-chan event.EnvEvent) error {
	threads := runtime.Client()
	for _, content := range []string{"Please build main.", "In the meantime, let us talk about the weather."} {
		fmt.Printf("ann: %s\n", content)
		turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: id, SenderID: "ann", Content: content}, threadmill.SendOptions{})
		if err != nil {
			return err
		}
		if err := show(turn.Wait(ctx)); err != nil {
			return err
		}
	}
	if err := showTasks(ctx, threads, id); err != nil {
		return err
	}
	finish()
	select {
	case e := <-ends:
		// The thread already has the event: this waits for its turn.
		if err := show(threads.Turn(ctx, id, signals.EnvPost(e))); err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return showTasks(ctx, threads, id)
}

// show prints the agent's reply in the result of a turn.
func show(out signals.TurnResult, err error) error {
	if err != nil {
		return err
	}
	if out.Message == nil {
		return fmt.Errorf("the turn is %s: %s", out.Status, out.Error)
	}
	fmt.Printf("%s: %s\n", out.Message.SenderID, out.Message.Content)
	return nil
}

func showTasks(ctx context.Context, threads *threadclient.Client, id string) error {
	all, err := threads.Tasks(ctx, id)
	if err != nil {
		return err
	}
	for _, task := range all.Tasks {
		fmt.Printf("(task %s is %s)\n", task.Title, task.State)
	}
	return nil
}
