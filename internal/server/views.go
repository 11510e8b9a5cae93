package server

import (
	"context"
	"reflect"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/feed/projection/baseview"
	"github.com/threadmill/threadmill/internal/feed/projection/envview"
	"github.com/threadmill/threadmill/internal/feed/projection/worldview"
	"github.com/threadmill/threadmill/store"
)

// view is a form of a thread's events, which clients select by name.
type view interface {
	// page returns a page of stored events, for the body of a response.
	page(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error)

	// before returns a page of the newest stored events before one of them, or of all if the
	// cursor is zero. It is nil if the view has no such pages.
	before(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error)

	// open opens a stream of events.
	open(ctx context.Context, key store.Key, from projection.From) (source, error)

	// cursor parses the id of one of the view's events.
	cursor(id string) (projection.Cursor, error)

	// types returns the Go types of a page and of an event.
	types() (page, one reflect.Type)
}

func newViews(events *feed.Feed, records store.Store) map[string]view {
	return map[string]view{
		"":      agentView{events},
		"agent": agentView{events},
		"env":   derivedView[event.EnvEvent]{envview.New(events, records)},
		"world": derivedView[event.WorldEvent]{worldview.New(events, records)},
		"base":  baseView{derivedView[event.AgentEvent]{baseview.New(events, records)}},
	}
}

// page is a page of stored events.
type page[E any] struct {
	Events      []E    `json:"events" nullable:"false" doc:"The events, the oldest first"`
	Next        string `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	Previous    string `json:"previous,omitempty" doc:"With before: the before of the previous page, if there is one"`
	LastEventID string `json:"lastEventId,omitempty" doc:"Where a stream continues after these events"`
}

func (p *page[E]) add(e E, id string) { p.Events, p.LastEventID = append(p.Events, e), id }

// source is an open stream of a view's events.
type source interface {
	// Next, Buffered and Close are those of [feed.Reader].
	Next(ctx context.Context) (streamed, error)
	Buffered() bool
	Close()

	// begun returns the cursor at which the stream began.
	begun() place
}

// place is a cursor of any view.
type place interface {
	IsZero() bool
	String() string
}

// streamed is an event for a client.
type streamed struct {
	id    string
	event any

	// closed means that the thread was closed with this event.
	closed bool
}

// agentView is the view of agent events, the events of the feed itself.
type agentView struct{ events *feed.Feed }

func (v agentView) page(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error) {
	items, next, err := v.events.Page(ctx, key, at.Cursor, limit)
	out := page[event.PagedEvent]{Events: []event.PagedEvent{}}
	for _, item := range items {
		id := item.Cursor.String()
		out.add(event.PagedEvent{ID: id, AgentEvent: item.Event}, id)
	}
	if next != nil {
		out.Next = next.String()
	}
	return out, err
}

func (v agentView) before(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error) {
	found, err := v.events.Before(ctx, key, at.Cursor, limit)
	out := page[event.PagedEvent]{Events: []event.PagedEvent{}}
	for _, item := range found.Items {
		out.add(event.PagedEvent{ID: item.Cursor.String(), AgentEvent: item.Event}, item.Cursor.String())
	}
	if found.Previous != nil {
		out.Previous = found.Previous.String()
	}
	if !found.End.IsZero() {
		out.LastEventID = found.End.String()
	}
	return out, err
}

func (v agentView) open(ctx context.Context, key store.Key, from projection.From) (source, error) {
	r, err := v.events.Open(ctx, key, feed.From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite})
	return agentSource{r}, err
}

// cursor rejects the ids of other views, which lie between two agent events.
func (agentView) cursor(id string) (projection.Cursor, error) {
	c, err := feed.ParseCursor(id)
	return projection.Cursor{Cursor: c}, err
}

func (agentView) types() (pages, one reflect.Type) {
	return reflect.TypeFor[page[event.PagedEvent]](), reflect.TypeFor[event.AgentEvent]()
}

type agentSource struct{ *feed.Reader }

func (s agentSource) Next(ctx context.Context) (streamed, error) {
	item, err := s.Reader.Next(ctx)
	return streamed{item.Cursor.String(), item.Event, item.Closes()}, err
}

func (s agentSource) begun() place { return s.Start() }

// derivedView is a view that a projection derives from the feed.
type derivedView[E any] struct{ events projection.Projection[E] }

func (v derivedView[E]) page(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error) {
	return pageOf(ctx, v, key, at, limit, func(e E, _ string) E { return e })
}

// pageOf returns a page of events in the form that they have on it.
func pageOf[E, P any](ctx context.Context, v derivedView[E], key store.Key, at projection.Cursor, limit int, form func(e E, id string) P) (page[P], error) {
	items, next, err := v.events.Page(ctx, key, at, limit)
	out := page[P]{Events: []P{}}
	for _, item := range items {
		id := item.Cursor.String()
		out.add(form(item.Event, id), id)
	}
	if next != nil {
		out.Next = next.String()
	}
	return out, err
}

func (derivedView[E]) before(context.Context, store.Key, projection.Cursor, int) (any, error) {
	return nil, nil
}

func (v derivedView[E]) open(ctx context.Context, key store.Key, from projection.From) (source, error) {
	r, err := v.events.Open(ctx, key, from)
	return derivedSource[E]{r}, err
}

func (derivedView[E]) cursor(id string) (projection.Cursor, error) { return projection.ParseCursor(id) }

func (derivedView[E]) types() (pages, one reflect.Type) {
	return reflect.TypeFor[page[E]](), reflect.TypeFor[E]()
}

// baseView is the view of agent events of the base protocol. On a page they have their places, like all agent events.
type baseView struct {
	derivedView[event.AgentEvent]
}

func (v baseView) page(ctx context.Context, key store.Key, at projection.Cursor, limit int) (any, error) {
	return pageOf(ctx, v.derivedView, key, at, limit, func(e event.AgentEvent, id string) event.PagedEvent {
		return event.PagedEvent{ID: id, AgentEvent: e}
	})
}

type derivedSource[E any] struct{ *projection.Reader[E] }

func (s derivedSource[E]) Next(ctx context.Context) (streamed, error) {
	item, err := s.Reader.Next(ctx)
	return streamed{item.Cursor.String(), item.Event, item.Closed}, err
}

func (s derivedSource[E]) begun() place { return s.Start() }
