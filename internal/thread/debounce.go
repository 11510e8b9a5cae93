package thread

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// maxDebounce bounds how long a debounce goes on when events keep coming, as a multiple
// of its time.
const maxDebounce = 10

// Debounced are the events that one rule holds back.
type Debounced struct {
	Rule string `json:"rule"`

	// Until is when the last of them is handled, Since when the first one came.
	Until time.Time `json:"until"`
	Since time.Time `json:"since"`

	// Count counts them. Last is nil while a throttle has handled one event, and none has
	// come since.
	Count int     `json:"count,omitempty"`
	Last  *Queued `json:"last,omitempty"`

	// Before are the ids of the last events before Last.
	Before []string `json:"before,omitempty"`

	// Throttle is set when the rule throttles.
	Throttle time.Duration `json:"throttle,omitempty"`
}

// debounce reports whether a rule holds the turn's event back.
func (t *Turn) debounce(now time.Time, spec rule.Spec) bool {
	s := t.thread
	if spec.Debounce == 0 && spec.Throttle == 0 {
		return false
	}
	at := slices.IndexFunc(s.Debounced, func(h Debounced) bool { return h.Rule == spec.Name })
	if at < 0 {
		s.Debounced = append(s.Debounced, Debounced{Rule: spec.Name, Throttle: spec.Throttle, Since: now, Until: now.Add(spec.Debounce + spec.Throttle)})
		at = len(s.Debounced) - 1
		if spec.Throttle > 0 {
			return false
		}
	}
	h := &s.Debounced[at]
	if h.Count == 0 {
		h.Since = now
	}
	if spec.Debounce > 0 {
		h.Until = now.Add(spec.Debounce)
		if limit := h.Since.Add(maxDebounce * spec.Debounce); h.Until.After(limit) {
			h.Until = limit
		}
	}
	h.Count++
	if h.Last != nil {
		h.Before = keepLast(append(h.Before, h.Last.Item.ID), maxHeldIDs)
	}
	last := t.queued(t.Item)
	h.Last = &last
	if s.debouncedBytes() > maxHeldBytes {
		// What is held waits no longer than there is room for it.
		for i := range s.Debounced {
			s.Debounced[i].Until = now
		}
	}
	return true
}

// maxHeldIDs is how many ids of events before the last one are kept: with that, as many as
// an agent can look up at once.
const maxHeldIDs = 19

// maxHeldBytes is how much is held back at most, in bytes.
const maxHeldBytes = 256 << 10

func (in *Inbox) debouncedBytes() int {
	n := 0
	for _, h := range in.Debounced {
		if h.Last != nil {
			n += h.Last.bytes()
		}
	}
	return n
}

// cancelDebounced takes an event that a rule holds back from it. A throttle goes on for those
// that come.
func (in *Inbox) cancelDebounced(eventID string) (Queued, bool) {
	for i, h := range in.Debounced {
		if h.Last == nil || h.Last.Item.ID != eventID {
			continue
		}
		in.Debounced = slices.Delete(in.Debounced, i, i+1)
		if h.Throttle > 0 {
			in.Debounced = slices.Insert(in.Debounced, i, Debounced{Rule: h.Rule, Throttle: h.Throttle, Since: h.Since, Until: h.Until})
		}
		return *h.Last, true
	}
	return Queued{}, false
}

// NextDue is when the thread has to do something by itself, if ever.
func (s *State) NextDue() (at time.Time, ok bool) {
	for _, h := range s.Debounced {
		if !ok || h.Until.Before(at) {
			at, ok = h.Until, true
		}
	}
	if due, waits := s.dueCalls(); waits && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	for _, task := range s.Tasks {
		if s.watched[task.ID] {
			continue
		}
		if end := task.Deadline.Add(taskGrace); !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	return at, ok
}

// Release queues the events whose time has come, in the order in which it has, and fails
// the tasks whose time is over.
func (s *State) Release(now time.Time) {
	s.failOverdueTasks(now)
	s.releaseCalls(now)
	kept := s.Debounced[:0:0]
	var due []Debounced
	for _, h := range s.Debounced {
		if h.Until.After(now) {
			kept = append(kept, h)
		} else if h.Last != nil {
			due = append(due, h)
		}
	}
	slices.SortStableFunc(due, func(a, b Debounced) int { return a.Until.Compare(b.Until) })
	for _, h := range due {
		q := *h.Last
		q.Released = &Released{Count: h.Count - 1, Since: h.Since, IDs: h.Before}
		q.Item.Status, q.Item.UpdatedAt = event.Pending, now
		// It has waited for what it was to wait for.
		q.Item.TTL = 0
		s.forgetOutcome(q.Item.ID)
		s.Ended = slices.DeleteFunc(s.Ended, func(it event.Item) bool { return it.ID == q.Item.ID })
		s.Queue = append(s.Queue, q.onItsOwn())
		if h.Throttle > 0 {
			kept = append(kept, Debounced{Rule: h.Rule, Throttle: h.Throttle, Since: now, Until: now.Add(h.Throttle)})
		}
	}
	s.Debounced = kept
}

// viewDebounced describes what is held back.
func (in *Inbox) viewDebounced() []signals.HeldEvents {
	var out []signals.HeldEvents
	for _, h := range in.Debounced {
		if h.Last != nil {
			out = append(out, signals.HeldEvents{Rule: h.Rule, Count: h.Count, EventID: h.Last.Item.ID, Until: h.Until})
		}
	}
	return out
}
