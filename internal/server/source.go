package server

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
)

// source is what a stream of events is read from, in one view.
type source interface {
	// Next, Buffered and Close are those of [feed.Reader].
	Next(ctx context.Context) (streamed, error)
	Buffered() bool
	Close()

	// begun is where the stream began.
	begun() place
}

// place is a cursor of any view.
type place interface {
	IsZero() bool
	String() string
}

// streamed is an event on its way to a client.
type streamed struct {
	id    string
	event any

	// closed: the event says that the thread has been closed.
	closed bool
}

func (h *eventHandlers) open(ctx context.Context, id, view string, from projection.From) (source, error) {
	switch view {
	case viewEnv:
		r, err := h.env.Open(ctx, h.key(id), from)
		return derivedSource[event.EnvEvent]{r}, err
	case viewWorld:
		r, err := h.chats.Open(ctx, h.key(id), from)
		return derivedSource[event.WorldEvent]{r}, err
	}
	r, err := h.feed.Open(ctx, h.key(id), feed.From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite})
	return agentSource{r}, err
}

type agentSource struct{ *feed.Reader }

func (s agentSource) Next(ctx context.Context) (streamed, error) {
	item, err := s.Reader.Next(ctx)
	return streamed{item.Cursor.String(), item.Event, item.Closes()}, err
}

func (s agentSource) begun() place { return s.Start() }

// derivedSource is that of the views whose events are made of others.
type derivedSource[E any] struct{ *projection.Reader[E] }

func (s derivedSource[E]) Next(ctx context.Context) (streamed, error) {
	item, err := s.Reader.Next(ctx)
	return streamed{item.Cursor.String(), item.Event, item.Closed}, err
}

func (s derivedSource[E]) begun() place { return s.Start() }
