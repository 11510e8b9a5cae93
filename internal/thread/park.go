package thread

import (
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// While a turn waits for people and for nothing else, the thread handles environment
// events: the turn is parked, and goes on once it can.

// maxParked bounds how many turns wait for people at the same time.
const maxParked = 8

// turns are those in progress: the current one, and those that are parked.
func (s *State) turns() []*Turn {
	if s.Turn == nil {
		return s.Parked
	}
	return append([]*Turn{s.Turn}, s.Parked...)
}

// within lets f act on a turn that may be parked.
func (s *State) within(t *Turn, f func()) {
	current := s.Turn
	s.Turn = t
	defer func() { s.Turn = current }()
	f()
}

// Parks reports whether the current turn only waits for people, while there is something
// else to do: a parked turn that can go on, or an environment event to be handled.
func (s *State) Parks() bool {
	t := s.Turn
	if t == nil || !s.manyAgents() || s.Closing != nil || !t.waitsForPeople() {
		return false
	}
	return s.unparks() >= 0 || s.nextBeside() >= 0 && s.hasRoomFor(t)
}

// hasRoomFor reports whether another turn can be parked. One that is not keeps the events
// in the queue, which is bounded, too.
func (s *State) hasRoomFor(t *Turn) bool {
	if len(s.Parked) == maxParked {
		return false
	}
	size := len(rawJSON(t))
	for _, p := range s.Parked {
		size += len(rawJSON(p))
	}
	return size <= maxParkedBytes
}

// Park puts the current turn aside, if it waits for people only, and there is something
// else to do.
func (s *State) Park() bool {
	if !s.Parks() {
		return false
	}
	s.Parked = append(s.Parked, s.Turn)
	s.Turn = nil
	return true
}

// Unpark goes on with a turn that waits for people no more.
func (s *State) Unpark() bool {
	at := s.unparks()
	if s.Turn != nil || at < 0 {
		return false
	}
	s.Turn = s.Parked[at]
	s.Parked = slices.Delete(s.Parked, at, at+1)
	return true
}

func (s *State) unparks() int {
	return slices.IndexFunc(s.Parked, func(t *Turn) bool { return !t.waitsForPeople() })
}

// waitsForPeople reports whether there is nothing to do in a turn before people have
// decided, or clients have answered.
func (t *Turn) waitsForPeople() bool {
	if t.Interrupted != nil || t.Arrived || t.Unhandled() || len(t.Intercepting)+len(t.Joining)+len(t.Cascades) > 0 {
		return false
	}
	waits := false
	for _, r := range t.Runs {
		if r.Phase == PhaseDone {
			continue
		}
		if r.Phase != PhaseTools || !r.waitsForPeople() {
			return false
		}
		waits = true
	}
	return waits
}

func (r *Run) waitsForPeople() bool {
	waits := false
	for _, c := range r.Calls {
		switch c.Stage {
		case Waiting, AtClient:
			waits = true
		case CallSettled:
		case Ready, Delegated, Ran:
			return false
		}
	}
	return waits
}

// beside reports whether an item may be processed while a turn waits for people: what
// people say waits its turn.
func (q Queued) beside() bool {
	return len(q.Item.Metadata) > 0 && q.Item.Type != event.TypeUserQuery
}

// nextBeside finds the item to be processed next while a turn waits for people, or -1.
func (s *State) nextBeside() int {
	return s.best(Queued.beside)
}

// best finds the item of the highest priority that may be processed, and of equals the one
// that came first, or -1.
func (s *State) best(may func(Queued) bool) int {
	best := -1
	for i, q := range s.Queue {
		if may(q) && (best < 0 || q.Item.Priority > s.Queue[best].Item.Priority) {
			best = i
		}
	}
	return best
}

// HasNext reports whether there is something to be processed next: an item, or a turn that
// waits for people no more.
func (s *State) HasNext() bool {
	if len(s.Parked) == 0 {
		return len(s.Queue) > 0
	}
	return s.unparks() >= 0 || s.nextBeside() >= 0
}

// has reports whether a turn is about an event, or the event joins it.
func (t *Turn) has(eventID string) bool {
	return t.Item.ID == eventID || t.root() == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
}

// means reports whether a control is about a turn.
func (t *Turn) means(ctl signals.Control) bool {
	return t.Interrupted == nil && (ctl.EventID == "" || t.has(ctl.EventID))
}

// openCalls are the calls of other runs, parked ones among them, that have no result yet.
func (s *State) openCalls(of *Run) []string {
	var ids []string
	for _, t := range s.turns() {
		for _, r := range t.Runs {
			if r != of {
				ids = append(ids, r.openCalls()...)
			}
		}
	}
	return ids
}

func (r *Run) openCalls() (ids []string) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled && c.Stage != Ran {
			ids = append(ids, c.Plan.ID)
		}
	}
	if r.Phase == PhaseReply || r.Phase == PhaseCalls {
		for _, p := range r.Reply.Calls {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
