package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Turn is all that follows from one item.
type Turn struct {
	Item      event.Item `json:"item"`
	StartedAt time.Time  `json:"startedAt"`

	// Runs are the agents' parts, in the order in which they were addressed.
	Runs []*Run `json:"runs,omitempty"`

	// Steered are the events that joined the turn.
	Steered []string `json:"steered,omitempty"`

	// Interrupted is set once somebody has asked for the end of the turn; Cut when
	// agents that a reply addresses had no part in the turn for that.
	Interrupted *signals.Control `json:"interrupted,omitempty"`
	Cut         bool             `json:"cut,omitempty"`
}

// Phase is what a run does next.
type Phase string

// The phases of a run.
const (
	PhaseModel Phase = "model"
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

	// ReplyTo is what the next reply answers; MessageID is the last reply.
	ReplyTo   string  `json:"replyTo,omitempty"`
	MessageID string  `json:"messageId,omitempty"`
	Calls     []*Call `json:"calls,omitempty"`

	// Final is the reply that ended the run; Error why it failed.
	Final       *event.Message `json:"final,omitempty"`
	Error       string         `json:"error,omitempty"`
	Retryable   bool           `json:"retryable,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
}

// Call is a tool call on its way to its result.
type Call struct {
	Plan      PlannedCall            `json:"plan"`
	Stage     Stage                  `json:"stage"`
	Requested *event.ApprovalRequest `json:"requested,omitempty"`
}

// Stage is where a call stands.
type Stage string

// The stages of a call.
const (
	// Waiting for a person's decision.
	Waiting Stage = "waiting"
	// Ready to run, or running.
	Ready Stage = "ready"
	// CallSettled: the call has its result.
	CallSettled Stage = "settled"
)

// maxRuns bounds how often one agent can be addressed by others in one turn, so
// that two agents cannot talk for ever.
const maxRuns = 5

// Begin starts the turn of an item: what it says becomes a record, and each agent
// that it addresses gets a run.
func (s *State) Begin(now time.Time, item event.Item) *Turn {
	t := &Turn{Item: item, StartedAt: now}
	s.Turn = t
	if item.Type != event.TypeMessage {
		s.record(item.ID, item.Type, item.TraceID, item.ParentEventID, now, item.Payload)
		return t
	}
	m := s.recordMessage(now, item)
	for i, agent := range Route(s.Agents, m.SenderType, m.SenderID, m.Content) {
		t.Runs = append(t.Runs, &Run{Agent: agent, Slot: i, Phase: PhaseModel, ReplyTo: item.ID})
	}
	return t
}

func (s *State) recordMessage(now time.Time, item event.Item) event.NewMessage {
	var m event.NewMessage
	// The payload was checked when it was posted.
	_ = json.Unmarshal(item.Payload, &m)
	msg := event.Message{
		ID: item.ID, ThreadID: s.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Role: m.SenderType.Role(),
		Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
	}
	if m.SenderType == event.Agent {
		msg.AgentID = m.SenderID
	}
	s.record(item.ID, event.TypeMessage, item.TraceID, item.ParentEventID, now, msg)
	return m
}

// Steer lets the queued messages that ask for it join the turn. It reports whether
// there were any.
func (s *State) Steer(now time.Time) bool {
	s.expire(now)
	before := len(s.Queue)
	kept := s.Queue[:0:0]
	for _, q := range s.Queue {
		if q.OnBusy != signals.Steer || q.Item.Type != event.TypeMessage {
			kept = append(kept, q)
			continue
		}
		q.Item.TraceID = s.Turn.Item.TraceID
		s.recordMessage(now, q.Item)
		s.Turn.Steered = append(s.Turn.Steered, q.Item.ID)
		for _, r := range s.Turn.Runs {
			r.ReplyTo = q.Item.ID
		}
	}
	s.Queue = kept
	return len(kept) < before
}

// NextModelStep returns the input of the run's next model call, or false if the
// run has reached its limit and is over.
func (s *State) NextModelStep(now time.Time, r *Run) (ModelStep, bool) {
	if r.MaxSteps > 0 && r.Step >= r.MaxSteps {
		text := fmt.Sprintf("Stopped after %d model calls in one turn, the limit of agent %s (limits.maxSteps). Send a message to go on.", r.Step, r.Agent)
		s.notice(now, s.messageID(r)+".limit", text)
		s.Fail(now, r, text, true)
		return ModelStep{}, false
	}
	s.Steer(now)
	return ModelStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: s.Turn.Item.TraceID, EventID: s.Turn.Item.ID,
		MessageID: s.messageID(r), ReplyTo: r.ReplyTo, Step: r.Step + 1, Flush: s.Flush(),
	}, true
}

// messageID derives the id of the run's next reply.
func (s *State) messageID(r *Run) string {
	return fmt.Sprintf("%s.%d.%d", s.turnID(), r.Slot, r.Step+1)
}

// Replied takes in a model's reply: the run is done, or has calls to settle.
func (s *State) Replied(now time.Time, r *Run, reply ModelReply) {
	r.Agent, r.Model, r.MaxSteps = reply.Agent, reply.Model, reply.MaxSteps
	r.Step++
	r.MessageID, r.Calls = reply.Message.ID, nil
	s.Usage = s.Usage.Add(reply.Usage)
	r.Interrupted = reply.Message.Interrupted
	if len(reply.Calls) == 0 {
		m := reply.Message
		r.Phase = PhaseDone
		if m.Content == "" {
			// Nothing was said, so nothing was stored.
			return
		}
		r.Final = &m
		s.handOn(now, r, m)
		return
	}
	r.Phase = PhaseTools
	for _, p := range reply.Calls {
		c := &Call{Plan: p, Stage: Ready}
		if p.NeedsApproval {
			c.Stage = Waiting
			c.Requested = &event.ApprovalRequest{
				ToolCallID: p.ID, ToolName: p.Name, Arguments: p.Arguments,
				Agent: r.Agent, Reason: p.Reason, RequestedAt: now,
			}
			c.Plan.Arguments = ""
		}
		r.Calls = append(r.Calls, c)
	}
	s.catchUp(now)
}

// handOn gives the agents that a final reply addresses their runs.
func (s *State) handOn(now time.Time, r *Run, m event.Message) {
	for _, agent := range Route(s.Agents, event.Agent, r.Agent, m.Content) {
		if s.Turn.Interrupted != nil || m.Interrupted {
			s.Turn.Cut = true
			return
		}
		n := 0
		for _, other := range s.Turn.Runs {
			if strings.EqualFold(other.Agent, agent) {
				n++
			}
		}
		if n == maxRuns {
			text := fmt.Sprintf("Agent %s was not asked again: it has been addressed %d times in this turn, the limit. Send a message to go on.", agent, n)
			s.notice(now, fmt.Sprintf("%s.unasked.%s", m.ID, agent), text)
			continue
		}
		s.Turn.Runs = append(s.Turn.Runs, &Run{Agent: agent, Slot: len(s.Turn.Runs), Phase: PhaseModel, ReplyTo: m.ID})
	}
}

// notice tells the people in the thread what the thread itself has done.
func (s *State) notice(now time.Time, id, text string) {
	s.record(id, event.TypeMessage, s.Turn.Item.TraceID, s.Turn.Item.ID, now, event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: "threadmill", SenderType: event.System, Role: event.RoleSystem, Content: text,
	})
}

// ToolStep returns the input of the call's run.
func (s *State) ToolStep(r *Run, c *Call) ToolStep {
	return ToolStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: s.Turn.Item.TraceID, EventID: s.Turn.Item.ID,
		MessageID: r.MessageID, ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, Unfit: c.Plan.Unfit, Flush: s.Flush(),
	}
}

// CallDone takes in that a call has its result in the store.
func (s *State) CallDone(c *Call) { c.Stage = CallSettled }

// CallFailed gives a call whose run was lost for good its result.
func (s *State) CallFailed(now time.Time, r *Run, c *Call, why string) {
	s.settleWithout(now, r, c, "Error: "+why)
}

// Why a call got a result without running.
const (
	DeniedText      = "Tool execution was denied by the user."
	InterruptedText = "Tool execution was interrupted before it finished."
)

// settleWithout gives a call that will not run its result.
func (s *State) settleWithout(now time.Time, r *Run, c *Call, text string) {
	c.Stage = CallSettled
	id := ResultID(c.Plan.ID)
	s.record(id, event.TypeMessage, s.Turn.Item.TraceID, s.Turn.Item.ID, now, event.Message{
		ID: id, ThreadID: s.ThreadID, SenderID: c.Plan.Name, SenderType: event.Tool, Role: event.RoleTool, Content: text,
		ToolCallID: c.Plan.ID, ToolName: c.Plan.Name, IsError: true, AgentID: r.Agent, ReplyToMessageID: r.MessageID,
	})
}

// ResultID is the record id of a tool call's result.
func ResultID(toolCallID string) string { return toolCallID + ".result" }

// ToolsDone sends the run back to its model, once every call has its result.
func (s *State) ToolsDone(r *Run) {
	for _, c := range r.Calls {
		if c.Stage != CallSettled {
			return
		}
	}
	r.Calls, r.Phase = nil, PhaseModel
}

// Interrupt asks for the end of the turn in progress. It reports whether there was
// one that had not been asked to end before.
func (s *State) Interrupt(ctl signals.Control) bool {
	if s.Turn == nil || s.Turn.Interrupted != nil {
		return false
	}
	s.Turn.Interrupted = &ctl
	return true
}

// StopRun ends a run that was interrupted: calls without a result get one.
func (s *State) StopRun(now time.Time, r *Run) {
	for _, c := range r.Calls {
		if c.Stage == CallSettled {
			continue
		}
		if c.Requested != nil && c.Stage == Waiting {
			s.settled(c.Plan.ID, "")
		}
		s.settleWithout(now, r, c, InterruptedText)
	}
	r.Phase, r.Interrupted = PhaseDone, true
}

// Fail ends a run that cannot go on.
func (s *State) Fail(now time.Time, r *Run, why string, retryable bool) {
	r.Phase, r.Error, r.Retryable = PhaseDone, why, retryable
	s.record(s.messageID(r)+".error", event.TypeError, s.Turn.Item.TraceID, s.Turn.Item.ID, now,
		event.Failure{Agent: r.Agent, EventID: s.Turn.Item.ID, Error: why, Retryable: retryable})
}

// End closes the books on the turn: its outcome, the terminal records that no
// activity has written, and, if it failed, the event to be retried.
func (s *State) End(now time.Time) signals.TurnResult {
	t := s.Turn
	out := signals.TurnResult{EventID: t.Item.ID, Status: signals.TurnCompleted}
	if len(t.Runs) == 0 {
		out.Status = signals.TurnUnanswered
	}
	switch cut := t.Cut || slices.ContainsFunc(t.Runs, func(r *Run) bool { return r.Interrupted }); {
	case cut && t.Interrupted == nil:
		// The step heard of it before the thread did.
		t.Interrupted = &signals.Control{Action: signals.ControlInterrupt}
	case !cut:
		// It came when all had been said.
		t.Interrupted = nil
	}
	if t.Interrupted != nil {
		out.Status, out.Error = signals.TurnInterrupted, t.Interrupted.Reason
		s.record(s.turnID()+".interrupted", event.TypeStatus, t.Item.TraceID, t.Item.ID, now,
			event.StatusChange{Status: event.StatusInterrupted, By: t.Interrupted.By, Detail: t.Interrupted.Reason})
	}
	for _, r := range t.Runs {
		if r.Final != nil {
			out.Message = r.Final
		}
		switch {
		case r.Error != "":
			out.Status, out.Error = signals.TurnFailed, r.Error
		case r.Interrupted:
			s.record(fmt.Sprintf("%s.final", s.messageID(r)), event.TypeFinal, t.Item.TraceID, t.Item.ID, now,
				event.Final{Agent: r.Agent, MessageID: r.MessageID})
		}
	}
	if out.Status == signals.TurnFailed {
		it := t.Item
		it.Status, it.Error, it.UpdatedAt = event.Failed, out.Error, now
		s.Failed = keepFailed(append(s.Failed, it))
	}
	s.Turn = nil
	s.catchUp(now)
	s.outcome(out)
	for _, id := range t.Steered {
		joined := out
		joined.EventID = id
		s.outcome(joined)
	}
	return out
}

func (s *State) turnID() string {
	if n := s.Turn.Item.Attempt; n > 0 {
		return fmt.Sprintf("%s~%d", s.Turn.Item.ID, n)
	}
	return s.Turn.Item.ID
}

// Close ends the thread: what still waits is kept as records, unanswered.
func (s *State) Close(now time.Time) {
	for _, it := range s.Ordered() {
		if it.Type == event.TypeMessage {
			s.recordMessage(now, it)
		} else {
			s.record(it.ID, it.Type, it.TraceID, it.ParentEventID, now, it.Payload)
		}
		s.outcome(signals.TurnResult{EventID: it.ID, Status: signals.TurnInterrupted, Error: "the thread was closed before its turn came"})
	}
	s.Queue = nil
	s.record(s.ThreadID+".closed."+s.newID(now), event.TypeStatus, "", "", now,
		event.StatusChange{Status: event.StatusClosed, By: s.Closing.By, Detail: s.Closing.Reason})
	row := Row{}
	if s.Row != nil {
		row = *s.Row
	}
	row.Status = "closed"
	s.Row = &row
}
