// Command invoices is an invoice assistant, the program of the tutorial docs/first-app.md: an agent with the offline model, a
// payment that two people approve, hooks, and a report in the background.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

// invoice is the input of tool pay, which the model fills in. Its JSON Schema is derived from this type.
type invoice struct {
	Number   string `json:"number" jsonschema:"number of the invoice"`
	Supplier string `json:"supplier" jsonschema:"who is paid"`
	Euros    int    `json:"euros" jsonschema:"the amount"`
}

// ledger has the paid invoices. A real one asks the bank.
type ledger struct {
	mu   sync.Mutex
	paid map[string]invoice // by number
}

func (l *ledger) pay() tool.Tool {
	return tool.MustFunc("pay", "Pays an invoice.", func(_ context.Context, _ tool.Call, in invoice) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.paid[in.Number] = in // again after a crash: the same
		return fmt.Sprintf("paid %d euros to %s for %s", in.Euros, in.Supplier, in.Number), nil
	}, tool.NeedsApproval("moves money"), tool.Idempotent())
}

// report runs in the background: the agent is told when it has ended.
func (l *ledger) report() tool.Tool {
	return tool.MustFunc("report", "Adds up the paid invoices.", func(context.Context, tool.Call, struct{}) (string, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		sum := 0
		for _, in := range l.paid {
			sum += in.Euros
		}
		return fmt.Sprintf("%d paid, %d euros", len(l.paid), sum), nil
	}, tool.Background(), tool.Idempotent())
}

// configuration declares the agent, its model and tools, and what must happen before money moves.
func configuration(l *ledger) threadmill.Config {
	return threadmill.Config{
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:  []tool.Tool{l.pay(), l.report()},
		Agents: []agent.Agent{{
			Name:         "clerk",
			Instructions: "You pay invoices.",
			Model:        "demo/any",
			Tools:        []string{"pay", "report"},
		}},
		ApprovalRules: []approval.Rule{{
			Name: "two people", Tools: []string{"pay"}, Effect: approval.EffectAsk, Reason: "moves money",
			Terms: approval.Terms{Approvers: []string{"bo", "cleo", "dan"}, Quorum: 2, Expires: 72 * time.Hour},
		}},
		Hooks:        []hook.Hook{l.once(), verify()},
		RegisterWith: func(w worker.Registry) { w.RegisterWorkflow(Verify) },
	}
}

func main() {
	taskQueue := flag.String("task-queue", "example-invoices", "task queue of the threads")
	address := flag.String("http", "", "serve the page at this address until interrupted")
	path := flag.String("sqlite", "", "file of the records (default: in memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *taskQueue, *path, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue, path, address string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	defer records.Close()
	cfg := configuration(&ledger{paid: map[string]invoice{}})
	cfg.Store, cfg.TaskQueue = records, taskQueue
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(context.WithoutCancel(ctx)) }()
	if address != "" {
		return serve(ctx, runtime, address)
	}
	return converse(ctx, runtime)
}

// serve serves the API and the page.
func serve(ctx context.Context, runtime *threadmill.Runtime, address string) error {
	api, err := httpapi.New(runtime, httpapi.Config{})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: api, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	fmt.Println("The page is at http://" + address)
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// converse pays an invoice, which bo and cleo approve.
func converse(ctx context.Context, runtime *threadmill.Runtime) error {
	// The offline model calls a tool for each line that begins with "use".
	turn, err := runtime.Send(ctx, event.NewMessage{
		SenderID: "ann", Content: `use pay {"number": "R-17", "supplier": "Paper Ltd", "euros": 900}`,
	}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	for e, err := range turn.Events() {
		switch {
		case err != nil:
			return err
		case e.Type == event.EventApprovalRequest:
			for _, name := range []string{"bo", "cleo"} {
				out, err := runtime.Client().Decide(ctx, turn.ThreadID(), signals.Decide{
					ToolCallID: e.Request.ToolCallID, Decision: event.DecisionApprove, By: name,
				})
				if err != nil {
					return err
				}
				fmt.Printf("%s approves %s: %s\n", name, e.Request.ToolName, out.Result)
			}
		case e.Type == event.EventMessage && e.Message.Content != "":
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
		}
	}
	return runtime.CloseThread(ctx, turn.ThreadID())
}
