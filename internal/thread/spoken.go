package thread

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// DecisionIn is the decision that a posted message is, if it is one: a person's message
// whose content says that it is the result of an approval. An agent's or a tool's word
// decides nothing.
func (s *State) DecisionIn(p signals.Post) (signals.Decide, bool) {
	if s.Closing != nil || p.Type != "" && p.Type != event.TypeMessage || p.ID != "" && s.HasSeen(p.ID) {
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
func (s *State) SawDecision(p signals.Post) {
	if p.ID != "" {
		s.remember(p.ID)
		s.outcome(signals.TurnResult{EventID: p.ID, Status: signals.TurnCompleted})
	}
}
