package server

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/projection"
	"github.com/threadmill/threadmill/internal/projection/envview"
	"github.com/threadmill/threadmill/internal/projection/worldview"
)

// source is what a stream of events is read from, in one view.
type source interface {
	// Next, Buffered and Close are those of [feed.Reader].
	Next(ctx context.Context) (sent, error)
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

// sent is an event on its way to a client.
type sent struct {
	id    string
	event any

	// closed: the event says that the thread has been closed.
	closed bool
}

func (s *server) open(ctx context.Context, id, view string, from projection.From) (source, error) {
	switch view {
	case viewEnv:
		r, err := envview.New(s.feed, s.Store).Open(ctx, s.key(id), from)
		return madeSource[event.EnvEvent]{r}, err
	case viewWorld:
		r, err := worldview.New(s.feed, s.Store).Open(ctx, s.key(id), from)
		return madeSource[event.WorldEvent]{r}, err
	}
	r, err := s.feed.Open(ctx, s.key(id), feed.From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite})
	return agentSource{r}, err
}

type agentSource struct{ *feed.Reader }

func (s agentSource) Next(ctx context.Context) (sent, error) {
	item, err := s.Reader.Next(ctx)
	return sent{item.Cursor.String(), item.Event, isClosed(item)}, err
}

func (s agentSource) begun() place { return s.Start() }

// madeSource is that of the views whose events are made of others.
type madeSource[E any] struct{ *projection.Reader[E] }

func (s madeSource[E]) Next(ctx context.Context) (sent, error) {
	item, err := s.Reader.Next(ctx)
	return sent{item.Cursor.String(), item.Event, item.Closed}, err
}

func (s madeSource[E]) begun() place { return s.Start() }
