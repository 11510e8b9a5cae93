//go:build !unix

package process

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// Supported reports whether this system is supported.
const Supported = false

// Protect is not supported on this system: it returns [errors.ErrUnsupported].
func Protect() error { return errors.ErrUnsupported }

// Command is a program. It cannot be started on this system.
type Command struct{ Cmd *exec.Cmd }

// New returns [errors.ErrUnsupported].
func New(context.Context, []string, time.Duration) (*Command, error) {
	return nil, errors.ErrUnsupported
}

// Start returns [errors.ErrUnsupported].
func (c *Command) Start() error { return errors.ErrUnsupported }

// Wait returns [errors.ErrUnsupported].
func (c *Command) Wait() error { return errors.ErrUnsupported }

// Stopped returns false.
func (c *Command) Stopped() bool { return false }

// ExitStatus returns -1.
func ExitStatus(any) int { return -1 }
