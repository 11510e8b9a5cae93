// Package projection derives other sequences of events from a thread's feed: each view of a
// thread that is not of agent events is a [Projector], in a package of its own.
//
// Nothing of a projection is stored, so the id of an event follows from what it is derived
// from. An item can give several events, and each has its place among them, so that a
// [Cursor] is exact. What of a message the viewer had before the cursor is known from the live
// log, as far as that is kept: see [feed.Item.Begins] and [feed.Item.Streamed].
package projection

import (
	"context"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// Projector derives events for one viewer of a thread, from its items in their order. What it
// derives from an item follows from the records up to it, so that it is the same whenever it is
// derived.
//
// Beside the items of agent events it gets the records of environment events, and those of
// model calls, each right before what the model replied. These have no place of their own:
// nothing may be derived from them.
type Projector[E any] interface {
	Project(ctx context.Context, item feed.Item) (Events[E], error)
}

// Events are derived from one item. Each has its place, whenever the item is read: nil stands
// for one that this viewer does not get. There are at most [MaxEvents].
type Events[E any] []*E

// MaxEvents bounds the events that are derived from one item.
const MaxEvents = 8

// records are what projectors get beside agent events.
var records = []string{event.TypeEnv, event.TypeLLMCall}

// isModelCall reports whether an item only tells of the one that follows it.
func isModelCall(item feed.Item) bool {
	return item.Record != nil && item.Record.Type == event.TypeLLMCall
}

// Viewer is whom a projector works for: a reader or a page.
type Viewer struct {
	Key store.Key

	// Show returns what the viewer sees of an agent event that the projector looked up.
	Show feed.View
}

// Projection is a view of threads as events of type E.
type Projection[E any] struct {
	Feed *feed.Feed

	// New makes the projector of one viewer.
	New func(Viewer) Projector[E]
}

// Item is an event and the cursor behind it.
type Item[E any] struct {
	Cursor Cursor
	Event  E

	// Closed: the event says that the thread has been closed.
	Closed bool
}

// From says where a [Reader] begins.
type From struct {
	// Cursor: what follows it. The zero value is the thread's beginning.
	Cursor Cursor

	// Now and Finite are those of [feed.From].
	Now    bool
	Finite bool
}

// Open opens a reader of a thread's events. It does not ask whether the thread exists.
func (p Projection[E]) Open(ctx context.Context, key store.Key, from From) (*Reader[E], error) {
	r, err := p.Feed.Open(ctx, key, feed.From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite, Records: records})
	if err != nil {
		return nil, err
	}
	out := &Reader[E]{feed: r, projector: p.New(Viewer{key, r.Show}), place: Cursor{Cursor: r.Start()}}
	if !from.Now {
		out.place.Sent = from.Cursor.Sent
	}
	return out, nil
}

// Page returns at most limit events that follow a cursor, from the store only, and the cursor
// of the last one if more follow.
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

// appendEvents appends the events of the item that follows a place, but those that were sent
// before, and moves the place behind it.
func appendEvents[E any](at *Cursor, items []Item[E], item feed.Item, events Events[E]) []Item[E] {
	if isModelCall(item) {
		// It is read again with what follows it.
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
