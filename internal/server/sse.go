package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// retryAfter is the delay before a client reconnects, in milliseconds.
const retryAfter = "500"

// viewers counts and limits the open event streams.
type viewers struct {
	open      atomic.Int64
	max       int
	shares    shares
	heartbeat time.Duration
	closing   context.Context //nolint:containedctx // the life of the server, not of a request
}

// enter counts a viewer, unless there are too many. One principal leaves a tenth of all streams to the others. Call leave when the
// viewer disconnects.
func (v *viewers) enter(ctx context.Context) (leave func(), err error) {
	most := v.max - v.max/10
	give, ok := v.shares.take(shareOf(ctx), most)
	if !ok {
		return nil, later(http.StatusTooManyRequests, "5", fmt.Sprintf("%d event streams of this key are open, which is the most that it may have", most))
	}
	if v.open.Add(1) > int64(v.max) {
		v.open.Add(-1)
		give()
		return nil, later(http.StatusServiceUnavailable, "5", fmt.Sprintf("%d event streams are open, which is the most that this server serves", v.max))
	}
	return sync.OnceFunc(func() {
		v.open.Add(-1)
		give()
	}), nil
}

// stream responds with an event stream that send writes, until the client disconnects or the server
// closes. now and start are those of [eventWriter.begin]; done is called at the end.
func (v *viewers) stream(now bool, start place, done func(), send func(ctx context.Context, out *eventWriter)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer done()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		ctx = asStream(ctx)
		releaseSlots(ctx)
		defer context.AfterFunc(v.closing, cancel)()
		out := newEventWriter(w)
		defer out.end()
		if out.begin(now, start) {
			send(ctx, out)
		}
	}}
}

// eventWriter writes server-sent events. Its methods return false when the client has disconnected.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte

	mu      sync.Mutex // for what follows, and for writing to w
	flushed time.Time  // the last time
	later   *time.Timer
	gone    bool
}

// flushEvery is the minimum time between two flushes: a model that writes faster than that costs one for several tokens.
const flushEvery = 2 * time.Millisecond

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, rc: http.NewResponseController(w)}
}

// end has to be called before the request ends.
func (o *eventWriter) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.later != nil {
		o.later.Stop()
	}
	o.gone = true // for a timer that has run out and waits
}

// keptBuffer is the maximum size of the events that share a viewer's buffer, in bytes.
const keptBuffer = 4 << 10

// begin writes the header. A stream that starts at the current end first sends an event without
// data, whose id lets a client resume there even if it is disconnected before the first event.
func (o *eventWriter) begin(now bool, start place) bool {
	h := o.w.Header()
	h.Set("Content-Type", typeSSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept")
	h.Set("X-Accel-Buffering", "no")
	o.buf = append(o.buf[:0], "retry: "+retryAfter+"\n"...)
	if now && !start.IsZero() {
		o.buf = append(append(append(o.buf, "id: "...), start.String()...), '\n')
	}
	o.buf = append(o.buf, '\n')
	o.w.WriteHeader(http.StatusOK)
	return o.write(true)
}

// event writes one event. Without flush, the caller is about to write more.
func (o *eventWriter) event(e streamed, flush bool) bool {
	data, err := json.Marshal(e.event)
	if err != nil { // a piece whose data is no JSON; the next ones may be
		return true
	}
	o.buf = append(append(append(o.buf[:0], "id: "...), e.id...), "\ndata: "...)
	if len(data) > keptBuffer {
		if !o.write(false) {
			return false
		}
		if !o.send(data, false) {
			return false
		}
		o.buf = append(o.buf[:0], "\n\n"...)
		return o.write(flush)
	}
	o.buf = append(append(o.buf, data...), "\n\n"...)
	return o.write(flush)
}

// Data writes an event without an id.
func (o *eventWriter) Data(data []byte, flush bool) bool {
	o.buf = append(append(append(o.buf[:0], "data: "...), data...), "\n\n"...)
	return o.write(flush)
}

// Heartbeat writes a comment.
func (o *eventWriter) Heartbeat() bool {
	o.buf = append(o.buf[:0], ": heartbeat\n\n"...)
	return o.write(true)
}

func (o *eventWriter) write(flush bool) bool { return o.send(o.buf, flush) }

// send writes data, and flushes at once or with what follows within [flushEvery].
func (o *eventWriter) send(data []byte, flush bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.w.Write(data); err != nil || o.gone {
		return false
	}
	switch since := time.Since(o.flushed); {
	case !flush || o.later != nil:
	case since < flushEvery:
		o.later = time.AfterFunc(flushEvery-since, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		})
	default:
		o.flush()
	}
	return !o.gone
}

// flush flushes, unless the client or the request has gone. The lock is held.
func (o *eventWriter) flush() {
	o.later = nil
	if !o.gone {
		o.gone = o.rc.Flush() != nil
		o.flushed = time.Now()
	}
}
