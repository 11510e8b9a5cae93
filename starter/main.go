// Command starter is the command line client of Threadmill: it opens threads, talks
// to them, watches them and decides on their tool calls.
//
//	starter chat                 talk to the default agent
//	starter send t1 "hello" --wait
//	starter approve t1 call_1
//
// It uses Temporal directly where possible, and the HTTP API only for live output and stored
// messages. See package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/threadmill/threadmill/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
