// Command mcp-agent lets another program's agent use an agent of Threadmill as a tool, by MCP: it asks,
// learns that a person has to decide, and gets the answer after the decision.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

var refund = tool.MustFunc("refund", "Pays back an order.",
	func(_ context.Context, _ tool.Call, in struct {
		ID    string `json:"id"`
		Euros int    `json:"euros"`
	},
	) (string, error) {
		return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
	}, tool.NeedsApproval("moves money"))

func main() {
	taskQueue := flag.String("task-queue", "example-mcp-agent", "task queue of the threads")
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
		Agents: []agent.Agent{{Name: "clerk", Description: "Handles refunds.", Model: "demo/any", Tools: []string{"refund"}}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:  []tool.Tool{refund},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := httpapi.New(runtime, httpapi.Config{})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	server.RegisterOnShutdown(api.CloseStreams)
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown(ctx) }()
	return use(ctx, "http://"+listener.Addr().String()+"/mcp")
}

// turn is the part of a result that this program reads.
type turn struct {
	Status, Thread, Event, Text, Next string
	Approvals                         []struct{ ToolCallID, Tool, Arguments, Digest string }
}

// use does what an agent with these tools does.
func use(ctx context.Context, endpoint string) error {
	assistant := mcp.NewClient(&mcp.Implementation{Name: "another-agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) {
			if strings.HasPrefix(p.Params.Message, "clerk calls") || strings.HasPrefix(p.Params.Message, "clerk waits") {
				fmt.Println("  …", p.Params.Message)
			}
		},
	})
	session, err := assistant.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()

	asked, err := call[turn](ctx, session, "ask_agent", map[string]any{"agent": "clerk", "message": `use refund {"id": "A-1", "euros": 20}`})
	if err != nil {
		return err
	}
	fmt.Println("ask_agent:", asked.Status)
	if len(asked.Approvals) == 0 {
		return errors.New("nothing waits for a decision")
	}
	one := asked.Approvals[0]
	fmt.Printf("  %s %s\n", one.Tool, one.Arguments)

	// An agent shows this to its person, and calls the tool as the person says.
	if _, err := call[any](ctx, session, "decide_approval", map[string]any{
		"thread": asked.Thread, "toolCallId": one.ToolCallID, "digest": one.Digest, "decision": "approve", "by": "ann",
	}); err != nil {
		return err
	}
	ended, err := call[turn](ctx, session, "wait_for_turn", map[string]any{"thread": asked.Thread, "event": asked.Event})
	if err != nil {
		return err
	}
	fmt.Println("wait_for_turn:", ended.Status)
	fmt.Println("  " + ended.Text)
	return nil
}

// call calls a tool and decodes its result.
func call[T any](ctx context.Context, session *mcp.ClientSession, name string, args map[string]any) (out T, err error) {
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(name)
	got, err := session.CallTool(ctx, params)
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(got.StructuredContent)
	if err == nil && got.IsError {
		err = fmt.Errorf("%s: %s", name, got.Content[0].(*mcp.TextContent).Text)
	}
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(raw, &out)
}
