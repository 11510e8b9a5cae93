//go:build unix

package shell

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const supported = true

// ownGroup makes cmd the leader of a process group, which its end reaches as a
// whole. What it returns tells, after Wait, when the group was told to stop: zero
// if the command ended before.
func ownGroup(cmd *exec.Cmd) (stopped func() time.Time) {
	var at time.Time
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := signalGroup(cmd, syscall.SIGTERM)
		if err == nil {
			at = time.Now()
		}
		return err
	}
	return func() time.Time { return at }
}

// endGroup ends what the command has left behind: at once if the grace is used up.
func endGroup(cmd *exec.Cmd, grace time.Duration) {
	if signalGroup(cmd, syscall.SIGTERM) != nil {
		return
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if signalGroup(cmd, 0) != nil {
				return
			}
		case <-deadline.C:
			_ = signalGroup(cmd, syscall.SIGKILL)
			return
		}
	}
}

func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
