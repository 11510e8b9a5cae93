package thread

import (
	"cmp"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// announceTurnEnd records the end of a turn, unless the activity of its last step has stored it.
func (t *Turn) announceTurnEnd(now time.Time, out signals.TurnResult) {
	s := t.thread
	switch id := t.TurnID(); {
	case t.EndStored:
		out.LastRecord = recordid.TurnEnded(id)
		s.Turns.addOutcomes(out, t.Steered)
	case t.Stage == ItemDebounced:
		// The rule has not handled the event yet.
		s.announceEnd(now, recordid.DebouncedTurn(id), t.Item.TraceID, out, t.Steered)
	default:
		s.announceEnd(now, id, t.Item.TraceID, out, t.Steered)
	}
	if s.Awaits(t.Item.ID) {
		// The event will be processed again, so callers keep waiting for its outcome.
		s.Turns.forgetOutcome(t.Item.ID)
	}
}

// handledBy returns the name of the rule that handles the turn's event, or "".
func (t *Turn) handledBy() string {
	if t.Handling == nil {
		return ""
	}
	return t.Handling.Rule.Name
}

// endsWith returns the id of the record of the turn's end, if the turn would end with a reply of
// the run that has no tool calls and addresses nobody. The model's activity then stores the record
// with its reply.
func (t *Turn) endsWith(r *AgentRun) string {
	s := t.thread
	if t.Interrupted != nil || t.SetStatus != nil || t.Cut || t.Error != "" || len(t.Joining) > 0 || s.Turns.rootOf(t.root()) != nil {
		return ""
	}
	for _, other := range t.Runs {
		if other != r && other.Phase != PhaseReplied && other.Phase != PhaseAnswered {
			return ""
		}
	}
	return recordid.TurnEnded(t.TurnID())
}

// repliesWith returns the ids of the final messages of the turn if a run, which is the last one, ends with its next reply. Nil = only
// that reply.
func (t *Turn) repliesWith(r *AgentRun) []string {
	out := signals.TurnResult{Message: t.Message}
	for _, run := range t.Runs {
		switch {
		case run == r:
			addReply(&out, event.Message{ID: r.messageID(), SenderType: event.CreatedByAgent})
		case run.Final != nil:
			addReply(&out, *run.Final)
		}
	}
	if len(out.Replies) == 0 {
		return nil
	}
	return replyIDs(out)
}

func replyIDs(out signals.TurnResult) (ids []string) {
	for _, m := range out.AllReplies() {
		ids = append(ids, m.ID)
	}
	return ids
}

// setEnd sets the requested status of the item of a turn that was ended by hand.
func (t *Turn) setEnd(now time.Time, it event.Item) {
	s := t.thread
	if t.SetStatus.Status != event.ItemPending {
		s.setStatusOf(now, t.queued(it), *t.SetStatus)
		return
	}
	s.requeue(now, t.queued(it), t.SetStatus.By)
}

// End ends the turn: it adds the outcome, the terminal records that no activity has stored and, if
// the turn failed, the event that can be retried.
func (t *Turn) End(now time.Time) signals.TurnResult {
	s := t.thread
	out := signals.TurnResult{EventID: t.Item.ID, Status: signals.TurnCompleted, Message: t.Message, Rule: t.handledBy()}
	if len(t.Runs) == 0 && t.Outcome != event.OutcomeResponded && t.Outcome != event.OutcomeOverwritten {
		out.Status = signals.TurnUnanswered
	}
	if t.Stage == ItemUnhandled {
		out.Status = signals.TurnUnhandled
	}
	switch {
	case t.Stage == ItemDebounced:
		out.Status = signals.TurnHeld
	case t.Handling != nil && len(t.Runs) == 0:
		out.Status = signals.TurnCompleted
	}
	t.endInterrupted(now, &out)
	terminal := t.endRuns(now, &out)
	if t.Error != "" {
		out.Status, out.Error, terminal = signals.TurnFailed, t.Error, true
	}
	t.endItem(now, out)
	t.noteEnd(now, out.Status)
	if !terminal && len(t.Runs) > 0 && s.Turns.rootOf(t.root()) == nil {
		// A processor replaced an agent's message, and nothing follows.
		t.record(now, recordid.Final(t.TurnID()), event.TypeFinal, event.Final{})
	}
	for _, in := range t.Intercepting {
		s.Turns.abandonHook(in)
	}
	if s.Turns.Current == t {
		s.Turns.Current = nil
		s.applyEarly(now)
		if s.idle() {
			s.Decisions.Restored = nil // it is about calls that will not appear again
		}
	}
	if !t.continueRoot(now, out, terminal) {
		t.announceTurnEnd(now, out)
	}
	return out
}

// endInterrupted records who interrupted the turn, if it was interrupted before it was finished.
func (t *Turn) endInterrupted(now time.Time, out *signals.TurnResult) {
	switch cut := t.Stage == ItemArrived || t.Cut || t.handlingPending() || slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return r.Phase == PhaseInterrupted }); {
	case cut && t.Interrupted == nil:
		// The running step was notified of the interrupt before the thread was.
		t.Interrupted = &signals.Control{Action: signals.ControlInterrupt}
	case !cut:
		// The interrupt arrived after the turn was finished.
		t.Interrupted, t.SetStatus = nil, nil
	}
	if t.Interrupted == nil {
		return
	}
	out.Status, out.Error = signals.TurnInterrupted, t.Interrupted.Reason
	t.record(now, recordid.Interrupted(t.TurnID()), event.TypeStatus,
		event.StatusChange{Status: event.StatusInterrupted, By: t.Interrupted.By, Detail: t.Interrupted.Reason})
}

// endRuns merges the ends of the runs into the result. It reports whether viewers receive a final
// or error record.
func (t *Turn) endRuns(now time.Time, out *signals.TurnResult) (terminal bool) {
	for _, r := range t.Runs {
		if r.Final != nil {
			addReply(out, *r.Final)
		}
		switch r.Phase {
		case PhaseFailed:
			out.Status, out.Error, out.Class, terminal = signals.TurnFailed, r.Error, r.Class, true
		case PhaseInterrupted:
			terminal = true
			t.record(now, recordid.Final(r.messageID()), event.TypeFinal,
				event.Final{Agent: r.Agent, MessageID: r.MessageID})
		case PhaseReplied:
			terminal = true
		case PhaseAnswered, PhaseModel, PhaseReply, PhaseCalls, PhasePlan, PhaseTools:
		}
	}
	return terminal
}

// maxReplies is the maximum total length of a turn's replies, in bytes. Replies beyond it are
// shortened.
const maxReplies = 256 << 10

// addReply adds a reply to the result of a turn.
func addReply(out *signals.TurnResult, m event.Message) {
	if before := out.Message; len(out.Replies) == 0 && before != nil && before.SenderType == event.CreatedByAgent {
		out.Replies = []event.Message{*before}
	}
	size := len(m.Content)
	for _, other := range out.Replies {
		size += len(other.Content)
	}
	if size > maxReplies {
		m = *carried(&m)
	}
	if len(out.Replies) > 0 {
		out.Replies = append(out.Replies, m)
	}
	out.Message = &m
}

// endItem sets the final status of the item. A failed item can be retried.
func (t *Turn) endItem(now time.Time, out signals.TurnResult) {
	s := t.thread
	it := t.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemCompleted, cmp.Or(out.Error, t.Unhandled), now
	switch {
	case t.SetStatus != nil:
		t.setEnd(now, it)
		return
	case out.Status == signals.TurnFailed:
		it.Status = event.ItemFailed
		s.Inbox.fail(t.queued(it))
		return
	case t.Outcome == event.OutcomeOverwritten:
		it.Status = event.ItemOverwritten
	}
	s.Inbox.rememberEnded(it)
}

// queued returns the turn's item for the queue, to be processed again.
func (t *Turn) queued(it event.Item) Queued {
	q := t.as(it)
	q.Stored = true
	return q
}
