package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/threadmill/threadmill/internal/process"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/tool"
)

// Defaults of [Config].
const (
	DefaultName        = "shell_cmd"
	DefaultTimeout     = 2 * time.Minute
	DefaultMaxOutput   = 64 << 10
	DefaultMaxProgress = 1 << 20

	maxTimeout = 12 * time.Hour
	minOutput  = 256
	grace      = 2 * time.Second

	// slack is added to the runtime's timeout, so that the tool itself ends a run that takes too
	// long: its result contains the output so far.
	slack = 10 * time.Second
)

// DefaultRunner is the default of Config.Runner.
var DefaultRunner = []string{"sh", "-c"}

// DefaultEnv names the environment variables that a command sees.
var DefaultEnv = process.DefaultEnv

// ProtectProcess makes the calling process unreadable for other processes of its user: commands
// cannot read its environment or memory in /proc, attach to it, or make it dump core. Call it at
// the start of a worker that has keys in its environment. On systems other than Linux it returns
// [errors.ErrUnsupported].
func ProtectProcess() error { return process.Protect() }

// Config configures the tool.
type Config struct {
	// Root is the directory in which commands start. Required.
	Root string

	// Name is the name of the tool. Default "shell_cmd".
	Name string

	// Timeout is the limit of one command, at most 12 h. Default 2 minutes.
	Timeout time.Duration

	// MaxOutput is the maximum size of the result, in bytes per stream, at least 256; the middle of
	// longer output is cut. Default 64 KiB.
	MaxOutput int

	// MaxProgress is the maximum size of the output that viewers see at run time, in bytes per
	// stream. Default 1 MiB.
	MaxProgress int

	// Env names environment variables that a command sees in addition to [DefaultEnv].
	Env []string

	// Runner is the program that runs a command line, with its arguments; the command line is
	// appended. {directory} stands for the directory of the command. A runner can run commands as
	// another user or in a container. It must end its command on SIGTERM. Default sh -c.
	Runner []string
}

// Output is the result of a command.
type Output struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`

	// ExitCode is the exit code, or 128 plus the number of the signal that ended the command.
	ExitCode int `json:"exitCode"`

	// StdoutTruncated and StderrTruncated report that the middle of the output was cut.
	StdoutTruncated bool `json:"stdoutTruncated,omitempty"`
	StderrTruncated bool `json:"stderrTruncated,omitempty"`

	// Error is the reason why the command was ended, if it did not end by itself.
	Error string `json:"error,omitempty"`
}

// Chunk is a piece of output at run time. Content is valid UTF-8; invalid bytes become U+FFFD.
type Chunk struct {
	// Subtype is [Stdout] or [Stderr].
	Subtype string `json:"subtype"`
	Content string `json:"content"`
}

// The subtypes of [Chunk].
const (
	Stdout = "stdout_chunk"
	Stderr = "stderr_chunk"
)

// New returns the tool.
func New(cfg Config) (tool.Tool, error) { return newTool(cfg, grace) }

func newTool(cfg Config, grace time.Duration) (tool.Tool, error) {
	if !process.Supported {
		return nil, errors.New("shell: the tool needs a Unix system")
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("shell: root: %w", err)
	}
	s := &shell{cfg: cfg, root: resolved, grace: grace}
	return tool.Func(cfg.Name,
		"Runs a command with sh -c on the server and returns its stdout, stderr and exit code. "+
			"The command gets no input, and processes that it leaves in the background are stopped.",
		s.call, tool.Timeout(cfg.Timeout+grace+slack), tool.NeedsApproval("runs a command on the server"),
		tool.Paths(resolved, "directory"))
}

func (c Config) complete() (Config, error) {
	if c.Root == "" {
		return c, errors.New("shell: root is required: the directory that commands start in")
	}
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return c, fmt.Errorf("shell: root: %w", err)
	}
	c.Root = root
	if info, err := os.Stat(c.Root); err != nil || !info.IsDir() {
		return c, fmt.Errorf("shell: root %s is not a directory", c.Root)
	}
	setDefault(&c.Name, DefaultName)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.MaxOutput, DefaultMaxOutput)
	setDefault(&c.MaxProgress, DefaultMaxProgress)
	if len(c.Runner) == 0 {
		c.Runner = DefaultRunner
	}
	if _, err := exec.LookPath(c.Runner[0]); err != nil {
		return c, fmt.Errorf("shell: runner: %w; name a program of this machine", err)
	}
	switch {
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return c, fmt.Errorf("shell: timeout is %s, must be positive and at most %s", c.Timeout, maxTimeout)
	case c.MaxOutput < minOutput:
		return c, fmt.Errorf("shell: maxOutput is %d, must be at least %d bytes", c.MaxOutput, minOutput)
	case c.MaxProgress < minOutput:
		return c, fmt.Errorf("shell: maxProgress is %d, must be at least %d bytes", c.MaxProgress, minOutput)
	}
	for _, name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return c, fmt.Errorf("shell: env %q must be the name of a variable, without a value", name)
		}
	}
	return c, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

type shell struct {
	cfg   Config
	root  string // without symbolic links
	grace time.Duration
}

type arguments struct {
	Command   string `json:"command" jsonschema:"the command line for sh -c"`
	Directory string `json:"directory,omitempty" jsonschema:"directory to run in, relative to the working directory, within the tool's root; omit it to run there"`
}

func (s *shell) call(ctx context.Context, call tool.Call, in arguments) (tool.Result, error) {
	if strings.TrimSpace(in.Command) == "" {
		return tool.Result{}, errors.New("command: is empty")
	}
	dir, err := s.directory(call.WorkingDirectory, in.Directory)
	if err != nil {
		return tool.Result{}, err
	}
	out, stopped := s.run(ctx, in.Command, dir, call.Progress)
	res, err := result(out)
	if stopped != nil {
		return res, stopped
	}
	return res, err
}

// directory resolves a directory from a model, relative to the working directory: approvers see the
// same directory. Errors do not contain the path of the root.
func (s *shell) directory(working, named string) (string, error) {
	// Not the configured root, which may be a link: approvals apply to resolved paths.
	base := s.root
	if working != "" {
		if !within(s.cfg.Root, working) && !within(s.root, working) {
			return "", errors.New("the working directory of the agent or of the thread lies outside of the tool's root; it has to be the root, or below it")
		}
		base = working
	}
	path := named
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	if !within(s.cfg.Root, path) && !within(s.root, path) {
		return "", outside(named)
	}
	resolved, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("directory: %q does not exist", named)
	case err != nil:
		return "", fmt.Errorf("directory: %q cannot be used", named)
	case !within(s.root, resolved):
		return "", outside(named)
	}
	if info, err := os.Stat(resolved); err != nil || !info.IsDir() {
		return "", fmt.Errorf("directory: %q is not a directory", named)
	}
	return resolved, nil
}

func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

func outside(named string) error {
	return fmt.Errorf("directory: %q leads out of the tool's root; name a directory below it, relative to it", named)
}

func (s *shell) run(ctx context.Context, command, dir string, progress func(any)) (Output, error) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	p, err := process.New(limited, s.argv(command, dir), s.grace)
	if err != nil {
		return Output{}, fmt.Errorf("the command could not be started: %w", withoutPath(err))
	}
	show := serial(progress)
	stdout := newCapture(Stdout, s.cfg, show)
	stderr := newCapture(Stderr, s.cfg, show)
	p.Cmd.Dir, p.Cmd.Env, p.Cmd.Stdout, p.Cmd.Stderr = dir, process.Environment(s.cfg.Env...), stdout, stderr
	if err = p.Start(); err == nil {
		err = p.Wait()
	}
	if p.Cmd.ProcessState == nil {
		return Output{}, fmt.Errorf("the command could not be started: %w", withoutPath(err))
	}
	stdout.flush()
	stderr.flush()
	out := Output{ExitCode: process.ExitStatus(p.Cmd.ProcessState.Sys())}
	out.Stdout, out.StdoutTruncated = stdout.text()
	out.Stderr, out.StderrTruncated = stderr.text()
	var exit *exec.ExitError
	switch {
	case p.Stopped() && ctx.Err() != nil:
		out.Error = "stopped before it ended"
		return out, fmt.Errorf("the command was stopped: %w", context.Cause(ctx))
	case p.Stopped():
		out.Error = fmt.Sprintf("stopped: it took longer than %s", s.cfg.Timeout)
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		out.Error = withoutPath(err).Error()
	}
	return out, nil
}

func (s *shell) argv(command, dir string) []string {
	argv := make([]string, 0, len(s.cfg.Runner)+1)
	for _, arg := range s.cfg.Runner {
		argv = append(argv, strings.ReplaceAll(arg, "{directory}", dir))
	}
	return append(argv, command)
}

// result marshals the output without escaping <, > and &, which are frequent in it.
func result(out Output) (tool.Result, error) {
	text, err := strictjson.Encode(out)
	if err != nil {
		return tool.Result{}, fmt.Errorf("result of the command: %w", err)
	}
	return tool.Result{
		Output:  string(text),
		IsError: out.ExitCode != 0 || out.Error != "",
	}, nil
}

func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
