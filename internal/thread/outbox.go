package thread

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Flush is what the workflow hands to the next activity to store before it acts.
type Flush struct {
	Records []event.Record `json:"records,omitempty"`
	Row     *Row           `json:"row,omitempty"`
}

// Row changes the thread's row in the store. It has all changes that have not been stored
// for certain.
type Row struct {
	// Number is greater than that of every row before. Several steps may have taken a row
	// along, and one of them may be retried when a later row is stored: the store then
	// passes over the older one.
	Number int64 `json:"number,omitempty"`

	Title    string          `json:"title,omitempty"`
	Status   string          `json:"status,omitempty"`
	Agents   []string        `json:"agents,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Outbox is what has not been stored yet.
type Outbox struct {
	// Pending records and Row have not been stored yet.
	Pending []event.Record `json:"pending,omitempty"`
	Row     *Row           `json:"row,omitempty"`

	// RowNumber is that of the newest row.
	RowNumber int64 `json:"rowNumber,omitempty"`

	// Handed counts the first records of Pending that were handed to an activity, which may
	// have stored them.
	Handed int `json:"handed,omitempty"`

	// inTransit are the records, and rowInTransit is the row, that a step has taken along.
	inTransit    map[string]bool
	rowInTransit *Row
}

// changeRow returns the row to be stored next, for a change of it: what was handed to an
// activity stays as it is.
func (o *Outbox) changeRow(now time.Time) *Row {
	row := Row{}
	if o.Row != nil {
		row = *o.Row
	}
	row.Number = o.nextRow(now)
	o.Row = &row
	return o.Row
}

// nextRow numbers the next row. Numbers go by time, in microseconds, so that they come
// after those of a deleted thread that had the same id, and of a run that was reset.
func (o *Outbox) nextRow(now time.Time) int64 {
	o.RowNumber = max(o.RowNumber+1, now.UnixMicro())
	return o.RowNumber
}

// Flush returns what the next activity has to store: all of it, or as much as it takes.
func (o *Outbox) Flush() Flush {
	n, size := 0, 0
	for ; n < len(o.Pending); n++ {
		size += recordBytes(o.Pending[n])
		if n > 0 && size > maxHandedOver {
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
	o.Handed = max(o.Handed, n)
	return Flush{Records: append([]event.Record(nil), o.Pending[:n]...), Row: o.Row}
}

// Flushed forgets what an activity has stored.
func (o *Outbox) Flushed(f Flush) {
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
	kept, handed := o.Pending[:0], o.Handed
	for i, r := range o.Pending {
		switch {
		case !stored[r.ID]:
			kept = append(kept, r)
		case i < handed:
			o.Handed--
		}
	}
	o.Pending = kept
}

// Unstored reports whether anything waits to be stored.
func (o *Outbox) Unstored() bool { return len(o.Pending) > 0 || o.Row != nil }

// Overdue reports whether something has to be stored by itself, because people wait to see it
// and no step of the turn takes it along: those under way, which are so many, began before, and
// none is about to begin. Leaving says that none begins, because the thread moves to a new run.
// Between turns the thread stores whatever there is.
func (ts *Turns) Overdue(underWay int, leaving bool) bool {
	s := ts.thread
	switch {
	case ts.Turn == nil || !s.Unstored() || underWay > 0 && !s.unsent():
		return false
	case leaving || ts.Turn.Interrupted != nil:
		return underWay > 0
	}
	return ts.Turn.steps() <= underWay && !ts.CanPark()
}

// unsent reports whether something waits to be stored that no step under way has taken along.
func (o *Outbox) unsent() bool {
	return o.Row != o.rowInTransit || slices.ContainsFunc(o.Pending, func(r event.Record) bool { return !o.inTransit[r.ID] })
}

// steps counts the steps of the current turn that are under way or about to begin. Calls that
// wait for people, for clients or for sub-agents have none.
func (t *Turn) steps() (n int) {
	if len(t.Cascades) > 0 {
		n++
	}
	if t.Stage == ItemArrived || t.Unhandled() {
		return n + 1
	}
	waits := false
	for _, r := range t.Runs {
		steps, waiting := r.steps()
		n += steps
		waits = waits || waiting
	}
	if n == 0 && !waits {
		return 1 // the turn ends
	}
	return n
}

func (r *Run) steps() (n int, waits bool) {
	switch r.Phase {
	case PhaseDone:
		return 0, false
	case PhaseModel:
		if r.Outage != nil {
			return 0, true
		}
		return 1, false
	case PhaseReply, PhaseCalls:
		return 1, false
	case PhaseTools:
	}
	for _, c := range r.Calls {
		switch c.Stage {
		case Ready, Ran:
			n++
		case Waiting, AtClient, Delegated:
			waits = true
		case CallSettled:
		}
	}
	if n == 0 && !waits {
		return 1, false // the model is next
	}
	return n, waits
}

// Unwritten reports whether a record waits to be stored.
func (o *Outbox) Unwritten(id string) bool {
	return slices.ContainsFunc(o.Pending, func(r event.Record) bool { return r.ID == id })
}

// maxUnstored is how much, in bytes, waits at most to be stored when the next event is
// taken on: an activity takes at most 2 MiB.
const maxUnstored = 256 << 10

// Heavy reports whether what waits to be stored should be, before there is more.
func (o *Outbox) Heavy() bool {
	return o.unstored() > maxUnstored
}

// maxHandedOver is how much of it, in bytes, is handed to an activity or a child
// workflow.
const maxHandedOver = 1 << 20

// Overloaded reports whether what waits to be stored is more than the next step takes.
func (o *Outbox) Overloaded() bool { return o.unstored() > maxHandedOver }

func (o *Outbox) unstored() int {
	size := 0
	for _, r := range o.Pending {
		size += recordBytes(r)
	}
	return size
}

func recordBytes(r event.Record) int { return len(r.Payload) + 200 }
