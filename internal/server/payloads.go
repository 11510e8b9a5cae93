package server

import (
	"context"
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// itemsOf shows items. A thread forgets the payloads of events that have ended: they come from
// the store, as far as it can be read.
func (s *server) itemsOf(ctx context.Context, threadID string, items ...event.Item) []QueueItem {
	out := itemViews(items)
	var ids []string
	for _, it := range out {
		if len(it.Payload) == 0 && len(it.Metadata) == 0 {
			ids = append(ids, it.ID)
		}
	}
	if len(ids) == 0 {
		return out
	}
	contents, err := store.Contents(ctx, s.Store, s.key(threadID), ids...)
	if err != nil {
		// An outage of the store is logged once, where it begins.
		if !errors.Is(err, store.ErrUnavailable) {
			s.Logger.Warn("the payloads of ended events are left out: the store does not have them", "thread", threadID, "error", err)
		}
		return out
	}
	for i := range out {
		if kept, ok := contents[out[i].ID]; ok && len(out[i].Payload) == 0 {
			out[i].Payload, out[i].Metadata = kept.Payload, kept.Metadata
		}
	}
	return out
}
