package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/llm"
)

// Exchange contains the details of an HTTP exchange that SDKs do not report. It belongs to one call
// of Generate and is part of the request's context.
type Exchange struct {
	Status int
	Header http.Header

	// sent means that the request has left the SDK.
	sent     bool
	cancel   context.CancelCauseFunc
	timeouts llm.Timeouts
}

type exchangeKey struct{}

// NewExchange returns an exchange and the context for its requests. done must be called after the
// exchange.
func NewExchange(ctx context.Context) (inner context.Context, x *Exchange, done func()) {
	inner, cancel := context.WithCancelCause(ctx)
	x = &Exchange{cancel: cancel}
	return context.WithValue(inner, exchangeKey{}, x), x, func() { cancel(nil) }
}

type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("nothing arrived for %s", e.after) }

// Within ends the exchange unless stop is called within d.
func (x *Exchange) Within(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() { x.cancel(&silenceError{d}) }).Stop
}

// Body replaces the body of a successful response. media is its type, without parameters.
type Body func(x *Exchange, media string, resp *http.Response) error

// transport fills the exchange, and ends calls to servers that no longer respond.
type transport struct {
	base     http.RoundTripper
	timeouts llm.Timeouts
	body     Body
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*Exchange)
	if !ok {
		return t.base.RoundTrip(req)
	}
	x.sent, x.timeouts = true, t.timeouts
	defer x.Within(t.timeouts.Start)()
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.Status, x.Header = resp.StatusCode, resp.Header
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return resp, nil // the SDK parses errors
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // a body without a type is parsed anyway
	err = ErrNoAPI
	if media != "text/html" {
		err = t.body(x, media, resp)
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Reader is the body of a stream. It ends the exchange when nothing arrives in time, which applies
// only to reads: a slow onDelta does not count.
type Reader struct {
	x     *Exchange
	body  io.ReadCloser
	begun bool
}

// Watch returns the body of a stream in which silence ends the exchange.
func (x *Exchange) Watch(body io.ReadCloser) *Reader { return &Reader{x: x, body: body} }

func (r *Reader) Read(p []byte) (int, error) {
	limit := r.x.timeouts.Idle
	if !r.begun {
		limit = r.x.timeouts.Start
	}
	stop := r.x.Within(limit)
	n, err := r.body.Read(p)
	stop()
	r.begun = r.begun || n > 0
	return n, err
}

// Close implements [io.Closer].
func (r *Reader) Close() error { return r.body.Close() }

// drainTime is the maximum time for reading a finished stream to its end, so that its connection
// can be reused.
const drainTime = 100 * time.Millisecond

// Drain reads the rest of a finished stream.
func (x *Exchange) Drain(rest io.Reader) {
	stop := x.Within(drainTime)
	_, _ = io.Copy(io.Discard, io.LimitReader(rest, 4096)) // the reply is already complete
	stop()
}

// ErrBrokenOff means that a reply ended before its end.
var ErrBrokenOff = errors.New("the reply broke off before its end")

// Unreadable means that a reply does not have the form of the protocol.
type Unreadable struct{ Err error }

func (e *Unreadable) Error() string { return "the reply could not be read: " + e.Err.Error() }
