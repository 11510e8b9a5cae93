package feed

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// Item is an event and the cursor behind it.
type Item struct {
	Cursor Cursor
	Event  event.AgentEvent

	// TraceID is the trace of the event's turn, if it has one.
	TraceID string

	// Record is the stored record of the event. Nil for live events.
	Record *event.Record

	// Begins marks the first piece of an attempt at a message, for the reader's viewer.
	Begins bool

	// Streamed is the highest attempt at the item's message of whose earlier pieces the viewer had
	// any, as far as the live log is kept. 0 = none.
	Streamed int
}

// MessageID is the id of the item's message. The end of an empty reply has none.
func (i *Item) MessageID() string {
	if i.Event.Type == event.EventFinal && i.Event.MessageID == "" && i.Record != nil {
		return recordid.ReplyOfFinal(i.Record.ID)
	}
	return i.Event.MessageID
}

// Closes reports whether the item is the end of the thread.
func (i *Item) Closes() bool {
	return i.Event.Type == event.EventStatus && i.Event.Status.Status == event.StatusClosed
}

// appendItems appends the items of a record, except the first skip ones. Records of the types in
// unshown have an item although they have no agent events.
func appendItems(items []Item, rec event.Record, unshown []string, skip int, offset int64) []Item {
	events := Events(rec)
	if len(events) == 0 && (slices.Contains(unshown, rec.Type) || slices.Contains(unshown, EveryType)) {
		events = []event.AgentEvent{{}}
	}
	for i, e := range events {
		if i < skip {
			continue
		}
		at := Cursor{Seq: rec.Seq, Offset: offset}
		if i < len(events)-1 {
			at.Part = i + 1
		}
		items = append(items, Item{Cursor: at, Event: e, TraceID: rec.TraceID, Record: &rec})
	}
	return items
}
