package process

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// life is one run of a process.
type life struct {
	cmd           *exec.Cmd
	ready, exited chan struct{}
	output        buffer
}

// launch starts a process, which is ready when it prints a line with sign.
func launch(t testing.TB, cmd *exec.Cmd, sign string) *life {
	t.Helper()
	l := &life{cmd: cmd, ready: make(chan struct{}), exited: make(chan struct{})}
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	go func() {
		defer close(l.exited)
		l.read(output, sign)
		// The exit code contains the result.
		_ = cmd.Wait()
	}()
	return l
}

// read reads to the end, with lines of any length: a process whose output is not read blocks.
func (l *life) read(output io.Reader, sign string) {
	said := false
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadString('\n')
		fmt.Fprint(&l.output, line)
		if !said && strings.Contains(line, sign) {
			said = true
			close(l.ready)
		}
		if err != nil {
			return
		}
	}
}

func (l *life) awaitReady(t testing.TB) {
	t.Helper()
	limit := time.NewTimer(testenv.Patience)
	defer limit.Stop()
	select {
	case <-l.ready:
	case <-l.exited:
		require.Fail(t, "the process ended", l.output.String())
	case <-limit.C:
		require.Fail(t, "the process is not ready", l.output.String())
	}
}

// kill sends SIGKILL and waits for the end.
func (l *life) kill() {
	_ = l.cmd.Process.Kill() // it may have ended
	<-l.exited
}

// buffer collects the output of several goroutines.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
