package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// refuse makes the problem document of one field.
func refuse(status int, location, problem string) error {
	return huma.NewError(status, location+": "+problem, &huma.ErrorDetail{Location: location, Message: problem})
}

// refuseField is [refuse] for what a check of one value says.
func refuseField(location string, err error) error {
	var field *event.FieldError
	if errors.As(err, &field) {
		return refuse(http.StatusUnprocessableEntity, location, field.Problem)
	}
	return err
}

// problem turns the error of an operation on a thread into a problem document.
func (s *server) problem(ctx context.Context, threadID string, err error) error {
	var field *event.FieldError
	var already huma.StatusError
	var exhausted *serviceerror.ResourceExhausted
	var unknown *threadclient.UnknownEventError
	var silent *threadclient.UnansweredError
	switch {
	case errors.As(err, &already):
		return err
	case errors.As(err, &field):
		if field.Field == "threadId" {
			return notFound(threadID)
		}
		return refuse(http.StatusUnprocessableEntity, "body."+field.Field, field.Problem)
	case errors.As(err, &unknown):
		return huma.Error404NotFound(unknown.Error())
	case errors.Is(err, signals.ErrNotFound), errors.Is(err, store.ErrNotFound):
		return notFound(threadID)
	case errors.Is(err, signals.ErrClosed):
		return huma.Error409Conflict(fmt.Sprintf("thread %q is closed", threadID))
	case errors.Is(err, signals.ErrExists):
		return huma.Error409Conflict(fmt.Sprintf("thread %q exists already", threadID))
	case errors.Is(err, signals.ErrBusy):
		return huma.Error409Conflict(fmt.Sprintf("thread %q is busy with a turn, and onBusy is reject", threadID))
	case errors.Is(err, signals.ErrFull):
		return later(http.StatusTooManyRequests, "1", fmt.Sprintf(
			"the queue of thread %q is full; post the same again when it has processed some of what waits", threadID))
	case errors.Is(err, signals.ErrOverloaded):
		return later(http.StatusTooManyRequests, "1", fmt.Sprintf(
			"too many posts wait for the answer of thread %q; post the same again", threadID))
	case errors.Is(err, signals.ErrRefused):
		return huma.Error422UnprocessableEntity(err.Error())
	case errors.Is(err, store.ErrUnavailable):
		return storeUnavailable(ctx)
	case errors.Is(err, stream.ErrClosed):
		return huma.Error503ServiceUnavailable("the server is shutting down")
	case errors.As(err, &exhausted):
		// Temporal bounds the updates under way in one workflow, and its own load.
		return later(http.StatusServiceUnavailable, "1", fmt.Sprintf(
			"thread %q has too many requests under way, or Temporal has: %s", threadID, exhausted.Message))
	case unanswered(err):
		var ended *endedError
		if errors.As(context.Cause(ctx), &ended) {
			return problemOf(ended)
		}
		if ctx.Err() != nil { // nobody reads the answer
			return huma.NewError(statusClientGone, "the client has gone")
		}
		s.Logger.Warn("nobody answered for a thread", "thread", threadID, "error", err)
		reason := "no worker is polling its task queue, or its workers are busy, or Temporal cannot be reached"
		if errors.As(err, &silent) {
			reason = silent.Reason
		}
		return later(http.StatusServiceUnavailable, "5", fmt.Sprintf("thread %q did not answer within %v: %s", threadID, s.AnswerWithin, reason))
	}
	s.Logger.Error("request failed", "thread", threadID, "request", requestID(ctx), "error", err)
	return huma.Error500InternalServerError("the server failed; its log says why, request " + requestID(ctx))
}

// storeUnavailable is the problem of a request that the store does not answer. The outage is
// logged once, not here.
func storeUnavailable(ctx context.Context) error {
	if ctx.Err() != nil { // nobody reads the answer
		return huma.NewError(statusClientGone, "the client has gone")
	}
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("the database cannot be reached, or does not answer in time"),
		http.Header{"Retry-After": {"5"}})
}

// later makes the problem document of a request that succeeds when it is repeated, and says after
// how many seconds.
func later(status int, seconds, detail string) error {
	return huma.ErrorWithHeaders(huma.NewError(status, detail), http.Header{"Retry-After": {seconds}})
}

// statusClientGone is for the log only.
const statusClientGone = 499

func notFound(threadID string) error {
	return huma.Error404NotFound(fmt.Sprintf("there is no thread %.128q", threadID))
}

// unanswered reports whether err says that a request to a thread found nobody to
// answer it in time.
func unanswered(err error) bool {
	var (
		deadline     *serviceerror.DeadlineExceeded
		canceled     *serviceerror.Canceled
		unavailable  *serviceerror.Unavailable
		precondition *serviceerror.FailedPrecondition
		notReady     *serviceerror.WorkflowNotReady
	)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &deadline) || errors.As(err, &canceled) || errors.As(err, &unavailable) ||
		errors.As(err, &precondition) || errors.As(err, &notReady)
}

// answer bounds how long a thread may take to answer.
func (s *server) answer(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.AnswerWithin)
}

// tidyProblem completes the location of a field that is missing, and keeps what a
// client sent out of the problem document, but for words.
func tidyProblem(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	before, after, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	for _, e := range model.Errors {
		if field, ok := strings.CutPrefix(e.Message, before); ok {
			e.Location += "." + strings.TrimSuffix(field, after)
		}
		switch value := e.Value.(type) {
		case bool, int, int64, float64:
		case string:
			if len(value) > maxEchoed || e.Location == "body" {
				e.Value = nil
			}
		default:
			e.Value = nil
		}
	}
	return model, nil
}

const maxEchoed = 64

func writeProblem(w http.ResponseWriter, status int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	w.WriteHeader(status)
	// The client may have gone: nothing to do then.
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}

type requestIDKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// protect is around everything: a request id, refusal of requests for another host and of
// those that another site makes a browser send, and an answer where a handler panics.
func (s *server) protect(next http.Handler) http.Handler {
	// A web page can set the header that a proxy sets, but it knows no key.
	_, trusts := s.Authenticator.(interface{ TrustsHeader() string })
	hosts := guard.Hosts{Allowed: s.AllowedHosts, Authenticated: s.Authenticator != nil && !trusts}
	sameOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := signals.NewID()
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		rec := &recorder{ResponseWriter: w}
		rec.Header().Set("X-Request-Id", id)
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		begun := time.Now()
		defer func() {
			if p := recover(); p != nil {
				s.recovered(rec, r, p)
			}
			s.Logger.Debug("request", "request", id, "method", r.Method, "path", r.URL.Path,
				"status", rec.status, "took", time.Since(begun))
		}()
		if err := hosts.Check(r); err != nil {
			writeProblem(rec, http.StatusMisdirectedRequest, err.Error())
			return
		}
		if err := sameOrigin.Check(r); err != nil {
			writeProblem(rec, http.StatusForbidden, "requests from other sites are refused: "+err.Error())
			return
		}
		if at := strings.IndexFunc(r.URL.Path, unreadable); at >= 0 {
			writeProblem(rec, http.StatusBadRequest, fmt.Sprintf("the path contains %+q, which no identifier has", []rune(r.URL.Path[at:])[0]))
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// unreadable reports whether people cannot see a character, or it is none.
func unreadable(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }

func (s *server) recovered(w *recorder, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	id := requestID(r.Context())
	s.Logger.Error("handler panicked", "request", id, "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, http.StatusInternalServerError, "the server failed; its log says why, request "+id)
		return
	}
	panic(http.ErrAbortHandler) // cut the connection: the answer is not whole
}

// recorder remembers whether an answer has begun.
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

// explainUnmatched answers paths and methods that the mux does not know with problem
// documents. All others are for those who may use them.
func (s *server) explainUnmatched(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			s.authorize(w, r, pattern, mux)
			return
		}
		probe := &headerOnly{header: http.Header{}}
		h.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			writeProblem(w, probe.status, r.Method+" is not allowed here: "+probe.header.Get("Allow"))
			return
		}
		writeProblem(w, http.StatusNotFound, "there is nothing at this path; /docs lists what there is")
	})
}

// headerOnly takes an answer's status and header, and forgets its body.
type headerOnly struct {
	header http.Header
	status int
}

func (w *headerOnly) Header() http.Header { return w.header }
func (w *headerOnly) WriteHeader(s int)   { w.status = s }
func (w *headerOnly) Write(b []byte) (int, error) {
	return len(b), nil
}
