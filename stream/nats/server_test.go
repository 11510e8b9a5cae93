package nats_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// server is a NATS server of one test, which may kill and restart it. Clients connect through a
// proxy that keeps its port while the server is down, so that no other process can take the port,
// and clients do not wait for the server's start.
type server struct {
	t    *testing.T
	dir  string
	door net.Listener
	cmd  *exec.Cmd

	mu    sync.Mutex
	addr  string // of the server; empty while it is down
	conns []net.Conn

	frozen chan struct{} // closed by thaw
}

func newServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("nats-server"); err != nil {
		testenv.NATS(t) // skips or fails, unless the server comes from the environment
		t.Skip("no nats-server on PATH to restart")
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, dir: t.TempDir(), door: door}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		s.kill()
		require.NoError(t, door.Close())
		serving.Wait()
	})
	s.open(s.start())
	return s
}

func (s *server) url() string { return "nats://" + s.door.Addr().String() }

// start starts the server and returns its address.
func (s *server) start() string {
	s.t.Helper()
	s.cmd = exec.Command("nats-server", "-js", "-a", "127.0.0.1", "-p", "-1", "-sd", s.dir, "--ports_file_dir", s.dir)
	require.NoError(s.t, s.cmd.Start())
	var addr string
	require.Eventually(s.t, func() bool {
		var err error
		if addr, err = testenv.NATSAddr(filepath.Join(s.dir, fmt.Sprintf("*_%d.ports", s.cmd.Process.Pid))); err != nil {
			return false
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, testenv.Patience, 10*time.Millisecond)
	return addr
}

func (s *server) open(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = addr
}

// kill disconnects the clients and kills the server.
func (s *server) kill() {
	s.mu.Lock()
	s.addr = ""
	s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.Close() // the server may have closed it already
	}
	s.conns = nil
}

// freeze forwards nothing in either direction until thaw, as if the server hung: connections stay open without answers.
func (s *server) freeze() (thaw func()) {
	frozen := make(chan struct{})
	thaw = sync.OnceFunc(func() { close(frozen) })
	s.t.Cleanup(thaw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = frozen
	return thaw
}

// side is one side of a connection.
type side struct {
	*server
	net.Conn
}

func (w side) Write(b []byte) (int, error) {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return w.Conn.Write(b)
}

// serve forwards clients to the server, or rejects them while it is down.
func (s *server) serve() {
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		client, err := s.door.Accept()
		if err != nil {
			return
		}
		passing.Go(func() { s.pass(client) })
	}
}

// pass copies between a client and the server until either disconnects.
func (s *server) pass(client net.Conn) {
	defer client.Close()
	s.mu.Lock()
	addr := s.addr
	s.mu.Unlock()
	if addr == "" {
		return
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	s.mu.Lock()
	s.conns = append(s.conns, client, conn)
	s.mu.Unlock()
	go func() {
		_, _ = io.Copy(side{s, conn}, client) // the end of one closes both
		_ = conn.Close()
	}()
	_, _ = io.Copy(side{s, client}, conn)
}
