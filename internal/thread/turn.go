package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Turn is all that follows from one item.
type Turn struct {
	Item      event.Item `json:"item"`
	StartedAt time.Time  `json:"startedAt"`

	// Origin is set when hooks or processors made the item.
	Origin *Origin `json:"origin,omitempty"`
	Options

	// Arrived until the hooks have decided on the item itself; the runs follow. Replaced
	// is what they put in its place, By who kept it from its default processing.
	Arrived  bool            `json:"arrived,omitempty"`
	Hooked   bool            `json:"hooked,omitempty"`
	Replaced json.RawMessage `json:"replaced,omitempty"`
	Outcome  event.Outcome   `json:"outcome,omitempty"`

	// Intercepting are the events that a hook workflow is deciding on.
	Intercepting []Intercepting `json:"intercepting,omitempty"`

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

	// Handling is what a rule does with the item, an environment event; EnvReplaced says
	// that hooks have changed that, Held that the rule holds it back.
	Handling    *Handling `json:"handling,omitempty"`
	EnvReplaced bool      `json:"envReplaced,omitempty"`

	// Stored is as in [Queued].
	Stored bool `json:"stored,omitempty"`
	Held   bool `json:"held,omitempty"`

	// Ignored says that no hook or processor matches the item, a custom event.
	Ignored bool `json:"ignored,omitempty"`
}

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
func (s *State) Begin(now time.Time, q Queued) *Turn {
	t := &Turn{Item: q.Item, StartedAt: now, Origin: q.Origin, Options: q.Options, Arrived: true, Hooked: q.Hooked, Replaced: q.Replaced, Stored: q.Stored || q.Item.Attempt > 0}
	s.Turn = t
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

// recordItem records an item before any hook has seen it.
func (s *State) recordItem(now time.Time, q Queued) {
	if !q.Unloaded {
		s.recordItemIn(now, q.root(), q.Item)
	}
}

func (s *State) recordItemIn(now time.Time, eventID string, it event.Item) {
	if it.Type == event.TypeMessage {
		s.recordUndecided(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, s.said(it))
		return
	}
	if e, ok := it.Env(); ok {
		s.recordUndecided(eventID, it.ID, event.TypeEnv, it.TraceID, it.ParentEventID, now, e)
		return
	}
	s.recordIn(eventID, it.ID, it.Type, it.TraceID, it.ParentEventID, now, it.Payload)
}

// SeenBefore reports whether hooks have decided on the turn's item already, when it
// is retried by hand; then this is what they decided.
func (t *Turn) SeenBefore() (Decision, bool) {
	if t.Hooked && t.Replaced != nil {
		return Decision{Outcome: event.Replaced, Event: t.Replaced}, true
	}
	return Decision{Outcome: event.Passed}, t.Hooked
}

// Enter goes on with the turn's item, now that hooks have decided on it: each agent
// that it addresses gets a run. rules are those that there are, for an environment event.
func (s *State) Enter(now time.Time, d Decision, rules ...rule.Spec) {
	t := s.Turn
	seen := s.SeenItem()
	unhandled := !t.Hooked && d.Unmatched
	if !t.Hooked {
		d = s.heard(now, seen, d, nil)
	}
	t.Arrived, t.Outcome = false, d.Outcome
	if d.Outcome == event.HookFailed {
		s.failItem(now, d.Error)
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
		s.adopt(now, t.Item.ID, calls)
		return
	}
	if t.IsEnv() {
		s.route(now, d, rules)
		return
	}
	if t.Ignored = unhandled && t.Item.Type != event.TypeMessage; t.Ignored {
		s.unhandled(now)
		return
	}
	s.process(now, seen, d)
}

// unhandled tells of an event that nothing takes.
func (s *State) unhandled(now time.Time) {
	it := s.Turn.Item
	s.tell(LogWarn, "No hook or processor matches event: "+it.Type, "event", it.ID)
	s.record(event.UnhandledID(s.turnID()), event.TypeStatus, it.TraceID, it.ID, now, event.StatusChange{
		Status: event.StatusUnhandled,
		Detail: fmt.Sprintf("nothing handles events of type %s: no hook or processor of the worker matches it; check the type, or register one", it.Type),
	})
}

// process is the default processing of an item: what it is decides.
func (s *State) process(now time.Time, seen Seen, d Decision) {
	t := s.Turn
	m := seen.message
	if d.Outcome == event.Replaced {
		switch got := readEvent(d.Event).(type) {
		case event.MessageEvent:
			m = s.replaced(seen, got)
		case event.ToolCallEvent:
			s.adopt(now, t.Item.ID, got)
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
	s.heardFrom(m.SenderType)
	for _, agent := range s.answering(m) {
		s.address(now, agent, m)
	}
}

// answering says who answers a message.
func (s *State) answering(m event.Message) []string {
	if s.Turn != nil && len(s.Turn.Agents) > 0 {
		return distinct(s.Turn.Agents)
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
func (s *State) failItem(now time.Time, why string) {
	s.Turn.Error = why
	s.record(event.ErrorID(s.turnID()), event.TypeError, s.Turn.Item.TraceID, s.Turn.Item.ID, now,
		event.Failure{EventID: s.Turn.Item.ID, Error: why, Retryable: true})
}

// NextSteered takes the next message out of the queue that asks to join the turn. One that
// says who answers it, or with which tools, waits for a turn of its own.
func (s *State) NextSteered(now time.Time) (Queued, bool) {
	s.expire(now)
	for i, q := range s.Queue {
		if !s.joinsTurn(q) {
			continue
		}
		s.Queue = slices.Delete(s.Queue, i, i+1)
		q.Item.TraceID = s.Turn.Item.TraceID
		s.recordItemIn(now, s.Turn.root(), q.Item)
		s.Turn.Joining = append(s.Turn.Joining, q.Item.ID)
		return q, true
	}
	return Queued{}, false
}

// PutBack undoes [State.NextSteered] for a message on which hooks had no time to decide:
// it waits where it did, behind what has gone ahead of its equals meanwhile, unless it is
// what was interrupted.
func (s *State) PutBack(now time.Time, q Queued) {
	s.joins(q)
	q.Stored = true
	at := slices.IndexFunc(s.Queue, func(other Queued) bool {
		return other.Origin == nil && other.OnBusy != signals.Interrupt && other.Item.CreatedAt.After(q.Item.CreatedAt)
	})
	if at < 0 {
		at = len(s.Queue)
	}
	s.Queue = slices.Insert(s.Queue, at, q)
	if ctl := s.Turn.Interrupted; ctl != nil && ctl.EventID == q.Item.ID {
		s.Cancel(now, *ctl)
	}
}

// joins forgets that hooks are deciding on a message that asks to join the turn.
func (s *State) joins(q Queued) {
	s.Turn.Joining = slices.DeleteFunc(s.Turn.Joining, func(id string) bool { return id == q.Item.ID })
}

// SeenSteered is a message that joins the turn, as hooks see it. They are asked again if
// it comes to join another turn.
func (s *State) SeenSteered(q Queued) Seen {
	e := s.seenItem(q.Item, event.SteerID(q.Item.ID, s.turnID()))
	e.stored = q.Stored || q.Item.Attempt > 0
	return e
}

// Join lets a message join the turn, as hooks have decided.
func (s *State) Join(now time.Time, q Queued, d Decision) {
	d = s.heard(now, s.SeenSteered(q), d, nil)
	s.joins(q)
	it := q.Item
	it.Status, it.UpdatedAt = event.Completed, now
	if d.Outcome == event.HookFailed {
		it.Status, it.Error = event.Failed, d.Error
		s.recordIn(it.ID, event.ErrorID(it.ID), event.TypeError, it.TraceID, it.ID, now, event.Failure{EventID: it.ID, Error: d.Error, Retryable: true})
		s.Failed = keepFailed(append(s.Failed, q.as(it).failed()))
		s.over(now, event.TurnID(it.ID, it.Attempt), it.TraceID, signals.TurnResult{EventID: it.ID, Status: signals.TurnFailed, Error: d.Error}, nil)
		return
	}
	if d.Outcome == event.Produced {
		it.Status = event.Overwritten
	}
	s.end(it)
	s.Turn.Steered = append(s.Turn.Steered, it.ID)
	if d.stopped() {
		return
	}
	if calls, ok := readEvent(d.Event).(event.ToolCallEvent); ok {
		s.adopt(now, it.ID, calls)
		return
	}
	m := s.said(it)
	if got, ok := readEvent(d.Event).(event.MessageEvent); ok {
		m = s.replaced(s.SeenSteered(q), got)
	}
	s.heardFrom(m.SenderType)
	s.steer(now, m)
}

// Interrupt asks for the end of the turns in progress: of the one that the event is about,
// or of all. It reports whether the current one is among them, and had not been asked to end
// before.
func (s *State) Interrupt(ctl signals.Control) (current bool) {
	for _, t := range s.turns() {
		if t.means(ctl) {
			t.Interrupted = &ctl
			current = current || t == s.Turn
		}
	}
	return current
}

// End closes the books on the turn: its outcome, the terminal records that no
// activity has written, and, if it failed, the event to be retried.
func (s *State) End(now time.Time) signals.TurnResult {
	t := s.Turn
	out := signals.TurnResult{EventID: t.Item.ID, Status: signals.TurnCompleted, Message: t.Said}
	if len(t.Runs) == 0 && t.Outcome != event.Responded && t.Outcome != event.Produced {
		out.Status = signals.TurnUnanswered
	}
	if t.Ignored {
		out.Status = signals.TurnUnhandled
	}
	switch {
	case t.Held:
		out.Status = signals.TurnHeld
	case t.Handling != nil && len(t.Runs) == 0:
		out.Status = signals.TurnCompleted
	}
	s.endInterrupted(now, &out)
	terminal := s.endRuns(now, &out)
	if t.Error != "" {
		out.Status, out.Error, terminal = signals.TurnFailed, t.Error, true
	}
	s.endItem(now, out)
	if !terminal && len(t.Runs) > 0 && s.rootOf(t.root()) == nil {
		// A processor took the place of what an agent said, and nothing follows.
		s.record(event.FinalID(s.turnID()), event.TypeFinal, t.Item.TraceID, t.Item.ID, now, event.Final{})
	}
	for _, in := range t.Intercepting {
		s.late(in)
	}
	s.Turn = nil
	s.catchUp(now)
	if !s.follow(now, t, out, terminal) {
		s.overTurn(now, t, out)
	}
	return out
}

// endInterrupted says who ended the turn, if anybody did before all had been said.
func (s *State) endInterrupted(now time.Time, out *signals.TurnResult) {
	t := s.Turn
	switch cut := t.Arrived || t.Cut || t.Unhandled() || slices.ContainsFunc(t.Runs, func(r *Run) bool { return r.Interrupted }); {
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
	s.record(event.InterruptedID(s.turnID()), event.TypeStatus, t.Item.TraceID, t.Item.ID, now,
		event.StatusChange{Status: event.StatusInterrupted, By: t.Interrupted.By, Detail: t.Interrupted.Reason})
}

// endRuns sums up the runs. It reports whether viewers are told of an end.
func (s *State) endRuns(now time.Time, out *signals.TurnResult) (terminal bool) {
	t := s.Turn
	for _, r := range t.Runs {
		if r.Final != nil {
			addReply(out, *r.Final)
		}
		switch {
		case r.Error != "":
			out.Status, out.Error, terminal = signals.TurnFailed, r.Error, true
		case r.Interrupted:
			terminal = true
			s.record(event.FinalID(s.messageID(r)), event.TypeFinal, t.Item.TraceID, t.Item.ID, now,
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
func (s *State) endItem(now time.Time, out signals.TurnResult) {
	t := s.Turn
	it := t.Item
	it.Status, it.Error, it.UpdatedAt = event.Completed, out.Error, now
	switch {
	case t.SetStatus != nil:
		s.setEnd(now, t, it)
		return
	case out.Status == signals.TurnFailed:
		it.Status = event.Failed
		s.Failed = keepFailed(append(s.Failed, t.queued(it).failed()))
		return
	case t.Outcome == event.Produced:
		it.Status = event.Overwritten
	}
	s.end(it)
}

// queued is the turn's item as it waits to be processed again.
func (t *Turn) queued(it event.Item) Queued {
	return Queued{Item: it, Options: t.Options, Origin: t.Origin, Hooked: t.Hooked, Replaced: t.Replaced, Stored: true}
}

func (s *State) turnID() string { return s.Turn.id() }

func (t *Turn) id() string { return event.TurnID(t.Item.ID, t.Item.Attempt) }

// unprocessed ends an event whose turn does not come: it is a failed event, and its record
// has its content.
func (s *State) unprocessed(now time.Time, q Queued) {
	const why = "the thread was closed before its turn came"
	s.recordItem(now, q)
	it := q.Item
	it.Status, it.Error, it.UpdatedAt = event.Failed, why, now
	s.Failed = keepFailed(append(s.Failed, q.as(it).failed().stored()))
	s.overUnprocessed(now, q, signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: why})
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
