package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// exchange contains the details of an HTTP exchange that the SDK does not report. It belongs to one
// call of Generate and is part of the request's context.
type exchange struct {
	stream bool
	cancel context.CancelCauseFunc

	sent   bool
	status int
	header http.Header
	body   []byte // of a reply that is not streamed
	done   bool   // the stream ended with [DONE]
}

type exchangeKey struct{}

// watcher is the transport: it fills the exchange, ends calls to servers that no longer respond,
// and passes only well-formed streams to the SDK.
type watcher struct {
	base     http.RoundTripper
	timeouts Timeouts
}

type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("nothing arrived for %s", e.after) }

// watch ends the call unless stop is called within d.
func (x *exchange) watch(d time.Duration) (stop func() bool) {
	return time.AfterFunc(d, func() { x.cancel(&silenceError{d}) }).Stop
}

func (w *watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return w.base.RoundTrip(req)
	}
	x.sent = true
	defer x.watch(w.timeouts.Start)()
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return resp, nil // the SDK parses errors
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // a body without a type is parsed anyway
	switch {
	case media == "text/html":
		err = errNoAPI
	case !x.stream:
		err = x.readWhole(resp)
	case media == "application/json":
		err = x.asStream(resp, w.timeouts)
	default:
		resp.Body = &eventBody{x: x, timeouts: w.timeouts, body: resp.Body, lines: bufio.NewReader(resp.Body)}
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// readWhole stores the body and replaces it by an empty object, since the SDK would lose fields
// that it does not know.
func (x *exchange) readWhole(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	x.body = body
	resp.Body = io.NopCloser(strings.NewReader("{}"))
	return nil
}

// asStream converts the body to a stream of one chunk, for servers that do not stream.
func (x *exchange) asStream(resp *http.Response, timeouts Timeouts) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	line.WriteString("data:")
	if err := json.Compact(&line, body); err != nil {
		return &unreadableError{err}
	}
	line.WriteString("\ndata:[DONE]")
	resp.Body = &eventBody{x: x, timeouts: timeouts, body: resp.Body, lines: bufio.NewReader(&line)}
	return nil
}

// eventBody returns the data lines of an event stream, each followed by a newline.
type eventBody struct {
	x        *exchange
	timeouts Timeouts
	body     io.Closer
	lines    *bufio.Reader
	begun    bool
	out      []byte
}

func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *eventBody) next() error {
	limit := b.timeouts.Idle
	if !b.begun {
		limit = b.timeouts.Start
	}
	// The timeout applies only to reads: a slow onDelta does not count.
	stop := b.x.watch(limit)
	line, err := b.lines.ReadBytes('\n')
	stop()
	if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok {
		b.begun = true
		b.pass(bytes.TrimSpace(data))
	}
	if err != nil && len(b.out) == 0 {
		return err
	}
	return nil
}

func (b *eventBody) pass(data []byte) {
	if len(data) == 0 {
		return
	}
	if string(data) == "[DONE]" {
		b.x.done = true
	}
	b.out = append(b.out[:0], "data: "...)
	if bytes.HasPrefix(data, []byte(`{"error":`)) {
		// The SDK treats such a line as an error, and discards it if it cannot parse it.
		b.out = append(b.out, "{ "...)
		data = data[1:]
	}
	b.out = append(append(b.out, data...), '\n')
}

// drainTime is the maximum time for reading a finished stream to its end, so that its connection
// can be reused.
const drainTime = 100 * time.Millisecond

func (b *eventBody) Close() error {
	if b.x.done {
		stop := b.x.watch(drainTime)
		_, _ = io.Copy(io.Discard, io.LimitReader(b.lines, 4096)) // the reply is already complete
		stop()
	}
	return b.body.Close()
}

var errNoAPI = errors.New("a web page came instead of a reply; check the BaseURL, which usually ends in /v1")
