package feed

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// EnvFrom says where an [EnvReader] begins.
type EnvFrom struct {
	// Cursor: what follows it. The zero value is the thread's beginning.
	Cursor EnvCursor

	// Now and Finite are those of [From].
	Now    bool
	Finite bool
}

// EnvItem is an environment event and the cursor behind it.
type EnvItem struct {
	Cursor EnvCursor
	Event  event.EnvEvent

	// Closed: the event says that the thread has been closed.
	Closed bool
}

// EnvReader delivers a thread's sequence as environment events: those that were published
// to it, and those that are made of everything else. It is for one goroutine.
type EnvReader struct {
	reader *Reader
	maker  *envMaker
	place  envPlace

	queue []EnvItem // the items from next on are ready to be delivered
	next  int
}

// OpenEnv opens a reader of a thread's environment events. It does not ask whether the
// thread exists.
func (f *Feed) OpenEnv(ctx context.Context, key store.Key, from EnvFrom) (*EnvReader, error) {
	r, err := f.Open(ctx, key, From{Cursor: from.Cursor.Cursor, Now: from.Now, Finite: from.Finite, env: true})
	if err != nil {
		return nil, err
	}
	out := &EnvReader{reader: r, maker: newEnvMaker(f.cfg.Store, key), place: envPlace{at: r.Start()}}
	if !from.Now {
		out.place.sent = from.Cursor.Sent
	}
	return out, nil
}

// Start is where the reader began: before its first item.
func (r *EnvReader) Start() EnvCursor { return EnvCursor{Cursor: r.reader.Start()} }

// Buffered reports whether Next has an item at hand.
func (r *EnvReader) Buffered() bool { return r.next < len(r.queue) }

// Close releases the reader.
func (r *EnvReader) Close() { r.reader.Close() }

// Next waits for the next event. Its errors are those of [Reader.Next].
func (r *EnvReader) Next(ctx context.Context) (EnvItem, error) {
	for r.next == len(r.queue) {
		r.queue, r.next = r.queue[:0], 0
		// All that is at hand, so that Buffered is true only if an event follows.
		for first := true; first || r.reader.Buffered(); first = false {
			item, err := r.reader.Next(ctx)
			if err != nil {
				return EnvItem{}, err
			}
			made, err := r.maker.events(ctx, item)
			if err != nil {
				return EnvItem{}, err
			}
			r.queue = r.place.append(r.queue, item, made)
		}
	}
	item := r.queue[r.next]
	r.next++
	return item, nil
}

// EnvPage returns at most limit environment events that follow a cursor, from the store
// only, and the cursor of the last one if more follow.
func (f *Feed) EnvPage(ctx context.Context, key store.Key, after EnvCursor, limit int) (items []EnvItem, next *EnvCursor, err error) {
	maker, view := newEnvMaker(f.cfg.Store, key), f.view(key)
	place := envPlace{at: after.Cursor, sent: after.Sent}
	last, part := after.done(), after.Part
	for {
		records, err := f.cfg.Store.Records(ctx, key, store.Query{After: last, Limit: pageSize})
		if err != nil {
			return nil, nil, fmt.Errorf("reading the records of %s: %w", key, err)
		}
		for _, rec := range records {
			for _, item := range appendItems(nil, rec, envSources(rec), part, 0) {
				item.Event = shownBy(ctx, view, item.Event)
				made, err := maker.events(ctx, item)
				if err != nil {
					return nil, nil, err
				}
				items = place.append(items, item, made)
			}
			last, part = rec.Seq, 0
			if len(items) > limit {
				return items[:limit], &items[limit-1].Cursor, nil
			}
		}
		if len(records) < pageSize {
			return items, nil, nil
		}
	}
}

// envPlace is how far a sequence has got: behind an item, and behind some of the events
// that were made of the one that follows it.
type envPlace struct {
	at   Cursor
	sent int
}

// append appends what was made of the next item, but what was sent of it before.
func (p *envPlace) append(items []EnvItem, item Item, made made) []EnvItem {
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
		items = append(items, EnvItem{Cursor: EnvCursor{p.at, i + 1}, Event: *e, Closed: isClosing(item)})
	}
	if len(items) > from {
		items[len(items)-1].Cursor = EnvCursor{Cursor: item.Cursor}
	}
	p.at, p.sent = item.Cursor, 0
	return items
}
