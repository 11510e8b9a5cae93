package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// Handling is what a rule does with the turn's item, an environment event.
type Handling struct {
	Rule  rule.Spec     `json:"rule"`
	Stage HandlingStage `json:"stage"`

	// Replaced says that hooks have changed the item.
	Replaced bool `json:"replaced,omitempty"`
}

// HandlingStage is where a handling stands. What comes after it is an agent's run, or
// nothing.
type HandlingStage string

// The stages of a handling.
const (
	// ByFunction: the rule's function has to run.
	ByFunction HandlingStage = "function"
	// ByProcessor: the rule's processor has to decide.
	ByProcessor HandlingStage = "processor"
	// Handled: there is no more to do before the agent's run.
	Handled HandlingStage = "handled"
)

// Released says that a rule has held an event back until its time came.
type Released struct {
	// Count is how many others were held back before it, since Since.
	Count int       `json:"count"`
	Since time.Time `json:"since"`

	// IDs are the last of them.
	IDs []string `json:"ids,omitempty"`
}

// LogLevel is how much a [LogLine] matters.
type LogLevel string

// The levels.
const (
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogLine is something that the worker's log is to tell of.
type LogLine struct {
	Level LogLevel
	Text  string
	Args  []any
}

// TakeLog returns what the log is to be told, once.
func (s *State) TakeLog() []LogLine {
	lines := s.log
	s.log = nil
	return lines
}

func (s *State) logLine(level LogLevel, text string, args ...any) {
	s.log = append(s.log, LogLine{level, text, append([]any{"thread", s.ThreadID}, args...)})
}

// envItem gives a post that is an environment event what it may leave out.
func (s *State) envItem(now time.Time, p signals.Post) signals.Post {
	if p.Timestamp == 0 {
		p.Timestamp = now.UnixMilli()
	}
	var m event.EnvMetadata
	if len(p.Metadata) > 0 {
		// It was checked before.
		_ = json.Unmarshal(p.Metadata, &m)
	}
	m.TriggerSessionID = s.ThreadID
	p.Metadata = rawJSON(m)
	return p
}

// publish queues an environment event that the thread itself has made. It is never
// refused: what it tells of has happened. brief is its payload as the queue keeps it, if
// all of it is too much; nil, if it never is.
func (in *Inbox) publish(now time.Time, e event.EnvEvent, brief json.RawMessage, traceID, parent string) {
	s := in.thread
	if in.WasPosted(e.ID) {
		return
	}
	e.Metadata.TriggerSessionID = s.ThreadID
	in.rememberPosted(e.ID)
	q := Queued{Item: event.Item{
		ID: e.ID, ThreadID: s.ThreadID, Type: e.Type, Payload: e.Payload, Timestamp: e.Timestamp, Metadata: rawJSON(e.Metadata),
		Status: event.Pending, TraceID: traceID, ParentEventID: parent, Namespace: s.Namespace, CreatedAt: now, UpdatedAt: now,
	}}
	if brief != nil && (len(e.Payload) > MaxCarriedContent || in.queued()+q.bytes() > maxQueueBytes) {
		// Nobody can be told to wait until there is room in the queue: the record has the
		// payload, and the queue what rules go by.
		in.recordItem(now, q)
		q.Recorded, q.Item.Payload = true, brief
	}
	in.Queue = append(in.Queue, q)
}

// Lifecycle tells of a change of the thread itself: created, updated, deleted. The status
// record of the change, which gives the event its id, is all there is of it, but for a rule of the application's own
// that handles such events.
func (s *State) Lifecycle(now time.Time, typ, recordID string, rules []rule.Spec) {
	e := event.EnvEvent{
		ID: signals.EventID(s.Namespace, s.ThreadID, typ, recordID, ""), Type: typ, Timestamp: now.UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: s.ThreadID, Source: event.SourceSystem},
		Payload:  rawJSON(map[string]any{"sessionId": s.ThreadID, "title": s.Title, "agents": s.Agents}),
	}
	spec, ok := rule.Match(rules, e)
	switch {
	case !ok:
	case spec.Default || !named(spec, typ) || s.Closing != nil:
		if spec.Log {
			s.logEvent(e)
		}
	default:
		s.publish(now, e, nil, e.ID, "")
	}
}

// named reports whether a rule names a type, alone or with others of its kind: a rule for
// all types does not ask to be woken for each tool call.
func named(spec rule.Spec, typ string) bool {
	kind, _, _ := strings.Cut(typ, ".")
	return slices.Contains(spec.Events, typ) || slices.Contains(spec.Events, kind+".*")
}

func (s *State) logEvent(e event.EnvEvent) {
	s.logLine(LogInfo, "environment event "+e.Type, "event", e.ID, "source", string(e.Metadata.Source))
}

// env is the turn's item as an environment event, as hooks have left it.
func (t *Turn) env(d Decision) (e event.EnvEvent, replaced, ok bool) {
	e, ok = t.Item.Env()
	if !ok {
		return e, false, false
	}
	if d.Outcome == event.Replaced {
		if got, is := readEvent(d.Event).(event.EnvEvent); is {
			return got, true, true
		}
	}
	return e, false, true
}

// IsEnv reports whether the turn's item is an environment event: rules say what becomes
// of it.
func (t *Turn) IsEnv() bool { return len(t.Item.Metadata) > 0 }

// applyRule lets the rule that matches an environment event begin to handle it.
func (t *Turn) applyRule(now time.Time, d Decision, rules []rule.Spec) {
	s := t.thread
	e, replaced, _ := t.env(d)
	spec, ok := t.ruleFor(e, rules)
	if !ok {
		s.logLine(LogWarn, "No rule matched for event: "+e.Type, "event", e.ID)
		t.record(now, event.UnmatchedID(t.turnID()), event.TypeStatus,
			event.StatusChange{Status: event.StatusUnmatched, Detail: "No rule matched for event: " + e.Type})
		return
	}
	// What is retried by hand is wanted now.
	t.Rule = spec.Name
	if t.Released == nil && t.Item.Attempt == 0 && t.debounce(now, spec) {
		t.Stage = ItemDebounced
		return
	}
	if spec.Log {
		s.logEvent(e)
	}
	t.Handling = &Handling{Rule: spec, Stage: Handled, Replaced: replaced}
	switch {
	case spec.Function:
		t.Handling.Stage = ByFunction
	case spec.Processor != "":
		t.Handling.Stage = ByProcessor
	case spec.Message:
		t.queueUserQuery(now, e)
	default:
		t.startRuleAgent(e)
	}
}

// ruleFor is the rule that handles an event: the same again when it was held back, or is
// retried. All of the event may not be at hand any more by then.
func (t *Turn) ruleFor(e event.EnvEvent, rules []rule.Spec) (rule.Spec, bool) {
	for _, spec := range rules {
		if t.Rule != "" && spec.Name == t.Rule {
			return spec, true
		}
	}
	return rule.Match(rules, e)
}

// queueUserQuery makes a message of a user_query, which is answered like any other.
func (t *Turn) queueUserQuery(now time.Time, e event.EnvEvent) {
	s := t.thread
	q, err := e.Query()
	if err != nil {
		t.failItem(now, err.Error())
		return
	}
	// Hooks see the message as any other.
	id := event.QueryMessageID(e.ID)
	t.produce(now, Deferred{ID: id, By: t.Handling.Rule.Name, Parent: e.ID, Event: hook.NewProduced(event.TypeMessage, event.NewMessage{
		ThreadID: s.ThreadID, SenderID: q.UserID, SenderType: event.User, Content: q.Content,
	})})
	for i := range s.Queue {
		if s.Queue[i].Item.ID == id {
			s.Queue[i].Agents = t.Agents
		}
	}
}

// startRuleAgent gives the agent of the rule its run, if it has one.
func (t *Turn) startRuleAgent(e event.EnvEvent) {
	s := t.thread
	handler := t.Handling.Rule.Agent
	if handler == nil {
		return
	}
	if !ofAgents(e) {
		s.resetTurnLimit(event.Tool)
	}
	r := t.addRun(&Run{
		Agent: t.handlerOf(handler, e), Phase: PhaseModel, ReplyTo: event.ObservedID(t.Item.ID),
		Instructions: joined(handler.SystemPrompt, handler.Prompt),
		Observe:      &Observe{EventID: t.Item.ID, Type: e.Type, Query: "Process event: " + e.Type, Replaced: t.Handling.Replaced},
	})
	if was := t.Released; was != nil && was.Count > 0 {
		r.Observe.Held, r.Observe.Since, r.Observe.HeldIDs = was.Count, &was.Since, was.IDs
	}
}

// ofAgents reports whether an agent has brought an event about, with a tool or a task: then
// it is not the world that speaks, and agents might go on for ever.
func ofAgents(e event.EnvEvent) bool {
	return e.Metadata.Source == event.SourceTool || e.Metadata.Source == event.SourceLLM
}

// handlerOf is the agent that handles an event.
func (t *Turn) handlerOf(a *rule.Agent, e event.EnvEvent) string {
	s := t.thread
	if len(t.Agents) > 0 {
		return t.Agents[0]
	}
	if a.Name != "" {
		return a.Name
	}
	for _, name := range []string{e.Metadata.TriggerAgentName, e.Metadata.TriggerAgentID} {
		for _, agent := range s.Agents {
			if name != "" && strings.EqualFold(agent, name) {
				return agent
			}
		}
	}
	if len(s.Agents) > 0 {
		return s.Agents[0]
	}
	return ""
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "\n\n")
}

// EventStep is the input of the function of the rule that handles the turn's event.
func (t *Turn) EventStep() EventStep {
	s := t.thread
	step := EventStep{
		Thread: s.Ref(), TraceID: t.Item.TraceID, EventID: t.Item.ID, Root: t.foreign(), Rule: t.Handling.Rule.Name,
		Timeout: t.Handling.Rule.Timeout, MaxAttempts: t.Handling.Rule.MaxAttempts, Flush: s.Flush(),
	}
	if t.Handling.Rule.Agent == nil {
		step.Ends = t.endsWith(nil)
	}
	return step
}

// FunctionDone goes on after the function of a rule. Ended says that this was announced as
// the end of the turn.
func (t *Turn) FunctionDone(ended bool) {
	t.Handling.Stage, t.Ended = Handled, ended
	e, _, _ := t.env(t.decision())
	t.startRuleAgent(e)
}

// FunctionFailed ends the turn of an event that a rule's function has failed to handle. It
// can be retried; the thread goes on with the events behind it.
func (t *Turn) FunctionFailed(now time.Time, why string) {
	s := t.thread
	t.Handling.Stage = Handled
	s.logLine(LogError, "rule failed", "rule", t.Handling.Rule.Name, "event", t.Item.ID, "error", why)
	t.failItem(now, Why(fmt.Sprintf("the function of rule %s failed: %s", t.Handling.Rule.Name, why)))
}

// RuleEvent is the turn's event as the processor of a rule sees it. It is another
// question than that of the hooks before it.
func (t *Turn) RuleEvent() HookEvent {
	s := t.thread
	e := s.itemEvent(t.Item, event.RuleID(t.turnID()))
	e.ByRule, e.undecided = true, false
	_, e.Changed, _ = t.env(t.decision())
	return e
}

// ApplyProcessorDecision goes on after the processor of a rule.
func (t *Turn) ApplyProcessorDecision(now time.Time, d Decision) {
	t.Handling.Stage = Handled
	d = t.applyDecision(now, t.RuleEvent(), d, nil)
	if d.Outcome == event.HookFailed {
		t.failItem(now, d.Error)
		return
	}
	if d.Outcome == event.Produced {
		t.Outcome = d.Outcome
	}
}

// decision is what hooks have put in the place of the turn's item, if anything.
func (t *Turn) decision() Decision {
	if t.Replaced != nil {
		return Decision{Outcome: event.Replaced, Event: t.Replaced}
	}
	return Decision{Outcome: event.Passed}
}

// Unhandled reports whether the function or the processor of a rule has still to act.
func (t *Turn) Unhandled() bool { return t.Handling != nil && t.Handling.Stage != Handled }

// ToolDone publishes how a tool call has ended, if a rule of the application's own handles
// that. The agent that made the call has the result anyway. What a handler's own tools do
// is not told in turn: that might go on for ever.
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
