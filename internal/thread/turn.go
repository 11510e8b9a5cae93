package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Turn is the processing of one item.
type Turn struct {
	thread *State

	// Queued is the item that the turn processes.
	Queued
	StartedAt time.Time `json:"startedAt"`

	// Before are the tokens that the thread had used when the turn began.
	Before int `json:"before,omitempty"`

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

	// EndStored means that the last step of the turn stored the record of its end.
	EndStored bool `json:"endStored,omitempty"`

	// Unhandled is the reason why nothing handles the item.
	Unhandled string `json:"unhandled,omitempty"`

	// Error is the reason why the item failed before any agent ran.
	Error string `json:"error,omitempty"`

	// awaited means that this workflow run awaits the decision of hooks ahead of the turn.
	awaited bool

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

// addRun appends a run to the turn.
func (t *Turn) addRun(r *AgentRun) *AgentRun {
	r.turn, r.Slot, r.User = t, len(t.Runs), t.User
	t.Runs = append(t.Runs, r)
	return r
}

// Done reports whether the turn can end: no run has anything left to do.
func (t *Turn) Done() bool {
	if t.Interrupted == nil && (t.Stage == ItemArrived || t.handlingPending()) {
		return false
	}
	return !slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return !r.Done() })
}

// DecidedBefore returns the earlier decision of hooks on an item, if they have already decided on it:
// ahead of its turn, or before a manual retry.
func (q *Queued) DecidedBefore() (step.HookDecision, bool) {
	if q.Hooked && q.Replaced != nil {
		return step.HookDecision{Outcome: event.OutcomeReplaced, Event: q.Replaced}, true
	}
	return step.HookDecision{Outcome: event.OutcomePassed}, q.Hooked
}

// Enter processes the turn's item as hooks have decided: each agent that it addresses gets a run.
// rules are the registered rules, for an environment event.
func (t *Turn) Enter(now time.Time, d step.HookDecision, rules ...rule.Spec) {
	s := t.thread
	seen := t.ItemEvent()
	unhandled := !t.Hooked && d.Unmatched
	if !t.Hooked {
		d = t.applyDecision(now, seen, d, nil)
	}
	if t.settle(now, d) {
		return
	}
	if d.Outcome == event.OutcomePassed && t.Item.Type == event.TypeBackgroundTaskFailed {
		s.Tasks.passed(t.Item.ID)
	}
	if calls, ok := readEvent(d.Event).(event.ToolCallEvent); ok && t.IsEnv() {
		t.adopt(now, t.Item.ID, calls)
		return
	}
	if t.IsEnv() {
		t.applyRule(now, d, rules)
		return
	}
	if t.Background() != "" {
		t.Handling = &Handling{Rule: rule.Spec{Name: t.Item.Type, Function: true}, Stage: HandlingFunction}
		return
	}
	if unhandled && t.Item.Type != event.TypeMessage {
		t.Stage = ItemUnhandled
		t.recordUnhandled(now)
		return
	}
	t.process(now, seen, d)
}

// Background returns the activity that begins the work which the default processing of the turn's item starts in the
// background, or "".
func (t *Turn) Background() string {
	switch {
	case t.IsEnv():
	case t.Item.Type == event.TypeRAGIngest:
		return job.ActivityIngest
	case t.Item.Type == event.TypeEntityExtract:
		return job.ActivityExtract
	}
	return ""
}

// settle takes in the decision of hooks on the turn's item. It reports whether the decision ends the
// processing of the item.
func (t *Turn) settle(now time.Time, d step.HookDecision) bool {
	t.Stage, t.Outcome = ItemEntered, d.Outcome
	if d.Outcome == event.OutcomeFailed {
		t.failItem(now, d.Error)
		return true
	}
	if d.Outcome == event.OutcomeReplaced {
		t.Replaced = remembered(d.Event)
	}
	t.Hooked = true
	return d.Stopped()
}

// recordUnhandled records and logs that nothing handles a custom event.
func (t *Turn) recordUnhandled(now time.Time) {
	s := t.thread
	it := t.Item
	s.Log.add(LogWarn, s.ThreadID, "No hook or processor matches event: "+it.Type, "event", it.ID)
	t.Unhandled = fmt.Sprintf("nothing handles events of type %s: no hook or processor of the worker matches it; check the type, or register one", it.Type)
	t.record(now, recordid.Unhandled(t.TurnID()), event.TypeStatus, event.StatusChange{Status: event.StatusUnhandled, Detail: t.Unhandled})
}

// process is the default processing of an item.
func (t *Turn) process(now time.Time, seen HookEvent, d step.HookDecision) {
	s := t.thread
	m := seen.message
	if d.Outcome == event.OutcomeReplaced {
		switch got := readEvent(d.Event).(type) {
		case event.MessageEvent:
			m = seen.replaced(s.ThreadID, got)
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
		shown := step.Carry(m)
		t.Message = &shown
	}
	m.ID = t.Item.ID
	s.Roster.resetTurnLimit(m.SenderType)
	agents := t.answering(m)
	for _, agent := range agents {
		t.address(now, agent, m)
	}
	if mentioned := addressing.Mentions(m.Content); len(agents) == 0 && len(mentioned) > 0 && m.SenderType == event.CreatedByUser {
		t.recordUnanswered(now, mentioned)
	}
}

// recordUnanswered records that a person's message mentions none of the thread's agents.
func (t *Turn) recordUnanswered(now time.Time, mentioned []string) {
	t.record(now, recordid.Unanswered(t.TurnID()), event.TypeStatus, event.StatusChange{
		Status: event.StatusUnanswered, Detail: unansweredText(mentioned, t.thread.Roster.Agents),
	})
}

// unansweredText names what a message mentions, and who could answer.
func unansweredText(mentioned, agents []string) string {
	const most = 10
	short := func(names []string) string {
		if len(names) > most {
			return strings.Join(names[:most], ", ") + ", …"
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("no agent of the thread is named %s; the agents are %s", short(mentioned), short(agents))
}

// answering returns the agents that answer a message.
func (t *Turn) answering(m event.Message) []string {
	s := t.thread
	if t != nil && len(t.Agents) > 0 {
		return distinct(t.Agents)
	}
	return s.Roster.addressed(m)
}

// distinct returns names without duplicates, ignoring case.
func distinct(names []string) (out []string) {
	for _, name := range names {
		if !addressing.HasName(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// failItem ends the turn of an item before any agent ran.
func (t *Turn) failItem(now time.Time, why string) {
	t.Error = why
	t.record(now, recordid.Error(t.TurnID()), event.TypeError,
		event.Failure{EventID: t.Item.ID, Error: why, Retryable: true})
}

// TurnID returns the id of this attempt to process the item, which is unique in the thread.
func (t *Turn) TurnID() string { return recordid.Turn(t.Item.ID, t.Item.Attempt) }

// record adds a record to the turn.
func (t *Turn) record(now time.Time, id, typ string, payload any) {
	t.recordCausedBy(now, id, typ, t.Item.ID, payload)
}

// recordCausedBy adds a record to the turn whose parent is not the turn's item.
func (t *Turn) recordCausedBy(now time.Time, id, typ, parent string, payload any) {
	t.thread.Outbox.recordIn(t.root(), id, typ, t.Item.TraceID, parent, now, payload)
}

// recordUndecided adds the record of an event of the turn that models do not see until hooks have
// passed it: see
// [event.Record.WithUndecided].
func (t *Turn) recordUndecided(now time.Time, id, typ string, payload any) {
	t.thread.Outbox.recordUndecided(t.root(), id, typ, t.Item.TraceID, t.Item.ID, now, payload)
}

// has reports whether an event is the turn's item or its root, or has joined the turn.
func (t *Turn) has(eventID string) bool {
	return t.Item.ID == eventID || t.root() == eventID || slices.Contains(t.Steered, eventID) || slices.Contains(t.Joining, eventID)
}

// matches reports whether a control applies to a turn.
func (t *Turn) matches(ctl signals.Control) bool {
	return t.Interrupted == nil && (ctl.EventID == "" || t.has(ctl.EventID))
}

// notice records a system message of the thread itself.
func (t *Turn) notice(now time.Time, id string, text string) {
	s := t.thread
	t.record(now, id, event.TypeMessage, event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: "threadmill", SenderType: event.CreatedBySystem, Role: event.RoleSystem, Content: text,
	})
}

// rootIfOther returns the posted event that the turn belongs to, or "" if it is the turn's own item.
func (t *Turn) rootIfOther() string {
	if root := t.root(); root != t.Item.ID {
		return root
	}
	return ""
}
