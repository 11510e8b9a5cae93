package feed

import (
	"time"

	"github.com/threadmill/threadmill/event"
)

// backlog contains the stored records after a reader's position.
type backlog struct {
	ahead []event.Record // read from the store, in order
	due   int64          // deliver those up to this one

	// unannounced means that they are due although the log has not announced them.
	unannounced bool
}

// ready returns the fetched records that are due.
func (b *backlog) ready() []event.Record {
	n := 0
	for n < len(b.ahead) && b.ahead[n].Seq <= b.due {
		n++
	}
	return b.ahead[:n]
}

// contiguous returns those of the records after a Seq, up to another one, or none if any of them is missing. Batches
// contain records that were stored earlier, too.
func contiguous(records []event.Record, after, last int64) (out []event.Record) {
	for i := range records {
		if records[i].Seq == after+1 && after < last {
			out = append(out, records[i])
			after++
		}
	}
	if after < last {
		return nil
	}
	return out
}

// drop removes the first n records.
func (b *backlog) drop(n int) {
	clear(b.ahead[:n])
	if b.ahead = b.ahead[n:]; len(b.ahead) == 0 {
		b.ahead = nil
	}
}

// grace is the time in which the log may announce stored records, so that they are delivered at
// their place among the pieces. The zero value is for no records.
type grace struct {
	seq     int64 // of the last of the records
	barrier int64 // the offset of the log before which their pieces lie
	end     time.Time
}

// deadline is the time at which a reader at an offset gets the records without announcement. There
// is none while the reader may still read the announcement.
func (g *grace) deadline(offset int64) (at time.Time, ok bool) {
	return g.end, g.seq > 0 && offset >= g.barrier
}
