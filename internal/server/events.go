package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

type eventsInput struct {
	ThreadPath
	Ticketed
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream after this event"`
	LastID      string `query:"lastEventId" doc:"The same, for clients that cannot set headers"`
	From        string `query:"from" enum:"start,now" doc:"Where a stream begins without Last-Event-ID. Default: start"`
	Event       string `query:"event" maxLength:"200" doc:"For streams and pages without a cursor: begin with this message, record or posted event, which may still be in the queue"`
	View        string `query:"view" enum:"agent,base,env,world" doc:"agent: agent events; base: those of the seven types of the base protocol, with their own fields only; env: environment events, published ones and all others in that form; world: the events of a world of agents. Default: agent"`
	Cursor      string `query:"cursor" doc:"For pages: the next of the previous page, or the id of any event"`
	Before      string `query:"before" doc:"For pages of agent events: the previous of the page that follows, or end for the newest events. Such a page ends before it, and its limit counts records, of which some have no event"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
}

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// eventHandlers serve the events of threads as pages and streams, in each view.
type eventHandlers struct {
	*lookup
	views   map[string]view
	viewers *viewers
	queues  Queues
}

func (h *eventHandlers) registerEvents() {
	registry := h.api.OpenAPI().Components.Schemas
	pages, ones := &huma.Schema{}, &huma.Schema{}
	for _, name := range []string{"agent", "env", "world"} { // base has agent events
		page, one := h.views[name].types()
		pages.AnyOf = append(pages.AnyOf, registry.Schema(page, true, ""))
		ones.AnyOf = append(ones.AnyOf, registry.Schema(one, true, ""))
	}
	op := huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/v1/threads/{id}/events", Tags: []string{"events"},
		Summary: "Read a page of events, or watch",
		Description: "With Accept: text/event-stream a stream of server-sent events: the data of each is one AgentEvent, its id is where " +
			"Last-Event-ID resumes. A thread that is closed ends the stream; resuming at its end gives 204. Otherwise a page of what is stored. " +
			"With view=base, either has the seven types of the base protocol alone, with view=env environment events, with view=world those of a " +
			"world of agents.",
		Errors: []int{400, 404, 503},
		Responses: map[string]*huma.Response{
			"200": {Description: "Events", Content: map[string]*huma.MediaType{
				typeJSON: {Schema: pages},
				typeSSE:  {Schema: ones},
			}},
			"204": {Description: "The thread is closed, and everything has been sent"},
		},
	}
	register(h.core, auth.RoleRead, op, h.events)
}

func (h *eventHandlers) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	view := h.views[in.View]
	at, err := in.cursor(view)
	if err != nil {
		return nil, err
	}
	thread, err := h.thread(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Event != "" && !in.resumes() {
		if at, err = h.beforeEvent(ctx, in.ID, thread.Head, in.Event); err != nil {
			return nil, err
		}
		in.From = ""
	}
	if !wantsStream(in.Accept) {
		return h.page(ctx, in, view, at)
	}
	return h.watch(ctx, in.ID, view, projection.From{
		Cursor: at, Now: in.From == "now" && !in.resumes(), Finite: thread.Status == store.ThreadClosed,
	})
}

// beforeEvent returns the cursor before a posted event. An event in the queue comes after the head,
// which must have been read before.
func (h *eventHandlers) beforeEvent(ctx context.Context, threadID string, head int64, eventID string) (projection.Cursor, error) {
	after := func(seq int64) projection.Cursor { return projection.Cursor{Cursor: feed.Cursor{Seq: seq}} }
	records, err := h.store.RecordsByID(ctx, h.key(threadID), eventID, recordid.Unqueued(eventID), recordid.Expired(eventID), recordid.TurnEnded(eventID))
	if err != nil || len(records) > 0 {
		for _, r := range records {
			head = min(head, r.Seq-1)
		}
		return after(head), h.problem(ctx, threadID, err)
	}
	_, err = ask(ctx, h.core, threadID, func(ctx context.Context) (event.Item, error) { return h.queues.Item(ctx, threadID, eventID) })
	return after(head), err
}

func (h *eventHandlers) page(ctx context.Context, in *eventsInput, view view, at projection.Cursor) (*huma.StreamResponse, error) {
	read := view.page
	if in.Before != "" {
		read = view.before
		switch {
		case in.resumes() || in.Event != "":
			return nil, refuse(http.StatusBadRequest, "query.before", "is for pages that end at an event; cursor, lastEventId and event are for those that begin at one")
		case in.Before != "end":
			var err error
			if at, err = view.cursor(in.Before); err != nil {
				return nil, refuse(http.StatusBadRequest, "query.before", err.Error())
			}
		}
	}
	page, err := read(ctx, h.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	if page == nil {
		return nil, refuse(http.StatusBadRequest, "query.before", "is for agent events only: omit view")
	}
	return h.writePage(in.ID, page), nil
}

// cursor returns the cursor of a request. The header takes precedence, since browsers repeat the
// query when they reconnect.
func (in *eventsInput) cursor(v view) (projection.Cursor, error) {
	for _, at := range []struct{ location, text string }{
		{"header.Last-Event-ID", in.LastEventID}, {"query.lastEventId", in.LastID}, {"query.cursor", in.Cursor},
	} {
		if at.text == "" {
			continue
		}
		c, err := v.cursor(at.text)
		if err != nil {
			return c, refuse(http.StatusBadRequest, at.location, err.Error())
		}
		return c, nil
	}
	return projection.Cursor{}, nil
}

// resumes reports whether the request has a cursor, even that of the beginning.
func (in *eventsInput) resumes() bool { return in.LastEventID+in.LastID+in.Cursor != "" }

// wantsStream reports whether an Accept header prefers server-sent events to JSON.
func wantsStream(accept string) bool {
	var sse, sseAt, json, jsonAt float64
	for i, part := range strings.Split(accept, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch name {
		case typeSSE:
			sse, sseAt = q, float64(i)
		case typeJSON:
			json, jsonAt = q, float64(i)
		}
	}
	return sse > json || sse > 0 && sse == json && sseAt < jsonAt
}

// watch opens the reader before the response begins, so that errors are problem documents.
func (h *eventHandlers) watch(ctx context.Context, id string, v view, from projection.From) (*huma.StreamResponse, error) {
	leave, err := h.viewers.enter(ctx)
	if err != nil {
		return nil, err
	}
	done, streaming := leave, false
	defer func() {
		if !streaming {
			done()
		}
	}()
	reader, err := v.open(ctx, h.key(id), from)
	if err != nil {
		return nil, h.problem(ctx, id, err)
	}
	done = func() {
		reader.Close()
		leave()
	}
	var first []streamed
	if from.Finite { // there may be nothing left
		e, err := reader.Next(ctx)
		for errors.Is(err, feed.ErrIdle) { // opening took long; nobody waits for a heartbeat yet
			e, err = reader.Next(ctx)
		}
		if errors.Is(err, io.EOF) {
			return noContent(), nil
		}
		if err != nil {
			return nil, h.problem(ctx, id, err)
		}
		first = []streamed{e}
	}
	streaming = true
	return h.viewers.stream(from.Now, reader.begun(), done, func(ctx context.Context, out *eventWriter) {
		h.send(ctx, id, reader, first, out)
	}), nil
}

func noContent() *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) { hctx.SetStatus(http.StatusNoContent) }}
}

// send writes events until the client disconnects, the server closes or the thread ends.
func (h *eventHandlers) send(ctx context.Context, id string, reader source, first []streamed, out *eventWriter) {
	for _, e := range first {
		if !out.event(e, !reader.Buffered()) {
			return
		}
	}
	closed := false
	for {
		e, err := reader.Next(ctx)
		switch {
		case err == nil:
			closed = closed || e.closed
			if !out.event(e, !reader.Buffered()) {
				return
			}
		case errors.Is(err, feed.ErrIdle):
			// The last events of a closing thread have arrived by then.
			if closed || !out.Heartbeat() {
				return
			}
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrUnavailable):
			// The stream waits for the store too: browsers do not reconnect after a 503.
			if !out.Heartbeat() || feed.Sleep(ctx, feed.StoreRetry) != nil {
				return
			}
		default:
			h.logger.Warn("event stream ends; the client resumes", "thread", id, "error", err)
			return
		}
	}
}
