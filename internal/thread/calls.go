package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// CallsHeard goes on with the calls of a reply, now that hooks have decided on them:
// they are to run, or have results that say why not. Run.Plan names those that have to be
// planned first.
func (s *State) CallsHeard(now time.Time, r *Run, d Decision) {
	seen := s.SeenCalls(r)
	d = s.heard(now, seen, d, &r.Deferred)
	calls := r.Reply.Calls
	switch {
	case d.Outcome == event.HookFailed:
		s.refuse(now, r, calls, "Error: "+d.Error)
		s.Fail(now, r, d.Error, true)
		return
	case d.stopped():
		text := "Not run: %s answered in place of the tool."
		if d.Outcome == event.Dropped {
			text = "Not run: %s dropped the calls."
		}
		s.answerCalls(now, r, calls, fmt.Sprintf(text, d.By))
		return
	case d.Outcome == event.Replaced:
		got, _ := readEvent(d.Event).(event.ToolCallEvent)
		calls = s.edit(now, r, got, d)
	}
	s.begin(now, r, calls)
}

// by names the hook that changed an event.
func by(d Decision) string {
	for i := len(d.Hooks) - 1; i >= 0; i-- {
		if d.Hooks[i].Outcome == event.Replaced {
			return d.Hooks[i].Name
		}
	}
	return "a hook"
}

// answerCalls ends a run in whose place hooks have answered: its calls have results,
// and never run.
func (s *State) answerCalls(now time.Time, r *Run, calls []PlannedCall, text string) {
	s.refuse(now, r, calls, text)
	r.Answered = true
	s.release(now, r)
	r.Phase, r.Reply = PhaseDone, nil
	s.answerMissed(now, r)
}

// refuse gives calls that never run their results.
func (s *State) refuse(now time.Time, r *Run, calls []PlannedCall, text string) {
	for _, p := range calls {
		s.settleWithout(now, r, &Call{Plan: p}, text)
	}
}

// edit takes out the calls that hooks have taken out, and has those planned anew that
// they have changed.
func (s *State) edit(now time.Time, r *Run, got event.ToolCallEvent, d Decision) []PlannedCall {
	r.Edited = true
	var kept []PlannedCall
	for _, p := range r.Reply.Calls {
		if !slices.ContainsFunc(got.ToolCalls, func(c event.ToolCall) bool { return c.ID == p.ID }) {
			s.settleWithout(now, r, &Call{Plan: p}, fmt.Sprintf("Not run: %s took the call out.", by(d)))
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// begin lets calls run, unless they have to be planned first: when their arguments
// have changed, and when people have yet to be shown what they are asked about.
func (s *State) begin(now time.Time, r *Run, calls []PlannedCall) {
	r.Plan = nil
	if len(calls) > 0 && (r.Edited || r.Held && slices.ContainsFunc(calls, plannedLate)) {
		for _, p := range calls {
			r.Plan = append(r.Plan, p.ID)
		}
		return
	}
	s.planned(now, r, calls)
}

// plannedLate reports whether a call of a reply that hooks have held is planned once they let
// it go: people are asked no sooner, and what no activity of its own looks at again is to
// meet the policy of then.
func plannedLate(p PlannedCall) bool {
	return p.NeedsApproval || p.By == ByAgent || p.By == ByClient
}

// PlanStep is the input of the planning of a run's calls.
func (s *State) PlanStep(r *Run) PlanStep {
	return PlanStep{
		Thread: s.Ref(), Agent: r.Agent, TraceID: s.Turn.Item.TraceID, EventID: s.Turn.Item.ID,
		Root: s.Turn.foreign(), MessageID: r.MessageID, Only: r.Plan, Tools: s.Turn.Tools, WorkingDirectory: s.workingDirectory(), Flush: s.Flush(),
		Pending: s.pendingCalls(r),
	}
}

// Planned takes in the plans of calls that hooks have changed or made.
func (s *State) Planned(now time.Time, r *Run, reply PlanReply) {
	r.Agent, r.Model, r.MaxSteps, r.OnWaiting = reply.Agent, reply.Model, s.maxSteps(reply.MaxSteps), reply.OnWaiting
	s.planned(now, r, reply.Calls)
}

// PlanFailed ends a run whose calls cannot be planned: its agent may be gone.
func (s *State) PlanFailed(now time.Time, r *Run, why string, retryable bool) {
	s.refuse(now, r, r.open(), "Error: "+why)
	s.Fail(now, r, why, retryable)
}

func (s *State) planned(now time.Time, r *Run, calls []PlannedCall) {
	r.Phase, r.Plan, r.Calls, r.Reply = PhaseTools, nil, nil, nil
	for _, p := range calls {
		c := &Call{Plan: p, Stage: Ready}
		s.accept(now, r, c)
		r.Calls = append(r.Calls, c)
	}
	s.catchUp(now)
}

// adopt runs calls that hooks have put in the place of a message, as if the agent had
// asked for them: the agent goes on with their results.
func (s *State) adopt(now time.Time, of string, e event.ToolCallEvent) {
	t := s.Turn
	r := &Run{Agent: e.AgentName, Slot: len(t.Runs), Phase: PhaseCalls, ReplyTo: of}
	r.MessageID = fmt.Sprintf("%s.%d.0", s.turnID(), r.Slot)
	r.Reply = &ModelReply{Agent: e.AgentName, Message: event.Message{ID: r.MessageID}}
	calls := make([]event.ToolCall, len(e.ToolCalls))
	for i, c := range e.ToolCalls {
		// Every provider takes such an id.
		c.ID = "call_" + strings.ToLower(s.newID(now))
		calls[i] = c
		r.Plan = append(r.Plan, c.ID)
		r.Reply.Calls = append(r.Reply.Calls, PlannedCall{ID: c.ID, Name: c.Function.Name})
	}
	s.record(r.MessageID, event.TypeMessage, t.Item.TraceID, t.Item.ID, now, event.Message{
		ID: r.MessageID, ThreadID: s.ThreadID, SenderID: e.AgentName, SenderType: event.Agent, Role: event.RoleAssistant,
		ToolCalls: calls, AgentID: e.AgentName, ReplyToMessageID: of,
	})
	s.record(event.CallsID(r.MessageID), event.TypeToolCall, t.Item.TraceID, t.Item.ID, now,
		event.ToolCallEvent{ThreadID: s.ThreadID, AgentName: e.AgentName, ToolCalls: calls})
	t.Runs = append(t.Runs, r)
}

// turned is what is queued when hooks have put an event of another type in the place
// of one: it is processed as what it has become, by itself. Calls in the place of an item
// are not queued: they run at once.
func (s *State) turned(now time.Time, e Seen, d Decision) (Deferred, bool) {
	made := Deferred{ID: s.newID(now), By: by(d), Parent: e.ID, Hooked: true}
	switch got := readEvent(d.Event).(type) {
	case event.MessageEvent:
		if e.Type == event.TypeMessage {
			return made, false
		}
		got.Message.ThreadID = s.ThreadID
		made.Event.Type, made.Event.Payload = event.TypeMessage, rawJSON(got.Message)
		return made, true
	case event.CustomEvent:
		made.Event.Type, made.Event.Payload = got.Type, got.Payload
		return made, e.Env || got.Type != e.Type
	case event.EnvEvent:
		made.Event.Type, made.Event.Payload, made.Event.Metadata = got.Type, got.Payload, &got.Metadata
		return made, !e.Env
	}
	return made, false
}
