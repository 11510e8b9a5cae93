package feed

import (
	"time"

	"github.com/threadmill/threadmill/event"
)

// backlog has the stored records that follow a reader's position.
type backlog struct {
	ahead []event.Record // read from the store, in order
	due   int64          // those up to this one are to be delivered

	// unannounced: they are due though the log has not said that they are stored.
	unannounced bool
}

// ready are the records at hand that are due.
func (b *backlog) ready() []event.Record {
	n := 0
	for n < len(b.ahead) && b.ahead[n].Seq <= b.due {
		n++
	}
	return b.ahead[:n]
}

// drop forgets the first n records.
func (b *backlog) drop(n int) {
	clear(b.ahead[:n])
	if b.ahead = b.ahead[n:]; len(b.ahead) == 0 {
		b.ahead = nil
	}
}

// grace is the time that records in the store have for the log to announce them: they come at
// their place among the pieces then. The zero value is for no records.
type grace struct {
	seq     int64 // of the last of the records
	barrier int64 // the offset of the log before which their pieces lie
	end     time.Time
}

// deadline is when the records come without announcement to a reader at an offset. None while the
// reader may yet read their announcement.
func (g *grace) deadline(offset int64) (at time.Time, ok bool) {
	return g.end, g.seq > 0 && offset >= g.barrier
}
