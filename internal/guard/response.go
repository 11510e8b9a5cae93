package guard

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// streamCost is the memory that a stream holds for a client that does not read, beside what is being
// written: what follows, and the form that it had before it was encoded.
const (
	streamCost  = 512 << 10
	streamBytes = 4
)

// freeBytes are held without room. A request that has changed something has a small response, which must
// not become an error: the client would do it again.
const freeBytes = 16 << 10

// timedWriter holds a response until it is complete or flushed. What it writes then has a deadline for
// each part.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	ctx     context.Context //nolint:containedctx // that of the request
	body    *holder

	status  int
	size    int
	chunks  [][]byte
	held    *holder
	direct  bool // it writes without holding anything
	full    bool // there was no room
	evicted atomic.Bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *timedWriter) WriteHeader(status int) {
	if w.direct || status < http.StatusOK {
		w.extend()
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.status == 0 {
		w.status = status
	}
}

func (w *timedWriter) Write(data []byte) (int, error) {
	if w.direct {
		return w.write(data)
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	counted := max(w.size+len(data)-freeBytes, 0) - max(w.size-freeBytes, 0)
	if w.full || counted > 0 && !w.held.reserve(w.ctx, counted) {
		w.full = true
		return 0, io.ErrShortWrite
	}
	w.size += len(data)
	for rest := data; len(rest) > 0; {
		last := len(w.chunks) - 1
		if last < 0 || len(w.chunks[last]) == writeChunk {
			w.chunks = append(w.chunks, nil)
			last++
		}
		n := min(len(rest), writeChunk-len(w.chunks[last]))
		w.chunks[last] = append(w.chunks[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(data), nil
}

// FlushError lets [http.ResponseController] flush. What follows is a stream, which holds nothing.
func (w *timedWriter) FlushError() error {
	if !w.direct {
		w.body.release(-1)
		if err := w.drain(); err != nil {
			return err
		}
	}
	return w.watched(0, func() error {
		w.extend()
		return w.control.Flush()
	})
}

// finish writes what is held at the end of a request.
func (w *timedWriter) finish() {
	w.body.release(-1)
	switch {
	case w.direct:
	case w.full && w.ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	case w.full:
		w.busy()
	default:
		if w.drain() != nil {
			panic(http.ErrAbortHandler) // the client notices that the response is not whole
		}
	}
}

// drain writes what is held, and everything else directly.
func (w *timedWriter) drain() error {
	w.direct = true
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	// Clients that read slowly make room like those that do not read.
	w.held.wait(true)
	for len(w.chunks) > 0 {
		chunk := w.chunks[0]
		w.extend()
		_, err := w.ResponseWriter.Write(chunk)
		if err != nil {
			return err
		}
		w.chunks[0] = nil
		w.chunks = w.chunks[1:]
		w.held.release(int64(len(chunk)))
	}
	w.held.wait(false)
	return nil
}

// busy responds that there is no room for the response.
func (w *timedWriter) busy() {
	w.direct, w.chunks = true, nil
	w.held.release(-1)
	h := w.Header()
	for name := range h {
		if name != "X-Request-Id" {
			h.Del(name)
		}
	}
	const status = http.StatusServiceUnavailable
	h.Set("Content-Type", "application/problem+json")
	h.Set("Retry-After", "1")
	w.WriteHeader(status)
	_, _ = w.write([]byte(`{"title":"Service Unavailable","status":` + strconv.Itoa(status) +
		`,"detail":"too many responses wait for clients that do not read them; retry"}` + "\n")) // the client may have gone
}

// write writes a part of a stream.
func (w *timedWriter) write(data []byte) (written int, err error) {
	err = w.watched(len(data), func() error {
		for {
			part := data[written:min(len(data), written+writeChunk)]
			w.extend()
			n, err := w.ResponseWriter.Write(part)
			written += n
			if err != nil || written == len(data) {
				return err
			}
			w.held.progress()
		}
	})
	return written, err
}

// watched writes to a client, which counts as stalled if that takes long.
func (w *timedWriter) watched(size int, write func() error) error {
	begun, over := time.Now(), &atomic.Bool{}
	timer := time.AfterFunc(stalledAfter, func() { w.held.stalled(streamCost+streamBytes*int64(size), begun, over) })
	err := write()
	if over.Store(true); !timer.Stop() {
		w.held.wait(false)
		w.held.release(-1)
	}
	return err
}

// SetReadDeadline does nothing: handlers cannot know when a body that was read no longer needs a
// deadline.
func (w *timedWriter) SetReadDeadline(time.Time) error { return nil }

// Unwrap lets [http.ResponseController] find the other methods.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// cut disconnects the client.
func (w *timedWriter) cut() {
	w.evicted.Store(true)
	_ = w.control.SetWriteDeadline(time.Now())
}

func (w *timedWriter) extend() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	if w.evicted.Load() {
		_ = w.control.SetWriteDeadline(time.Now())
	}
}
