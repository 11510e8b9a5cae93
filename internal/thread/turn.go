package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Turn is the processing of one item.
type Turn struct {
	thread *State

	// Queued is the item that the turn processes.
	Queued
	StartedAt time.Time `json:"startedAt"`

	// Stage is the stage of the item, Outcome the decision of hooks on it.
	Stage   ItemStage     `json:"stage,omitempty"`
	Outcome event.Outcome `json:"outcome,omitempty"`

	Interceptions

	// Runs are the runs of agents, in the order in which they were addressed.
	Runs []*AgentRun `json:"runs,omitempty"`

	// Message is the item itself, if it is a message that hooks or processors derived.
	Message *event.Message `json:"message,omitempty"`

	// Steered are the events that joined the turn. Joining are those that hooks are still deciding
	// on.
	Steered []string `json:"steered,omitempty"`
	Joining []string `json:"joining,omitempty"`

	// Interrupted is the request to end the turn. Cut means that, because of it, agents that a
	// reply addresses got no run. SetStatus is the status to set on the item.
	Interrupted *signals.Control   `json:"interrupted,omitempty"`
	Cut         bool               `json:"cut,omitempty"`
	SetStatus   *signals.SetStatus `json:"setStatus,omitempty"`

	// Cascades are calls that a new grant may cover.
	Cascades []Cascade `json:"cascades,omitempty"`

	// Delegated is the number of sub-agents that the turn has started.
	Delegated int `json:"delegated,omitempty"`

	// Ended means that the last step of the turn stored the record of its end.
	Ended bool `json:"ended,omitempty"`

	// Error is the reason why the item failed before any agent ran.
	Error string `json:"error,omitempty"`

	// Handling is the state of the rule that handles the item, if it is an environment event.
	Handling *Handling `json:"handling,omitempty"`
}

// ItemStage is the stage of a turn's item.
type ItemStage string

// The stages of a turn's item.
const (
	// ItemArrived means that hooks are deciding on the item.
	ItemArrived ItemStage = "arrived"
	// ItemEntered means that the item is being processed.
	ItemEntered ItemStage = "entered"
	// ItemDebounced means that a rule debounces or throttles the item, an environment event.
	ItemDebounced ItemStage = "debounced"
	// ItemUnhandled means that no hook or processor matches the item, a custom event.
	ItemUnhandled ItemStage = "unhandled"
)

// Options are the settings of a post for its turn.
type Options struct {
	// Agents answer instead of those that the message addresses. Empty = the thread's routing.
	Agents []string `json:"agents,omitempty"`

	// Tools restricts the tools that agents may call. Nil = no restriction.
	Tools *[]string `json:"tools,omitempty"`

	// Released is set if a rule has debounced or throttled the event.
	Released *Released `json:"released,omitempty"`

	// Rule is the name of the rule that handles the event, also in a retry.
	Rule string `json:"rule,omitempty"`

	// Recorded means that the event already has its record.
	Recorded bool `json:"recorded,omitempty"`

	// Unloaded means that only the store has the event's content. It is loaded before the event's
	// turn.
	Unloaded bool `json:"unloaded,omitempty"`
}

// Begin starts the turn of an item and records the item. Hooks decide on it before [Turn.Enter].
func (ts *Turns) Begin(now time.Time, q Queued) *Turn {
	s := ts.thread
	t := &Turn{thread: s, Queued: q, StartedAt: now, Stage: ItemArrived}
	t.OnBusy, t.OnWaiting, t.Stored = "", "", q.Stored || q.Item.Attempt > 0
	ts.Turn = t
	if s.TitleLater {
		s.TitleLater, s.TitleTried = false, false
	}
	if q.Released == nil && !q.Recorded {
		s.recordItem(now, q)
	}
	if q.Item.Type == event.TypeMessage && q.Origin != nil {
		m := Carry(s.itemMessage(&t.Queued))
		t.Message = &m
	}
	return t
}

// addRun appends a run to the turn.
func (t *Turn) addRun(r *AgentRun) *AgentRun {
	r.turn, r.Slot = t, len(t.Runs)
	t.Runs = append(t.Runs, r)
	return r
}

// recordItem adds the record of an item, before hooks decide on it.
func (in *Inbox) recordItem(now time.Time, q Queued) {
	if !q.Unloaded {
		in.recordItemIn(now, q.root(), &q)
	}
}

func (in *Inbox) recordItemIn(now time.Time, eventID string, q *Queued) {
	s, it := in.thread, q.Item
	if it.Type == event.TypeMessage {
		s.recordUndecided(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, in.itemMessage(q))
		return
	}
	if e, ok := it.Env(); ok {
		s.recordUndecided(eventID, it.ID, event.TypeEnv, it.TraceID, it.ParentEventID, now, e)
		return
	}
	s.recordIn(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, it.Payload)
}

// DecidedBefore returns the earlier decision of hooks on the turn's item, if this is a manual retry
// of an item that they have already decided on.
func (t *Turn) DecidedBefore() (HookDecision, bool) {
	if t.Hooked && t.Replaced != nil {
		return HookDecision{Outcome: event.OutcomeReplaced, Event: t.Replaced}, true
	}
	return HookDecision{Outcome: event.OutcomePassed}, t.Hooked
}

// Enter processes the turn's item as hooks have decided: each agent that it addresses gets a run.
// rules are the registered rules, for an environment event.
func (t *Turn) Enter(now time.Time, d HookDecision, rules ...rule.Spec) {
	s := t.thread
	seen := t.ItemEvent()
	unhandled := !t.Hooked && d.Unmatched
	if !t.Hooked {
		d = t.applyDecision(now, seen, d, nil)
	}
	t.Stage, t.Outcome = ItemEntered, d.Outcome
	if d.Outcome == event.OutcomeFailed {
		t.failItem(now, d.Error)
		return
	}
	if d.Outcome == event.OutcomeReplaced {
		t.Replaced = remembered(d.Event)
	}
	t.Hooked = true
	if d.Outcome == event.OutcomePassed && t.Item.Type == event.TypeBackgroundTaskFailed {
		s.TasksPassed = keepLast(append(s.TasksPassed, t.Item.ID), maxTasksEnded)
	}
	if d.stopped() {
		return
	}
	if calls, ok := readEvent(d.Event).(event.ToolCallEvent); ok && t.IsEnv() {
		t.adopt(now, t.Item.ID, calls)
		return
	}
	if t.IsEnv() {
		t.applyRule(now, d, rules)
		return
	}
	if unhandled && t.Item.Type != event.TypeMessage {
		t.Stage = ItemUnhandled
		t.unhandled(now)
		return
	}
	t.process(now, seen, d)
}

// unhandled records and logs that nothing handles a custom event.
func (t *Turn) unhandled(now time.Time) {
	s := t.thread
	it := t.Item
	s.logLine(LogWarn, "No hook or processor matches event: "+it.Type, "event", it.ID)
	t.record(now, event.UnhandledID(t.turnID()), event.TypeStatus, event.StatusChange{
		Status: event.StatusUnhandled,
		Detail: fmt.Sprintf("nothing handles events of type %s: no hook or processor of the worker matches it; check the type, or register one", it.Type),
	})
}

// process is the default processing of an item.
func (t *Turn) process(now time.Time, seen HookEvent, d HookDecision) {
	s := t.thread
	m := seen.message
	if d.Outcome == event.OutcomeReplaced {
		switch got := readEvent(d.Event).(type) {
		case event.MessageEvent:
			m = s.replaced(seen, got)
		case event.ToolCallEvent:
			t.adopt(now, t.Item.ID, got)
			return
		default:
			return
		}
	}
	if m.SenderType == "" {
		return
	}
	if t.Message != nil {
		shown := Carry(m)
		t.Message = &shown
	}
	m.ID = t.Item.ID
	s.resetTurnLimit(m.SenderType)
	for _, agent := range t.answering(m) {
		t.address(now, agent, m)
	}
}

// answering returns the agents that answer a message.
func (t *Turn) answering(m event.Message) []string {
	s := t.thread
	if t != nil && len(t.Agents) > 0 {
		return distinct(t.Agents)
	}
	return s.addressed(m)
}

// distinct returns names without duplicates, ignoring case.
func distinct(names []string) (out []string) {
	for _, name := range names {
		if !hasName(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// failItem ends the turn of an item before any agent ran.
func (t *Turn) failItem(now time.Time, why string) {
	t.Error = why
	t.record(now, event.ErrorID(t.turnID()), event.TypeError,
		event.Failure{EventID: t.Item.ID, Error: why, Retryable: true})
}

// NextSteered removes the next queued message that joins the turn.
func (t *Turn) NextSteered(now time.Time) (Queued, bool) {
	s := t.thread
	s.expire(now)
	for i, q := range s.Queue {
		if !s.joinsTurn(q) {
			continue
		}
		s.Queue = slices.Delete(s.Queue, i, i+1)
		q.Item.TraceID = t.Item.TraceID
		s.recordItemIn(now, t.root(), &q)
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
	at := slices.IndexFunc(s.Queue, func(other Queued) bool {
		return other.Origin == nil && other.OnBusy != signals.OnBusyInterrupt && other.Item.CreatedAt.After(q.Item.CreatedAt)
	})
	if at < 0 {
		at = len(s.Queue)
	}
	s.Queue = slices.Insert(s.Queue, at, q)
	if ctl := t.Interrupted; ctl != nil && ctl.EventID == q.Item.ID {
		s.Cancel(now, *ctl)
	}
}

// joins removes a message from Joining.
func (t *Turn) joins(q Queued) {
	t.Joining = slices.DeleteFunc(t.Joining, func(id string) bool { return id == q.Item.ID })
}

// SteeredEvent returns a message that joins the turn for hooks. Its key depends on the turn, so
// hooks decide again if the message joins another turn.
func (t *Turn) SteeredEvent(q Queued) HookEvent {
	s := t.thread
	e := s.itemEvent(&q, event.SteerID(q.Item.ID, t.turnID()))
	e.stored = q.Stored || q.Item.Attempt > 0
	return e
}

// Join adds a message to the turn as hooks have decided.
func (t *Turn) Join(now time.Time, q Queued, d HookDecision) {
	s := t.thread
	d = t.applyDecision(now, t.SteeredEvent(q), d, nil)
	t.joins(q)
	it := q.Item
	it.Status, it.UpdatedAt = event.ItemCompleted, now
	if d.Outcome == event.OutcomeFailed {
		it.Status, it.Error = event.ItemFailed, d.Error
		s.recordIn(it.ID, event.ErrorID(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: d.Error, Retryable: true})
		s.fail(q.as(it))
		s.announceEnd(now, event.TurnID(it.ID, it.Attempt), it.TraceID, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: d.Error}, nil)
		return
	}
	if d.Outcome == event.OutcomeOverwritten {
		it.Status = event.ItemOverwritten
	}
	s.rememberEnded(it)
	t.Steered = append(t.Steered, it.ID)
	if d.stopped() {
		return
	}
	if calls, ok := readEvent(d.Event).(event.ToolCallEvent); ok {
		t.adopt(now, it.ID, calls)
		return
	}
	m := s.itemMessage(&q)
	if got, ok := readEvent(d.Event).(event.MessageEvent); ok {
		m = s.replaced(t.SteeredEvent(q), got)
	}
	s.resetTurnLimit(m.SenderType)
	t.steer(now, m)
}

// Interrupt requests the end of the turns that ctl names. It reports whether the current turn is
// one of them and was not interrupted before.
func (ts *Turns) Interrupt(ctl signals.Control) (current bool) {
	for _, t := range ts.turns() {
		if t.matches(ctl) {
			t.Interrupted = &ctl
			current = current || t == ts.Turn
		}
	}
	return current
}

// End ends the turn: it adds the outcome, the terminal records that no activity has stored and, if
// the turn failed, the event that can be retried.
func (t *Turn) End(now time.Time) signals.TurnResult {
	s := t.thread
	out := signals.TurnResult{EventID: t.Item.ID, Status: signals.TurnCompleted, Message: t.Message}
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
	if !terminal && len(t.Runs) > 0 && s.rootOf(t.root()) == nil {
		// A processor replaced an agent's message, and nothing follows.
		t.record(now, event.FinalID(t.turnID()), event.TypeFinal, event.Final{})
	}
	for _, in := range t.Intercepting {
		s.abandonHook(in)
	}
	s.Turn = nil
	s.applyEarly(now)
	if !t.continueRoot(now, out, terminal) {
		t.announceTurnEnd(now, out)
	}
	return out
}

// endInterrupted records who interrupted the turn, if it was interrupted before it was finished.
func (t *Turn) endInterrupted(now time.Time, out *signals.TurnResult) {
	switch cut := t.Stage == ItemArrived || t.Cut || t.Unhandled() || slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return r.Interrupted }); {
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
	t.record(now, event.InterruptedID(t.turnID()), event.TypeStatus,
		event.StatusChange{Status: event.StatusInterrupted, By: t.Interrupted.By, Detail: t.Interrupted.Reason})
}

// endRuns merges the ends of the runs into the result. It reports whether viewers receive a final
// or error record.
func (t *Turn) endRuns(now time.Time, out *signals.TurnResult) (terminal bool) {
	for _, r := range t.Runs {
		if r.Final != nil {
			addReply(out, *r.Final)
		}
		switch {
		case r.Error != "":
			out.Status, out.Error, terminal = signals.TurnFailed, r.Error, true
		case r.Interrupted:
			terminal = true
			t.record(now, event.FinalID(r.messageID()), event.TypeFinal,
				event.Final{Agent: r.Agent, MessageID: r.MessageID})
		case !r.Answered:
			terminal = true
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
	it.Status, it.Error, it.UpdatedAt = event.ItemCompleted, out.Error, now
	switch {
	case t.SetStatus != nil:
		t.setEnd(now, it)
		return
	case out.Status == signals.TurnFailed:
		it.Status = event.ItemFailed
		s.fail(t.queued(it))
		return
	case t.Outcome == event.OutcomeOverwritten:
		it.Status = event.ItemOverwritten
	}
	s.rememberEnded(it)
}

// queued returns the turn's item for the queue, to be processed again.
func (t *Turn) queued(it event.Item) Queued {
	q := t.as(it)
	q.Stored = true
	return q
}

func (t *Turn) turnID() string { return t.id() }

func (t *Turn) id() string { return event.TurnID(t.Item.ID, t.Item.Attempt) }

// unprocessed fails an event that was never processed. Its record has its content.
func (in *Inbox) unprocessed(now time.Time, q Queued) {
	s := in.thread
	const why = "the thread was closed before its turn came"
	in.recordItem(now, q)
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.ItemFailed, why, now
	in.fail(q.as(it).withoutContent())
	s.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: why})
}

// Close ends the thread. Events in the queue are recorded as failed.
func (s *State) Close(now time.Time) {
	for _, q := range s.ordered() {
		s.unprocessed(now, q)
	}
	s.Queue, s.closed = nil, true
	s.settleRoots(now)
	s.record(event.ClosedID(s.ThreadID, s.newID(now)), event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusClosed, By: s.Closing.By, Detail: s.Closing.Reason})
	s.changeRow(now).Status = "closed"
}
