package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/store"
)

const (
	// pageSize is the number of records, and readBytes the approximate number of bytes, of one read
	// of the store. Each viewer has the records of one read in memory.
	pageSize  = 200
	readBytes = 256 << 10

	// PageBytes is the approximate maximum size of the records of a page.
	PageBytes = 1 << 20
)

// Page returns at most limit events after a cursor, from the store only, and the cursor of the last
// one if more follow.
func (f *Feed) Page(ctx context.Context, key store.Key, after Cursor, limit int) (items []Item, next *Cursor, err error) {
	s, err := f.Scan(ctx, key, after)
	if err != nil {
		return nil, nil, err
	}
	items, more, err := ScanPage(ctx, s, limit, func(items []Item, item Item) ([]Item, error) { return append(items, item), nil })
	if err != nil {
		return nil, nil, err
	}
	view := f.View(key)
	for i := range items {
		items[i].Event = view(ctx, items[i].Event)
	}
	if more {
		next = &items[len(items)-1].Cursor
	}
	return items, next, nil
}

// Scan reads items from the store only. It is for one goroutine.
type Scan struct {
	cfg     *Config
	key     store.Key
	records []string

	start, at Cursor
	queue     []Item // read, not delivered yet
	bytes     int    // of the records read
	complete  bool   // no records follow
}

// Scan starts reading the items after a cursor. Records is [From].Records. Events are as stored:
// the caller applies a view.
//
// If the thread does not have the record of the cursor, the scan starts at the thread's beginning,
// after a gap.
func (f *Feed) Scan(ctx context.Context, key store.Key, after Cursor, records ...string) (*Scan, error) {
	s := &Scan{cfg: &f.cfg, key: key, records: records, start: after}
	if after.Seq > 0 {
		t, err := f.cfg.Store.Thread(ctx, key)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("reading the head of %s: %w", key, err)
		case after.Seq > t.Head:
			s.start, s.queue = Cursor{}, []Item{{Event: beyondHead()}}
		}
	}
	s.at = s.start
	return s, nil
}

// Start returns the scan's start: the cursor before its first item.
func (s *Scan) Start() Cursor { return s.start }

// read reads the next records.
func (s *Scan) read(ctx context.Context) error {
	q := store.Query{After: s.at.done(), Limit: pageSize, MaxBytes: readBytes}
	records, err := s.cfg.Store.Records(ctx, s.key, q)
	if err != nil {
		return fmt.Errorf("reading the records of %s: %w", s.key, err)
	}
	var items []Item
	for _, rec := range records {
		items = appendItems(items, rec, s.records, s.at.Part, 0)
		s.at = Cursor{Seq: rec.Seq}
		s.bytes += len(rec.Payload)
	}
	if err := date(ctx, s.cfg.Store, s.key, items); err != nil {
		return err
	}
	s.queue, s.complete = items, q.Complete(records)
	return nil
}

// ScanPage collects the values that add appends for the items of a scan: at most limit, and fewer
// large ones. more means that further values follow.
func ScanPage[T any](ctx context.Context, s *Scan, limit int, add func([]T, Item) ([]T, error)) (page []T, more bool, err error) {
	for {
		for ; len(s.queue) > 0; s.queue = s.queue[1:] {
			if page, err = add(page, s.queue[0]); err != nil {
				return nil, false, err
			}
			if len(page) > limit {
				return page[:limit], true, nil
			}
		}
		switch {
		case s.complete:
			return page, false, nil
		case s.bytes >= PageBytes && len(page) > 0:
			return page, true, nil
		}
		if err := s.read(ctx); err != nil {
			return nil, false, err
		}
	}
}
