package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// Scripts runs scripts of tests/npm one after the other in one process, which loads their packages once: see run.mjs. Call Stop.
type Scripts struct {
	node   *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

// Run runs a script, which must succeed. After one that does not, the next has a process of its own.
func (s *Scripts) Run(t testing.TB, script string, args ...string) {
	t.Helper()
	if s.node == nil {
		s.start(t)
	}
	require.NoError(t, json.NewEncoder(s.in).Encode(append([]string{script}, args...)))
	var printed strings.Builder
	for s.out.Scan() {
		if s.out.Text() == "ok" {
			return
		}
		printed.WriteString(s.out.Text() + "\n")
	}
	err := s.node.Wait()
	s.node = nil
	require.Fail(t, script+" failed", "%v\n%s%s", err, &printed, &s.stderr)
}

func (s *Scripts) start(t testing.TB) {
	t.Helper()
	s.node = testenv.Node(t, "run.mjs")
	var err error
	s.in, err = s.node.StdinPipe()
	require.NoError(t, err)
	out, err := s.node.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewScanner(out)
	s.stderr.Reset()
	s.node.Stderr = &s.stderr
	require.NoError(t, s.node.Start())
}

// Stop ends the process. Servers wait for its connections when they close.
func (s *Scripts) Stop() {
	if s.node == nil {
		return
	}
	_ = s.node.Process.Kill() // it may have ended
	_ = s.node.Wait()
}
