package thread

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// announceEnd records the end of the turn of an event and of the events that joined it. It must be
// the turn's last record.
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

// announceTurnEnd records the end of a turn, unless the activity of its last step has stored it.
func (t *Turn) announceTurnEnd(now time.Time, out signals.TurnResult) {
	s := t.thread
	switch id := t.id(); {
	case t.Ended:
		out.LastRecord = event.TurnEndedID(id)
		s.addOutcomes(out, t.Steered)
	case t.Stage == ItemDebounced:
		// The rule has not handled the event yet.
		s.announceEnd(now, event.DebouncedTurnID(id), t.Item.TraceID, out, t.Steered)
	default:
		s.announceEnd(now, id, t.Item.TraceID, out, t.Steered)
	}
	if s.Awaits(t.Item.ID) {
		// The event will be processed again, so callers keep waiting for its outcome.
		s.forgetOutcome(t.Item.ID)
	}
}

// announceUnprocessed records the end of an event that had no turn.
func (ts *Turns) announceUnprocessed(now time.Time, q Queued, out signals.TurnResult) {
	if q.Origin != nil && ts.rootOf(q.Origin.Root) != nil {
		// The turn of the root ends when all of its events are processed.
		ts.addOutcome(out)
		return
	}
	ts.announceEnd(now, event.TurnID(q.Item.ID, q.Item.Attempt), q.Item.TraceID, out, nil)
}

// endsWith returns the id of the record of the turn's end, if the turn would end with a reply of
// the run that has no tool calls and addresses nobody. The model's activity then stores the record
// with its reply.
func (t *Turn) endsWith(r *AgentRun) string {
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

// root returns the posted event that a queued item follows from.
func (q Queued) root() string {
	if q.Origin != nil {
		return q.Origin.Root
	}
	return q.Item.ID
}
