package chatfeed

import (
	"context"
	"errors"
	"slices"

	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// Page has whole messages, the oldest first.
type Page struct {
	chat.Chat

	// End is the last record that the messages take into account.
	End feed.Cursor

	// Previous is the cursor of the previous page; "" at the thread's beginning.
	Previous string
}

// turn is an event with all its records. Those of other events may lie between them: a failed event can be retried later.
type turn struct {
	opened map[int64][]*chat.Message // by record, the newest first. The event's other records open none
}

const (
	// walkRecords and walkBytes bound one step of the search for the messages of a page.
	walkRecords = 100
	walkBytes   = 256 << 10
)

// Page returns the newest messages, or those before a cursor: at least limit messages, unless there are fewer or they are large. A message belongs to the page of the record that opened it, and has what
// all later records say about it.
func (f *Feed) Page(ctx context.Context, id string, before feed.Cursor, limit int) (*Page, error) {
	out := &Page{}
	thread, err := f.Store.Thread(ctx, f.key(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return out, nil // its first message waits for a worker
	case err != nil:
		return nil, err
	}
	out.End = feed.Cursor{Seq: thread.Head}
	at := thread.Head + 1
	if !before.IsZero() {
		at = min(at, before.Seq)
	}
	turns, size := map[string]*turn{}, 0
	for {
		q := store.Query{Before: at, Newest: true, Limit: walkRecords, MaxBytes: walkBytes}
		records, err := f.Store.Records(ctx, f.key(id), q)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Seq >= at {
				continue // its turn has been read
			}
			at = r.Seq
			if r.EventID == "" {
				continue
			}
			t := turns[r.EventID]
			if t == nil {
				var read int
				if t, read, err = f.turn(ctx, id, r.EventID, thread.Head+1); err != nil {
					return nil, err
				}
				turns[r.EventID] = t
				size += read
			}
			for ; t.has(at); at-- {
				if out.Messages = append(out.Messages, t.opened[at]...); len(t.opened[at]) > 0 && (len(out.Messages) >= limit || size >= feed.PageBytes) {
					return out.from(at), nil
				}
			}
			at++ // the last record that the turn has
		}
		if q.Complete(records) {
			return out.from(0), nil
		}
	}
}

// from completes a page whose messages were found from the newest to that of a record.
func (p *Page) from(at int64) *Page {
	slices.Reverse(p.Messages)
	if at > 1 {
		p.Previous = feed.Cursor{Seq: at}.String()
	}
	return p
}

// turn reads an event with all its records before one, and their size.
func (f *Feed) turn(ctx context.Context, id, eventID string, before int64) (*turn, int, error) {
	items, size, err := f.Events.Turn(ctx, f.key(id), eventID, before)
	if err != nil {
		return nil, 0, err
	}
	t := &turn{opened: map[int64][]*chat.Message{}}
	var read chat.Chat
	var opened []int64 // for each message, the record
	for _, item := range items {
		read.Apply(item.Event)
		for len(opened) < len(read.Messages) {
			opened = append(opened, item.Cursor.Seq)
		}
		t.opened[item.Cursor.Seq] = nil
	}
	for i, m := range slices.Backward(read.Messages) {
		if !m.Answer || len(m.Parts) > 0 { // viewers do not see empty answers
			t.opened[opened[i]] = append(t.opened[opened[i]], m)
		}
	}
	return t, size, nil
}

// has reports whether a record is one of the event.
func (t *turn) has(seq int64) bool {
	_, has := t.opened[seq]
	return has
}
