package thread

import "time"

// Action is what a thread does next, between the steps of turns.
type Action string

// The actions of a thread.
const (
	// ActionNone means that the thread waits.
	ActionNone Action = ""
	// ActionPark parks the current turn, which waits for people, because there is other work.
	ActionPark Action = "park"
	// ActionUnpark makes a parked turn that can continue the current one.
	ActionUnpark Action = "unpark"
	// ActionRunTurn continues the current turn.
	ActionRunTurn Action = "run turn"
	// ActionLoad loads the content of the next event from the store.
	ActionLoad Action = "load"
	// ActionBegin begins the turn of the next event.
	ActionBegin Action = "begin"
	// ActionStore stores records.
	ActionStore Action = "store"
)

// NextAction returns the next action of the thread. Events whose TTL is over expire first.
func (s *State) NextAction(now time.Time) Action {
	switch {
	case s.CanPark():
		return ActionPark
	case s.Turns.Current != nil:
		return ActionRunTurn
	case s.Turns.unparks() >= 0:
		return ActionUnpark
	case s.Outbox.Heavy():
		return ActionStore
	}
	if next := s.pick(now); next >= 0 {
		if s.Inbox.Queue[next].Unloaded {
			return ActionLoad
		}
		return ActionBegin
	}
	if s.Outbox.Unstored() {
		return ActionStore
	}
	return ActionNone
}
