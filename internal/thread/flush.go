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

// changeRow returns the row to be stored next, for a change of it: what was handed to an
// activity stays as it is.
func (s *State) changeRow(now time.Time) *Row {
	row := Row{}
	if s.Row != nil {
		row = *s.Row
	}
	row.Number = s.nextRow(now)
	s.Row = &row
	return s.Row
}

// nextRow numbers the next row. Numbers go by time, in microseconds, so that they come
// after those of a thread that had the same id before, and of runs that knew no numbers or
// were reset. They decide nothing in the workflow: runs of all versions have them.
func (s *State) nextRow(now time.Time) int64 {
	s.RowNumber = max(s.RowNumber+1, now.UnixMicro())
	return s.RowNumber
}

// Flush returns what the next activity has to store: all of it, or as much as it takes.
func (s *State) Flush() Flush {
	n, size := 0, 0
	for ; n < len(s.Pending); n++ {
		size += recordBytes(s.Pending[n])
		if n > 0 && size > maxHandedOver {
			break
		}
	}
	if s.Row != nil && s.Row.Number == 0 {
		// It was made when rows had no numbers.
		s.Row.Number = s.nextRow(time.Time{})
	}
	return Flush{Records: append([]event.Record(nil), s.Pending[:n]...), Row: s.Row}
}

// Flushed forgets what an activity has stored.
func (s *State) Flushed(f Flush) {
	if f.Row != nil && f.Row == s.Row {
		s.Row = nil
	}
	if len(f.Records) == 0 {
		return
	}
	stored := make(map[string]bool, len(f.Records))
	for _, r := range f.Records {
		stored[r.ID] = true
	}
	kept := s.Pending[:0]
	for _, r := range s.Pending {
		if !stored[r.ID] {
			kept = append(kept, r)
		}
	}
	s.Pending = kept
}

// Unstored reports whether anything waits to be stored.
func (s *State) Unstored() bool { return len(s.Pending) > 0 || s.Row != nil }

// Unwritten reports whether a record waits to be stored.
func (s *State) Unwritten(id string) bool {
	return slices.ContainsFunc(s.Pending, func(r event.Record) bool { return r.ID == id })
}

// maxUnstored is how much, in bytes, waits at most to be stored when the next event is
// taken on: an activity takes at most 2 MiB.
const maxUnstored = 256 << 10

// Heavy reports whether what waits to be stored should be, before there is more.
func (s *State) Heavy() bool {
	return s.unstored() > maxUnstored
}

// maxHandedOver is how much of it, in bytes, is handed to an activity or a child
// workflow.
const maxHandedOver = 1 << 20

// Overloaded reports whether what waits to be stored is more than the next step takes.
func (s *State) Overloaded() bool { return s.unstored() > maxHandedOver }

func (s *State) unstored() int {
	size := 0
	for _, r := range s.Pending {
		size += recordBytes(r)
	}
	return size
}

func recordBytes(r event.Record) int { return len(r.Payload) + 200 }
