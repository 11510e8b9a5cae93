package process

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// NATS is a NATS server of one test, which may kill and restart it.
type NATS struct {
	URL string

	// Run is since the last start.
	*Run

	t         testing.TB
	port, dir string
}

// NewNATS starts a NATS server that ends with the test. Without the program the test is skipped, or
// fails if NATS is required.
func NewNATS(t testing.TB) *NATS {
	t.Helper()
	if _, err := exec.LookPath("nats-server"); err != nil {
		testenv.NATS(t)
		t.Skip("no nats-server on PATH to kill")
	}
	addr := FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n := &NATS{t: t, URL: "nats://" + addr, port: port, dir: t.TempDir()}
	n.Start()
	return n
}

// Start starts the server with empty memory.
func (n *NATS) Start() {
	n.t.Helper()
	n.Run = Launch(n.t, exec.Command("nats-server", "-js", "-a", "127.0.0.1", "-p", n.port, "-sd", n.dir), "Server is ready")
	n.AwaitReady()
}

// Proxy is a proxy between a program and a server. It can cut all connections, as if the server had
// been killed, freeze it, and hold back a response.
type Proxy struct {
	// Addr is the address for the program.
	Addr string

	// Refused counts the connections while the server was cut off.
	Refused atomic.Int64

	// Kept counts the data for the server while it was frozen.
	Kept atomic.Int64

	target string
	mu     sync.Mutex
	conns  map[net.Conn]bool
	cut    bool
	frozen chan struct{} // closed by Thaw; nil if not frozen
	hold   []byte
	held   chan struct{}
}

// NewProxy starts a proxy for the server at target, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{Addr: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.Thaw()
		serving.Wait()
	})
	return p
}

// Cut closes all connections, and each new one until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Mend accepts connections again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Freeze forwards nothing in either direction until Thaw, as if the server had been stopped:
// connections stay open without responses.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw forwards everything since Freeze, and what follows.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// awaitThaw returns immediately unless the server is frozen.
func (p *Proxy) awaitThaw(count *atomic.Int64) {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		if count != nil {
			count.Add(1)
		}
		<-frozen
	}
}

// HoldAnswerTo forwards the program's data up to and including this text, and no response to it.
// The channel is closed when that has happened.
func (p *Proxy) HoldAnswerTo(text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.held = []byte(text), make(chan struct{})
	return p.held
}

// holds reports whether to hold back the response to data.
func (p *Proxy) holds(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.hold) > 0 && bytes.Contains(data, p.hold)
}

// heldBack reports that a response was held back, once.
func (p *Proxy) heldBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hold) > 0 {
		p.hold = nil
		close(p.held)
	}
}

func (p *Proxy) join(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		p.Refused.Add(1)
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) leave(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if !p.join(client) {
		return
	}
	defer p.leave(client)
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var silent atomic.Bool
	var both sync.WaitGroup
	both.Go(func() {
		p.forward(server, client, &silent)
		_ = server.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(answers{p, &silent, client}, server) // it ends when either side does
		_ = client.Close()
	})
	both.Wait()
}

// forward forwards the client's data, until the connection is silenced.
func (p *Proxy) forward(server io.Writer, client io.Reader, silent *atomic.Bool) {
	buf, before := make([]byte, 64<<10), []byte(nil)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		// The text may arrive in two pieces.
		window := append(before, buf[:n]...)
		hold := p.holds(window)
		if hold {
			silent.Store(true)
		}
		p.awaitThaw(&p.Kept)
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if hold {
			p.heldBack()
		}
		before = append([]byte(nil), window[max(0, len(window)-256):]...)
	}
}

// answers forwards the server's data when allowed, or drops it if the connection is silent.
type answers struct {
	proxy  *Proxy
	silent *atomic.Bool
	to     io.Writer
}

func (a answers) Write(b []byte) (int, error) {
	a.proxy.awaitThaw(nil)
	if a.silent.Load() {
		return len(b), nil
	}
	return a.to.Write(b)
}
