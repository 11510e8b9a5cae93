package thread

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// DecisionIn returns the decision in a posted message: a user's message whose content is the result
// of an approval call. Messages of agents and tools are never decisions.
func (ds *Decisions) DecisionIn(p signals.Post) (signals.Decide, bool) {
	s := ds.thread
	if s.Closing != nil || p.Type != "" && p.Type != event.TypeMessage || p.ID != "" && s.WasPosted(p.ID) {
		return signals.Decide{}, false
	}
	var m event.NewMessage
	if json.Unmarshal(p.Payload, &m) != nil || m.SenderType != event.CreatedByUser {
		return signals.Decide{}, false
	}
	said, ok, _ := event.ParseContent(m.Content)
	if !ok {
		return signals.Decide{}, false
	}
	return signals.DecideOf(said, m.SenderID), true
}

// SawDecision remembers the id of a post that was a decision, so that duplicates are ignored.
func (ds *Decisions) SawDecision(p signals.Post) {
	s := ds.thread
	if p.ID != "" {
		s.rememberPosted(p.ID)
		s.addOutcome(signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted})
	}
}
