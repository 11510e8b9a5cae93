// Package httpserver runs the HTTP server of a program: with limits for what strangers hold open, and an end that waits for
// requests but not for streams.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

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

// Server is a running HTTP server.
type Server struct {
	listener net.Listener
	server   *http.Server
	draining atomic.Bool
	failed   chan error

	// endAll ends the context of every request.
	endAll context.CancelFunc
}

// Serve serves a handler on a listener, which it closes in the end. Stop calls closeStreams to end
// responses that would not end otherwise.
func Serve(l net.Listener, handler http.Handler, closeStreams func(), log *slog.Logger) *Server {
	return serve(l, maxConnections, handler, closeStreams, log)
}

func serve(l net.Listener, connections int, handler http.Handler, closeStreams func(), log *slog.Logger) *Server {
	base, endAll := context.WithCancel(context.Background())
	s := &Server{listener: l, failed: make(chan error, 1), endAll: endAll}
	s.server = &http.Server{
		Handler:           s.refuseWhileDraining(handler),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.server.RegisterOnShutdown(closeStreams)
	go func() {
		if err := s.server.Serve(netutil.LimitListener(frugal{l}, connections)); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// URL is the address of the server on this machine.
func (s *Server) URL() string { return URL(s.listener) }

// URL is the address of a listener on this machine.
func URL(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("localhost", port)
	}
	return "http://" + l.Addr().String()
}

// Failed receives an error if the server ends by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Drain makes /readyz answer 503, so that new requests go elsewhere.
func (s *Server) Drain() { s.draining.Store(true) }

// Stop stops accepting requests, ends event streams, and waits up to grace for all other requests;
// then it closes their connections.
func (s *Server) Stop(grace time.Duration) {
	s.Drain()
	defer s.endAll()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.endAll()
		// The error has no reader.
		_ = s.server.Close()
	}
}

func (s *Server) refuseWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !s.draining.Load() {
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
