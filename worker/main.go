// Command worker is the production process: it runs workflows and activities, serves the HTTP API,
// or both.
//
//	worker --config threadmill.yaml
//	worker --roles api --http :8080
//	worker --roles tools --tool-queues gpu
//
// It is package app without anything of its own: a program with tools, hooks and handlers in Go has the
// same flags. See docs/configuration.md and docs/your-own-program.md.
package main

import (
	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/app"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/signals"
)

func main() {
	app.Main(app.Config{
		Name: "worker", Description: "Run threads or tools, serve the API, or all of it", TaskQueue: signals.DefaultTaskQueue,
		Configure: func(cfg *threadmill.Config) error {
			cfg.Program = program.Threadmill
			return nil
		},
	})
}
