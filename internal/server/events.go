package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/internal/projection/envview"
	"github.com/threadmill/threadmill/internal/projection/worldview"
	"github.com/threadmill/threadmill/store"
)

type eventsInput struct {
	ThreadPath
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream after this event"`
	LastID      string `query:"lastEventId" doc:"The same, for clients that cannot set headers"`
	From        string `query:"from" enum:"start,now" doc:"Where a stream begins without Last-Event-ID. Default: start"`
	View        string `query:"view" enum:"agent,env,world" doc:"agent: agent events; env: environment events, published ones and all others in that form; world: the events of a world of agents. Default: agent"`
	Cursor      string `query:"cursor" doc:"For pages: the next of the previous page, or the id of any event"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
}

// eventPage is a page of stored events.
type eventPage struct {
	Events []event.PagedEvent `json:"events" nullable:"false"`
	Next   string             `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
}

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// eventHandlers serve the events of threads: pages and streams, in each view.
type eventHandlers struct {
	*lookup
	feed    *feed.Feed
	env     envview.Projection
	chats   worldview.Projection
	viewers *viewers
}

func (h *eventHandlers) registerEvents() {
	registry := h.api.OpenAPI().Components.Schemas
	page := registry.Schema(reflect.TypeFor[eventPage](), true, "EventPage")
	one := registry.Schema(reflect.TypeFor[event.AgentEvent](), true, "AgentEvent")
	envPage := registry.Schema(reflect.TypeFor[envPage](), true, "EnvPage")
	env := registry.Schema(reflect.TypeFor[event.EnvEvent](), true, "EnvEvent")
	worldPage := registry.Schema(reflect.TypeFor[worldPage](), true, "WorldPage")
	ofWorld := registry.Schema(reflect.TypeFor[event.WorldEvent](), true, "WorldEvent")
	op := huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/v1/threads/{id}/events", Tags: []string{"events"},
		Summary: "Read a page of events, or watch",
		Description: "With Accept: text/event-stream a stream of server-sent events: the data of each is one AgentEvent, its id is where " +
			"Last-Event-ID resumes. A thread that is closed ends the stream; resuming at its end gives 204. Otherwise a page of what is stored. " +
			"With view=env, either has environment events, with view=world those of a world of agents.",
		Errors: []int{400, 404, 503},
		Responses: map[string]*huma.Response{
			"200": {Description: "Events", Content: map[string]*huma.MediaType{
				typeJSON: {Schema: &huma.Schema{OneOf: []*huma.Schema{page, envPage, worldPage}}},
				typeSSE:  {Schema: &huma.Schema{OneOf: []*huma.Schema{one, env, ofWorld}}},
			}},
			"204": {Description: "The thread is closed, and everything has been sent"},
		},
	}
	register(h.core, auth.RoleRead, op, h.events)
}

func (h *eventHandlers) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	at, err := in.cursor()
	if err != nil {
		return nil, err
	}
	thread, err := h.thread(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case wantsStream(in.Accept):
	case in.View == viewEnv:
		return h.envPage(ctx, in, at)
	case in.View == viewWorld:
		return h.worldPage(ctx, in, at)
	default:
		return h.page(ctx, in, at.Cursor)
	}
	from := projection.From{
		Cursor: at, Now: in.From == "now" && !in.resumes(), Finite: thread.Status == store.ThreadClosed,
	}
	return h.watch(ctx, in.ID, in.View, from)
}

// viewEnv is the view of a thread as environment events.
const viewEnv = "env"

// cursor is where to begin; the header wins, since browsers repeat the query when
// they reconnect.
func (in *eventsInput) cursor() (projection.Cursor, error) {
	for _, at := range []struct{ location, text string }{
		{"header.Last-Event-ID", in.LastEventID}, {"query.lastEventId", in.LastID}, {"query.cursor", in.Cursor},
	} {
		if at.text == "" {
			continue
		}
		c, err := in.parse(at.text)
		if err != nil {
			return c, refuse(http.StatusBadRequest, at.location, err.Error())
		}
		return c, nil
	}
	return projection.Cursor{}, nil
}

// resumes reports whether a place is named, be it the beginning.
func (in *eventsInput) resumes() bool { return in.LastEventID+in.LastID+in.Cursor != "" }

// parse reads an id of the view. One from between the events of another view that are made
// of one event is no place among agent events.
func (in *eventsInput) parse(text string) (projection.Cursor, error) {
	if in.View == viewEnv || in.View == viewWorld {
		return projection.ParseCursor(text)
	}
	c, err := feed.ParseCursor(text)
	return projection.Cursor{Cursor: c}, err
}

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

func (h *eventHandlers) page(ctx context.Context, in *eventsInput, at feed.Cursor) (*huma.StreamResponse, error) {
	items, next, err := h.feed.Page(ctx, h.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	page := eventPage{Events: make([]event.PagedEvent, len(items))}
	for i, item := range items {
		page.Events[i] = event.PagedEvent{ID: item.Cursor.String(), AgentEvent: item.Event}
	}
	if next != nil {
		page.Next = next.String()
	}
	return h.writePage(in.ID, page), nil
}

func (h *eventHandlers) envPage(ctx context.Context, in *eventsInput, at projection.Cursor) (*huma.StreamResponse, error) {
	items, next, err := h.env.Page(ctx, h.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	page := envPage{Events: make([]event.EnvEvent, len(items))}
	for i, item := range items {
		page.Events[i] = item.Event
		page.LastEventID = item.Cursor.String()
	}
	if next != nil {
		page.Next = next.String()
	}
	return h.writePage(in.ID, page), nil
}

func (h *eventHandlers) worldPage(ctx context.Context, in *eventsInput, at projection.Cursor) (*huma.StreamResponse, error) {
	items, next, err := h.chats.Page(ctx, h.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	page := worldPage{Events: make([]event.WorldEvent, len(items))}
	for i, item := range items {
		page.Events[i] = item.Event
		page.LastEventID = item.Cursor.String()
	}
	if next != nil {
		page.Next = next.String()
	}
	return h.writePage(in.ID, page), nil
}

// watch opens the reader before the answer begins, so that what fails is a problem
// document.
func (h *eventHandlers) watch(ctx context.Context, id, view string, from projection.From) (_ *huma.StreamResponse, err error) {
	leave, err := h.viewers.enter()
	if err != nil {
		return nil, err
	}
	watching := false
	defer func() {
		if !watching {
			leave()
		}
	}()
	reader, err := h.open(ctx, id, view, from)
	if err != nil {
		return nil, h.problem(ctx, id, err)
	}
	var first []streamed
	if from.Finite { // there may be nothing left
		e, err := reader.Next(ctx)
		for errors.Is(err, feed.ErrIdle) { // opening took long; nobody waits for a heartbeat yet
			e, err = reader.Next(ctx)
		}
		if err != nil {
			reader.Close()
		}
		if errors.Is(err, io.EOF) {
			return noContent(), nil
		}
		if err != nil {
			return nil, h.problem(ctx, id, err)
		}
		first = []streamed{e}
	}
	watching = true
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		defer reader.Close()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(h.viewers.closing, cancel)()
		out := newEventWriter(w)
		if out.begin(from.Now, reader.begun()) {
			h.send(ctx, id, reader, first, out)
		}
	}}, nil
}

func noContent() *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) { hctx.SetStatus(http.StatusNoContent) }}
}

// storeRetry is how long a stream waits before it asks a store again that was unavailable.
const storeRetry = time.Second

// sleep reports whether the time has passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send writes events until the client goes, the server closes or the thread ends.
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
			// Whatever a closing thread still had to say has come by now.
			if closed || !out.heartbeat() {
				return
			}
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrUnavailable):
			// The viewer waits for the store as well: browsers give up on a 503.
			if !out.heartbeat() || !sleep(ctx, storeRetry) {
				return
			}
		default:
			h.logger.Warn("event stream ends; the client resumes", "thread", id, "error", err)
			return
		}
	}
}
