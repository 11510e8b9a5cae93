package server

import (
	"context"
	"encoding/json"

	"github.com/threadmill/threadmill/event"
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
	records, err := s.Store.RecordsByID(ctx, s.key(threadID), ids...)
	if err != nil {
		s.Logger.Warn("the payloads of ended events are left out: the store does not have them", "thread", threadID, "error", err)
		return out
	}
	stored := make(map[string]event.Record, len(records))
	for _, rec := range records {
		stored[rec.ID] = rec
	}
	for i := range out {
		if rec, ok := stored[out[i].ID]; ok && len(out[i].Payload) == 0 {
			out[i].restore(rec)
		}
	}
	return out
}

// restore adds what the record of an event has: its payload as it was posted.
func (it *QueueItem) restore(rec event.Record) {
	switch rec.Type {
	case event.TypeEnv:
		var e event.EnvEvent
		if json.Unmarshal(rec.Payload, &e) != nil {
			return
		}
		if metadata, err := json.Marshal(e.Metadata); err == nil {
			it.Payload, it.Metadata = e.Payload, metadata
		}
	case event.TypeMessage:
		var m event.Message
		if json.Unmarshal(rec.Payload, &m) != nil {
			return
		}
		posted, err := json.Marshal(event.NewMessage{
			ThreadID: m.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
		})
		if err == nil {
			it.Payload = posted
		}
	case it.Type:
		it.Payload = rec.Payload
	}
	if string(it.Payload) == "null" {
		it.Payload = nil
	}
}
