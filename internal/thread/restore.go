package thread

import (
	"math"
	"slices"
	"time"

	"github.com/threadmill/threadmill/signals"
)

// Inspector is the key under which a context carries a func(*State) that receives the state of a thread
// whose history is replayed. Workers set none.
type Inspector struct{}

// Restored is what people and clients said about calls, according to the store. It takes effect when
// the calls wait for it.
type Restored struct {
	Decisions []signals.Decide       `json:"decisions,omitempty"`
	Results   []signals.ToolResult   `json:"results,omitempty"`
	Inputs    []signals.InputAnswers `json:"inputs,omitempty"`

	// SubAgents are those that the calls start again.
	SubAgents []signals.RestoredSubAgent `json:"subAgents,omitempty"`
}

// Restore takes over what the store has and the thread does not. Posts, tasks and interrupts are left
// to the caller.
func (s *State) Restore(r signals.Restore) {
	if r.Title != "" {
		s.Title = r.Title
	}
	if len(r.Agents) > 0 {
		s.Roster.Agents = r.Agents
	}
	if len(r.Metadata) > 0 {
		s.Metadata = s.ParentLink.withParent(r.Metadata)
	}
	// A thread that was started again counts on from where it was: a turn that runs again gives its tasks the ids
	// that they have in the store.
	s.Tasks.Count = restoredNumber(s.Tasks.Count, r.TaskNumber, len(s.Tasks.Running)+len(s.Tasks.Ended) == 0)
	s.Children.Count = restoredNumber(s.Children.Count, r.ChildNumber, len(s.Children.SubAgents) == 0 && len(s.Turns.Outcomes) == 0)
	for _, id := range r.Known {
		s.Inbox.rememberPosted(id, "")
	}
	if len(r.Decisions)+len(r.Results)+len(r.Inputs)+len(r.SubAgents) == 0 {
		return
	}
	ds := &s.Decisions
	if ds.Restored == nil {
		ds.Restored = &Restored{}
	}
	for _, sub := range r.SubAgents {
		if len(ds.Restored.SubAgents) < maxSubsInTurn && ds.restoredSub(sub.ToolCallID) == nil {
			ds.Restored.SubAgents = append(ds.Restored.SubAgents, sub)
		}
	}
	restored(&ds.Restored.Decisions, r.Decisions, maxDecisionBytes, func(a, b signals.Decide) bool {
		return a.ToolCallID == b.ToolCallID && a.Round == b.Round && a.By == b.By
	})
	restored(&ds.Restored.Results, r.Results, math.MaxInt, func(a, b signals.ToolResult) bool { return a.ToolCallID == b.ToolCallID })
	restored(&ds.Restored.Inputs, r.Inputs, math.MaxInt, func(a, b signals.InputAnswers) bool {
		return a.ToolCallID == b.ToolCallID && roundOf(a) == roundOf(b)
	})
}

// restored keeps what is valid and not known, up to limit bytes.
func restored[T interface{ Validate() error }](kept *[]T, given []T, limit int, same func(a, b T) bool) {
	for _, one := range given {
		if one.Validate() == nil && !slices.ContainsFunc(*kept, func(known T) bool { return same(known, one) }) {
			keep(kept, one, limit)
		}
	}
}

func restoredNumber(own, given int, fresh bool) int {
	if given > 0 && (fresh || given > own) {
		return given
	}
	return own
}

// restoredSub returns the sub-agent that a call had started before, or nil.
func (ds *Decisions) restoredSub(toolCallID string) *signals.RestoredSubAgent {
	if ds.Restored == nil {
		return nil
	}
	for i, sub := range ds.Restored.SubAgents {
		if sub.ToolCallID == toolCallID {
			return &ds.Restored.SubAgents[i]
		}
	}
	return nil
}

// RestoredDue reports whether a call waits for something that was restored.
func (s *State) RestoredDue() bool {
	r := s.Decisions.Restored
	return r != nil && (firstReady(r.Decisions, s.ReadDecision, reading.restorable) >= 0 ||
		firstReady(r.Results, s.ReadResult, reading.restorable) >= 0 || firstReady(r.Inputs, s.ReadAnswer, reading.restorable) >= 0)
}

// ApplyRestored applies what was restored to the calls that wait for it.
func (s *State) ApplyRestored(now time.Time) {
	if r := s.Decisions.Restored; r != nil {
		release(now, &r.Decisions, s.ReadDecision, reading.restorable)
		release(now, &r.Results, s.ReadResult, reading.restorable)
		release(now, &r.Inputs, s.ReadAnswer, reading.restorable)
	}
}
