//go:build unix && !linux

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// Supported reports whether this system is supported.
const Supported = true

// Protect is not supported on this system: it returns [errors.ErrUnsupported].
func Protect() error { return errors.ErrUnsupported }

// Command is a program with the other processes of its group.
type Command struct {
	// Cmd is the command that runs the program. Set Dir, Env, Stdin, Stdout and Stderr before the start, and
	// nothing else.
	Cmd   *exec.Cmd
	grace time.Duration

	// stop is the time of the stop signal, in nanoseconds since 1970.
	stop atomic.Int64
}

// New returns a program that is stopped when ctx is done: its processes get SIGTERM and, after grace,
// SIGKILL.
func New(ctx context.Context, argv []string, grace time.Duration) (*Command, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // running commands is the purpose of the package
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	c := &Command{Cmd: cmd, grace: grace}
	cmd.Cancel = func() error {
		err := c.signal(syscall.SIGTERM)
		if err == nil {
			c.stop.Store(time.Now().UnixNano())
		}
		return err
	}
	return c, nil
}

// Start starts the program.
func (c *Command) Start() error { return c.Cmd.Start() }

// Wait returns when no process of the program's group remains.
func (c *Command) Wait() error {
	err := c.Cmd.Wait()
	left := c.grace
	if at := c.stop.Load(); at != 0 {
		left -= time.Since(time.Unix(0, at))
	}
	c.end(left)
	return err
}

// Stopped reports whether the program received a stop signal before it ended.
func (c *Command) Stopped() bool { return c.stop.Load() != 0 }

// end stops the remaining processes, immediately if grace is used up.
func (c *Command) end(grace time.Duration) {
	if c.signal(syscall.SIGTERM) != nil {
		return
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if c.signal(0) != nil {
				return
			}
		case <-deadline.C:
			_ = c.signal(syscall.SIGKILL)
			return
		}
	}
}

func (c *Command) signal(sig syscall.Signal) error {
	err := syscall.Kill(-c.Cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
