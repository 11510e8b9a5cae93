package thread

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// DecisionIn is the decision that a posted message is, if it is one: a person's message
// whose content says that it is the result of an approval. An agent's or a tool's word
// decides nothing.
func (ds *Decisions) DecisionIn(p signals.Post) (signals.Decide, bool) {
	s := ds.thread
	if s.Closing != nil || p.Type != "" && p.Type != event.TypeMessage || p.ID != "" && s.WasPosted(p.ID) {
		return signals.Decide{}, false
	}
	var m event.NewMessage
	if json.Unmarshal(p.Payload, &m) != nil || m.SenderType != event.User {
		return signals.Decide{}, false
	}
	said, ok, _ := event.ParseContent(m.Content)
	if !ok {
		return signals.Decide{}, false
	}
	return signals.DecideOf(said, m.SenderID), true
}

// SawDecision remembers a post that was a decision: posted again it has no effect.
func (ds *Decisions) SawDecision(p signals.Post) {
	s := ds.thread
	if p.ID != "" {
		s.rememberPosted(p.ID)
		s.addOutcome(signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted})
	}
}
