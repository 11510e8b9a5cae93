package thread

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// NextSteered removes the next queued message that joins the turn.
func (t *Turn) NextSteered(now time.Time) (Queued, bool) {
	s := t.thread
	s.expire(now)
	for i, q := range s.Inbox.Queue {
		if !s.Turns.joinsCurrent(q) {
			continue
		}
		s.Inbox.takeAt(i)
		q.Item.TraceID = t.Item.TraceID
		if !q.Hooked {
			s.recordItemIn(now, t.root(), &q)
		}
		t.Joining = append(t.Joining, q.Item.ID)
		return q, true
	}
	return Queued{}, false
}

// PutBack undoes [Turn.NextSteered] for a message that hooks have not decided on yet. The message
// returns to its place in the queue, after the messages that interrupted the turn.
func (t *Turn) PutBack(now time.Time, q Queued) {
	s := t.thread
	t.joins(q)
	q.Stored = true
	s.Inbox.putBack(q)
	if ctl := t.Interrupted; ctl != nil && ctl.EventID == q.Item.ID {
		s.CancelEvent(now, *ctl)
	}
}

// joins removes a message from Joining.
func (t *Turn) joins(q Queued) {
	t.Joining = slices.DeleteFunc(t.Joining, func(id string) bool { return id == q.Item.ID })
}

// SteeredEvent returns a message that joins the turn for hooks. Its key depends on the turn, so
// hooks decide again if the message joins another turn.
func (t *Turn) SteeredEvent(q Queued) HookEvent {
	e := q.event(recordid.Steer(q.Item.ID, t.TurnID()))
	e.stored = q.Stored || q.Item.Attempt > 0
	return e
}

// Join adds a message to the turn as hooks have decided.
func (t *Turn) Join(now time.Time, q Queued, d step.HookDecision) {
	s := t.thread
	if !q.Hooked {
		d = t.applyDecision(now, t.SteeredEvent(q), d, nil)
	}
	t.joins(q)
	it := q.Item
	it.Status, it.UpdatedAt = event.ItemCompleted, now
	if d.Outcome == event.OutcomeFailed {
		it.Status, it.Error = event.ItemFailed, d.Error
		s.Outbox.recordIn(it.ID, recordid.Error(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: d.Error, Retryable: true})
		s.Inbox.fail(q.as(it))
		s.announceEnd(now, recordid.Turn(it.ID, it.Attempt), it.TraceID, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: d.Error}, nil)
		return
	}
	if d.Outcome == event.OutcomeOverwritten {
		it.Status = event.ItemOverwritten
	}
	s.Inbox.rememberEnded(it)
	t.Steered = append(t.Steered, it.ID)
	if d.Stopped() {
		return
	}
	t.workFor(q.User)
	if calls, ok := readEvent(d.Event).(event.ToolCallEvent); ok {
		t.adopt(now, it.ID, calls)
		return
	}
	m := q.message()
	if got, ok := readEvent(d.Event).(event.MessageEvent); ok {
		m = t.SteeredEvent(q).replaced(s.ThreadID, got)
	}
	s.Roster.resetTurnLimit(m.SenderType)
	t.steer(now, m)
}

// steer adds a message to the turn's runs, once per agent. A message that mentions agents is only
// for them; those without a run get one.
func (t *Turn) steer(now time.Time, m event.Message) {
	s := t.thread
	everybody := len(s.Roster.Agents) == 0 || len(t.Agents) > 0 || !addressing.HasMentionAtStart(m.Content)
	to, joined := t.answering(m), []string(nil)
	for _, r := range t.Runs {
		if r.Done() || addressing.HasName(joined, r.Agent) || !everybody && !addressing.HasName(to, r.Agent) {
			continue
		}
		r.Late = &LateMessage{ID: m.ID, Answers: s.Roster.participant(m)}
		if !r.InFlight && !r.hasReply() {
			r.takeMissed()
		}
		joined = append(joined, r.Agent)
	}
	for _, agent := range to {
		if !everybody && !addressing.HasName(joined, agent) {
			t.address(now, agent, m)
		}
	}
}

// LateMessage is a message that a run has not answered yet, and the agent that wrote it, if any.
type LateMessage struct {
	ID      string `json:"id"`
	Answers string `json:"answers,omitempty"`
}

// takeMissed makes the next reply answer the missed message.
func (r *AgentRun) takeMissed() {
	if r.Late != nil {
		r.ReplyTo, r.Answers, r.Late = r.Late.ID, r.Late.Answers, nil
	}
}

// noteAnswered notes which message a reply answers. A workflow task that was lost with its worker may have stored the
// reply before another message arrived, which joined the turn when the task was run again.
func (r *AgentRun) noteAnswered(messageID string) {
	if messageID == "" || messageID == r.ReplyTo {
		return
	}
	if r.Late == nil {
		r.Late = &LateMessage{ID: r.ReplyTo, Answers: r.Answers}
	}
	r.ReplyTo = messageID
}

// answerMissed starts another run for the agent of a finished run, if a message joined the turn
// during its last model call.
func (r *AgentRun) answerMissed(now time.Time) {
	t := r.turn
	missed := r.Late
	if r.Late = nil; missed == nil || r.Phase == PhaseInterrupted || t.Interrupted != nil {
		return
	}
	t.addressRun(now, AgentRun{Agent: r.Agent, ReplyTo: missed.ID, Answers: missed.Answers})
}

// HasSteered reports whether a queued message joins the turn.
func (s *State) HasSteered() bool {
	return slices.ContainsFunc(s.Inbox.Queue, s.Turns.joinsCurrent)
}

// joinsCurrent reports whether a queued message joins the current turn. A message that names its agents or
// tools gets a turn of its own.
func (ts *Turns) joinsCurrent(q Queued) bool {
	if ts.Current.IsEnv() && len(ts.Parked) > 0 && ts.waitsFor(q, event.OnWaitingHold) {
		// The message is for the waiting turn, not for the event that is handled meanwhile.
		return false
	}
	return q.OnBusy == event.OnBusySteer && !ts.decidesOn(&q) && q.mayJoin() && !q.Unloaded
}

// mayJoin reports whether the item is a message that can join another turn.
func (q *Queued) mayJoin() bool {
	return q.Item.Type == event.TypeMessage && len(q.Agents) == 0 && q.Tools == nil
}
