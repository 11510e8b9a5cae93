package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Handling is the state of a rule that handles the turn's item, an environment event.
type Handling struct {
	Rule  rule.Spec     `json:"rule"`
	Stage HandlingStage `json:"stage"`

	// Replaced reports whether hooks changed the item.
	Replaced bool `json:"replaced,omitempty"`
}

// HandlingStage is the stage of a handling. After the last stage, the rule's agent runs, if there
// is one.
type HandlingStage string

// The stages of a handling.
const (
	// HandlingFunction means that the rule's function must run.
	HandlingFunction HandlingStage = "function"
	// HandlingProcessor means that the rule's processor must decide.
	HandlingProcessor HandlingStage = "processor"
	// HandlingDone means that only the agent's run remains.
	HandlingDone HandlingStage = "handled"
)

// Released describes the debounce or throttle of an event that is now handled.
type Released struct {
	// Count is the number of events that were held back before this one, since Since.
	Count int       `json:"count"`
	Since time.Time `json:"since"`

	// IDs are the ids of the last of them.
	IDs []string `json:"ids,omitempty"`
}

// LogLevel is the level of a [LogLine].
type LogLevel string

// The levels.
const (
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogLine is a line for the worker's log.
type LogLine struct {
	Level LogLevel
	Text  string
	Args  []any
}

// Log contains the lines for the worker's log that were not written yet.
type Log []LogLine

// Take returns the new log lines and clears them.
func (l *Log) Take() []LogLine {
	lines := *l
	*l = nil
	return lines
}

func (l *Log) add(level LogLevel, threadID, text string, args ...any) {
	*l = append(*l, LogLine{level, text, append([]any{"thread", threadID}, args...)})
}

func (l *Log) event(threadID string, e event.EnvEvent) {
	l.add(LogInfo, threadID, "environment event "+e.Type, "event", e.ID, "source", string(e.Metadata.Source))
}

// publish queues an environment event that the thread itself derived. It ignores the limits of the
// queue, since the event has already happened. brief is a shorter payload for a full queue; nil if
// the payload is always short.
func (s *State) publish(now time.Time, e event.EnvEvent, brief json.RawMessage, traceID, parent string) {
	if s.Inbox.WasPosted(e.ID) {
		return
	}
	e.Metadata.TriggerSessionID = s.ThreadID
	s.Inbox.rememberPosted(e.ID, "")
	q := Queued{Item: event.Item{
		ID: e.ID, ThreadID: s.ThreadID, Type: e.Type, Payload: e.Payload, Timestamp: e.Timestamp, Metadata: rawJSON(e.Metadata),
		Status: event.ItemPending, TraceID: traceID, ParentEventID: parent, Namespace: s.Namespace, CreatedAt: now, UpdatedAt: now,
	}}
	if brief != nil && (len(e.Payload) > step.MaxCarriedContent || s.queuedBytes()+q.bytes() > maxQueueBytes) {
		// The queue is full: the record keeps the payload, and the queue only the fields that rules
		// need.
		s.recordItem(now, q)
		q.Recorded, q.Item.Payload = true, brief
	}
	s.Inbox.add(q)
}

// Lifecycle publishes a change of the thread itself: created, updated or deleted. The status record
// of the change, from whose id the event's id is derived, is its only record. Without an
// application rule that names the type, Lifecycle does nothing.
func (s *State) Lifecycle(now time.Time, typ, recordID string, rules []rule.Spec) {
	e := event.EnvEvent{
		ID: signals.EventID(s.Namespace, s.ThreadID, typ, recordID, ""), Type: typ, Timestamp: now.UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: s.ThreadID, Source: event.SourceSystem},
		Payload:  rawJSON(map[string]any{"sessionId": s.ThreadID, "title": s.Title, "agents": s.Roster.Agents}),
	}
	spec, ok := rule.Match(rules, e)
	switch {
	case !ok:
	case spec.Default || !named(spec, typ) || s.Closing != nil:
		if spec.Log {
			s.Log.event(s.ThreadID, e)
		}
	default:
		s.publish(now, e, nil, e.ID, "")
	}
}

// named reports whether a rule names a type or its kind. A rule for all types does not match, since
// it would run for every tool call.
func named(spec rule.Spec, typ string) bool {
	kind, _, _ := strings.Cut(typ, ".")
	return slices.Contains(spec.Events, typ) || slices.Contains(spec.Events, kind+".*")
}

// env returns the turn's item as an environment event, with the changes of hooks.
func (t *Turn) env(d step.HookDecision) (e event.EnvEvent, replaced, ok bool) {
	read := t.read().Env
	if read == nil {
		return e, false, false
	}
	if d.Outcome == event.OutcomeReplaced {
		if got, is := readEvent(d.Event).(event.EnvEvent); is {
			return got, true, true
		}
	}
	return *read, false, true
}

// IsEnv reports whether the turn's item is an environment event, which rules handle.
func (t *Turn) IsEnv() bool { return len(t.Item.Metadata) > 0 }

// applyRule starts the rule that matches an environment event.
func (t *Turn) applyRule(now time.Time, d step.HookDecision, rules []rule.Spec) {
	s := t.thread
	e, replaced, _ := t.env(d)
	spec, ok := t.ruleFor(e, rules)
	if !ok {
		s.Log.add(LogWarn, s.ThreadID, "No rule matched for event: "+e.Type, "event", e.ID)
		t.Unhandled = "No rule matched for event: " + e.Type
		t.record(now, recordid.Unmatched(t.TurnID()), event.TypeStatus, event.StatusChange{Status: event.StatusUnmatched, Detail: t.Unhandled})
		return
	}
	// A manual retry is not debounced.
	t.Rule = spec.Name
	if t.Released == nil && t.Item.Attempt == 0 && t.thread.Inbox.debounce(now, spec, t.queued(t.Item)) {
		t.Stage = ItemDebounced
		return
	}
	if spec.Log {
		s.Log.event(s.ThreadID, e)
	}
	t.Handling = &Handling{Rule: spec, Stage: HandlingDone, Replaced: replaced}
	switch {
	case spec.Function:
		t.Handling.Stage = HandlingFunction
	case spec.Processor != "":
		t.Handling.Stage = HandlingProcessor
	case spec.Message:
		t.queueUserQuery(now, e)
	default:
		t.startRuleAgent(e)
	}
}

// ruleFor returns the rule that handles an event. A debounced or retried event keeps its rule,
// since the state may no longer have all fields that the rule matched.
func (t *Turn) ruleFor(e event.EnvEvent, rules []rule.Spec) (rule.Spec, bool) {
	for _, spec := range rules {
		if t.Rule != "" && spec.Name == t.Rule {
			return spec, true
		}
	}
	return rule.Match(rules, e)
}

// queueUserQuery queues the message of a user_query, which is answered like any other message.
func (t *Turn) queueUserQuery(now time.Time, e event.EnvEvent) {
	s := t.thread
	q, err := e.Query()
	if err != nil {
		t.failItem(now, err.Error())
		return
	}
	// Hooks process the message like any other.
	id := recordid.QueryMessage(e.ID)
	t.produce(now, Deferred{ID: id, By: t.Handling.Rule.Name, Parent: e.ID, Event: hook.NewProduced(event.TypeMessage, event.NewMessage{
		ThreadID: s.ThreadID, SenderID: q.UserID, SenderType: event.CreatedByUser, Content: q.Content,
	})}, t.User)
	if made := s.Inbox.find(id); made != nil {
		made.Agents = t.Agents
	}
}

// startRuleAgent starts the run of the rule's agent, if the rule has one.
func (t *Turn) startRuleAgent(e event.EnvEvent) {
	s := t.thread
	handler := t.Handling.Rule.Agent
	if handler == nil {
		return
	}
	if !ofAgents(e) {
		s.Roster.resetTurnLimit(event.CreatedByTool)
	}
	r := t.addRun(&AgentRun{
		Agent: t.handlerOf(handler, e), Phase: PhaseModel, ReplyTo: recordid.Observed(t.Item.ID),
		Instructions: joined(handler.SystemPrompt, handler.Prompt),
		Observe:      &step.Observe{EventID: t.Item.ID, Type: e.Type, Query: "Process event: " + e.Type, Replaced: t.Handling.Replaced},
	})
	if was := t.Released; was != nil && was.Count > 0 {
		r.Observe.Held, r.Observe.Since, r.Observe.HeldIDs = was.Count, &was.Since, was.IDs
	}
}

// ofAgents reports whether an agent caused an event, with a tool or a task. Such an event does not
// reset the turn limit, or agents could continue forever.
func ofAgents(e event.EnvEvent) bool {
	return e.Metadata.Source == event.SourceTool || e.Metadata.Source == event.SourceLLM
}

// handlerOf returns the name of the agent that handles an event.
func (t *Turn) handlerOf(a *rule.Agent, e event.EnvEvent) string {
	s := t.thread
	if len(t.Agents) > 0 {
		return t.Agents[0]
	}
	if a.Name != "" {
		return a.Name
	}
	for _, name := range []string{e.Metadata.TriggerAgentName, e.Metadata.TriggerAgentID} {
		for _, agent := range s.Roster.Agents {
			if name != "" && strings.EqualFold(agent, name) {
				return agent
			}
		}
	}
	if len(s.Roster.Agents) > 0 {
		return s.Roster.Agents[0]
	}
	return ""
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "\n\n")
}

// EventStep returns the input of the function of the rule that handles the turn's event.
func (t *Turn) EventStep() step.Event {
	s := t.thread
	input := step.Event{
		Thread: s.Ref(), TraceID: t.Item.TraceID, EventID: t.Item.ID, Root: t.rootIfOther(), Rule: t.Handling.Rule.Name,
		Timeout: t.Handling.Rule.Timeout, MaxAttempts: t.Handling.Rule.MaxAttempts, Flush: s.Outbox.Flush(),
	}
	if t.Handling.Rule.Agent == nil {
		input.Ends = t.endsWith(nil)
	}
	if t.Background() != "" {
		input.By = t.User
		if t.Origin != nil {
			input.By = cmp.Or(input.By, t.Origin.By)
		}
	}
	return input
}

// FunctionDone continues the turn after the function of a rule. ended reports whether the activity
// stored the end of the turn.
func (t *Turn) FunctionDone(ended bool) {
	t.Handling.Stage, t.EndStored = HandlingDone, ended
	e, _, _ := t.env(t.decision())
	t.startRuleAgent(e)
}

// FunctionFailed ends the turn of an event whose rule function failed. The event can be retried;
// the thread continues with the next one.
func (t *Turn) FunctionFailed(now time.Time, why string) {
	s := t.thread
	t.Handling.Stage = HandlingDone
	if t.Background() != "" {
		t.failItem(now, why)
		return
	}
	s.Log.add(LogError, s.ThreadID, "rule failed", "rule", t.Handling.Rule.Name, "event", t.Item.ID, "error", why)
	t.failItem(now, step.Why(fmt.Sprintf("the function of rule %s failed: %s", t.Handling.Rule.Name, why)))
}

// RuleEvent returns the turn's event for the processor of a rule. Its key differs from that of the
// hooks' event.
func (t *Turn) RuleEvent() HookEvent {
	e := t.event(recordid.Rule(t.TurnID()))
	e.ByRule, e.undecided = true, false
	_, e.Changed, _ = t.env(t.decision())
	return e
}

// ApplyProcessorDecision applies the decision of a rule's processor.
func (t *Turn) ApplyProcessorDecision(now time.Time, d step.HookDecision) {
	t.Handling.Stage = HandlingDone
	d = t.applyDecision(now, t.RuleEvent(), d, nil)
	if d.Outcome == event.OutcomeFailed {
		t.failItem(now, d.Error)
		return
	}
	if d.Outcome == event.OutcomeOverwritten {
		t.Outcome = d.Outcome
	}
}

// decision returns the decision of hooks on the turn's item.
func (t *Turn) decision() step.HookDecision {
	if t.Replaced != nil {
		return step.HookDecision{Outcome: event.OutcomeReplaced, Event: t.Replaced}
	}
	return step.HookDecision{Outcome: event.OutcomePassed}
}

// handlingPending reports whether the function or the processor of a rule has not finished.
func (t *Turn) handlingPending() bool { return t.Handling != nil && t.Handling.Stage != HandlingDone }

// ToolDone publishes the end of a tool call, if an application rule names such events. The tool
// calls of an agent that handles such an event are not published, or they could loop forever.
func (c *Call) ToolDone(now time.Time, rules []rule.Spec) {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	switch t.Item.Type {
	case event.TypeToolExecuted, event.TypeToolError:
		return
	}
	typ := event.TypeToolExecuted
	if c.Failed {
		typ = event.TypeToolError
	}
	e := event.EnvEvent{
		ID: signals.EventID(s.Namespace, s.ThreadID, c.Plan.ID, typ), Type: typ, Timestamp: now.UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: s.ThreadID, TriggerAgentName: r.Agent, Source: event.SourceTool},
		Payload:  rawJSON(map[string]any{"toolCallId": c.Plan.ID, "toolName": c.Plan.Name, "agent": r.Agent, "isError": c.Failed}),
	}
	if spec, ok := rule.Match(rules, e); ok && !spec.Default && named(spec, typ) {
		s.publish(now, e, nil, t.Item.TraceID, t.Item.ID)
	}
}
