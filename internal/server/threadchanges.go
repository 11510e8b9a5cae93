package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/store"
)

const (
	// threadPoll is the interval at which a stream of changes queries the store.
	threadPoll = time.Second

	// threadOverlap is how far a stream of changes looks back: transactions that began earlier may
	// commit later, and a client lists threads before it opens the stream.
	threadOverlap = 10 * time.Second
)

// watchThreads streams the threads that change, after the cursor of the last event that a client
// has.
func (h *threadHandlers) watchThreads(ctx context.Context, in *listInput) (*huma.StreamResponse, error) {
	since := time.Now()
	if in.LastEventID != "" {
		var ok bool
		if since, _, ok = parseThreadCursor(in.LastEventID); !ok {
			return nil, refuse(http.StatusBadRequest, "header.Last-Event-ID", "is not the id of an event of this stream")
		}
	}
	w := &threadWatch{store: h.store, namespace: h.namespace, since: since, sent: map[string]store.Thread{}}
	// Errors before the first byte of the response are problem documents.
	changed, err := w.poll(ctx)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	leave, err := h.viewers.enter(ctx)
	if err != nil {
		return nil, err
	}
	return h.viewers.stream(false, nil, leave, func(ctx context.Context, out *eventWriter) {
		if err := h.sendThreads(ctx, out, w, changed); err != nil && ctx.Err() == nil {
			h.logger.Warn("stream of changes to threads ends; the client resumes", "error", err)
		}
	}), nil
}

// sendThreads writes threads that change until the client disconnects or the server closes.
func (h *threadHandlers) sendThreads(ctx context.Context, out *eventWriter, w *threadWatch, changed []api.Thread) error {
	poll := time.NewTicker(threadPoll)
	defer poll.Stop()
	heartbeat := time.NewTicker(h.viewers.heartbeat)
	defer heartbeat.Stop()
	for {
		for i, t := range changed {
			if !out.event(streamed{id: threadCursor(t.UpdatedAt, t.ID), event: t}, i == len(changed)-1) {
				return nil
			}
			heartbeat.Reset(h.viewers.heartbeat)
		}
		changed = nil
		select {
		case <-ctx.Done():
			return nil
		case <-heartbeat.C:
			if !out.Heartbeat() {
				return nil
			}
		case <-poll.C:
			var err error
			if changed, err = w.poll(ctx); err != nil && !errors.Is(err, store.ErrUnavailable) {
				return err
			}
		}
	}
}

// threadWatch finds threads that have changed.
type threadWatch struct {
	store     store.Store
	namespace string
	since     time.Time

	// sent are the threads that were sent within the overlap.
	sent map[string]store.Thread
}

// poll returns the threads that have changed, the oldest change first.
func (w *threadWatch) poll(ctx context.Context) ([]api.Thread, error) {
	from := w.since.Add(-threadOverlap)
	var found []store.Thread
	for page := (store.ThreadPage{Limit: store.MaxThreads}); ; {
		threads, err := w.store.Threads(ctx, w.namespace, page)
		if err != nil {
			return nil, err
		}
		old := 0
		for _, t := range threads {
			if t.UpdatedAt.Before(from) {
				old++
				continue
			}
			found = append(found, t)
		}
		if old > 0 || len(threads) < store.MaxThreads {
			break
		}
		last := threads[len(threads)-1]
		page.CursorUpdatedAt, page.CursorID = last.UpdatedAt, last.ID
	}
	var changed []store.Thread
	since, recent := w.since, make(map[string]store.Thread, len(found))
	for i := len(found) - 1; i >= 0; i-- {
		t := found[i]
		before, known := w.sent[t.ID]
		if !known || !before.UpdatedAt.Equal(t.UpdatedAt) || before.Head != t.Head {
			changed = append(changed, t)
		}
		recent[t.ID] = t
		if t.UpdatedAt.After(since) {
			since = t.UpdatedAt
		}
	}
	out, err := listed(ctx, w.store, w.namespace, changed...)
	if err == nil {
		w.since, w.sent = since, recent
	}
	return out, err
}
