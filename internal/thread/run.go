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
	// Agent is as it was addressed until the first reply, "" for the default agent;
	// then the agent's registered name.
	Agent string `json:"agent,omitempty"`
	Slot  int    `json:"slot,omitempty"`
	Phase Phase  `json:"phase"`

	// Step counts the model calls; MaxSteps is the limit, known from the first reply on.
	Step     int    `json:"step,omitempty"`
	MaxSteps int    `json:"maxSteps,omitempty"`
	Model    string `json:"model,omitempty"`

	// OnWaiting is the agent's, known from the first reply on.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty"`

	// ReplyTo is what the next reply answers; MessageID is the last reply.
	ReplyTo   string  `json:"replyTo,omitempty"`
	MessageID string  `json:"messageId,omitempty"`
	Calls     []*Call `json:"calls,omitempty"`

	// Answers is the agent whose message the next reply answers, if it is one's.
	Answers string `json:"answers,omitempty"`

	// Calling: the model is being asked. Missed is a message that has joined the turn since,
	// for the next model call, or for a run that follows if there is none.
	Calling bool    `json:"calling,omitempty"`
	Missed  *Missed `json:"missed,omitempty"`

	// Outage is set while the model does not answer.
	Outage *Outage `json:"outage,omitempty"`

	// Observe is the environment event that the agent handles, and Instructions are what
	// the rule adds to its own.
	Observe      *Observe `json:"observe,omitempty"`
	Instructions string   `json:"instructions,omitempty"`

	// Reply is the model's, until the hooks have decided on it. Held says that the
	// thread itself writes what ends the run, Edited that hooks have changed its calls.
	Reply *ModelReply `json:"reply,omitempty"`
	Held  bool        `json:"held,omitempty"`
	Quiet bool        `json:"quiet,omitempty"`

	// Undecided are the types of the events in the reply that were stored before hooks decide.
	Undecided []string `json:"undecided,omitempty"`

	Edited bool `json:"edited,omitempty"`

	// Plan are the calls that have to be planned anew, Asked says that hooks have decided
	// on the next model call, Next what they have said about it.
	Plan  []string            `json:"plan,omitempty"`
	Asked bool                `json:"asked,omitempty"`
	Next  *event.LLMCallEvent `json:"next,omitempty"`

	// Answered: a hook answers in place of this agent, with what is Deferred until the
	// calls have their results.
	// Refused says why a result failed.
	Answered bool       `json:"answered,omitempty"`
	Deferred []Deferred `json:"deferred,omitempty"`
	Refused  string     `json:"refused,omitempty"`

	// Final is the reply that ended the run; Error why it failed.
	Final       *event.Message `json:"final,omitempty"`
	Error       string         `json:"error,omitempty"`
	Retryable   bool           `json:"retryable,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
}

// AtLimit ends a run that has made as many model calls as it may. It reports whether
// that is so.
func (s *State) AtLimit(now time.Time, r *Run) bool {
	if r.MaxSteps == 0 || r.Step < r.MaxSteps {
		return false
	}
	text := fmt.Sprintf("Stopped after %d model calls in one turn, the limit of agent %s (limits.maxSteps). Send a message to go on.", r.Step, r.Agent)
	s.notice(now, event.StepLimitID(s.messageID(r)), text)
	s.Fail(now, r, text, true)
	return true
}

// NextModelStep returns the input of the run's next model call. specs are the hooks that
// there are.
func (s *State) NextModelStep(r *Run, specs []hook.Spec) ModelStep {
	r.takeMissed()
	step := ModelStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: s.Turn.Item.TraceID, EventID: s.Turn.Item.ID,
		Root: s.Turn.foreign(), MessageID: s.messageID(r), ReplyTo: r.ReplyTo, Step: r.Step + 1, Tools: s.Turn.Tools, Agents: s.Agents, Answers: r.Answers,
		WorkingDirectory: s.workingDirectory(), OpenCalls: s.openCalls(r), Pending: s.pendingCalls(r), Flush: s.Flush(),
	}
	if r.Outage == nil {
		s.countCall(r)
	}
	r.Calling = true
	step.Hold, step.Quiet, step.Inline, step.Undecided = s.foresee(r, specs)
	if step.Ends = s.endsWith(r); step.Hold || step.Ends == "" {
		step.Ends = ""
	} else {
		step.Joined = s.Turn.Steered
	}
	r.Held, r.Quiet, r.Undecided = step.Hold, step.Quiet, step.Undecided
	if o := r.Outage; o != nil {
		step.Outage = &Outage{Since: o.Since, Attempts: o.Attempts}
	}
	step.Observe, step.Instructions, step.Parent = r.Observe, r.Instructions, s.Parent
	if r.Next != nil {
		step.Instructions, step.Model = joined(r.Instructions, r.Next.Instructions), r.Next.Model
	}
	return step
}

// ModelCallHeard goes on with a model call, now that hooks have decided on it. It
// reports whether the call is to be made.
func (s *State) ModelCallHeard(now time.Time, r *Run, d Decision) bool {
	d = s.heard(now, s.SeenModelCall(r), d, nil)
	switch {
	case d.Outcome == event.HookFailed:
		s.Fail(now, r, d.Error, true)
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
func (s *State) messageID(r *Run) string {
	return event.ReplyID(s.turnID(), r.Slot, r.Step+1)
}

// Replied takes in a model's reply, which hooks see before it has any effect.
func (s *State) Replied(now time.Time, r *Run, reply ModelReply) {
	if r.Agent == "" {
		s.Default = reply.Agent
		s.countAs(reply.Agent)
	}
	r.Agent, r.Model, r.MaxSteps, r.OnWaiting = reply.Agent, reply.Model, s.maxSteps(reply.MaxSteps), reply.OnWaiting
	r.Step++
	r.Calling, r.Outage = false, nil
	r.MessageID, r.Calls = reply.Message.ID, nil
	r.Asked, r.Next, r.Edited, r.Plan = false, nil, false, nil
	s.Turn.Ended = s.Turn.Ended || reply.Ended
	s.Usage = s.Usage.Add(reply.Usage)
	s.Titles = s.Titles || reply.Titles
	r.Interrupted = reply.Message.Interrupted
	r.Held = r.Held || reply.Held
	r.Reply, r.Phase = &reply, PhaseReply
	switch {
	case r.Interrupted:
		s.finish(now, r, reply.Message)
	case reply.Message.Content != "":
	case len(reply.Calls) > 0:
		// It says nothing: the calls are all there is to see.
		r.Phase = PhaseCalls
	default:
		s.finish(now, r, reply.Message)
	}
}

// maxSteps is the limit of an agent in this thread: a sub-agent has no more than is left
// to the one that asked it.
func (s *State) maxSteps(own int) int {
	if s.Parent != nil && s.Parent.MaxSteps > 0 {
		return min(own, s.Parent.MaxSteps)
	}
	return own
}

// ReplyHeard goes on with what a reply says, now that hooks have decided on it. Its
// calls, if it has any, are an event of their own.
func (s *State) ReplyHeard(now time.Time, r *Run, d Decision) {
	seen := s.SeenReply(r)
	d = s.heard(now, seen, d, nil)
	m := r.Reply.Message
	switch {
	case d.Outcome == event.HookFailed:
		s.refuse(now, r, r.Reply.Calls, "Error: "+d.Error)
		s.Fail(now, r, d.Error, true)
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
	s.finish(now, r, m)
}

// Decided reports whether hooks have decided on what the run has to go on with.
func (r *Run) Decided() bool {
	switch r.Phase {
	case PhaseReply:
		return r.Reply.OnMessage != nil
	case PhaseCalls:
		return r.Reply.OnCalls != nil && len(r.Plan) == 0
	case PhaseModel, PhaseTools, PhaseDone:
	}
	return false
}

// finish ends a run with its last reply.
func (s *State) finish(now time.Time, r *Run, m event.Message) {
	held := r.Held && !r.Interrupted
	r.Phase, r.Reply = PhaseDone, nil
	defer s.answerMissed(now, r)
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
		s.record(event.FinalID(r.MessageID), event.TypeFinal, s.Turn.Item.TraceID, s.Turn.Item.ID, now, final)
	}
	if r.Final != nil && !s.Turn.Ended {
		s.handOn(now, r, m)
	}
}

// notice tells the people in the thread what the thread itself has done.
func (s *State) notice(now time.Time, id, text string) {
	s.record(id, event.TypeMessage, s.Turn.Item.TraceID, s.Turn.Item.ID, now, event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: "threadmill", SenderType: event.System, Role: event.RoleSystem, Content: text,
	})
}

// ToolStep returns the input of the call's run. specs are the hooks that there are.
func (s *State) ToolStep(r *Run, c *Call, specs []hook.Spec) ToolStep {
	matching := s.decidingOnResult(r, c, specs)
	// Beside others, inline hooks see it in the hook workflow.
	var inline []hook.Spec
	if Only(hook.KindInline, matching) {
		// Otherwise a hook workflow asks them all.
		inline = matching
	}
	c.Undecided = len(matching) > len(inline)
	step := ToolStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: s.Turn.Item.TraceID, EventID: s.Turn.Item.ID,
		Root: s.Turn.foreign(), MessageID: r.MessageID, ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Unfit: c.Plan.Unfit,
		Tools: s.Turn.Tools, Edited: r.Edited, WorkingDirectory: s.workingDirectory(), Inline: inline, Undecided: c.Undecided, Flush: s.Flush(),
	}
	c.Begun = true
	if c.DecisionID != "" {
		step.Guard, step.DecisionID = c.Plan.Guard, c.DecisionID
	}
	return step
}

// decidingOnResult are the hooks that decide on a call's result.
func (s *State) decidingOnResult(r *Run, c *Call, specs []hook.Spec) []hook.Spec {
	return hook.Matching(specs, hook.Subject{
		Namespace: s.Namespace, Type: event.TypeMessage, CreatedBy: event.Tool, Agent: r.Agent, Tools: []string{c.Plan.Name},
	})
}

// CallRan takes in that a call has its result in the store, which hooks see next.
func (s *State) CallRan(c *Call, reply ToolReply) {
	c.Stage, c.Decision = Ran, reply.Decision
	c.Failed = reply.Status != "succeeded"
}

// ResultHeard goes on with a call's result, now that hooks have decided on it.
func (s *State) ResultHeard(now time.Time, r *Run, c *Call, d Decision) {
	seen := s.SeenResult(r, c)
	d = s.heard(now, seen, d, &r.Deferred)
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
func (s *State) CallFailed(now time.Time, r *Run, c *Call, why string) {
	c.Failed = true
	s.settleWithout(now, r, c, "Error: "+why)
}

// Why a call got a result without running.
const (
	DeniedText      = "Tool execution was denied by the user."
	InterruptedText = "Tool execution was interrupted before it finished."
	NotBegunText    = "Tool execution was interrupted before it began: the tool did not run."
)

// settleWithout gives a call that will not run its result.
func (s *State) settleWithout(now time.Time, r *Run, c *Call, text string) {
	c.Stage = CallSettled
	if c.Client != nil {
		// A client's answer comes too late.
		s.Settled = keepLast(append(s.Settled, Settled{ToolCallID: answerKey(c.Plan.ID), Decision: "settled"}), maxDecided)
	}
	s.record(event.ResultID(c.Plan.ID), event.TypeMessage, s.Turn.Item.TraceID, s.Turn.Item.ID, now, s.result(r, c, text, true))
}

// result is the message of a result that the thread itself has for a call.
func (s *State) result(r *Run, c *Call, text string, isError bool) event.Message {
	return event.Message{
		ID: event.ResultID(c.Plan.ID), ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.Tool, Role: event.RoleTool, Content: text,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: isError, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	}
}

// ToolsDone sends the run back to its model, once every call has its result, unless
// hooks have answered in its place.
func (s *State) ToolsDone(now time.Time, r *Run) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled {
			return
		}
	}
	r.Calls, r.Reply, r.Phase = nil, nil, PhaseModel
	s.release(now, r)
	switch {
	case r.Refused != "":
		s.Fail(now, r, r.Refused, true)
	case r.Answered:
		r.Phase = PhaseDone
		s.answerMissed(now, r)
	}
}

// release queues what had to wait for the results of calls.
func (s *State) release(now time.Time, r *Run) {
	for _, made := range r.Deferred {
		s.produce(now, made)
	}
	r.Deferred = nil
}

// StopRun ends a run that was interrupted: calls without a result get one.
func (s *State) StopRun(now time.Time, r *Run) {
	if r.Phase == PhaseReply && (!r.Held || r.Decided()) {
		// It was said, and no hook has still to see it: it stands, and may be the end.
		d := Decision{Outcome: event.Passed, Silent: true}
		if r.Decided() {
			d = *r.Reply.OnMessage
		}
		s.ReplyHeard(now, r, d)
		if r.Phase == PhaseDone {
			return
		}
	}
	for _, c := range r.Calls {
		if c.Stage == CallSettled {
			continue
		}
		if c.Requested != nil && c.Stage == Waiting {
			s.settled(c.Plan.ID, "")
			s.passUp(SubDecided{ToolCallID: c.Plan.ID})
		}
		if c.Stage == Ran {
			if c.Decision != nil {
				s.ResultHeard(now, r, c, *c.Decision)
			}
			c.Stage = CallSettled
			continue
		}
		s.settleWithout(now, r, c, c.cutOff())
	}
	if r.Phase == PhaseReply || r.Phase == PhaseCalls {
		s.refuse(now, r, r.open(), NotBegunText)
	}
	s.release(now, r)
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
func (s *State) Fail(now time.Time, r *Run, why string, retryable bool) {
	why = Why(why)
	r.Phase, r.Error, r.Retryable, r.Reply, r.Outage = PhaseDone, why, retryable, nil, nil
	s.record(event.ErrorID(s.messageID(r)), event.TypeError, s.Turn.Item.TraceID, s.Turn.Item.ID, now,
		event.Failure{Agent: r.Agent, EventID: s.Turn.Item.ID, MessageID: s.messageID(r), Error: why, Retryable: retryable})
}
