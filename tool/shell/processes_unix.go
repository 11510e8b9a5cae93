//go:build unix && !linux

package shell

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const supported = true

// ProtectProcess is not supported on this system: it returns [errors.ErrUnsupported].
func ProtectProcess() error { return errors.ErrUnsupported }

// processes is a command with the other processes of its group.
type processes struct {
	cmd   *exec.Cmd
	grace time.Duration

	// stop is the time of the stop signal, in nanoseconds since 1970.
	stop atomic.Int64
}

func newProcesses(ctx context.Context, argv []string, grace time.Duration) (*processes, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // running commands is the purpose of the tool
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	p := &processes{cmd: cmd, grace: grace}
	cmd.Cancel = func() error {
		err := p.signal(syscall.SIGTERM)
		if err == nil {
			p.stop.Store(time.Now().UnixNano())
		}
		return err
	}
	return p, nil
}

// run starts the command and returns when no process of its group remains.
func (p *processes) run() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	err := p.cmd.Wait()
	left := p.grace
	if at := p.stop.Load(); at != 0 {
		left -= time.Since(time.Unix(0, at))
	}
	p.end(left)
	return err
}

func (p *processes) stopped() bool { return p.stop.Load() != 0 }

// end stops the remaining processes, immediately if grace is used up.
func (p *processes) end(grace time.Duration) {
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if p.signal(0) != nil {
				return
			}
		case <-deadline.C:
			_ = p.signal(syscall.SIGKILL)
			return
		}
	}
}

func (p *processes) signal(sig syscall.Signal) error {
	err := syscall.Kill(-p.cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
