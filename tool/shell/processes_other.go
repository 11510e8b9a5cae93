//go:build !unix

package shell

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

const supported = false

// ProtectProcess is not supported on this system: it returns [errors.ErrUnsupported].
func ProtectProcess() error { return errors.ErrUnsupported }

type processes struct{ cmd *exec.Cmd }

func newProcesses(context.Context, []string, time.Duration) (*processes, error) {
	return nil, errors.ErrUnsupported
}

func (p *processes) run() error { return errors.ErrUnsupported }

func (p *processes) stopped() bool { return false }

func exitStatus(any) int { return -1 }
