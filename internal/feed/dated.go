package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// date sets the time of messages that hooks have changed to the original's: the record of the
// decision is later.
func date(ctx context.Context, s Store, key store.Key, items []Item) error {
	var ids []string
	for _, item := range items {
		if undatedMessage(item) {
			ids = append(ids, item.Event.Message.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	records, err := s.RecordsByID(ctx, key, ids...)
	if err != nil {
		return fmt.Errorf("reading the messages of %s that hooks changed: %w", key, err)
	}
	times := make(map[string]time.Time, len(records))
	for _, r := range records {
		times[r.ID] = r.CreatedAt
	}
	for i, item := range items {
		if undatedMessage(item) {
			m := *item.Event.Message
			m.CreatedAt = times[m.ID]
			items[i].Event.Message = &m
		}
	}
	return nil
}

func undatedMessage(item Item) bool {
	return item.Event.Type == event.EventMessage && item.Event.Message.CreatedAt.IsZero()
}
