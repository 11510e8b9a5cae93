// Package projection derives other sequences of events from a thread's feed. Each view other than
// agent events is a [Projector] in its own package.
//
// Projections store nothing, so the id of an event follows from its source. An item can give
// several events with fixed places, so that a [Cursor] is exact. Which pieces of a message the
// viewer had before the cursor is known as far as the live log is kept: see [feed.Item.Begins] and
// [feed.Item.Streamed].
package projection

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// Projector derives events for one viewer of a thread, from its items in their order. The events of
// an item depend on the records up to it only, so they are the same on each read.
//
// Beside the items of agent events it gets the records of model calls, each right before the model's
// reply. Model calls have no place of their own: Project must return nothing for them.
type Projector[E any] interface {
	Project(ctx context.Context, item feed.Item) (Events[E], error)
}

// Events are derived from one item. Their places are fixed: nil stands for an event that this
// viewer does not get. There are at most [MaxEvents].
type Events[E any] []*E

// MaxEvents bounds the events of one item.
const MaxEvents = 8

// records are the types that projectors get beside agent events.
var records = []string{event.TypeLLMCall}

// isModelCall reports whether an item only informs about the following one.
func isModelCall(item feed.Item) bool {
	return item.Record != nil && item.Record.Type == event.TypeLLMCall
}

// Viewer is the reader or the page of a projector.
type Viewer struct {
	Key store.Key

	// Show applies the viewer's view to an agent event that the projector looked up.
	Show feed.View
}

// Projection is a view of threads as events of type E.
type Projection[E any] struct {
	Feed *feed.Feed

	// New returns the projector of one viewer.
	New func(Viewer) Projector[E]
}

// Item is an event and the cursor behind it.
type Item[E any] struct {
	Cursor Cursor
	Event  E

	// Closed means that the event is the end of the thread.
	Closed bool
}

// From is the start of a [Reader].
type From struct {
	// Cursor is the position to continue from. The zero value is the thread's beginning.
	Cursor Cursor

	// Now and Finite are those of [feed.From].
	Now    bool
	Finite bool
}

// Open opens a reader of a thread's events. It does not check that the thread exists.
func (p Projection[E]) Open(ctx context.Context, key store.Key, from From) (*Reader[E], error) {
	r, err := p.Feed.Open(ctx, key, feed.From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite, Starts: true, Records: records})
	if err != nil {
		return nil, err
	}
	out := &Reader[E]{feed: r, projector: p.New(Viewer{key, r.Show}), place: Cursor{Cursor: r.Start()}}
	if !from.Now {
		out.place.Sent = from.Cursor.Sent
	}
	return out, nil
}

// Page returns at most limit events after a cursor, from the store only, and the cursor of the last
// one if more follow.
func (p Projection[E]) Page(ctx context.Context, key store.Key, after Cursor, limit int) (items []Item[E], next *Cursor, err error) {
	s, err := p.Feed.Scan(ctx, key, after.Cursor, records...)
	if err != nil {
		return nil, nil, err
	}
	view, place := p.Feed.View(key), Cursor{s.Start(), after.Sent}
	projector := p.New(Viewer{key, view})
	items, more, err := feed.ScanPage(ctx, s, limit, func(items []Item[E], item feed.Item) ([]Item[E], error) {
		item.Event = view(ctx, item.Event)
		events, err := projector.Project(ctx, item)
		if err != nil {
			return nil, err
		}
		return appendEvents(&place, items, item, events), nil
	})
	if err == nil && more {
		next = &items[len(items)-1].Cursor
	}
	return items, next, err
}

// appendEvents appends the events of the item after a position, except those that were sent before,
// and advances the position.
func appendEvents[E any](at *Cursor, items []Item[E], item feed.Item, events Events[E]) []Item[E] {
	if isModelCall(item) {
		// The item is read again together with the following ones.
		return items
	}
	if item.Event.Type == event.EventGap {
		at.Sent = 0
	}
	from := len(items)
	for i, e := range events {
		if e == nil || i < at.Sent {
			continue
		}
		items = append(items, Item[E]{Cursor: Cursor{at.Cursor, i + 1}, Event: *e, Closed: item.Closes()})
	}
	*at = Cursor{Cursor: item.Cursor}
	if len(items) > from {
		items[len(items)-1].Cursor = *at
	}
	return items
}
