package feed

import (
	"context"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/store"
)

// Before is a page of the newest events before a position.
type Before struct {
	Items []Item

	// End is the cursor of the page's last record, from which a reader continues.
	End Cursor

	// Previous is the position before which the previous page ends. Nil at the thread's beginning.
	Previous *Cursor
}

// Before returns the events of at most limit records before the record of a cursor, or of the newest
// ones if the cursor is zero, from the store only.
func (f *Feed) Before(ctx context.Context, key store.Key, before Cursor, limit int) (Before, error) {
	q := store.Query{Before: before.Seq, Limit: limit, MaxBytes: PageBytes, Newest: true}
	records, err := f.cfg.Store.Records(ctx, key, q)
	if err != nil {
		return Before{}, fmt.Errorf("reading the records of %s: %w", key, err)
	}
	var page Before
	if len(records) > 0 {
		page.End = Cursor{Seq: records[0].Seq}
		if first := records[len(records)-1].Seq; first > 1 {
			page.Previous = &Cursor{Seq: first}
		}
	}
	for _, r := range slices.Backward(records) {
		page.Items = appendItems(page.Items, r, nil, 0, 0)
	}
	if err := date(ctx, f.cfg.Store, key, page.Items); err != nil {
		return Before{}, err
	}
	view := f.View(key)
	for i := range page.Items {
		page.Items[i].Event = view(ctx, page.Items[i].Event)
	}
	return page, nil
}
