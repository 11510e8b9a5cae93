package feed

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/store"
)

// Turn returns the items of all records of an event before a record, from the store only, and the size of the records.
func (f *Feed) Turn(ctx context.Context, key store.Key, eventID string, before int64) (items []Item, size int, err error) {
	q := store.Query{EventID: eventID, Before: before, MaxBytes: PageBytes}
	for {
		records, err := f.cfg.Store.Records(ctx, key, q)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the records of %s in %s: %w", eventID, key, err)
		}
		for _, r := range records {
			size += len(r.Payload)
			q.After = r.Seq
			items = appendItems(items, r, []string{EveryType}, 0, 0)
		}
		if q.Complete(records) {
			break
		}
	}
	if err := date(ctx, f.cfg.Store, key, items); err != nil {
		return nil, 0, err
	}
	view := f.View(key)
	for i := range items {
		items[i].Event = view(ctx, items[i].Event)
	}
	return items, size, nil
}
