package feed

import (
	"time"

	"github.com/threadmill/threadmill/stream"
)

// phase says what a [tail] reads entries for.
type phase int

const (
	// joining: to catch up with what the log had when the subscription began.
	joining phase = iota

	// seeking: to find the entry that implies the reader's position. It goes on in the next
	// subscription if this one breaks.
	seeking

	// following: as they are published.
	following
)

// tail is a reader's end of the live log: see the package.
type tail struct {
	sub   stream.Subscription // nil while there is none
	phase phase

	read   int64 // the last offset that was read
	newest int64 // the newest offset when sub began
	head   int64 // the newest record when sub began

	// skipped are entries that were read while seeking. If no entry implies the position,
	// they follow it.
	skipped []stream.Entry

	retry backoff
}

func (t *tail) attached() bool { return t.sub != nil }

// attach begins a subscription behind the last offset that was read, of a reader at a cursor.
// gap: the log does not have all that follows it, and is read from its beginning.
func (t *tail) attach(sub stream.Subscription, head int64, at Cursor) (gap bool) {
	begun := sub.Start()
	t.sub, t.newest, t.head = sub, begun.Last, head
	switch {
	case t.read == 0 && at.Seq > 0 && begun.Last > 0:
		t.phase = seeking
	case t.read == 0:
		t.phase = joining
	case begun.Gap:
		t.read, t.skipped, t.phase = 0, nil, joining
		return true
	case t.phase == seeking:
		t.giveUp()
	default:
		t.phase = joining
	}
	return false
}

func (t *tail) detach() {
	if t.sub != nil {
		t.sub.Close()
		t.sub = nil
	}
}

// accept takes in an entry of the subscription, of a reader that has records up to seq. next: it
// follows the position. passed are entries that lie before it.
func (t *tail) accept(e *stream.Entry, seq int64) (next bool, passed []stream.Entry) {
	t.read = e.Offset
	switch {
	case t.phase != seeking:
		return true, nil
	case implied(e) >= seq:
		passed, t.skipped, t.phase = t.skipped, nil, joining
		return true, passed
	}
	t.skipped = append(t.skipped, *e)
	t.giveUp()
	return false, nil
}

// giveUp ends the search when it has read all that there was: the position lies before what the
// log keeps.
func (t *tail) giveUp() {
	if t.read >= t.newest {
		t.phase = joining
	}
}

// replay returns the next of the entries that were skipped in vain.
func (t *tail) replay() (e stream.Entry, ok bool) {
	if t.phase == seeking || len(t.skipped) == 0 {
		return e, false
	}
	e, t.skipped = t.skipped[0], t.skipped[1:]
	return e, true
}

// joined reports whether the reader has caught up.
func (t *tail) joined() bool {
	return t.attached() && t.phase == joining && t.read >= t.newest && len(t.skipped) == 0
}

// implied is the record that an entry of the log implies, with all before it.
func implied(e *stream.Entry) int64 { return max(e.Stored, e.After) }

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// backoff says when to subscribe again: at once for the first time.
type backoff struct {
	failures int
	until    time.Time
}

func (b *backoff) failed(now time.Time) {
	if b.failures > 0 {
		b.until = now.Add(min(firstRetry<<min(b.failures-1, 10), lastRetry))
	}
	b.failures++
}
