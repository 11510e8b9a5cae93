package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// Run is one run of a program, in a process that ends with the test.
type Run struct {
	t             testing.TB
	cmd           *exec.Cmd
	ready, exited chan struct{}

	// output includes stderr.
	output, stderr testenv.Buffer
}

// Launch starts a command, which is ready when it prints a line with sign. It runs in cmd.Dir, or in a new folder; its
// environment is PATH, HOME, which is that folder, and cmd.Env.
func Launch(t testing.TB, cmd *exec.Cmd, sign string) *Run {
	t.Helper()
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, cmd.Env...)
	r := &Run{t: t, cmd: cmd, ready: make(chan struct{}), exited: make(chan struct{})}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready := sync.OnceFunc(func() { close(r.ready) })
	var reading sync.WaitGroup
	reading.Go(func() { read(stdout, &r.output, sign, ready) })
	reading.Go(func() { read(stderr, io.MultiWriter(&r.output, &r.stderr), sign, ready) })
	go func() {
		defer close(r.exited)
		reading.Wait()
		// The exit code contains the result.
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		r.Kill()
		if t.Failed() {
			t.Logf("last words of %s: %s", cmd, r.Output())
		}
	})
	return r
}

// read reads to the end, with lines of any length: a process whose output is not read blocks.
func read(from io.Reader, to io.Writer, sign string, ready func()) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		fmt.Fprint(to, line)
		if strings.Contains(line, sign) {
			ready()
		}
		if err != nil {
			return
		}
	}
}

// AwaitReady waits until the process is ready.
func (r *Run) AwaitReady() {
	r.t.Helper()
	select {
	case <-r.ready:
	case <-r.exited:
		require.Fail(r.t, "the process ended", r.Output())
	case <-time.After(testenv.Patience):
		require.Fail(r.t, "the process is not ready", r.Output())
	}
}

// Output returns the lines that the process has printed to stdout and to stderr.
func (r *Run) Output() string { return r.output.String() }

// Stderr returns the lines that the process has printed to stderr.
func (r *Run) Stderr() string { return r.stderr.String() }

// Signal sends a signal. The error is os.ErrProcessDone once the process has ended.
func (r *Run) Signal(sig os.Signal) error { return r.cmd.Process.Signal(sig) }

// Kill sends SIGKILL and waits for the end.
func (r *Run) Kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.exited
}

// Terminate sends SIGTERM, waits for the end, and returns the exit code.
func (r *Run) Terminate() int {
	r.t.Helper()
	require.NoError(r.t, r.Signal(syscall.SIGTERM))
	return r.AwaitExit()
}

// AwaitExit waits for the end, and returns the exit code.
func (r *Run) AwaitExit() int {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(testenv.Patience):
		require.Fail(r.t, "the process does not end", r.Output())
	}
	return r.cmd.ProcessState.ExitCode()
}
