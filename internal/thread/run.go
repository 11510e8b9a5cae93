package thread

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// Phase is the next step of a run, or its end.
type Phase string

// The phases of a run.
const (
	PhaseModel Phase = "model"
	// PhaseReply and PhaseCalls: hooks decide on the model's reply, then on its tool calls.
	PhaseReply Phase = "reply"
	PhaseCalls Phase = "calls"
	// PhasePlan: the calls in Plan, which hooks changed or created, are planned.
	PhasePlan  Phase = "plan"
	PhaseTools Phase = "tools"

	// The ends of a run: with a reply of the agent, with an answer of hooks instead, with an error,
	// or by an interrupt.
	PhaseReplied     Phase = "replied"
	PhaseAnswered    Phase = "answered"
	PhaseFailed      Phase = "failed"
	PhaseInterrupted Phase = "interrupted"
)

// AgentRun is the part of one agent in a turn.
type AgentRun struct {
	turn *Turn

	// Agent is the name by which the agent was addressed ("" for the default agent) until its first
	// reply, then its registered name.
	Agent string `json:"agent,omitempty"`
	AgentTerms

	// Slot is the index of the run in the turn.
	Slot  int   `json:"slot,omitempty"`
	Phase Phase `json:"phase"`

	// StartedAt is the time at which the run began, for spans. Zero = unknown.
	StartedAt time.Time `json:"startedAt,omitzero"`

	// User is the person for whom the run's calls are made: the user of the turn when its last reply
	// arrived. Calls that wait keep it when another person's message joins the turn.
	User string `json:"user,omitempty"`

	// Step is the number of model calls so far.
	Step int `json:"step,omitempty"`

	// ReplyTo is the message that the next reply answers. Answers is the agent that wrote it, if
	// any.
	ReplyTo string `json:"replyTo,omitempty"`
	Answers string `json:"answers,omitempty"`

	// Observe is the environment event that the agent handles. Instructions are the rule's
	// additional instructions.
	Observe      *step.Observe `json:"observe,omitempty"`
	Instructions string        `json:"instructions,omitempty"`

	// MessageID is the id of the last reply. Calls are its tool calls, once they may run.
	MessageID string  `json:"messageId,omitempty"`
	Calls     []*Call `json:"calls,omitempty"`

	ModelCall
	UndecidedReply
	HookAnswer
	RunEnd
}

// AgentTerms are the settings of a run's agent, which the thread receives with the first reply.
type AgentTerms struct {
	Model     string          `json:"model,omitempty"`
	MaxSteps  int             `json:"maxSteps,omitempty"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
}

// ModelCall is the state of a run's next model call.
type ModelCall struct {
	// HooksDecided means that hooks have decided on the call. Next is the call as they changed it.
	HooksDecided bool                `json:"hooksDecided,omitempty"`
	Next         *event.LLMCallEvent `json:"next,omitempty"`

	// InFlight means that the model is being called. Late is a message that has joined the turn
	// since, for the next model call or, if there is none, for another run.
	InFlight bool         `json:"inFlight,omitempty"`
	Late     *LateMessage `json:"late,omitempty"`

	// Outage is set while the model is unavailable.
	Outage *event.Retry `json:"outage,omitempty"`
}

// UndecidedReply is a model's reply that hooks are deciding on.
type UndecidedReply struct {
	Reply *step.ModelReply `json:"reply,omitempty"`

	// Gated means that the thread, and not the model's activity, records the end of the run. Quiet
	// means that viewers do not see the reply until hooks have decided.
	Gated bool `json:"gated,omitempty"`
	Quiet bool `json:"quiet,omitempty"`

	// Undecided are the types of the events in the reply that were stored before hooks decide.
	Undecided []string `json:"undecided,omitempty"`

	// Edited means that hooks have changed the tool calls. Plan are the ids of the calls to plan
	// again.
	Edited bool     `json:"edited,omitempty"`
	Plan   []string `json:"plan,omitempty"`
}

// HookAnswer is the state of a run that a hook answers instead of the agent. Its calls still get
// their results.
type HookAnswer struct {
	Answered bool `json:"answered,omitempty"`

	// Deferred are the events to queue when the calls have their results.
	Deferred []Deferred `json:"deferred,omitempty"`

	// Refused is the error of the hooks that failed to decide on a result.
	Refused string `json:"refused,omitempty"`
}

// RunEnd is the end of a run: its final reply, which may be cut off by an interrupt, or its error and
// the class of the failed model call.
type RunEnd struct {
	Final *event.Message `json:"final,omitempty"`
	Error string         `json:"error,omitempty"`
	Class string         `json:"class,omitempty"`
}

// Begin keeps the time at which the run began, if it is not known yet.
func (r *AgentRun) Begin(now time.Time) {
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
}

// Done reports whether the run has ended.
func (r *AgentRun) Done() bool {
	switch r.Phase {
	case PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
		return true
	case PhaseModel, PhaseReply, PhaseCalls, PhasePlan, PhaseTools:
	}
	return false
}

// AtLimit ends a run that has reached its limit of model calls. It reports whether it did.
func (r *AgentRun) AtLimit(now time.Time) bool {
	if r.MaxSteps == 0 || r.Step < r.MaxSteps {
		return false
	}
	text := fmt.Sprintf("Stopped after %d model calls in one turn, the limit of agent %s (limits.maxSteps). Send a message to go on.", r.Step, r.Agent)
	r.turn.notice(now, recordid.StepLimit(r.messageID()), text)
	r.fail(now, text, true)
	return true
}

// step returns the inputs that the run's next step shares with others.
func (r *AgentRun) step(messageID string) step.Run {
	t, s := r.turn, r.turn.thread
	return step.Run{
		Thread: s.Ref(), Agent: r.Agent, TraceID: t.Item.TraceID, EventID: t.Item.ID, Root: t.rootIfOther(), MessageID: messageID,
		Tools: t.Tools, WorkingDirectory: workingDirectory(s.Metadata), Flush: s.Outbox.Flush(),
	}
}

// NextModelStep returns the input of the run's next model call. specs are the registered hooks.
func (r *AgentRun) NextModelStep(specs []hook.Spec) step.Model {
	t, s := r.turn, r.turn.thread
	r.takeMissed()
	input := step.Model{
		Run:       r.step(r.messageID()),
		ReplyTo:   r.ReplyTo,
		Step:      r.Step + 1,
		Agents:    s.Roster.Agents,
		Answers:   r.Answers,
		OpenCalls: r.othersOpenCalls(),
		Pending:   r.pendingCalls(),
	}
	if r.Outage == nil {
		r.turn.thread.Roster.countCall(r.agentOf())
	}
	r.InFlight = true
	input.Gated, input.Quiet, input.Inline, input.Undecided = r.hookRequirements(specs)
	if input.Ends = t.endsWith(r); input.Gated {
		input.Ends = ""
	}
	if input.Joined = t.Steered; input.Ends != "" {
		input.HandledBy, input.Replies = t.handledBy(), t.repliesWith(r)
	}
	r.Gated, r.Quiet, r.Undecided = input.Gated, input.Quiet, input.Undecided
	if o := r.Outage; o != nil {
		input.Outage = &event.Retry{Since: o.Since, Attempts: o.Attempts, Next: o.Next, Failed: o.Failed}
	}
	input.Observe, input.Instructions, input.Parent = r.Observe, r.Instructions, s.ParentLink.Parent
	if r.Next != nil {
		input.Instructions, input.Model = joined(r.Instructions, r.Next.Instructions), r.Next.Model
	}
	return input
}

// Unavailable records that the model of a run is unavailable. Until the next attempt, no activity
// runs: the thread waits on a timer and handles other events.
func (r *AgentRun) Unavailable(o event.Retry) {
	o.Error = step.Why(o.Error)
	for i := range o.Failed {
		o.Failed[i].Error = step.Why(o.Failed[i].Error)
	}
	r.Outage, r.InFlight = &o, false
}

// ByAgent has a value for each agent that has one.
type ByAgent map[string]string

// Set sets the value of an agent. Empty = it has none.
func (m *ByAgent) Set(agent, value string) {
	if value == "" {
		delete(*m, agent)
		return
	}
	if *m == nil {
		*m = ByAgent{}
	}
	(*m)[agent] = value
}

// RetryDue returns how long a run must wait before its next model call.
func (r *AgentRun) RetryDue(now time.Time) time.Duration {
	if r.Outage == nil {
		return 0
	}
	return max(r.Outage.NextAttemptAt.Sub(now), 0)
}

// ApplyModelCallDecision applies the decision of hooks on a model call. It reports whether to make
// the call.
func (r *AgentRun) ApplyModelCallDecision(now time.Time, d step.HookDecision) bool {
	d = r.turn.applyDecision(now, r.ModelCallEvent(), d, nil)
	switch {
	case d.Outcome == event.OutcomeFailed:
		r.fail(now, d.Error, true)
		return false
	case d.Stopped():
		r.Phase = PhaseAnswered
		return false
	}
	r.HooksDecided, r.Next = true, nil
	if next, ok := readEvent(d.Event).(event.LLMCallEvent); ok {
		r.Next = &next
	}
	return true
}

// NextModel returns the model that a run calls next, as far as it is known: the last one of its agent.
func (r *AgentRun) NextModel() string {
	s := r.turn.thread
	return cmp.Or(r.Model, s.Models[cmp.Or(r.Agent, s.Roster.Default)])
}

// messageID returns the id of the run's next reply.
func (r *AgentRun) messageID() string {
	return recordid.Reply(r.turn.TurnID(), r.Slot, r.Step+1)
}

// Replied handles a model's reply. Hooks decide on it before it takes effect.
func (r *AgentRun) Replied(now time.Time, reply step.ModelReply) {
	t, s := r.turn, r.turn.thread
	s.Pace.Took(r.modelKind(reply.Agent), reply.Took)
	s.Models.Set(reply.Agent, reply.Model)
	r.noteAnswered(reply.Message.ReplyToMessageID)
	if r.Agent == "" {
		s.Roster.nameDefaultAgent(reply.Agent)
	}
	r.Agent, r.Model, r.MaxSteps, r.OnWaiting = reply.Agent, reply.Model, s.ParentLink.maxSteps(reply.MaxSteps), reply.OnWaiting
	r.Step++
	r.User = t.User
	r.InFlight, r.Outage = false, nil
	r.MessageID, r.Calls = reply.Message.ID, nil
	r.HooksDecided, r.Next, r.Edited, r.Plan = false, nil, false, nil
	t.EndStored = t.EndStored || reply.EndStored
	s.Usage = s.Usage.Add(oneCall(reply.Usage))
	s.Titling.Enabled = s.Titling.Enabled || reply.Titles
	r.Gated = r.Gated || reply.Gated
	r.Reply, r.Phase = &reply, PhaseReply
	switch {
	case reply.Message.Interrupted:
		r.finish(now, reply.Message)
	case reply.Message.Content != "":
	case len(reply.Calls) > 0:
		// The reply has no text, so hooks decide on the calls only.
		r.Phase = PhaseCalls
	default:
		r.finish(now, reply.Message)
	}
}

// ApplyReplyDecision applies the decision of hooks on the text of a reply. Its tool calls are a
// separate event.
func (r *AgentRun) ApplyReplyDecision(now time.Time, d step.HookDecision) {
	s := r.turn.thread
	seen := r.ReplyEvent()
	d = r.turn.applyDecision(now, seen, d, nil)
	m := r.Reply.Message
	switch {
	case d.Outcome == event.OutcomeFailed:
		r.refuse(now, r.Reply.Calls, "Error: "+d.Error)
		r.fail(now, d.Error, true)
		return
	case d.Stopped():
		r.Answered = true
	case d.Outcome == event.OutcomeReplaced:
		got, _ := readEvent(d.Event).(event.MessageEvent)
		m = step.Carry(seen.replaced(s.ThreadID, got))
	}
	if len(r.Reply.Calls) > 0 {
		r.Phase = PhaseCalls
		return
	}
	r.finish(now, m)
}

// Decided reports whether hooks have already decided on the reply or its tool calls.
func (r *AgentRun) Decided() bool {
	switch r.Phase {
	case PhaseReply:
		return r.Reply.MessageDecision != nil
	case PhaseCalls:
		return r.Reply.CallsDecision != nil
	case PhaseModel, PhasePlan, PhaseTools, PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
	}
	return false
}

// finish ends a run with its last reply.
func (r *AgentRun) finish(now time.Time, m event.Message) {
	t := r.turn
	r.Phase, r.Reply = PhaseReplied, nil
	defer r.answerMissed(now)
	switch {
	case r.Answered:
		r.Phase = PhaseAnswered
		return
	case m.Interrupted:
		r.Phase = PhaseInterrupted
	}
	final := event.Final{Agent: r.Agent}
	if m.Content != "" && !(r.Quiet && m.Interrupted) {
		// Hide what hooks have not passed. A reply without content was not stored.
		m = step.Carry(m)
		m.Held = false
		r.Final, final.MessageID = &m, m.ID
	}
	if r.Gated && !m.Interrupted {
		t.record(now, recordid.Final(r.MessageID), event.TypeFinal, final)
	}
	if r.Final != nil && !t.EndStored {
		r.routeReply(now, m)
	}
}

// ToolsDone continues the run with its next model call when every call has its result, unless hooks
// answered instead.
func (r *AgentRun) ToolsDone(now time.Time) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled {
			return
		}
	}
	r.Calls, r.Reply, r.Phase = nil, nil, PhaseModel
	r.release(now)
	switch {
	case r.Refused != "":
		r.fail(now, r.Refused, true)
	case r.Answered:
		r.Phase = PhaseAnswered
		r.answerMissed(now)
	}
}

// release queues the events that waited for the results of calls.
func (r *AgentRun) release(now time.Time) {
	for _, made := range r.Deferred {
		r.turn.produce(now, made, r.turn.User)
	}
	r.Deferred = nil
}

// StopRun ends an interrupted run. Calls without a result get one.
func (r *AgentRun) StopRun(now time.Time) {
	s := r.turn.thread
	if r.Phase == PhaseReply && (!r.Gated || r.Decided()) {
		// The reply was shown and no hook has to decide on it, so it stands and may be the final
		// reply.
		d := step.HookDecision{Outcome: event.OutcomePassed, Silent: true}
		if r.Decided() {
			d = *r.Reply.MessageDecision
		}
		r.ApplyReplyDecision(now, d)
		if r.Done() {
			return
		}
	}
	for _, c := range r.Calls {
		if c.Stage == CallSettled {
			continue
		}
		if c.Requested != nil && c.Stage == CallWaiting {
			s.Decisions.rememberSettled(c.Plan.ID, "")
			s.ParentLink.tell(s.ThreadID, step.SubAgentDecision{ToolCallID: c.Plan.ID})
		}
		if c.Stage == CallRan {
			if c.Decision != nil {
				c.ApplyResultDecision(now, *c.Decision)
			}
			c.Stage = CallSettled
			continue
		}
		c.settleWithoutRunning(now, c.cutOff())
	}
	if r.hasReply() {
		r.refuse(now, r.open(), step.NotBegunText)
	}
	r.release(now)
	r.Phase, r.Reply, r.Outage = PhaseInterrupted, nil, nil
}

// hasReply reports whether the run has a reply whose tool calls may not run yet.
func (r *AgentRun) hasReply() bool {
	return r.Phase == PhaseReply || r.Phase == PhaseCalls || r.Phase == PhasePlan
}

// open returns the calls of a reply that have not been started yet.
func (r *AgentRun) open() []step.PlannedCall {
	if r.Phase != PhasePlan {
		return r.Reply.Calls
	}
	return slices.DeleteFunc(slices.Clone(r.Reply.Calls), func(p step.PlannedCall) bool { return !slices.Contains(r.Plan, p.ID) })
}

// fail ends a run with an error.
func (r *AgentRun) fail(now time.Time, why string, retryable bool) {
	r.ModelFailed(now, why, "", retryable)
}

// ModelFailed ends a run whose model call failed. class is the class of the failure, if it is known.
func (r *AgentRun) ModelFailed(now time.Time, why, class string, retryable bool) {
	t := r.turn
	why = step.Why(why)
	r.Phase, r.Error, r.Class, r.Reply, r.Outage = PhaseFailed, why, class, nil, nil
	t.record(now, recordid.Error(r.messageID()), event.TypeError,
		event.Failure{Agent: r.Agent, EventID: t.Item.ID, MessageID: r.messageID(), Error: why, Class: class, Retryable: retryable})
}
