package server

import (
	"context"
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// withPayloads adds the payloads of ended events from the store, since the thread does not keep
// them.
func (h *queueHandlers) withPayloads(ctx context.Context, threadID string, items ...event.Item) []event.Item {
	var ids []string
	for _, it := range items {
		if len(it.Payload) == 0 && len(it.Metadata) == 0 {
			ids = append(ids, it.ID)
		}
	}
	if len(ids) == 0 {
		return items
	}
	contents, err := transcript.Contents(ctx, h.store, h.key(threadID), ids...)
	if err != nil {
		// An outage of the store is logged once, when it begins.
		if !errors.Is(err, store.ErrUnavailable) {
			h.logger.Warn("the payloads of ended events are left out: the store does not have them", "thread", threadID, "error", err)
		}
		return items
	}
	for i := range items {
		if kept, ok := contents[items[i].ID]; ok && len(items[i].Payload) == 0 {
			items[i].Payload, items[i].Metadata = kept.Payload, kept.Metadata
		}
	}
	return items
}
