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
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/internal/projection/envview"
	"github.com/threadmill/threadmill/store"
)

type eventsInput struct {
	ThreadPath
	Accept      string `header:"Accept" hidden:"true"`
	LastEventID string `header:"Last-Event-ID" doc:"Resume a stream behind this event"`
	LastID      string `query:"lastEventId" doc:"The same, for clients that cannot set headers"`
	From        string `query:"from" enum:"start,now" doc:"Where a stream begins without Last-Event-ID. Default: start"`
	View        string `query:"view" enum:"agent,env,world" doc:"agent: agent events; env: environment events, those that were published and those that all else is told as; world: the events of a world of agents. Default: agent"`
	Cursor      string `query:"cursor" doc:"Of a page: the next of the page before, or the id of any event"`
	Limit       int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Of a page"`
}

// eventPage is a page of stored events.
type eventPage struct {
	Events []pagedEvent `json:"events" nullable:"false"`
	Next   string       `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
}

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

func (s *server) registerEvents() {
	registry := s.api.OpenAPI().Components.Schemas
	page := registry.Schema(reflect.TypeFor[eventPage](), true, "EventPage")
	one := registry.Schema(reflect.TypeFor[AgentEvent](), true, "AgentEvent")
	envPage := registry.Schema(reflect.TypeFor[envPage](), true, "EnvPage")
	env := registry.Schema(reflect.TypeFor[EnvEvent](), true, "EnvEvent")
	worldPage := registry.Schema(reflect.TypeFor[worldPage](), true, "WorldPage")
	ofWorld := registry.Schema(reflect.TypeFor[WorldEvent](), true, "WorldEvent")
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
	register(s, auth.Read, op, s.events)
}

func (s *server) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	at, err := in.cursor()
	if err != nil {
		return nil, err
	}
	thread, err := s.thread(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case wantsStream(in.Accept):
	case in.View == viewEnv:
		return s.envPage(ctx, in, at)
	case in.View == viewWorld:
		return s.worldPage(ctx, in, at)
	default:
		return s.page(ctx, in, at.Cursor)
	}
	from := projection.From{
		Cursor: at, Now: in.From == "now" && !in.resumes(), Finite: thread.Status == store.ThreadClosed,
	}
	return s.watch(ctx, in.ID, in.View, from)
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

func (s *server) page(ctx context.Context, in *eventsInput, at feed.Cursor) (*huma.StreamResponse, error) {
	items, next, err := s.feed.Page(ctx, s.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	page := eventPage{Events: make([]pagedEvent, len(items))}
	for i, item := range items {
		page.Events[i] = pagedEvent{item}
	}
	if next != nil {
		page.Next = next.String()
	}
	return s.writePage(in.ID, page), nil
}

func (s *server) envPage(ctx context.Context, in *eventsInput, at projection.Cursor) (*huma.StreamResponse, error) {
	items, next, err := envview.New(s.feed, s.Store).Page(ctx, s.key(in.ID), at, in.Limit)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	page := envPage{Events: make([]envEvent, len(items))}
	for i, item := range items {
		page.Events[i] = envEvent{item.Event}
		page.LastEventID = item.Cursor.String()
	}
	if next != nil {
		page.Next = next.String()
	}
	return s.writePage(in.ID, page), nil
}

func (s *server) writePage(id string, page any) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", typeJSON)
		hctx.SetHeader("Vary", "Accept")
		hctx.SetStatus(http.StatusOK)
		if err := s.api.Marshal(hctx.BodyWriter(), typeJSON, page); err != nil {
			s.Logger.Warn("writing a page of events failed", "thread", id, "error", err)
		}
	}}
}

// watch opens the reader before the answer begins, so that what fails is a problem
// document.
func (s *server) watch(ctx context.Context, id, view string, from projection.From) (_ *huma.StreamResponse, err error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	watching := false
	defer func() {
		if !watching {
			leave()
		}
	}()
	reader, err := s.open(ctx, id, view, from)
	if err != nil {
		return nil, s.problem(ctx, id, err)
	}
	var first []sent
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
			return nil, s.problem(ctx, id, err)
		}
		first = []sent{e}
	}
	watching = true
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		defer reader.Close()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.Closing, cancel)()
		out := newEventWriter(w)
		if out.begin(from.Now, reader.begun()) {
			s.send(ctx, id, reader, first, out)
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
func (s *server) send(ctx context.Context, id string, reader source, first []sent, out *eventWriter) {
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
			s.Logger.Warn("event stream ends; the client resumes", "thread", id, "error", err)
			return
		}
	}
}
