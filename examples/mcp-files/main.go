// Command mcp-files gives an agent the tools of an MCP server for files: reading runs at once, and each
// write needs approval.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool/mcp"
)

// folderEnv makes this program the MCP server for a folder.
const folderEnv = "EXAMPLE_FOLDER"

func main() {
	taskQueue := flag.String("task-queue", "example-mcp-files", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	work := func() error { return run(ctx, *taskQueue) }
	if folder := os.Getenv(folderEnv); folder != "" {
		work = func() error { return serve(ctx, folder) }
	}
	if err := work(); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	folder, err := os.MkdirTemp("", "mcp-files-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := os.WriteFile(filepath.Join(folder, "plan.txt"), []byte("Ship on Friday."), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	servers, err := mcp.New(mcp.Config{Logger: slog.New(slog.DiscardHandler), Servers: []mcp.Server{{
		Name: "files", Command: []string{self}, Env: map[string]mcp.Secret{folderEnv: mcp.Secret(folder)}, Trusted: true,
	}}})
	if err != nil {
		return err
	}

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
		Models:     map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		ToolSource: servers,
		Agents:     []agent.Agent{{Name: "clerk", Model: "demo/any", Tools: []string{"files__*"}}},
	})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- runtime.Run(working) }()
	if err := talk(ctx, runtime.Client(), temporal); err != nil {
		return err
	}
	stop()
	return <-stopped // with the server
}

func talk(ctx context.Context, threads *threadclient.Client, temporal client.Client) error {
	id := signals.NewID()
	if err := threads.Open(ctx, id, signals.Start{}, nil); err != nil {
		return err
	}
	// The offline model calls a tool for each line that begins with "use".
	post := signals.UserMessage(id, "ann", `use files__read_file {"path": "plan.txt"}
use files__write_file {"path": "plan.txt", "text": "Ship on Monday."}
then
use files__read_file {"path": "plan.txt"}
use files__list_files {}`)
	post.ID = signals.NewID()
	if _, err := threads.Post(ctx, id, post); err != nil {
		return err
	}
	if err := approve(ctx, threads, id); err != nil {
		return err
	}
	// The message has been posted: this waits for the end of its turn.
	turn, err := threads.Turn(ctx, id, post)
	if err != nil {
		return err
	}
	fmt.Println(turn.Message.Content)
	if err := threads.Control(ctx, id, signals.Control{Action: signals.ControlClose, By: "ann"}); err != nil {
		return err
	}
	return temporal.GetWorkflow(ctx, signals.WorkflowID(threads.Namespace(), id), "").Get(ctx, nil)
}

// approve waits for an approval request, and approves it.
func approve(ctx context.Context, threads *threadclient.Client, id string) error {
	for {
		waiting, err := threads.Approvals(ctx, id)
		if err != nil {
			return err
		}
		for _, call := range waiting.Approvals {
			out, err := threads.Decide(ctx, id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
			if err == nil {
				fmt.Printf("%s %s: approve, %s\n", call.ToolName, call.Arguments, out.Result)
			}
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
