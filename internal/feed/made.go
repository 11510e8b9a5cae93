package feed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// slots are the events that are made of one item. Each has its place, whenever the item is
// read: nil stands for one that this viewer does not get.
type slots[E any] []*E

// maxMade is more than are made of any item.
const maxMade = 8

// maker makes events of the items of one thread, in their order. What it makes of an item
// follows from the records up to it, so that it is the same whenever it is made.
type maker[E any] interface {
	events(ctx context.Context, item Item) (slots[E], error)
}

// MadeItem is an event that is made of a thread's sequence, and the cursor behind it.
type MadeItem[E any] struct {
	Cursor EnvCursor
	Event  E

	// Closed: the event says that the thread has been closed.
	Closed bool
}

// MadeReader delivers what is made of a thread's sequence. It is for one goroutine.
type MadeReader[E any] struct {
	reader *Reader
	maker  maker[E]
	place  madePlace

	taken *Item         // its events have still to be made
	queue []MadeItem[E] // the items from next on are ready to be delivered
	next  int
}

func openMade[E any](ctx context.Context, f *Feed, key store.Key, from EnvFrom, m maker[E]) (*MadeReader[E], error) {
	r, err := f.Open(ctx, key, From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite, env: true})
	if err != nil {
		return nil, err
	}
	out := &MadeReader[E]{reader: r, maker: m, place: madePlace{at: r.Start()}}
	if !from.Now {
		out.place.sent = from.Cursor.Sent
	}
	return out, nil
}

// Start is where the reader began: before its first item.
func (r *MadeReader[E]) Start() EnvCursor { return EnvCursor{Cursor: r.reader.Start()} }

// Buffered reports whether Next has an item at hand.
func (r *MadeReader[E]) Buffered() bool { return r.next < len(r.queue) }

// Close releases the reader.
func (r *MadeReader[E]) Close() { r.reader.Close() }

// Next waits for the next event. Its errors are those of [Reader.Next]. When the store
// fails, it can be called again.
func (r *MadeReader[E]) Next(ctx context.Context) (MadeItem[E], error) {
	for r.next == len(r.queue) {
		r.queue, r.next = r.queue[:0], 0
		// All that is at hand, so that Buffered is true only if an event follows.
		for first := true; first || r.reader.Buffered(); first = false {
			if err := r.take(ctx); err != nil {
				return MadeItem[E]{}, err
			}
		}
	}
	item := r.queue[r.next]
	r.queue[r.next] = MadeItem[E]{} // its viewer may not read for long
	r.next++
	return item, nil
}

// take makes the events of the next item.
func (r *MadeReader[E]) take(ctx context.Context) error {
	if r.taken == nil {
		item, err := r.reader.Next(ctx)
		if err != nil {
			return err
		}
		r.taken = &item
	}
	made, err := r.maker.events(ctx, *r.taken)
	if err != nil {
		return err
	}
	r.queue = appendMade(&r.place, r.queue, *r.taken, made)
	r.taken = nil
	return nil
}

// pageMade returns at most limit events that follow a cursor, from the store only, and the
// cursor of the last one if more follow.
func pageMade[E any](ctx context.Context, f *Feed, key store.Key, after EnvCursor, limit int, m maker[E]) (items []MadeItem[E], next *EnvCursor, err error) {
	before, from, err := f.pageStart(ctx, key, after.Cursor)
	if err != nil {
		return nil, nil, err
	}
	view, place := f.view(key), madePlace{at: from, sent: after.Sent}
	for _, item := range before {
		made, err := m.events(ctx, item)
		if err != nil {
			return nil, nil, err
		}
		items = appendMade(&place, items, item, made)
	}
	last, part, bytes := from.done(), from.Part, 0
	for {
		q := store.Query{After: last, Limit: pageSize, MaxBytes: readBytes}
		records, err := f.cfg.Store.Records(ctx, key, q)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the records of %s: %w", key, err)
		}
		for _, rec := range records {
			for _, item := range appendItems(nil, rec, envSources(rec), part, 0) {
				item.Event = shownBy(ctx, view, item.Event)
				made, err := m.events(ctx, item)
				if err != nil {
					return nil, nil, err
				}
				items = appendMade(&place, items, item, made)
			}
			last, part = rec.Seq, 0
			bytes += len(rec.Payload)
			if len(items) > limit {
				return items[:limit], &items[limit-1].Cursor, nil
			}
		}
		switch {
		case q.Complete(records):
			return items, nil, nil
		case bytes >= pageBytes && len(items) > 0:
			return items, &items[len(items)-1].Cursor, nil
		}
	}
}

// madePlace is how far a sequence has got: behind an item, and behind some of the events
// that were made of the one that follows it.
type madePlace struct {
	at   Cursor
	sent int
}

// appendMade appends what was made of the next item, but what was sent of it before.
func appendMade[E any](p *madePlace, items []MadeItem[E], item Item, made slots[E]) []MadeItem[E] {
	if isHint(item) {
		// It makes no events of its own, and is read again with what follows it.
		return items
	}
	if item.Event.Type == event.EventGap {
		p.sent = 0
	}
	from := len(items)
	for i, e := range made {
		if e == nil || i < p.sent {
			continue
		}
		items = append(items, MadeItem[E]{Cursor: EnvCursor{p.at, i + 1}, Event: *e, Closed: isClosing(item)})
	}
	if len(items) > from {
		items[len(items)-1].Cursor = EnvCursor{Cursor: item.Cursor}
	}
	p.at, p.sent = item.Cursor, 0
	return items
}

// past is what makers look up of a thread.
type past struct {
	store Store
	key   store.Key

	// call is the model call of the reply that follows.
	call event.LLMCall
}

// original is a message as it was stored.
func (p *past) original(ctx context.Context, id string) (msg event.Message, there bool, err error) {
	records, err := p.records(ctx, id)
	if err != nil {
		return msg, false, err
	}
	for _, r := range records {
		if r.Type == event.TypeMessage && json.Unmarshal(r.Payload, &msg) == nil {
			return msg, true, nil
		}
	}
	return msg, false, nil
}

func (p *past) records(ctx context.Context, ids ...string) ([]event.Record, error) {
	records, err := p.store.RecordsByID(ctx, p.key, ids...)
	if err != nil {
		return nil, fmt.Errorf("reading record %s of %s: %w", ids[0], p.key, err)
	}
	return records, nil
}

// attempt is the one that has produced a message, if the model call is known: 1 if not.
func (p *past) attempt(messageID string) (attempt int, known bool) {
	if p.call.MessageID == messageID && p.call.Attempt > 0 {
		return p.call.Attempt, true
	}
	return 1, false
}

// hear notes the model call of the reply that follows.
func (p *past) hear(r *event.Record) {
	p.call = event.LLMCall{}
	_ = json.Unmarshal(r.Payload, &p.call) // one that cannot be read says nothing
}
