package thread

import (
	"errors"
	"slices"
	"time"

	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/signals"
)

// A decision, an answer or a client's result is read once, as a post is: a [Ruling], an [Answer] or a [ClientResult] has what it is about.
// A reading is valid until the state changes. If the workflow blocks before it uses one, for example while an activity checks
// a decision, it must read again.

// About is what a decision, an answer or a result is about.
type About struct {
	thread *State
	call   *Call     // the call that waits for it, or nil
	sub    *SubAgent // whose call waits for it, or nil
	early  bool
}

// Early reports whether it may arrive before its request: people see a request as soon as the step that makes it has stored it. The
// thread may be further behind than that step: if a worker is lost, what it did in its last workflow task is done again, and
// a restored thread repeats whole turns.
func (a About) Early() bool { return a.early }

// Below reports whether a sub-agent's call waits for it.
func (a About) Below() bool { return a.sub != nil }

func (a About) arrived() bool { return !a.early }

func (a About) applicable() bool { return !a.early && a.sub == nil }

// rejectUnless adds an audit record for what was sent by signal and changed nothing.
func (a About) rejectUnless(now time.Time, out signals.DecideOutcome, signal string, input any) {
	if out != signals.DecideAccepted && out != signals.DecideAlreadyResolved {
		a.thread.Reject(now, signal, input, errors.New(string(out)))
	}
}

// reading is a [Ruling], an [Answer] or a [ClientResult].
type reading interface {
	Take(now time.Time)
	arrived() bool
	applicable() bool
	restorable() bool
}

// release takes the held values that are ready, and keeps the others. It reads each one when its turn comes.
func release[T any, R reading](now time.Time, held *[]T, read func(T) R, ready func(reading) bool) {
	all := *held
	*held = nil
	for _, one := range all {
		if r := read(one); ready(r) {
			r.Take(now)
		} else {
			*held = append(*held, one)
		}
	}
}

// takeFirst removes and returns the first held value that is no longer early, or nil.
func takeFirst[T any, R reading](held *[]T, read func(T) R) *T {
	i := firstReady(*held, read, reading.arrived)
	if i < 0 {
		return nil
	}
	first := (*held)[i]
	*held = slices.Delete(*held, i, i+1)
	return &first
}

func firstReady[T any, R reading](held []T, read func(T) R, ready func(reading) bool) int {
	return slices.IndexFunc(held, func(one T) bool { return ready(read(one)) })
}

// applyEarly applies the early decisions, results and answers whose calls are now known. It rejects those whose calls can no longer
// appear. Those for the calls of sub-agents are left to [State.NextEarly].
func (s *State) applyEarly(now time.Time) {
	release(now, &s.Decisions.Early, s.ReadDecision, reading.applicable)
	release(now, &s.Decisions.EarlyResults, s.ReadResult, reading.applicable)
	release(now, &s.Decisions.EarlyInputs, s.ReadAnswer, reading.applicable)
}

// EarlyDue reports whether a decision, a result or an answer is no longer early.
func (s *State) EarlyDue() bool {
	ds := &s.Decisions
	return firstReady(ds.Early, s.ReadDecision, reading.arrived) >= 0 || firstReady(ds.EarlyResults, s.ReadResult, reading.arrived) >= 0 ||
		firstReady(ds.EarlyInputs, s.ReadAnswer, reading.arrived) >= 0
}

// NextEarly applies the results that are no longer early, and removes and returns the next decision or answer that is not: its
// request may be one of a sub-agent. Both are nil if there is none.
func (s *State) NextEarly(now time.Time) (d *signals.Decide, a *signals.InputAnswers) {
	release(now, &s.Decisions.EarlyResults, s.ReadResult, reading.applicable)
	if d = takeFirst(&s.Decisions.Early, s.ReadDecision); d == nil {
		a = takeFirst(&s.Decisions.EarlyInputs, s.ReadAnswer)
	}
	return d, a
}

// maxEarly is the maximum number of early decisions, and maxDecisionBytes the maximum size of all
// kept decisions, since the state carries them over continue-as-new.
const (
	maxEarly         = 100
	maxDecisionBytes = 160 << 10
)

// keep adds a value to those that are kept, up to limit bytes. It reports whether there was room.
func keep[T any](kept *[]T, one T, limit int) bool {
	size := len(rawJSON(one))
	for _, other := range *kept {
		size += len(rawJSON(other))
	}
	if len(*kept) >= maxEarly || size > limit {
		return false
	}
	*kept = append(*kept, one)
	return true
}

// mayAsk reports whether the thread is on its way to calls that it does not know yet, or has a sub-agent that may be. A thread
// that only waits for people is not, nor is one whose model is unavailable.
func (s *State) mayAsk() bool {
	delegated := false
	s.Turns.eachCall(func(c *Call) { delegated = delegated || c.Stage == CallDelegated })
	switch t := s.Turns.Current; {
	case s.Closing != nil:
		return false
	case delegated:
		return true
	case t == nil || t.Interrupted != nil || s.CanPark():
		return s.HasNext()
	default:
		return t.Stage == ItemArrived || t.handlingPending() || len(t.Intercepting)+len(t.Joining) > 0 || slices.ContainsFunc(t.Runs, (*AgentRun).mayAsk)
	}
}

func (r *AgentRun) mayAsk() bool {
	switch r.Phase {
	case PhaseModel:
		return r.Outage == nil || r.InFlight
	case PhaseReply, PhaseCalls, PhasePlan:
		return true
	case PhaseTools:
		return !slices.ContainsFunc(r.Calls, (*Call).waitsForPeople) // the model is called when no call waits any more
	case PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
	}
	return false
}

// isAgent reports whether a name is one of those of agents.
func isAgent(agents []string, by string) bool {
	return slices.ContainsFunc(agents, func(name string) bool { return addressing.SamePerson(name, by) })
}

// agentNames returns the names of the thread's agents and of all agents with a run in it.
func (s *State) agentNames() []string {
	names := append([]string{s.Roster.Default}, s.Roster.Agents...)
	if s.ParentLink.Parent != nil {
		names = append(names, s.ParentLink.Parent.Agent)
	}
	for _, t := range s.Turns.all() {
		for _, r := range t.Runs {
			names = append(names, r.Agent)
		}
	}
	return names
}
