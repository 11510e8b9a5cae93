package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/signals"
)

type requestIDKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// protect wraps the whole handler: it sets the request id, rejects requests for other hosts and
// cross-site requests of browsers, and responds when a handler panics.
func (a *access) protect(next http.Handler, allowedHosts []string, origins guard.Origins) http.Handler {
	// A web page can set the header of a proxy, but it does not have an API key.
	_, trusts := a.authenticator.(interface{ TrustsHeader() string })
	hosts := guard.Hosts{Allowed: allowedHosts, Authenticated: a.authenticator != nil && !trusts}
	next = origins.Handler(readable(next), func(w http.ResponseWriter, err error) {
		writeProblem(w, http.StatusForbidden, "requests from other sites are refused: "+err.Error())
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := signals.NewID()
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		rec := &recorder{ResponseWriter: w}
		rec.Header().Set("X-Request-Id", id)
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		begun := time.Now()
		defer func() {
			if p := recover(); p != nil {
				a.recovered(rec, r, p)
			}
			a.logger.Debug("request", "request", id, "method", r.Method, "path", loggedPath(r),
				"status", rec.status, "took", time.Since(begun))
		}()
		if err := hosts.Check(r); err != nil {
			writeProblem(rec, http.StatusMisdirectedRequest, err.Error())
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// loginPages are the pages of logins, whose paths contain links that are as secret as API keys.
const loginPages = "/oauth/"

// loggedPath returns the path of a request without secrets.
func loggedPath(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, loginPages) {
		return loginPages + "…"
	}
	return r.URL.Path
}

// readable rejects requests whose path contains invisible characters.
func readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := strings.IndexFunc(r.URL.Path, unreadable); at >= 0 {
			writeProblem(w, http.StatusBadRequest, fmt.Sprintf("the path contains %+q, which identifiers cannot contain", []rune(r.URL.Path[at:])[0]))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unreadable reports whether a character is invisible or invalid.
func unreadable(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

func (a *access) recovered(w *recorder, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	id := requestID(r.Context())
	a.logger.Error("handler panicked", "request", id, "method", r.Method, "path", loggedPath(r),
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, http.StatusInternalServerError, "internal error; see the server log for request "+id)
		return
	}
	panic(http.ErrAbortHandler) // cut the connection: the answer is not whole
}

// recorder records whether the response has begun.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	if status == http.StatusNoContent {
		w.Header().Del("Content-Type") // there is nothing of that type
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController flush.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// explainUnmatched responds to unknown paths and methods with problem documents.
func (a *access) explainUnmatched(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			a.authorize(w, r, pattern, mux)
			return
		}
		probe := &headerOnly{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			writeProblem(w, probe.status, r.Method+" is not allowed here: "+probe.header.Get("Allow"))
			return
		}
		writeProblem(w, http.StatusNotFound, "no such path; /docs lists the API")
	})
}

// headerOnly keeps the status and the header of a response, and discards its body.
type headerOnly struct {
	header http.Header
	status int
}

func (w *headerOnly) Header() http.Header { return w.header }
func (w *headerOnly) WriteHeader(s int)   { w.status = s }
func (w *headerOnly) Write(b []byte) (int, error) {
	return len(b), nil
}
