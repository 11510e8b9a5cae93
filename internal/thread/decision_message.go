package thread

import (
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// DecisionIn returns the decision in a posted message: a user's message whose content is the result
// of an approval call. Messages of agents and tools are never decisions.
func (ds *Decisions) DecisionIn(p Incoming) (signals.Decide, bool) {
	s, m := ds.thread, p.message
	if s.Closing != nil || m == nil || m.SenderType != event.CreatedByUser || p.ID != "" && s.Inbox.WasPosted(p.ID) {
		return signals.Decide{}, false
	}
	result, ok, _ := event.ParseContent(m.Content)
	return signals.DecideOf(result, m.SenderID), ok
}

// Remember remembers the id of a post that was a decision, so that duplicates are ignored.
func (ds *Decisions) Remember(p Incoming) {
	s := ds.thread
	if p.ID != "" {
		s.Inbox.rememberPosted(p.ID)
		s.Turns.addOutcome(signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted})
	}
}
