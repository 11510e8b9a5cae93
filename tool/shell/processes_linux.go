package shell

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

const supported = true

// ProtectProcess makes the calling process unreadable for other processes of its user: commands
// cannot read its environment or memory in /proc, attach to it, or make it dump core. Call it at
// the start of a worker that has keys in its environment. On other systems it returns
// [errors.ErrUnsupported].
func ProtectProcess() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// processes is a command with its descendants. They run under a supervisor, which is this program
// again (see supervise): as a subreaper it remains the ancestor of processes that start their own
// session, and it always ends with the worker.
type processes struct {
	cmd *exec.Cmd

	// The supervisor stops the command when the other end of this pipe closes.
	lifeline, supervisorEnd *os.File
	stop                    atomic.Bool
}

func newProcesses(ctx context.Context, argv []string, grace time.Duration) (*processes, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{supervisorName, strconv.FormatInt(int64(grace), 10)}, argv...)
	cmd.ExtraFiles = []*os.File{read} // lifelineFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = grace + 2*killPatience
	p := &processes{cmd: cmd, lifeline: write, supervisorEnd: read}
	cmd.Cancel = func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if err == nil {
			p.stop.Store(true)
		}
		return err
	}
	return p, nil
}

// run starts the command and returns when no process of it remains.
func (p *processes) run() error {
	err := p.cmd.Start()
	_ = p.supervisorEnd.Close()
	defer p.lifeline.Close()
	if err != nil {
		return err
	}
	err = p.cmd.Wait()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		// The supervisor was killed, by the command or because it did not end.
		session := p.cmd.Process.Pid
		signalEach(syscall.SIGKILL, func(s processStat) bool { return s.session == session })
	}
	return err
}

// stopped reports whether the command received a stop signal before it ended.
func (p *processes) stopped() bool { return p.stop.Load() }
