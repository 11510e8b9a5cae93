package feed

import (
	"time"

	"github.com/threadmill/threadmill/stream"
)

// phase is the purpose for which a [tail] reads entries.
type phase int

const (
	// joining catches up with the log at the beginning of the subscription.
	joining phase = iota

	// seeking looks for the entry that implies the reader's position, across subscriptions if one
	// breaks.
	seeking

	// following reads entries as they are published.
	following
)

// tail is a reader's end of the live log: see the package documentation.
type tail struct {
	sub   stream.Subscription // nil if there is none
	phase phase

	read   int64 // the last offset read
	newest int64 // the newest offset at the beginning of sub
	head   int64 // the newest record at the beginning of sub

	// skipped are the entries that were read while seeking. If no entry implies the position, they
	// follow it.
	skipped []stream.Entry

	retry backoff
}

func (t *tail) attached() bool { return t.sub != nil }

// attach begins a subscription after the last offset read, for a reader at a cursor. gap means that
// the log has lost entries after that, and is read from its beginning.
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

// accept takes an entry of the subscription, for a reader with records up to seq. next means that
// the entry follows the position; passed are the entries before it.
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

// giveUp ends the search after all entries: the position is older than the log.
func (t *tail) giveUp() {
	if t.read >= t.newest {
		t.phase = joining
	}
}

// replay returns the next skipped entry after a failed search.
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

// implied returns the record that an entry of the log implies, with all before it.
func implied(e *stream.Entry) int64 { return max(e.Stored, e.After) }

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// backoff is the delay before the next subscription: none for the first.
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
