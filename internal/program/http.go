package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

// Listen listens on the value of a flag. The error names the flag.
func Listen(flag, addr string) (net.Listener, error) {
	if err := ValidateAddr(flag, addr); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, Taken(flag, addr, err)
	}
	return l, nil
}

// ValidateAddr reports whether the value of a flag can be an address.
func ValidateAddr(flag, addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return Usagef("--%s: %q is not host:port, such as 127.0.0.1:8080", flag, addr)
	}
	return nil
}

// Taken returns the error for an address of a flag that is in use or not available.
func Taken(flag, addr string, err error) error {
	// The messages of libraries repeat the address.
	var cause syscall.Errno
	if errors.As(err, &cause) {
		err = cause
	}
	return fmt.Errorf("--%s: cannot listen on %s: %w; stop what runs there, or choose another address with --%[1]s", flag, addr, err)
}

const (
	// maxConnections is the limit of open connections of a listener; further ones wait.
	maxConnections = 16 << 10

	// maxHeader is the size limit of a request's header in bytes.
	maxHeader = 64 << 10

	// writeBuffer is the kernel's buffer for unread data of a client. By default it grows to
	// several megabytes for each client.
	writeBuffer = 256 << 10
)

// frugal is a listener whose connections have small buffers.
type frugal struct{ net.Listener }

func (l frugal) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		// A connection that has ended already fails at its first read.
		_ = tcp.SetWriteBuffer(writeBuffer)
	}
	return conn, err
}

// HTTP is a running HTTP server.
type HTTP struct {
	listener net.Listener
	server   *http.Server
	draining atomic.Bool
	failed   chan error

	// endAll ends the context of every request.
	endAll context.CancelFunc
}

// Serve serves a handler on a listener, which it closes in the end. Stop calls closeStreams to end
// responses that would not end otherwise.
func Serve(l net.Listener, handler http.Handler, closeStreams func(), log *slog.Logger) *HTTP {
	return serve(l, maxConnections, handler, closeStreams, log)
}

func serve(l net.Listener, connections int, handler http.Handler, closeStreams func(), log *slog.Logger) *HTTP {
	base, endAll := context.WithCancel(context.Background())
	h := &HTTP{listener: l, failed: make(chan error, 1), endAll: endAll}
	h.server = &http.Server{
		Handler:           h.refuseWhileDraining(handler),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	h.server.RegisterOnShutdown(closeStreams)
	go func() {
		if err := h.server.Serve(netutil.LimitListener(frugal{l}, connections)); !errors.Is(err, http.ErrServerClosed) {
			h.failed <- fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
		}
	}()
	return h
}

// URL is the address of the server on this machine.
func (h *HTTP) URL() string { return listenerURL(h.listener) }

func listenerURL(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("localhost", port)
	}
	return "http://" + l.Addr().String()
}

// Failed receives an error if the server ends by itself.
func (h *HTTP) Failed() <-chan error { return h.failed }

// Drain makes /readyz answer 503, so that new requests go elsewhere.
func (h *HTTP) Drain() { h.draining.Store(true) }

// Stop stops accepting requests, ends event streams, and waits up to grace for all other requests;
// then it closes their connections.
func (h *HTTP) Stop(grace time.Duration) {
	h.Drain()
	defer h.endAll()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		h.endAll()
		// The error has no reader.
		_ = h.server.Close()
	}
}

func (h *HTTP) refuseWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !h.draining.Load() {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusServiceUnavailable)
		// The client may have disconnected.
		_, _ = io.WriteString(w, `{"status":"unavailable","components":{"process":"draining"}}`+"\n")
	})
}
