package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Turn is all that follows from one item.
type Turn struct {
	thread *State

	// Queued is the item that the turn processes.
	Queued
	StartedAt time.Time `json:"startedAt"`

	// Stage says what has become of the item, Outcome what hooks decided on it.
	Stage   ItemStage     `json:"stage,omitempty"`
	Outcome event.Outcome `json:"outcome,omitempty"`

	Interceptions

	// Runs are the agents' parts, in the order in which they were addressed.
	Runs []*Run `json:"runs,omitempty"`

	// Said is the item itself, when it is a message that hooks or processors made.
	Said *event.Message `json:"said,omitempty"`

	// Steered are the events that joined the turn; on those of Joining hooks are deciding.
	Steered []string `json:"steered,omitempty"`
	Joining []string `json:"joining,omitempty"`

	// Interrupted is set once somebody has asked for the end of the turn; Cut when
	// agents that a reply addresses had no part in the turn for that. SetStatus is the
	// status that the item shall have then.
	Interrupted *signals.Control   `json:"interrupted,omitempty"`
	Cut         bool               `json:"cut,omitempty"`
	SetStatus   *signals.SetStatus `json:"setStatus,omitempty"`

	// Cascades are calls that a new grant may cover.
	Cascades []Cascade `json:"cascades,omitempty"`

	// Delegated counts the sub-agents that were asked.
	Delegated int `json:"delegated,omitempty"`

	// Ended says that the last step of the turn has stored the record of its end.
	Ended bool `json:"ended,omitempty"`

	// Error says why the item failed before any agent had a part.
	Error string `json:"error,omitempty"`

	// Handling is what a rule does with the item, an environment event.
	Handling *Handling `json:"handling,omitempty"`
}

// ItemStage is what has become of a turn's item.
type ItemStage string

// The stages of a turn's item.
const (
	// ItemArrived: hooks are deciding on the item itself.
	ItemArrived ItemStage = "arrived"
	// ItemEntered: the item is processed, by the turn's runs if it has any.
	ItemEntered ItemStage = "entered"
	// ItemDebounced: a rule debounces the item, an environment event.
	ItemDebounced ItemStage = "debounced"
	// ItemUnhandled: no hook or processor matches the item, a custom event.
	ItemUnhandled ItemStage = "unhandled"
)

// Options are what a post says about its turn.
type Options struct {
	// Agents answer, whoever is addressed. Empty = as the thread routes it.
	Agents []string `json:"agents,omitempty"`

	// Tools are the only ones that may be called. Nil = all.
	Tools *[]string `json:"tools,omitempty"`

	// Released says that a rule has held the event back before.
	Released *Released `json:"released,omitempty"`

	// Rule is the rule that handles the event: also when it is handled again.
	Rule string `json:"rule,omitempty"`

	// Recorded says that the event is recorded already.
	Recorded bool `json:"recorded,omitempty"`

	// Unloaded says that the event's content is in the store only: it is loaded when its turn
	// comes.
	Unloaded bool `json:"unloaded,omitempty"`
}

// Begin starts the turn of an item, which becomes a record. Hooks see it before [State.Enter]
// goes on with it.
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
		m := Carry(s.said(q.Item))
		t.Said = &m
	}
	return t
}

// addRun appends a run to the turn.
func (t *Turn) addRun(r *Run) *Run {
	r.turn, r.Slot = t, len(t.Runs)
	t.Runs = append(t.Runs, r)
	return r
}

// recordItem records an item before any hook has seen it.
func (in *Inbox) recordItem(now time.Time, q Queued) {
	if !q.Unloaded {
		in.recordItemIn(now, q.root(), q.Item)
	}
}

func (in *Inbox) recordItemIn(now time.Time, eventID string, it event.Item) {
	s := in.thread
	if it.Type == event.TypeMessage {
		s.recordUndecided(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, in.said(it))
		return
	}
	if e, ok := it.Env(); ok {
		s.recordUndecided(eventID, it.ID, event.TypeEnv, it.TraceID, it.ParentEventID, now, e)
		return
	}
	s.recordIn(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, it.Payload)
}

// DecidedBefore reports whether hooks have decided on the turn's item already, when it
// is retried by hand; then this is what they decided.
func (t *Turn) DecidedBefore() (Decision, bool) {
	if t.Hooked && t.Replaced != nil {
		return Decision{Outcome: event.Replaced, Event: t.Replaced}, true
	}
	return Decision{Outcome: event.Passed}, t.Hooked
}

// Enter goes on with the turn's item, now that hooks have decided on it: each agent
// that it addresses gets a run. rules are those that there are, for an environment event.
func (t *Turn) Enter(now time.Time, d Decision, rules ...rule.Spec) {
	s := t.thread
	seen := t.ItemEvent()
	unhandled := !t.Hooked && d.Unmatched
	if !t.Hooked {
		d = t.applyDecision(now, seen, d, nil)
	}
	t.Stage, t.Outcome = ItemEntered, d.Outcome
	if d.Outcome == event.HookFailed {
		t.failItem(now, d.Error)
		return
	}
	if d.Outcome == event.Replaced {
		t.Replaced = remembered(d.Event)
	}
	t.Hooked = true
	if d.Outcome == event.Passed && t.Item.Type == event.TypeBackgroundTaskFailed {
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

// unhandled tells of an event that nothing takes.
func (t *Turn) unhandled(now time.Time) {
	s := t.thread
	it := t.Item
	s.logLine(LogWarn, "No hook or processor matches event: "+it.Type, "event", it.ID)
	t.record(now, event.UnhandledID(t.turnID()), event.TypeStatus, event.StatusChange{
		Status: event.StatusUnhandled,
		Detail: fmt.Sprintf("nothing handles events of type %s: no hook or processor of the worker matches it; check the type, or register one", it.Type),
	})
}

// process is the default processing of an item: what it is decides.
func (t *Turn) process(now time.Time, seen HookEvent, d Decision) {
	s := t.thread
	m := seen.message
	if d.Outcome == event.Replaced {
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
	if t.Said != nil {
		said := Carry(m)
		t.Said = &said
	}
	m.ID = t.Item.ID
	s.resetTurnLimit(m.SenderType)
	for _, agent := range t.answering(m) {
		t.address(now, agent, m)
	}
}

// answering says who answers a message.
func (t *Turn) answering(m event.Message) []string {
	s := t.thread
	if t != nil && len(t.Agents) > 0 {
		return distinct(t.Agents)
	}
	return s.addressed(m)
}

// distinct are names without those that were there before: each agent answers once.
func distinct(names []string) (out []string) {
	for _, name := range names {
		if !hasName(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// failItem ends the turn of an item that no agent had a part in.
func (t *Turn) failItem(now time.Time, why string) {
	t.Error = why
	t.record(now, event.ErrorID(t.turnID()), event.TypeError,
		event.Failure{EventID: t.Item.ID, Error: why, Retryable: true})
}

// NextSteered takes the next message out of the queue that asks to join the turn. One that
// says who answers it, or with which tools, waits for a turn of its own.
func (t *Turn) NextSteered(now time.Time) (Queued, bool) {
	s := t.thread
	s.expire(now)
	for i, q := range s.Queue {
		if !s.joinsTurn(q) {
			continue
		}
		s.Queue = slices.Delete(s.Queue, i, i+1)
		q.Item.TraceID = t.Item.TraceID
		s.recordItemIn(now, t.root(), q.Item)
		t.Joining = append(t.Joining, q.Item.ID)
		return q, true
	}
	return Queued{}, false
}

// PutBack undoes [State.NextSteered] for a message on which hooks had no time to decide:
// it waits where it did, behind what has gone ahead of its equals meanwhile, unless it is
// what was interrupted.
func (t *Turn) PutBack(now time.Time, q Queued) {
	s := t.thread
	t.joins(q)
	q.Stored = true
	at := slices.IndexFunc(s.Queue, func(other Queued) bool {
		return other.Origin == nil && other.OnBusy != signals.Interrupt && other.Item.CreatedAt.After(q.Item.CreatedAt)
	})
	if at < 0 {
		at = len(s.Queue)
	}
	s.Queue = slices.Insert(s.Queue, at, q)
	if ctl := t.Interrupted; ctl != nil && ctl.EventID == q.Item.ID {
		s.Cancel(now, *ctl)
	}
}

// joins forgets that hooks are deciding on a message that asks to join the turn.
func (t *Turn) joins(q Queued) {
	t.Joining = slices.DeleteFunc(t.Joining, func(id string) bool { return id == q.Item.ID })
}

// SteeredEvent is a message that joins the turn, as hooks see it. They are asked again if
// it comes to join another turn.
func (t *Turn) SteeredEvent(q Queued) HookEvent {
	s := t.thread
	e := s.itemEvent(q.Item, event.SteerID(q.Item.ID, t.turnID()))
	e.stored = q.Stored || q.Item.Attempt > 0
	return e
}

// Join lets a message join the turn, as hooks have decided.
func (t *Turn) Join(now time.Time, q Queued, d Decision) {
	s := t.thread
	d = t.applyDecision(now, t.SteeredEvent(q), d, nil)
	t.joins(q)
	it := q.Item
	it.Status, it.UpdatedAt = event.Completed, now
	if d.Outcome == event.HookFailed {
		it.Status, it.Error = event.Failed, d.Error
		s.recordIn(it.ID, event.ErrorID(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: d.Error, Retryable: true})
		s.fail(q.as(it))
		s.announceEnd(now, event.TurnID(it.ID, it.Attempt), it.TraceID, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: d.Error}, nil)
		return
	}
	if d.Outcome == event.Produced {
		it.Status = event.Overwritten
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
	m := s.said(it)
	if got, ok := readEvent(d.Event).(event.MessageEvent); ok {
		m = s.replaced(t.SteeredEvent(q), got)
	}
	s.resetTurnLimit(m.SenderType)
	t.steer(now, m)
}

// Interrupt asks for the end of the turns in progress: of the one that the event is about,
// or of all. It reports whether the current one is among them, and had not been asked to end
// before.
func (ts *Turns) Interrupt(ctl signals.Control) (current bool) {
	for _, t := range ts.turns() {
		if t.means(ctl) {
			t.Interrupted = &ctl
			current = current || t == ts.Turn
		}
	}
	return current
}

// End closes the books on the turn: its outcome, the terminal records that no
// activity has written, and, if it failed, the event to be retried.
func (t *Turn) End(now time.Time) signals.TurnResult {
	s := t.thread
	out := signals.TurnResult{EventID: t.Item.ID, Status: signals.TurnCompleted, Message: t.Said}
	if len(t.Runs) == 0 && t.Outcome != event.Responded && t.Outcome != event.Produced {
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
		// A processor took the place of what an agent said, and nothing follows.
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

// endInterrupted says who ended the turn, if anybody did before all had been said.
func (t *Turn) endInterrupted(now time.Time, out *signals.TurnResult) {
	switch cut := t.Stage == ItemArrived || t.Cut || t.Unhandled() || slices.ContainsFunc(t.Runs, func(r *Run) bool { return r.Interrupted }); {
	case cut && t.Interrupted == nil:
		// The step heard of it before the thread did.
		t.Interrupted = &signals.Control{Action: signals.ControlInterrupt}
	case !cut:
		// It came when all had been said.
		t.Interrupted, t.SetStatus = nil, nil
	}
	if t.Interrupted == nil {
		return
	}
	out.Status, out.Error = signals.TurnInterrupted, t.Interrupted.Reason
	t.record(now, event.InterruptedID(t.turnID()), event.TypeStatus,
		event.StatusChange{Status: event.StatusInterrupted, By: t.Interrupted.By, Detail: t.Interrupted.Reason})
}

// endRuns sums up the runs. It reports whether viewers are told of an end.
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

// maxReplies bounds the text of all replies of a turn, in bytes: each of those beyond it is
// shortened.
const maxReplies = 256 << 10

// addReply adds a reply to those of a turn.
func addReply(out *signals.TurnResult, m event.Message) {
	if before := out.Message; len(out.Replies) == 0 && before != nil && before.SenderType == event.Agent {
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

// endItem gives the item its last status; one that failed can be retried.
func (t *Turn) endItem(now time.Time, out signals.TurnResult) {
	s := t.thread
	it := t.Item
	it.Status, it.Error, it.UpdatedAt = event.Completed, out.Error, now
	switch {
	case t.SetStatus != nil:
		t.setEnd(now, it)
		return
	case out.Status == signals.TurnFailed:
		it.Status = event.Failed
		s.fail(t.queued(it))
		return
	case t.Outcome == event.Produced:
		it.Status = event.Overwritten
	}
	s.rememberEnded(it)
}

// queued is the turn's item as it waits to be processed again.
func (t *Turn) queued(it event.Item) Queued {
	q := t.as(it)
	q.Stored = true
	return q
}

func (t *Turn) turnID() string { return t.id() }

func (t *Turn) id() string { return event.TurnID(t.Item.ID, t.Item.Attempt) }

// unprocessed ends an event whose turn does not come: it is a failed event, and its record
// has its content.
func (in *Inbox) unprocessed(now time.Time, q Queued) {
	s := in.thread
	const why = "the thread was closed before its turn came"
	in.recordItem(now, q)
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.Failed, why, now
	in.fail(q.as(it).withoutContent())
	s.announceUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: why})
}

// Close ends the thread: what still waits is kept as records, unanswered.
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
