package process

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether this system is supported.
const Supported = true

// Protect makes the calling process unreadable for other processes of its user: commands
// cannot read its environment or memory in /proc, attach to it, or make it dump core. Call it at
// the start of a worker that has keys in its environment. On other systems it returns
// [errors.ErrUnsupported].
func Protect() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// Command is a program with its descendants.
type Command struct {
	// Cmd is the command that runs the program. Set Dir, Env, Stdin, Stdout and Stderr before the start, and
	// nothing else.
	Cmd *exec.Cmd

	// The supervisor stops the program when the other end of this pipe closes.
	lifeline, supervisorEnd *os.File
	stop                    atomic.Bool
}

// New returns a program that is stopped when ctx is done: its processes get SIGTERM and, after grace,
// SIGKILL.
func New(ctx context.Context, argv []string, grace time.Duration) (*Command, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{supervisorName, strconv.FormatInt(int64(grace), 10)}, argv...)
	cmd.ExtraFiles = []*os.File{read} // lifelineFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = grace + 2*killPatience
	c := &Command{Cmd: cmd, lifeline: write, supervisorEnd: read}
	cmd.Cancel = func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err == nil {
			c.stop.Store(true)
		}
		return err
	}
	return c, nil
}

// Start starts the program.
func (c *Command) Start() error {
	err := c.Cmd.Start()
	_ = c.supervisorEnd.Close()
	if err != nil {
		_ = c.lifeline.Close()
	}
	return err
}

// Wait returns when no process of the program remains.
func (c *Command) Wait() error {
	defer c.lifeline.Close()
	err := c.Cmd.Wait()
	if ws, ok := c.Cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		// The supervisor was killed, by the program or because it did not end.
		session := c.Cmd.Process.Pid
		signalEach(syscall.SIGKILL, func(s processStat) bool { return s.session == session })
	}
	return err
}

// Stopped reports whether the program received a stop signal before it ended.
func (c *Command) Stopped() bool { return c.stop.Load() }
