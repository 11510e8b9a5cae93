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
	if err := talk(ctx, runtime); err != nil {
		return err
	}
	stop()
	return <-stopped // with the server
}

func talk(ctx context.Context, runtime *threadmill.Runtime) error {
	// The offline model calls a tool for each line that begins with "use".
	turn, err := runtime.Send(ctx, event.NewMessage{SenderID: "ann", Content: `use files__read_file {"path": "plan.txt"}
use files__write_file {"path": "plan.txt", "text": "Ship on Monday."}
then
use files__read_file {"path": "plan.txt"}
use files__list_files {}`}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		if e.Type == event.EventApprovalRequest {
			if err := approve(ctx, runtime.Client(), turn.ThreadID(), *e.Request); err != nil {
				return err
			}
		}
	}
	result, err := turn.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Println(result.Message.Content)
	return runtime.CloseThread(ctx, turn.ThreadID())
}

func approve(ctx context.Context, threads *threadclient.Client, id string, call event.ApprovalRequest) error {
	out, err := threads.Decide(ctx, id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	if err == nil {
		fmt.Printf("%s %s: approve, %s\n", call.ToolName, call.Arguments, out.Result)
	}
	return err
}
