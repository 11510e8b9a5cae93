package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// announceEnd announces the end of the turn of an event, and of those that joined it: everything
// else of the turn has been recorded before.
func (ts *Turns) announceEnd(now time.Time, turnID, traceID string, out signals.TurnResult, joined []string) {
	s := ts.thread
	out.LastRecord = event.TurnEndedID(turnID)
	s.recordIn(out.EventID, out.LastRecord, event.TypeTurnEnded, traceID, out.EventID, now,
		event.TurnEnded{EventID: out.EventID, Joined: joined, Status: string(out.Status), Error: out.Error})
	ts.addOutcomes(out, joined)
}

func (ts *Turns) addOutcomes(out signals.TurnResult, joined []string) {
	ts.addOutcome(out)
	for _, id := range joined {
		out.EventID = id
		ts.addOutcome(out)
	}
}

// announceTurnEnd announces the end of a turn. A model call or a function that was its last step
// has announced it already.
func (t *Turn) announceTurnEnd(now time.Time, out signals.TurnResult) {
	s := t.thread
	switch id := t.id(); {
	case t.Ended:
		out.LastRecord = event.TurnEndedID(id)
		s.addOutcomes(out, t.Steered)
	case t.Stage == ItemDebounced:
		// What the rule does with the event is still to come.
		s.announceEnd(now, event.DebouncedTurnID(id), t.Item.TraceID, out, t.Steered)
	default:
		s.announceEnd(now, id, t.Item.TraceID, out, t.Steered)
	}
	if s.Awaits(t.Item.ID) {
		// It is to be processed again: those who wait for its outcome go on waiting.
		s.forgetOutcome(t.Item.ID)
	}
}

// announceUnprocessed announces the end of an event that had no turn.
func (ts *Turns) announceUnprocessed(now time.Time, q Queued, out signals.TurnResult) {
	if q.Origin != nil && ts.rootOf(q.Origin.Root) != nil {
		// The turn of the event that it was made of ends when nothing is left of it.
		ts.addOutcome(out)
		return
	}
	ts.announceEnd(now, event.TurnID(q.Item.ID, q.Item.Attempt), q.Item.TraceID, out, nil)
}

// endsWith returns the id of the record that announces the end of the turn, if that is over
// when the run's next reply asks for nothing and addresses nobody: the model call then stores
// the record with its reply.
func (t *Turn) endsWith(r *Run) string {
	s := t.thread
	if t.Interrupted != nil || t.SetStatus != nil || t.Cut || t.Error != "" || len(t.Joining) > 0 || s.rootOf(t.root()) != nil {
		return ""
	}
	for _, other := range t.Runs {
		if other != r && (other.Phase != PhaseDone || other.Error != "" || other.Interrupted) {
			return ""
		}
	}
	return event.TurnEndedID(t.turnID())
}

// root is the event from outside that a queued item follows from.
func (q Queued) root() string {
	if q.Origin != nil {
		return q.Origin.Root
	}
	return q.Item.ID
}
