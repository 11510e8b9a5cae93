package guard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Defaults of [Limits].
const (
	DefaultBodyTimeout  = 5 * time.Second
	DefaultWriteTimeout = 30 * time.Second
)

// Limits bound how slow a client may be, and how much memory all clients may take. The zero value has
// the defaults.
type Limits struct {
	// BodyTimeout is the time for sending the body of a request. Default [DefaultBodyTimeout].
	BodyTimeout time.Duration

	// WriteTimeout is the time for reading each 64 KiB of a response, or each event of a stream.
	// Default [DefaultWriteTimeout].
	WriteTimeout time.Duration

	// RequestMemory and ResponseMemory are the bytes that the process holds of all requests, and of all
	// responses that are not read yet. Default 128 MiB each. When it has more, it disconnects the clients
	// that have neither sent nor read anything for a second or more; others wait for room.
	RequestMemory, ResponseMemory int64
}

// writeChunk is the part of a response that has its own deadline.
const writeChunk = 64 << 10

// Handler applies the limits to every request to next.
//
// A response that next does not flush is held until next returns, so that a client that reads slowly
// holds its bytes and nothing else.
func (l Limits) Handler(next http.Handler) http.Handler {
	l.BodyTimeout = cmp.Or(l.BodyTimeout, DefaultBodyTimeout)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, DefaultWriteTimeout)
	requests, responses := newMemory(cmp.Or(l.RequestMemory, defaultMemory)), newMemory(cmp.Or(l.ResponseMemory, defaultMemory))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// A connection keeps the deadline of its last response. Writers without deadlines have no
		// slow clients.
		_ = control.SetWriteDeadline(time.Time{})
		body := requests.holder(func() { _ = control.SetReadDeadline(time.Now()) })
		defer body.release(-1)
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(l.BodyTimeout))
			timed := &timedBody{ReadCloser: r.Body, control: control, timeout: l.BodyTimeout, held: body, ctx: r.Context()}
			r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, timed))
			r.Body = timed
		}
		out := &timedWriter{ResponseWriter: w, control: control, timeout: l.WriteTimeout, ctx: r.Context(), body: body}
		out.held = responses.holder(out.cut)
		defer out.held.release(-1)
		next.ServeHTTP(out, r)
		out.finish()
	})
}

type bodyKey struct{}

// ForgetBody tells that a request no longer needs its body, because it waits or sends a stream.
func ForgetBody(ctx context.Context) {
	if body, ok := ctx.Value(bodyKey{}).(*timedBody); ok {
		body.held.release(-1)
	}
}

// minBodyRate is how many bytes a second a client must send of a large body.
const minBodyRate = 256 << 10

// AllowBody gives a request time to send a body of a size in bytes, from now on: that of any body, and a second for each
// 256 KiB.
func AllowBody(ctx context.Context, size int64) {
	if body, ok := ctx.Value(bodyKey{}).(*timedBody); ok {
		more := time.Duration(size) * time.Second / minBodyRate
		_ = body.control.SetReadDeadline(time.Now().Add(body.timeout + more))
	}
}

// timedBody is a body whose deadline ends with it: afterwards the server keeps reading to notice
// when the client disconnects.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration
	held    *holder
	ctx     context.Context //nolint:containedctx // that of the request, as in http.Request
}

// bodyCost is the memory that a byte of a body takes: as it is and decoded.
const bodyCost = 2

func (b *timedBody) Read(p []byte) (int, error) {
	b.held.wait(true)
	n, err := b.ReadCloser.Read(p)
	b.held.wait(false)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if n > 0 && !b.held.reserve(b.ctx, n*bodyCost) {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}
