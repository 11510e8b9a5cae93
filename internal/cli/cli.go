package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/text/term"
)

// Exit codes of [Run].
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// threads is the part of a [threadclient.Client] that the commands use.
type threads interface {
	lifecycle
	poster
	queues
	approvals
	tasks
	schedules
	workers
}

// app is one run of the program.
type app struct {
	flags          connection
	stdin          io.Reader
	stdout, stderr *term.Writer

	// raw is stdout as it is, for other programs.
	raw io.Writer

	// keys and screen are stdin and stdout if both are a terminal: prompts make sense. color allows
	// styles there.
	keys, screen *os.File
	color        bool

	// progress is stderr if it is a terminal.
	progress io.Writer

	// dial connects to Temporal.
	dial func(ctx context.Context, c connection) (threads, func(), error)

	// interrupts delivers Ctrl-C until stop is called.
	interrupts func() (signals <-chan os.Signal, stop func())

	// settle is the time that the live stream may lag behind the end of a turn before the reply is
	// shown as Temporal returned it.
	settle time.Duration

	// mindEvery is the interval at which a command that waits looks for workers, or for a login. Default 3 s.
	mindEvery time.Duration

	// json is the flag --json of the command.
	json bool

	// began means that the arguments are valid.
	began bool
}

// Run runs the command line and returns its exit code. It reads stdin only for commands that say
// so, and returns soon after ctx has ended.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	color := isTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	a := &app{
		stdin: stdin, raw: stdout, stdout: term.New(stdout, color), stderr: term.New(stderr, false), color: color,
		dial: dialTemporal, interrupts: osInterrupts, settle: settleTime,
	}
	if isTerminal(stderr) && os.Getenv("TERM") != "dumb" {
		a.progress = stderr
	}
	if isTerminal(stdin) && isTerminal(stdout) && os.Getenv("TERM") != "dumb" {
		a.keys, a.screen = stdin.(*os.File), stdout.(*os.File)
	}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var silent silentError
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return exitFailed
	case !a.began || errors.As(err, &wrong):
		a.fail(err.Error())
		a.warn("Run \"%s --help\" for usage.", cmd.CommandPath())
		return exitUsage
	}
	a.fail(a.explain(err))
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "starter",
		Short: "Open threads, talk to their agents, watch them and decide on their tool calls",
		Long: `Open threads, talk to their agents, watch them and decide on their tool calls.

Temporal is found by --address, a profile, or the TEMPORAL_* environment (default
localhost:7233, namespace default); the HTTP API, needed for live output and stored
messages, by --api or THREADMILL_API, with the API key in THREADMILL_API_KEY or the file of
--api-key-file, if it wants one. "go run ./devserver" starts both.`,
		Version:       buildinfo.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.began = true
			if a.flags.timeout <= 0 {
				return usagef("--timeout is %s, must be more than 0, such as %s", a.flags.timeout, defaultTimeout)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.flags.register(root.PersistentFlags())
	thread, message, approval, queue := threadCommands{a}, messageCommands{a}, approvalCommands{a}, queueCommands{a}
	root.AddCommand(
		thread.openCommand(), message.sendCommand(), chatCommands{a}.chatCommand(), thread.watchCommand(), thread.showCommand(), thread.listCommand(), thread.countsCommand(),
		approval.approvalsCommand(), approval.decideCommand("approve"), approval.decideCommand("deny"),
		approval.grantsCommand(), approval.revokeCommand(), approval.toolResultCommand(), approval.answerCommand(),
		thread.updateCommand(), thread.interruptCommand(), thread.closeCommand(),
		eraseCommands{a}.eraseCommand(), eraseCommands{a}.erasePersonCommand(), eraseCommands{a}.erasuresCommand(), eraseCommands{a}.exportCommand(), eraseCommands{a}.exportPersonCommand(),
		queue.retryCommand(), queue.queueCommand(), message.publishCommand(),
		taskCommands{a}.taskCommand(), scheduleCommands{a}.scheduleCommand(), agentCommands{a}.agentsCommand(), serverCommands{a}.serversCommand(),
		knowledgeCommands{a}.knowledgeCommand(), entityCommands{a}.entitiesCommand(), keyCommands{a}.keysCommand(), mcpCommands{a}.mcpCommand(), doctorCommands{app: a}.doctorCommand(), repairCommands{a}.repairCommand(), retentionCommands{a}.retentionCommand(),
		deploymentCommands{app: a}.deploymentCommand(), configCommands{a}.configCommand(),
	)
	explainArguments(root)
	return root
}

// usageError is a mistake in the arguments that a command found.
type usageError struct{ error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentError is a failure that was already printed.
type silentError struct{}

func (silentError) Error() string { return "failed" }

func (a *app) renderer(thoughts string) (*render.Renderer, error) {
	t := render.Thoughts(thoughts)
	if !t.Valid() {
		return nil, usagef("--thoughts is %q, must be show, collapse or hide", thoughts)
	}
	return render.New(render.Options{Thoughts: t}), nil
}

// say prints a line of the result.
func (a *app) say(format string, args ...any) {
	fmt.Fprint(a.stdout, line(format, args...))
}

// warn prints a line beside the result.
func (a *app) warn(format string, args ...any) {
	fmt.Fprint(a.stderr, line(format, args...))
}

// fail prints an error. Its further lines are indented, because their text may come from others.
func (a *app) fail(problem string) {
	fmt.Fprintln(a.stderr, "starter: "+strings.ReplaceAll(strings.TrimSpace(problem), "\n", "\n  "))
}

// print prints styled text. It ignores errors: a closed output has no reader.
func (a *app) print(text term.Text) { _ = a.stdout.Print(text) }

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// actor returns the acting person: the flag, or the logged-in user.
func actor(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if name := os.Getenv("USER"); name != "" {
		return name, nil
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username, nil
	}
	return "", usagef("set --by or USER: the name is stored with what you do")
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

func osInterrupts() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt)
	return ch, func() { signal.Stop(ch) }
}
