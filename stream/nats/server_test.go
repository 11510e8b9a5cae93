package nats_test

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// server is a NATS server of one test, which may kill and restart it.
type server struct {
	t    *testing.T
	addr string
	dir  string
	cmd  *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("nats-server"); err != nil {
		testenv.NATS(t) // skips or fails, unless the server comes from the environment
		t.Skip("no nats-server on PATH to restart")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, addr: l.Addr().String(), dir: t.TempDir()}
	require.NoError(t, l.Close())
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) url() string { return "nats://" + s.addr }

func (s *server) start() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(s.t, err)
	s.cmd = exec.Command("nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", s.dir)
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, patience, 10*time.Millisecond)
}

func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}
