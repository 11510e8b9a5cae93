package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/threadmill/threadmill/event"
)

// ErrClosed ends a watch of a closed thread whose events have all arrived.
var ErrClosed = errors.New("the thread is closed")

// WatchOptions configure the start of a watch and its handling of failures.
type WatchOptions struct {
	// After is the id of the last known event. Empty = none.
	After string

	// Now starts with new events, unless After is set. Otherwise the watch starts with the thread's
	// first record.
	Now bool

	// Event starts with this posted event, unless After is set. It overrides Now.
	Event string

	// Env watches environment events, not agent events.
	Env bool

	// FailFast returns the error if the first connection cannot be made.
	FailFast bool

	// Missing is called if the API does not know the thread: nil means that the thread will exist,
	// and to retry. Without Missing, an unknown thread is an error.
	Missing func(ctx context.Context) error

	// Lost is called once when the connection is lost and the first attempt to restore it has
	// failed; Back when it is restored.
	Lost func(err error)
	Back func()
}

// Item is one event of a watched thread.
type Item struct {
	// ID is the position of the event. Empty if the server sent none.
	ID    string
	Event event.AgentEvent

	// Env is the event if environment events are watched.
	Env event.EnvEvent

	// Raw is the event's JSON as received.
	Raw json.RawMessage
}

// Watch calls fn for the events of a thread, each once and in order, until ctx ends or fn returns
// an error; either is returned. It restores lost connections. It also ends with [ErrClosed], and with
// a response that a retry cannot change, as a [*StatusError].
func (c *Client) Watch(ctx context.Context, threadID string, opts WatchOptions, fn func(Item) error) error {
	w := &watch{client: c, thread: threadID, opts: opts, fn: fn, last: opts.After, delay: c.cfg.MinDelay, base: c.cfg.MinDelay}
	for {
		err := w.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.judge(ctx, err); err != nil {
			return err
		}
		if err := w.pause(ctx); err != nil {
			return err
		}
	}
}

// watch is one call of Watch.
type watch struct {
	client *Client
	thread string
	opts   WatchOptions
	fn     func(Item) error

	last  string // id of the last event delivered
	met   bool   // a connection has been made
	down  bool   // Lost has been called
	delay time.Duration
	base  time.Duration
}

// handlerError is an error of the caller's function.
type handlerError struct{ error }

// connectError is a failure to open the stream.
type connectError struct{ error }

// connect opens the stream and reads it until it breaks.
func (w *watch) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(w.client.cfg.Idle, cancel)
	defer idle.Stop()

	query := url.Values{}
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	switch {
	case w.last != "":
		header.Set("Last-Event-ID", w.last)
	case w.opts.Event != "":
		query.Set("event", w.opts.Event)
	case w.opts.Now:
		query.Set("from", "now")
	}
	if w.opts.Env {
		query.Set("view", "env")
	}
	resp, err := w.client.send(ctx, http.MethodGet, w.client.url(query, "threads", w.thread, "events"), header, nil)
	if err != nil {
		return connectError{err}
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		return ErrClosed
	default:
		return connectError{problem(resp)}
	}
	w.connected()
	frames := frameReader{lines: bufio.NewScanner(resp.Body), alive: func() { idle.Reset(w.client.cfg.Idle) }}
	frames.lines.Buffer(make([]byte, 32<<10), maxEvent)
	return w.read(&frames)
}

func (w *watch) connected() {
	w.met = true
	if w.down {
		w.down = false
		if w.opts.Back != nil {
			w.opts.Back()
		}
	}
}

func (w *watch) read(frames *frameReader) error {
	for {
		f, err := frames.next()
		if err != nil {
			return err
		}
		if f.retry > 0 {
			w.base = min(f.retry, w.client.cfg.MaxDelay)
		}
		if err := w.deliver(f); err != nil {
			return err
		}
		w.delay = w.base
	}
}

func (w *watch) deliver(f frame) error {
	if len(f.data) > 0 {
		item := Item{ID: f.id, Raw: f.data}
		var into any = &item.Event
		if w.opts.Env {
			into = &item.Env
		}
		if err := json.Unmarshal(f.data, into); err != nil {
			return handlerError{fmt.Errorf("reading event %q of thread %q: %w", f.id, w.thread, err)}
		}
		if err := w.fn(item); err != nil {
			return handlerError{err}
		}
	}
	if f.hasID && f.id != "" {
		w.last = f.id
	}
	return nil
}

// judge returns the error that ends the watch, or nil to connect again.
func (w *watch) judge(ctx context.Context, err error) error {
	var handler handlerError
	if errors.As(err, &handler) {
		return handler.error
	}
	if errors.Is(err, errTooLarge) || errors.Is(err, ErrClosed) {
		return err
	}
	var failed connectError
	if !errors.As(err, &failed) {
		return nil // a stream that broke: the next attempt reports the error
	}
	if err := w.permanent(ctx, failed.error); err != nil {
		return err
	}
	if !w.met && w.opts.FailFast && errors.Is(failed.error, ErrUnreachable) {
		return failed.error
	}
	if !w.down && !IsNotFound(failed.error) {
		w.down = true
		if w.opts.Lost != nil {
			w.opts.Lost(failed.error)
		}
	}
	return nil
}

// permanent returns err if a retry cannot help.
func (w *watch) permanent(ctx context.Context, err error) error {
	var status *StatusError
	if !errors.As(err, &status) {
		return nil
	}
	switch {
	case status.Code == http.StatusNotFound && w.opts.Missing != nil:
		return w.opts.Missing(ctx)
	case status.Code == http.StatusRequestTimeout, status.Code == http.StatusTooManyRequests, status.Code >= 500:
		return nil
	}
	return err
}

// pause waits before the next attempt, twice as long each time.
func (w *watch) pause(ctx context.Context) error {
	wait := w.delay/2 + rand.N(w.delay/2+1)
	w.delay = min(w.delay*2, w.client.cfg.MaxDelay)
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
