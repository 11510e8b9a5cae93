package feed

import (
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Item is an event and the cursor behind it.
type Item struct {
	Cursor Cursor
	Event  event.AgentEvent

	// TraceID is that of the turn which the event belongs to, if it belongs to one.
	TraceID string

	// Record is the stored record that the event tells of. Nil for live events.
	Record *event.Record

	// Begins marks the piece with which an attempt at a message begins for the reader's viewer.
	Begins bool

	// Streamed is the highest attempt at a stored message of which the viewer had pieces, as
	// far as the live log is kept. 0 = it had none.
	Streamed int
}

// MessageID is the message that the item is about. The end of a reply that says nothing
// does not name it.
func (i *Item) MessageID() string {
	if i.Event.Type == event.EventFinal && i.Event.MessageID == "" && i.Record != nil {
		return event.ReplyOfFinal(i.Record.ID)
	}
	return i.Event.MessageID
}

// Closes reports whether the item says that the thread has been closed.
func (i *Item) Closes() bool {
	return i.Event.Type == event.EventStatus && i.Event.Status.Status == event.StatusClosed
}

// appendItems appends the items of a record, but the first skip ones. Records of the types
// in unshown have an item though they have no agent events.
func appendItems(items []Item, rec event.Record, unshown []string, skip int, offset int64) []Item {
	events := Events(rec)
	if len(events) == 0 && slices.Contains(unshown, rec.Type) {
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
