// Command refunds is a refund desk, as a company might run one: two agents, a rule by amount with two approvers,
// redaction of card numbers, a hook that refuses a second refund, a signed webhook, a daily report, mail in
// the background, and an HTTP handler and a main function of its own. Its tests need no running server and no real model.
//
//	REFUNDS_WEBHOOK_SECRET=secret go run ./examples/refunds --sqlite records.db --http 127.0.0.1:8090
package main

import (
	"context"
	"os"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/app"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
)

func main() {
	d := &desk{paid: map[string]payment{}, secret: os.Getenv("REFUNDS_WEBHOOK_SECRET")}
	app.Main(app.Config{
		Name: "refunds", Description: "Answer customers, and pay back their orders",
		Configure: func(cfg *threadmill.Config) error {
			cfg.Models = map[string]llm.Provider{"offline": demo.New(demo.Config{})}
			return d.configure(cfg)
		},
		API: d.serve,
		Background: func(ctx context.Context, runtime *threadmill.Runtime) error {
			if err := scheduleReport(ctx, runtime); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	})
}
