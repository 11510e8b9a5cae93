package thread

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// maxDebounce limits how long repeated events can extend a debounce, as a multiple of its duration.
const maxDebounce = 10

// Debounced are the events that one rule debounces or throttles.
type Debounced struct {
	Rule string `json:"rule"`

	// Until is the time at which the last event is handled, Since the time of the first.
	Until time.Time `json:"until"`
	Since time.Time `json:"since"`

	// Count is the number of events. Last is nil if a throttle has handled an event and no other
	// has arrived since.
	Count int     `json:"count,omitempty"`
	Last  *Queued `json:"last,omitempty"`

	// Before are the ids of the last events before Last.
	Before []string `json:"before,omitempty"`

	// Throttle is the interval of a throttle; 0 for a debounce.
	Throttle time.Duration `json:"throttle,omitempty"`
}

// debounce reports whether a rule debounces or throttles an event, and if so keeps it.
func (in *Inbox) debounce(now time.Time, spec rule.Spec, last Queued) bool {
	if spec.Debounce == 0 && spec.Throttle == 0 {
		return false
	}
	at := slices.IndexFunc(in.Debounced, func(h Debounced) bool { return h.Rule == spec.Name })
	if at < 0 {
		in.Debounced = append(in.Debounced, Debounced{Rule: spec.Name, Throttle: spec.Throttle, Since: now, Until: now.Add(spec.Debounce + spec.Throttle)})
		at = len(in.Debounced) - 1
		if spec.Throttle > 0 {
			return false
		}
	}
	h := &in.Debounced[at]
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
	h.Last = &last
	if in.debouncedBytes() > maxHeldBytes {
		// Above the limit, release all events immediately.
		for i := range in.Debounced {
			in.Debounced[i].Until = now
		}
	}
	return true
}

// releaseDebounced queues the debounced events that are due, in order, and returns their ids.
func (in *Inbox) releaseDebounced(now time.Time) (eventIDs []string) {
	kept := in.Debounced[:0:0]
	var due []Debounced
	for _, h := range in.Debounced {
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
		q.Item.Status, q.Item.UpdatedAt = event.ItemPending, now
		// The TTL does not apply to the time of the debounce.
		q.Item.TTL = 0
		in.forgetEnded(q.Item.ID)
		in.add(q.onItsOwn())
		eventIDs = append(eventIDs, q.Item.ID)
		if h.Throttle > 0 {
			kept = append(kept, Debounced{Rule: h.Rule, Throttle: h.Throttle, Since: now, Until: now.Add(h.Throttle)})
		}
	}
	in.Debounced = kept
	return eventIDs
}

// maxHeldIDs is the number of ids of earlier events to keep. With the last event, an agent can look
// up all of them at once.
const maxHeldIDs = 19

// maxHeldBytes is the maximum size of all debounced events, in bytes.
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

// cancelDebounced removes a debounced event. A throttle continues for later events.
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

// viewDebounced returns the debounced events for query "state".
func (in *Inbox) viewDebounced() []signals.HeldEvents {
	var out []signals.HeldEvents
	for _, h := range in.Debounced {
		if h.Last != nil {
			out = append(out, signals.HeldEvents{Rule: h.Rule, Count: h.Count, EventID: h.Last.Item.ID, Until: h.Until})
		}
	}
	return out
}
