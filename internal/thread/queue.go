package thread

import (
	"slices"

	"github.com/threadmill/threadmill/event"
)

// add appends an item to the queue.
func (in *Inbox) add(q Queued) { in.Queue = append(in.Queue, q) }

// addFirst puts an item before all others.
func (in *Inbox) addFirst(q Queued) { in.Queue = append([]Queued{q}, in.Queue...) }

// addDerived puts an item after those derived from the same root, or before all others.
func (in *Inbox) addDerived(q Queued) {
	at := 0
	for i, other := range in.Queue {
		if other.Origin != nil && other.Origin.Root == q.Origin.Root {
			at = i + 1
		}
	}
	in.Queue = slices.Insert(in.Queue, at, q)
}

// putBack returns a message to its place in the queue, after the messages that interrupted the turn.
func (in *Inbox) putBack(q Queued) {
	at := slices.IndexFunc(in.Queue, func(other Queued) bool {
		return other.Origin == nil && other.OnBusy != event.OnBusyInterrupt && other.Item.CreatedAt.After(q.Item.CreatedAt)
	})
	if at < 0 {
		at = len(in.Queue)
	}
	in.Queue = slices.Insert(in.Queue, at, q)
}

// index returns the index of an event in the queue, or -1.
func (in *Inbox) index(eventID string) int {
	return slices.IndexFunc(in.Queue, func(q Queued) bool { return q.Item.ID == eventID })
}

// find returns the item of an event in the queue, or nil.
func (in *Inbox) find(eventID string) *Queued {
	if at := in.index(eventID); at >= 0 {
		return &in.Queue[at]
	}
	return nil
}

// takeAt removes an item from the queue.
func (in *Inbox) takeAt(at int) Queued {
	q := in.Queue[at]
	if at == 0 {
		in.Queue[0] = Queued{}
		in.Queue = in.Queue[1:]
	} else {
		in.Queue = slices.Delete(in.Queue, at, at+1)
	}
	return q
}

// take removes the items that are meant from the queue, and returns them in order.
func (in *Inbox) take(meant func(Queued) bool) (taken []Queued) {
	if !slices.ContainsFunc(in.Queue, meant) {
		return nil
	}
	kept := in.Queue[:0:0]
	for _, q := range in.Queue {
		if meant(q) {
			taken = append(taken, q)
		} else {
			kept = append(kept, q)
		}
	}
	in.Queue = kept
	return taken
}

// takeFailed removes a failed item: that of an event or, without an id, the one that failed last.
func (in *Inbox) takeFailed(eventID string) (Queued, bool) {
	for i := len(in.Failed) - 1; i >= 0; i-- {
		if q := in.Failed[i]; eventID == "" || q.Item.ID == eventID {
			in.Failed = append(in.Failed[:i:i], in.Failed[i+1:]...)
			return q, true
		}
	}
	return Queued{}, false
}

// forgetEnded removes an event that will be processed from those that have ended.
func (in *Inbox) forgetEnded(eventID string) {
	in.Ended = slices.DeleteFunc(in.Ended, func(it event.Item) bool { return it.ID == eventID })
}
