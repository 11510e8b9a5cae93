package thread

import (
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Phase is what a run does next.
type Phase string

// The phases of a run.
const (
	PhaseModel Phase = "model"
	// PhaseReply: hooks decide on the model's reply, then on its calls.
	PhaseReply Phase = "reply"
	PhaseCalls Phase = "calls"
	PhaseTools Phase = "tools"
	PhaseDone  Phase = "done"
)

// Run is one agent's part in a turn.
type Run struct {
	turn *Turn

	// Agent is as it was addressed until the first reply, "" for the default agent;
	// then the agent's registered name.
	Agent string `json:"agent,omitempty"`
	AgentTerms

	// Slot is the run's place in the turn.
	Slot  int   `json:"slot,omitempty"`
	Phase Phase `json:"phase"`

	// Step counts the model calls.
	Step int `json:"step,omitempty"`

	// ReplyTo is the message that the next reply answers, Answers the agent that wrote it, if
	// an agent did.
	ReplyTo string `json:"replyTo,omitempty"`
	Answers string `json:"answers,omitempty"`

	// Observe is the environment event that the agent handles, and Instructions are what
	// the rule adds to its own.
	Observe      *Observe `json:"observe,omitempty"`
	Instructions string   `json:"instructions,omitempty"`

	// MessageID is the last reply, Calls are its calls once they may run.
	MessageID string  `json:"messageId,omitempty"`
	Calls     []*Call `json:"calls,omitempty"`

	ModelCall
	UndecidedReply
	HookAnswer
	RunEnd
}

// AgentTerms are what the thread learns of a run's agent with its first reply.
type AgentTerms struct {
	Model     string          `json:"model,omitempty"`
	MaxSteps  int             `json:"maxSteps,omitempty"`
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`
}

// ModelCall is a run's next model call.
type ModelCall struct {
	// Asked says that hooks have decided on it, Next is the call as they changed it.
	Asked bool                `json:"asked,omitempty"`
	Next  *event.LLMCallEvent `json:"next,omitempty"`

	// Calling: the model is being called. Missed is a message that has joined the turn since,
	// for the call after this one, or for a run that follows if there is none.
	Calling bool    `json:"calling,omitempty"`
	Missed  *Missed `json:"missed,omitempty"`

	// Outage is set while the model is unavailable.
	Outage *Outage `json:"outage,omitempty"`
}

// UndecidedReply is a model's reply on which hooks are deciding.
type UndecidedReply struct {
	Reply *ModelReply `json:"reply,omitempty"`

	// Gated says that the thread itself writes what ends the run, Quiet that viewers see
	// nothing of the reply before hooks have decided.
	Gated bool `json:"held,omitempty"`
	Quiet bool `json:"quiet,omitempty"`

	// Undecided are the types of the events in the reply that were stored before hooks decide.
	Undecided []string `json:"undecided,omitempty"`

	// Edited says that hooks have changed the calls, Plan are those to be planned again.
	Edited bool     `json:"edited,omitempty"`
	Plan   []string `json:"plan,omitempty"`
}

// HookAnswer is set when a hook answers instead of the run's agent.
type HookAnswer struct {
	Answered bool `json:"answered,omitempty"`

	// Deferred is queued when the calls have their results.
	Deferred []Deferred `json:"deferred,omitempty"`

	// Refused says why the hooks failed that decided on a result.
	Refused string `json:"refused,omitempty"`
}

// RunEnd is how a run has ended: with a final reply, with an error or interrupted.
type RunEnd struct {
	Final       *event.Message `json:"final,omitempty"`
	Error       string         `json:"error,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
}

// AtLimit ends a run that has made as many model calls as it may. It reports whether
// that is so.
func (r *Run) AtLimit(now time.Time) bool {
	if r.MaxSteps == 0 || r.Step < r.MaxSteps {
		return false
	}
	text := fmt.Sprintf("Stopped after %d model calls in one turn, the limit of agent %s (limits.maxSteps). Send a message to go on.", r.Step, r.Agent)
	r.turn.notice(now, event.StepLimitID(r.messageID()), text)
	r.Fail(now, text, true)
	return true
}

// NextModelStep returns the input of the run's next model call. specs are the hooks that
// there are.
func (r *Run) NextModelStep(specs []hook.Spec) ModelStep {
	t, s := r.turn, r.turn.thread
	r.takeMissed()
	step := ModelStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: t.Item.TraceID, EventID: t.Item.ID,
		Root: t.foreign(), MessageID: r.messageID(), ReplyTo: r.ReplyTo, Step: r.Step + 1, Tools: t.Tools, Agents: s.Agents, Answers: r.Answers,
		WorkingDirectory: s.workingDirectory(), OpenCalls: r.othersOpenCalls(), Pending: r.pendingCalls(), Flush: s.Flush(),
	}
	if r.Outage == nil {
		r.countCall()
	}
	r.Calling = true
	step.Gated, step.Quiet, step.Inline, step.Undecided = r.hookRequirements(specs)
	if step.Ends = t.endsWith(r); step.Gated || step.Ends == "" {
		step.Ends = ""
	} else {
		step.Joined = t.Steered
	}
	r.Gated, r.Quiet, r.Undecided = step.Gated, step.Quiet, step.Undecided
	if o := r.Outage; o != nil {
		step.Outage = &Outage{Since: o.Since, Attempts: o.Attempts}
	}
	step.Observe, step.Instructions, step.Parent = r.Observe, r.Instructions, s.Parent
	if r.Next != nil {
		step.Instructions, step.Model = joined(r.Instructions, r.Next.Instructions), r.Next.Model
	}
	return step
}

// ApplyModelCallDecision goes on with a model call, now that hooks have decided on it. It
// reports whether the call is to be made.
func (r *Run) ApplyModelCallDecision(now time.Time, d Decision) bool {
	d = r.turn.applyDecision(now, r.ModelCallEvent(), d, nil)
	switch {
	case d.Outcome == event.HookFailed:
		r.Fail(now, d.Error, true)
		return false
	case d.stopped():
		r.Phase, r.Answered = PhaseDone, true
		return false
	}
	r.Asked, r.Next = true, nil
	if next, ok := readEvent(d.Event).(event.LLMCallEvent); ok {
		r.Next = &next
	}
	return true
}

// messageID derives the id of the run's next reply.
func (r *Run) messageID() string {
	return event.ReplyID(r.turn.turnID(), r.Slot, r.Step+1)
}

// Replied takes in a model's reply, which hooks see before it has any effect.
func (r *Run) Replied(now time.Time, reply ModelReply) {
	t, s := r.turn, r.turn.thread
	if r.Agent == "" {
		s.Default = reply.Agent
		s.nameDefaultAgent(reply.Agent)
	}
	r.Agent, r.Model, r.MaxSteps, r.OnWaiting = reply.Agent, reply.Model, s.maxSteps(reply.MaxSteps), reply.OnWaiting
	r.Step++
	r.Calling, r.Outage = false, nil
	r.MessageID, r.Calls = reply.Message.ID, nil
	r.Asked, r.Next, r.Edited, r.Plan = false, nil, false, nil
	t.Ended = t.Ended || reply.Ended
	s.Usage = s.Usage.Add(reply.Usage)
	s.Titles = s.Titles || reply.Titles
	r.Interrupted = reply.Message.Interrupted
	r.Gated = r.Gated || reply.Gated
	r.Reply, r.Phase = &reply, PhaseReply
	switch {
	case r.Interrupted:
		r.finish(now, reply.Message)
	case reply.Message.Content != "":
	case len(reply.Calls) > 0:
		// It says nothing: the calls are all there is to see.
		r.Phase = PhaseCalls
	default:
		r.finish(now, reply.Message)
	}
}

// maxSteps is the limit of an agent in this thread: a sub-agent has no more than is left
// to the one that asked it.
func (p *ParentLink) maxSteps(own int) int {
	if p.Parent != nil && p.Parent.MaxSteps > 0 {
		return min(own, p.Parent.MaxSteps)
	}
	return own
}

// ApplyReplyDecision goes on with what a reply says, now that hooks have decided on it. Its
// calls, if it has any, are an event of their own.
func (r *Run) ApplyReplyDecision(now time.Time, d Decision) {
	s := r.turn.thread
	seen := r.ReplyEvent()
	d = r.turn.applyDecision(now, seen, d, nil)
	m := r.Reply.Message
	switch {
	case d.Outcome == event.HookFailed:
		r.refuse(now, r.Reply.Calls, "Error: "+d.Error)
		r.Fail(now, d.Error, true)
		return
	case d.stopped():
		r.Answered = true
	case d.Outcome == event.Replaced:
		got, _ := readEvent(d.Event).(event.MessageEvent)
		m = Carry(s.replaced(seen, got))
	}
	if len(r.Reply.Calls) > 0 {
		r.Phase = PhaseCalls
		return
	}
	r.finish(now, m)
}

// Decided reports whether hooks have decided on what the run has to go on with.
func (r *Run) Decided() bool {
	switch r.Phase {
	case PhaseReply:
		return r.Reply.MessageDecision != nil
	case PhaseCalls:
		return r.Reply.CallsDecision != nil && len(r.Plan) == 0
	case PhaseModel, PhaseTools, PhaseDone:
	}
	return false
}

// finish ends a run with its last reply.
func (r *Run) finish(now time.Time, m event.Message) {
	t := r.turn
	held := r.Gated && !r.Interrupted
	r.Phase, r.Reply = PhaseDone, nil
	defer r.answerMissed(now)
	if r.Answered {
		return
	}
	final := event.Final{Agent: r.Agent}
	if m.Content != "" && !(r.Quiet && r.Interrupted) {
		// What hooks have not let out is for nobody to see. Without content nothing was said, so nothing was stored.
		m = Carry(m)
		m.Held = false
		r.Final, final.MessageID = &m, m.ID
	}
	if held {
		t.record(now, event.FinalID(r.MessageID), event.TypeFinal, final)
	}
	if r.Final != nil && !t.Ended {
		r.routeReply(now, m)
	}
}

// notice tells the people in the thread what the thread itself has done.
func (t *Turn) notice(now time.Time, id string, text string) {
	s := t.thread
	t.record(now, id, event.TypeMessage, event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: "threadmill", SenderType: event.System, Role: event.RoleSystem, Content: text,
	})
}

// ToolStep returns the input of the call's run. specs are the hooks that there are.
func (c *Call) ToolStep(specs []hook.Spec) ToolStep {
	r, t, s := c.run, c.run.turn, c.run.turn.thread
	matching := c.decidingOnResult(specs)
	// Beside others, inline hooks see it in the hook workflow.
	var inline []hook.Spec
	if Only(hook.KindInline, matching) {
		// Otherwise a hook workflow asks them all.
		inline = matching
	}
	c.Undecided = len(matching) > len(inline)
	step := ToolStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: t.Item.TraceID, EventID: t.Item.ID,
		Root: t.foreign(), MessageID: r.MessageID, ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Unfit: c.Plan.Unfit,
		Tools: t.Tools, Edited: r.Edited, WorkingDirectory: s.workingDirectory(), Inline: inline, Undecided: c.Undecided, Flush: s.Flush(),
	}
	c.Begun = true
	if c.DecisionID != "" {
		step.Guard, step.DecisionID = c.Plan.Guard, c.DecisionID
	}
	return step
}

// decidingOnResult are the hooks that decide on a call's result.
func (c *Call) decidingOnResult(specs []hook.Spec) []hook.Spec {
	r, s := c.run, c.run.turn.thread
	return hook.Matching(specs, hook.Subject{
		Namespace: s.Namespace, Type: event.TypeMessage, CreatedBy: event.Tool, Agent: r.Agent, Tools: []string{c.Plan.Name},
	})
}

// CallRan takes in that a call has its result in the store, which hooks see next.
func (c *Call) CallRan(reply ToolReply) {
	c.Stage, c.Decision = Ran, reply.Decision
	c.Failed = reply.Status != "succeeded"
}

// ApplyResultDecision goes on with a call's result, now that hooks have decided on it.
func (c *Call) ApplyResultDecision(now time.Time, d Decision) {
	r := c.run
	seen := c.ResultEvent()
	d = c.run.turn.applyDecision(now, seen, d, &r.Deferred)
	c.Stage, c.Decision = CallSettled, nil
	switch {
	case d.Outcome == event.HookFailed:
		if r.Refused == "" {
			r.Refused = d.Error
		}
	case d.stopped():
		r.Answered = true
	}
}

// CallFailed gives a call whose run was lost for good its result.
func (c *Call) CallFailed(now time.Time, why string) {
	c.Failed = true
	c.settleWithoutRunning(now, "Error: "+why)
}

// Why a call got a result without running.
const (
	DeniedText      = "Tool execution was denied by the user."
	InterruptedText = "Tool execution was interrupted before it finished."
	NotBegunText    = "Tool execution was interrupted before it began: the tool did not run."
)

// settleWithoutRunning gives a call that will not run its result.
func (c *Call) settleWithoutRunning(now time.Time, text string) {
	t, s := c.run.turn, c.run.turn.thread
	c.Stage = CallSettled
	if c.Client != nil {
		// A client's answer comes too late.
		s.Settled = keepLast(append(s.Settled, Settled{ToolCallID: answerKey(c.Plan.ID), Decision: "settled"}), maxDecided)
	}
	t.record(now, event.ResultID(c.Plan.ID), event.TypeMessage, c.result(text, true))
}

// result is the message of a result that the thread itself has for a call.
func (c *Call) result(text string, isError bool) event.Message {
	r, s := c.run, c.run.turn.thread
	return event.Message{
		ID: event.ResultID(c.Plan.ID), ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.Tool, Role: event.RoleTool, Content: text,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: isError, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	}
}

// ToolsDone sends the run back to its model, once every call has its result, unless
// hooks have answered in its place.
func (r *Run) ToolsDone(now time.Time) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled {
			return
		}
	}
	r.Calls, r.Reply, r.Phase = nil, nil, PhaseModel
	r.release(now)
	switch {
	case r.Refused != "":
		r.Fail(now, r.Refused, true)
	case r.Answered:
		r.Phase = PhaseDone
		r.answerMissed(now)
	}
}

// release queues what had to wait for the results of calls.
func (r *Run) release(now time.Time) {
	for _, made := range r.Deferred {
		r.turn.produce(now, made)
	}
	r.Deferred = nil
}

// StopRun ends a run that was interrupted: calls without a result get one.
func (r *Run) StopRun(now time.Time) {
	s := r.turn.thread
	if r.Phase == PhaseReply && (!r.Gated || r.Decided()) {
		// It was said, and no hook has still to see it: it stands, and may be the end.
		d := Decision{Outcome: event.Passed, Silent: true}
		if r.Decided() {
			d = *r.Reply.MessageDecision
		}
		r.ApplyReplyDecision(now, d)
		if r.Phase == PhaseDone {
			return
		}
	}
	for _, c := range r.Calls {
		if c.Stage == CallSettled {
			continue
		}
		if c.Requested != nil && c.Stage == Waiting {
			s.rememberSettled(c.Plan.ID, "")
			s.notifyParentDecided(SubDecided{ToolCallID: c.Plan.ID})
		}
		if c.Stage == Ran {
			if c.Decision != nil {
				c.ApplyResultDecision(now, *c.Decision)
			}
			c.Stage = CallSettled
			continue
		}
		c.settleWithoutRunning(now, c.cutOff())
	}
	if r.Phase == PhaseReply || r.Phase == PhaseCalls {
		r.refuse(now, r.open(), NotBegunText)
	}
	r.release(now)
	r.Phase, r.Interrupted, r.Reply, r.Outage = PhaseDone, true, nil, nil
}

// open are the calls of a reply that are not on their way yet.
func (r *Run) open() []PlannedCall {
	if len(r.Plan) == 0 {
		return r.Reply.Calls
	}
	return slices.DeleteFunc(slices.Clone(r.Reply.Calls), func(p PlannedCall) bool { return !slices.Contains(r.Plan, p.ID) })
}

// Fail ends a run that cannot go on.
func (r *Run) Fail(now time.Time, why string, retryable bool) {
	t := r.turn
	why = Why(why)
	r.Phase, r.Error, r.Reply, r.Outage = PhaseDone, why, nil, nil
	t.record(now, event.ErrorID(r.messageID()), event.TypeError,
		event.Failure{Agent: r.Agent, EventID: t.Item.ID, MessageID: r.messageID(), Error: why, Retryable: retryable})
}
