package transcript

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// Content returns the payload of an event that a thread accepted and, for an environment event, its
// timestamp and metadata, as posted. If the event is not stored, it returns [store.ErrNotFound].
func Content(ctx context.Context, s Reader, key store.Key, eventID string) (event.Item, error) {
	all, err := Contents(ctx, s, key, eventID)
	if err != nil {
		return event.Item{}, err
	}
	it, ok := all[eventID]
	if !ok {
		return it, fmt.Errorf("content of event %q: %w", eventID, store.ErrNotFound)
	}
	return it, nil
}

// Contents is [Content] for several events, by their ids. It omits events that are not stored or
// unreadable; a single unreadable event is an [ErrUnreadable] error.
func Contents(ctx context.Context, s Reader, key store.Key, eventIDs ...string) (map[string]event.Item, error) {
	ids := make([]string, 0, 2*len(eventIDs))
	for _, id := range eventIDs {
		ids = append(ids, id, recordid.Unqueued(id))
	}
	records, err := s.RecordsByID(ctx, key, ids...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]event.Item, len(eventIDs))
	for _, r := range records {
		it, err := content(r)
		switch {
		case err == nil:
			out[strings.TrimSuffix(r.ID, recordid.Unqueued(""))] = it
		case len(eventIDs) == 1:
			return nil, fmt.Errorf("record %s of type %s %w: %w", r.ID, r.Type, ErrUnreadable, err)
		}
	}
	return out, nil
}

// content reconstructs the item that a thread recorded.
func content(r event.Record) (it event.Item, err error) {
	switch r.Type {
	case event.TypeUnqueued:
		var u event.Unqueued
		err = json.Unmarshal(r.Payload, &u)
		it = u.Event
	case event.TypeMessage:
		var m event.Message
		if err = json.Unmarshal(r.Payload, &m); err == nil {
			it.Payload, err = json.Marshal(event.NewMessage{
				ThreadID: m.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType,
				Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
			})
		}
	case event.TypeEnv:
		var e event.EnvEvent
		if err = json.Unmarshal(r.Payload, &e); err == nil {
			it.Timestamp, it.Payload = e.Timestamp, e.Payload
			it.Metadata, err = json.Marshal(e.Metadata)
		}
	default:
		it.Payload = r.Payload
	}
	if string(it.Payload) == "null" {
		it.Payload = nil
	}
	return it, err
}
