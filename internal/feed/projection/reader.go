package projection

import (
	"context"
	"errors"
	"io"

	"github.com/threadmill/threadmill/internal/feed"
)

// Reader delivers the events that are derived from a thread's feed. It is for one goroutine.
type Reader[E any] struct {
	feed      *feed.Reader
	projector Projector[E]
	place     Cursor

	item  *feed.Item // read, not projected yet
	queue []Item[E]  // the items from next on are ready for delivery
	next  int

	// over means that the thread was closed and that the view has no event for it.
	over bool
}

// Start returns the reader's start: the cursor before its first item.
func (r *Reader[E]) Start() Cursor { return Cursor{Cursor: r.feed.Start()} }

// Buffered reports whether Next returns without waiting.
func (r *Reader[E]) Buffered() bool { return r.next < len(r.queue) }

// Close releases the reader.
func (r *Reader[E]) Close() { r.feed.Close() }

// Next waits for the next event. Its errors are those of [feed.Reader.Next], and io.EOF after the last
// event of a thread whose end has none in this view. If the store fails, it may be called again.
func (r *Reader[E]) Next(ctx context.Context) (Item[E], error) {
	for !r.Buffered() {
		r.queue, r.next = r.queue[:0], 0
		// All available items, so that Buffered is true only if an event follows.
		for first := true; first || r.feed.Buffered(); first = false {
			if err := r.project(ctx); err != nil {
				return Item[E]{}, err
			}
		}
	}
	item := r.queue[r.next]
	r.queue[r.next] = Item[E]{} // the next read may be much later
	r.next++
	return item, nil
}

// project derives the events of the next item.
func (r *Reader[E]) project(ctx context.Context) error {
	if r.item == nil {
		item, err := r.feed.Next(ctx)
		if errors.Is(err, feed.ErrIdle) && r.over {
			return io.EOF // the last events of a closing thread have arrived by then
		}
		if err != nil {
			return err
		}
		r.item = &item
	}
	events, err := r.projector.Project(ctx, *r.item)
	if err != nil {
		return err
	}
	from := len(r.queue)
	r.queue = appendEvents(&r.place, r.queue, *r.item, events)
	r.over = r.over || r.item.Closes() && len(r.queue) == from
	r.item = nil
	return nil
}
