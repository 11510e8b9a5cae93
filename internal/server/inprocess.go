package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/guard"
)

// originKey is the context key of the request in which an MCP client called a tool.
type originKey struct{}

// withOrigin adds the request of a call to its context, since sessions outlast requests.
func withOrigin(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			if r, ok := extra.TokenInfo.Extra[originOf].(*http.Request); ok {
				guard.ForgetBody(r.Context())
				ctx = context.WithValue(ctx, originKey{}, r)
			}
		}
		return next(ctx, method, req)
	}
}

// originRoles returns the roles of the client that called.
func originRoles(ctx context.Context) auth.Roles {
	r, ok := ctx.Value(originKey{}).(*http.Request)
	if !ok {
		return nil
	}
	return auth.FromContext(r.Context()).Roles
}

// inProcess sends requests to the API within the process, with the credentials of the origin.
type inProcess struct{ handler http.Handler }

func (p inProcess) do(req *http.Request) (*http.Response, error) {
	origin, ok := req.Context().Value(originKey{}).(*http.Request)
	if !ok {
		return nil, errors.New("there is no request with credentials")
	}
	in := req.Clone(context.WithValue(req.Context(), takenKey{}, (*taken)(nil))) // a session has the values of the request that opened it
	in.Host, in.RemoteAddr, in.TLS, in.RequestURI = origin.Host, origin.RemoteAddr, origin.TLS, req.URL.RequestURI()
	for name, values := range origin.Header {
		if credential(name) && in.Header.Get(name) == "" {
			in.Header[name] = slices.Clone(values)
		}
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	body, write := io.Pipe()
	out := &pipeWriter{header: http.Header{}, begun: make(chan struct{}), body: write}
	go out.serve(p.handler, in)
	select {
	case <-out.begun:
	case <-req.Context().Done():
		_ = body.Close()
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(out.status), StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.sent, Body: body, ContentLength: -1, Request: req,
	}, nil
}

// credential reports whether a header may identify the client: it does not belong to the exchange
// itself, or to MCP.
func credential(name string) bool {
	switch name {
	case "Accept", "Cache-Control", "Connection", "Expect", "Keep-Alive", "Last-Event-Id", "Origin", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return false
	}
	for _, prefix := range []string{"Accept-", "Content-", "If-", "Mcp-", "Sec-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// pipeWriter is a response that another goroutine reads.
type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	begun  chan struct{}
	status int
	sent   http.Header
}

// serve serves the request. A response that was cut off ends with an error.
func (w *pipeWriter) serve(handler http.Handler, r *http.Request) {
	defer func() {
		cause := recover()
		w.WriteHeader(http.StatusInternalServerError) // unless it has begun
		if cause != nil {
			_ = w.body.CloseWithError(fmt.Errorf("the response was cut off: %v", cause))
			return
		}
		_ = w.body.Close()
	}()
	handler.ServeHTTP(w, r)
	w.WriteHeader(http.StatusOK)
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(data)
}

// Flush implements [http.Flusher]: what is written is read at once.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// quiet logs errors of clients for those who look for them.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
