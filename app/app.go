// Package app is the main function of a program that runs threads: what command worker is, next to
// tools, hooks and handlers of your own.
//
//	func main() {
//		app.Main(app.Config{
//			Name: "refunds",
//			Configure: func(cfg *threadmill.Config) error {
//				cfg.Tools = append(cfg.Tools, refund)
//				return nil
//			},
//		})
//	}
//
// The program finds Temporal by the standard TEMPORAL_* environment and profiles, PostgreSQL by DATABASE_URL
// and NATS by NATS_URL. Its flags are those of command worker: --config, --http, --roles and others, which --help
// lists. /healthz and /readyz are served in every role.
//
// On SIGTERM, /readyz returns 503, running steps have up to --drain to finish, requests finish, and
// event streams end; their clients resume elsewhere. Another worker retries unfinished steps. A second SIGTERM ends
// the process.
//
// An error is one line on the terminal. The exit code is 2 for mistakes in flags, the environment and files, 1
// for other errors, and 0 otherwise.
package app

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/program"
)

// Config declares what a program has of its own. The zero value is command worker.
type Config struct {
	// Name of the program, in its help and errors. Default: the name of the file that runs.
	Name string

	// TaskQueue is the default of --task-queue. Default: the last element of the path of the main package.
	TaskQueue string

	// Description is a line of the help.
	Description string

	// Flags adds flags, which --help lists. Configure is called after they are parsed. The command replay refuses to run
	// if one is named like a flag of its own: --from, --json, --move, --sample or --within.
	Flags func(*flag.FlagSet)

	// Configure declares tools, agents, hooks, processors, rules, models and whatever else
	// the program has, before anything is connected. The flags have set Namespace, TaskQueue, ToolQueues,
	// OnlyToolQueues, StopTimeout and Logger, which it may change. Afterwards the file of --config adds its own, and
	// may refer to declared names.
	//
	// Temporal (with TemporalNamespace), Store and Stream replace those of the environment and the
	// flags, and remain the caller's to close. Without agents and --config, one agent is configured by the
	// environment, which has the declared tools.
	Configure func(*threadmill.Config) error

	// API declares the routes and webhooks of the HTTP API, and what else it has. It is called after Configure, also in processes
	// that do not serve the API. An Authenticator replaces that of the flags.
	API func(*httpapi.Config) error

	// ClientOptions changes the options of the connection to Temporal, such as its DataConverter. The command replay needs
	// the converters and interceptors to replay histories, also if Configure brings a connection of its own. Default: the
	// environment's options.
	ClientOptions func(*client.Options)

	// Background runs beside the workers of threads until its context ends, which happens when the program
	// stops, and then has up to --drain to return. The program stops if it returns an error.
	Background func(context.Context, *threadmill.Runtime) error
}

// Main runs the program with the arguments of the process, and exits.
func Main(cfg Config) {
	if cfg.Name == "" {
		cfg.Name = filepath.Base(os.Args[0])
	}
	cmd, err := command(cfg)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", cfg.Name, err)
		os.Exit(program.ExitFailed)
	}
	os.Exit(program.Main(cmd))
}
