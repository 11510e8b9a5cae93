package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/tool/shell"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Threadmill is the name of the programs that declare nothing of their own: they may share a task queue.
const Threadmill = "threadmill"

// again is the time in which further signals count as the same one: some senders signal both the
// process and its group.
const again = 300 * time.Millisecond

// Main runs a command to its end. The first SIGINT or SIGTERM ends the context of the command, the
// second ends the process.
func Main(cmd *cobra.Command) int {
	// Commands of agents run as the same user. Only Linux has this protection.
	_ = shell.ProtectProcess()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-caught
		first := time.Now()
		cancel()
		for range caught {
			if time.Since(first) > again {
				break
			}
		}
		fmt.Fprintln(os.Stderr, cmd.Name()+": stopped at once")
		os.Exit(ExitFailed)
	}()
	return Execute(ctx, cmd)
}

// Execute runs a command and prints its error to the command's stderr. It escapes the command's
// output and logs for terminals.
func Execute(ctx context.Context, cmd *cobra.Command) int {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(term.New(cmd.OutOrStdout(), false))
	cmd.SetErr(term.New(cmd.ErrOrStderr(), false))
	began := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := cmd.ExecuteContext(ctx)
	var usage *usageError
	var mistake *config.Error
	switch {
	case err == nil, ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitOK
	case errors.As(err, &mistake):
		complain(cmd.ErrOrStderr(), config.Explain(err))
		return ExitUsage
	case !began:
		complain(cmd.ErrOrStderr(), fmt.Sprintf("%s: %s (see %[1]s --help)", cmd.Name(), oneLine(err)))
		return ExitUsage
	}
	complain(cmd.ErrOrStderr(), cmd.Name()+": "+oneLine(err))
	if errors.As(err, &usage) {
		return ExitUsage
	}
	return ExitFailed
}

func complain(w io.Writer, text string) { fmt.Fprintln(w, text) }

// oneLine joins the lines of an error.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// usageError is a mistake in a flag, a variable or a file.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// Usagef returns an error about a mistake in a flag, a variable or a file.
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }
