package driver

import (
	"bytes"
	"context"
	"encoding/binary"
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

	// sent means that the request has left the SDK, with these credentials.
	sent     bool
	secrets  []string
	cancel   context.CancelCauseFunc
	timeouts llm.Timeouts

	// provider is the name of the provider in errors, and limit the maximum size of the reply.
	provider string
	limit    int
}

// Limits of what is received, as multiples of the maximum size of the reply.
const (
	// pieceFactor is for one piece of a stream and for a reply that is not streamed, since JSON
	// escapes characters.
	pieceFactor = 4

	// streamFactor is for a whole stream, which may contain one token in each piece.
	streamFactor = 64
)

// maxErrorBytes is how much of an error's body is read.
const maxErrorBytes = 64 << 10

// exceeded ends the exchange, because a part of the reply is too large.
func (x *Exchange) exceeded(what string, limit int) error {
	err := llm.NewReplyTooLarge(x.provider, what, limit)
	x.cancel(err)
	return err
}

type exchangeKey struct{}

// newExchange returns an exchange with a limit for its reply, and the context for its requests. done
// must be called after the exchange.
func newExchange(ctx context.Context, provider string, limit int) (inner context.Context, x *Exchange, done func()) {
	inner, cancel := context.WithCancelCause(ctx)
	x = &Exchange{cancel: cancel, provider: provider, limit: limit}
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

// transport fills the exchange, limits what is read, and ends calls to servers that no longer respond. It
// follows no redirects, which would send the conversation to a server that nobody has configured.
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
	x.sent, x.timeouts, x.secrets = true, t.timeouts, secretsOf(req.Header)
	defer x.Within(t.timeouts.Start)()
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.Status, x.Header = resp.StatusCode, resp.Header
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		resp.Body.Close()
		return nil, redirected(resp)
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		resp.Body = limited{io.LimitReader(x.Watch(resp.Body, Lines), maxErrorBytes), resp.Body}
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

// limited is the beginning of a body.
type limited struct {
	io.Reader
	io.Closer
}

// redirectError is a response that redirects the request.
type redirectError struct{ host string }

func redirected(resp *http.Response) *redirectError {
	if to, err := resp.Location(); err == nil && to.Host != "" {
		return &redirectError{to.Host}
	}
	return &redirectError{"an unknown address"}
}

func (e *redirectError) Error() string {
	return "the server redirects to " + e.host + ", and calls follow no redirects; check the BaseURL"
}

// Framing says how a protocol separates the pieces of a stream.
type Framing int

// The values of [Framing]: pieces are lines, they end with an empty line, or they begin with their
// length, in four bytes.
const (
	Lines Framing = iota
	Events
	Frames
)

// Reader is the body of a stream. It ends the exchange when nothing arrives in time, which applies
// only to reads: a slow onDelta does not count. It also ends the exchange if a piece or the whole
// stream is too large.
type Reader struct {
	x       *Exchange
	body    io.ReadCloser
	framing Framing
	begun   bool

	// total and piece are the sizes of the stream and of its last piece. text means that the last
	// line is not empty.
	total, piece int
	text         bool

	// left is what is missing of the last frame, and length is the beginning of its length.
	left   int
	length []byte
}

// Watch returns the body of a stream in which silence and excess end the exchange.
func (x *Exchange) Watch(body io.ReadCloser, framing Framing) *Reader {
	return &Reader{x: x, body: body, framing: framing}
}

func (r *Reader) Read(p []byte) (int, error) {
	limit := r.x.timeouts.Idle
	if !r.begun {
		limit = r.x.timeouts.Start
	}
	stop := r.x.Within(limit)
	n, err := r.body.Read(p)
	stop()
	r.begun = r.begun || n > 0
	if tooLarge := r.count(p[:n]); tooLarge != nil {
		return 0, tooLarge
	}
	return n, err
}

func (r *Reader) count(data []byte) error {
	r.total += len(data)
	if limit := r.x.limit * streamFactor; r.total > limit {
		return r.x.exceeded("the stream of the reply", limit)
	}
	if r.framing == Frames {
		r.frames(data)
		data = nil
	}
	for line := range bytes.Lines(data) {
		r.piece += len(line)
		r.text = r.text || len(bytes.TrimRight(line, "\r\n")) > 0
		if line[len(line)-1] != '\n' {
			continue
		}
		if r.framing == Lines || !r.text {
			r.piece = 0
		}
		r.text = false
	}
	if limit := r.x.limit * pieceFactor; r.piece > limit {
		return r.x.exceeded("a piece of the reply", limit)
	}
	return nil
}

// frames sets piece to the size of the largest frame that begins in data.
func (r *Reader) frames(data []byte) {
	const lengthSize = 4
	r.piece = 0
	for len(data) > 0 {
		if r.left > 0 {
			n := min(r.left, len(data))
			r.left, data = r.left-n, data[n:]
			continue
		}
		n := min(lengthSize-len(r.length), len(data))
		r.length, data = append(r.length, data[:n]...), data[n:]
		if len(r.length) == lengthSize {
			size := int(binary.BigEndian.Uint32(r.length))
			r.piece, r.left, r.length = max(r.piece, size), max(size-lengthSize, 0), r.length[:0]
		}
	}
}

// ReadAll reads the body of a reply that is not streamed.
func (x *Exchange) ReadAll(body io.Reader) ([]byte, error) {
	limit := x.limit * pieceFactor
	whole, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err == nil && len(whole) > limit {
		err = x.exceeded("the body of the reply", limit)
	}
	return whole, err
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

// ErrNoAnswer means that a reply ended as if it were complete, without a text and without a call.
var ErrNoAnswer = errors.New("the model ended its reply without an answer")

// Unreadable means that a reply does not have the form of the protocol.
type Unreadable struct{ Err error }

func (e *Unreadable) Error() string { return "the reply could not be read: " + e.Err.Error() }
