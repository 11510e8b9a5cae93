package thread

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
)

// Outbox contains the records and the row that have not been stored yet.
type Outbox struct {
	// Pending and Row have not been stored yet.
	Pending []event.Record `json:"pending,omitempty"`
	Row     *step.Row      `json:"row,omitempty"`

	// RowNumber is the number of the newest row.
	RowNumber int64 `json:"rowNumber,omitempty"`

	// Sent is the number of records at the start of Pending that an activity has received and may
	// have stored.
	Sent int `json:"sent,omitempty"`

	// inTransit and rowInTransit are the records and the row that a running step has received.
	inTransit    map[string]bool
	rowInTransit *step.Row
}

// changeRow returns a copy of the next row, to be changed: a row that an activity has received must
// not change.
func (o *Outbox) changeRow(now time.Time) *step.Row {
	row := step.Row{}
	if o.Row != nil {
		row = *o.Row
	}
	row.Number = o.nextRow(now)
	o.Row = &row
	return o.Row
}

// nextRow numbers the next row. Numbers start at the time in microseconds, so they exceed those of
// a deleted thread with the same id and of a run that was reset.
func (o *Outbox) nextRow(now time.Time) int64 {
	o.RowNumber = max(o.RowNumber+1, now.UnixMicro())
	return o.RowNumber
}

// Flush returns the records and the row that the next activity stores, up to its maximum size.
func (o *Outbox) Flush() step.Flush {
	n, size := 0, 0
	for ; n < len(o.Pending); n++ {
		size += recordBytes(o.Pending[n])
		if n > 0 && size > maxFlushBytes {
			break
		}
	}
	if o.inTransit == nil {
		o.inTransit = map[string]bool{}
	}
	for _, r := range o.Pending[:n] {
		o.inTransit[r.ID] = true
	}
	o.rowInTransit = o.Row
	o.Sent = max(o.Sent, n)
	return step.Flush{Records: append([]event.Record(nil), o.Pending[:n]...), Row: o.Row}
}

// Flushed removes the records and the row that an activity has stored.
func (o *Outbox) Flushed(f step.Flush) {
	if f.Row != nil && f.Row == o.Row {
		o.Row = nil
	}
	if len(f.Records) == 0 {
		return
	}
	stored := make(map[string]bool, len(f.Records))
	for _, r := range f.Records {
		stored[r.ID] = true
		delete(o.inTransit, r.ID)
	}
	kept, handed := o.Pending[:0], o.Sent
	for i, r := range o.Pending {
		switch {
		case !stored[r.ID]:
			kept = append(kept, r)
		case i < handed:
			o.Sent--
		}
	}
	o.Pending = kept
}

// Unstored reports whether anything is waiting to be stored.
func (o *Outbox) Unstored() bool { return len(o.Pending) > 0 || o.Row != nil }

// unsent reports whether anything is waiting to be stored that no running step has received.
func (o *Outbox) unsent() bool {
	return o.Row != o.rowInTransit || slices.ContainsFunc(o.Pending, func(r event.Record) bool { return !o.inTransit[r.ID] })
}

// Unwritten reports whether a record is waiting to be stored.
func (o *Outbox) Unwritten(id string) bool {
	return slices.ContainsFunc(o.Pending, func(r event.Record) bool { return r.ID == id })
}

// maxUnstored is the maximum size of unstored data when the next event starts, in bytes. An
// activity's input has at most 2 MiB.
const maxUnstored = 256 << 10

// Heavy reports whether the unstored data should be stored before there is more.
func (o *Outbox) Heavy() bool {
	return o.unstored() > maxUnstored
}

// maxFlushBytes is the maximum size of a flush, in bytes.
const maxFlushBytes = 1 << 20

// Overloaded reports whether the unstored data exceeds a flush.
func (o *Outbox) Overloaded() bool { return o.unstored() > maxFlushBytes }

func (o *Outbox) unstored() int {
	size := 0
	for _, r := range o.Pending {
		size += recordBytes(r)
	}
	return size
}

func recordBytes(r event.Record) int { return len(r.Payload) + 200 }

// recordIn adds a record to the turn of an event.
func (o *Outbox) recordIn(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	o.add(event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID))
}

// recordUndecided adds the record of an event that models do not see until hooks have passed it:
// see [event.Record.WithUndecided].
func (o *Outbox) recordUndecided(eventID, id, typ, traceID, parent string, at time.Time, payload any) {
	o.add(event.NewRecord(id, typ, traceID, parent, at, payload).In(eventID).WithUndecided(typ))
}

// last returns the id of the last record that waits to be stored, or "".
func (o *Outbox) last() string {
	if n := len(o.Pending); n > 0 {
		return o.Pending[n-1].ID
	}
	return ""
}

func (o *Outbox) add(r event.Record) { o.Pending = append(o.Pending, r) }
