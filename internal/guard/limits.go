package guard

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"
)

// Defaults of [Limits].
const (
	DefaultBodyTimeout  = 5 * time.Second
	DefaultWriteTimeout = 30 * time.Second
)

// Limits bound how slow a client may be. The zero value has the defaults.
type Limits struct {
	// BodyTimeout is the time for sending the body of a request. Default [DefaultBodyTimeout].
	BodyTimeout time.Duration

	// WriteTimeout is the time for reading each 64 KiB of a response, or each event of a stream.
	// Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
}

// writeChunk is the part of a response that has its own deadline.
const writeChunk = 64 << 10

// Handler applies the limits to every request to next.
func (l Limits) Handler(next http.Handler) http.Handler {
	l.BodyTimeout = cmp.Or(l.BodyTimeout, DefaultBodyTimeout)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, DefaultWriteTimeout)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// A connection keeps the deadline of its last response. Writers without deadlines have no
		// slow clients.
		_ = control.SetWriteDeadline(time.Time{})
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(l.BodyTimeout))
			r = r.WithContext(r.Context()) // a copy: the original keeps its body
			r.Body = &timedBody{r.Body, control}
		}
		next.ServeHTTP(&timedWriter{w, control, l.WriteTimeout}, r)
	})
}

// timedBody is a body whose deadline ends with it: afterwards the server keeps reading to notice
// when the client disconnects.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timedWriter gives each part of a response a deadline.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// WriteHeader implements [http.ResponseWriter].
func (w *timedWriter) WriteHeader(status int) {
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *timedWriter) Write(data []byte) (written int, err error) {
	for {
		part := data[written:min(len(data), written+writeChunk)]
		w.extend()
		n, err := w.ResponseWriter.Write(part)
		written += n
		if err != nil || written == len(data) {
			return written, err
		}
	}
}

// FlushError lets [http.ResponseController] flush.
func (w *timedWriter) FlushError() error {
	w.extend()
	return w.control.Flush()
}

// SetReadDeadline does nothing: handlers cannot know when a body that was read no longer needs a
// deadline.
func (w *timedWriter) SetReadDeadline(time.Time) error { return nil }

// Unwrap lets [http.ResponseController] find the other methods.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *timedWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }
