package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
)

// ApplyCallsDecision applies the decision of hooks on the tool calls of a reply: the calls run, or
// get results that say why they do not. Run.Plan names the calls that must be planned first.
func (r *AgentRun) ApplyCallsDecision(now time.Time, d step.HookDecision) {
	seen := r.CallsEvent()
	d = r.turn.applyDecision(now, seen, d, &r.Deferred)
	calls := r.Reply.Calls
	switch {
	case d.Outcome == event.OutcomeFailed:
		r.refuse(now, calls, "Error: "+d.Error)
		r.Fail(now, d.Error, true)
		return
	case d.Stopped():
		text := "Not run: %s answered in place of the tool."
		if d.Outcome == event.OutcomeDropped {
			text = "Not run: %s dropped the calls."
		}
		r.answerCalls(now, calls, fmt.Sprintf(text, d.By))
		return
	case d.Outcome == event.OutcomeReplaced:
		got, _ := readEvent(d.Event).(event.ToolCallEvent)
		calls = r.edit(now, got, d)
	}
	r.begin(now, calls)
}

// by returns the name of the hook that changed an event.
func by(d step.HookDecision) string {
	for i := len(d.Hooks) - 1; i >= 0; i-- {
		if d.Hooks[i].Outcome == event.OutcomeReplaced {
			return d.Hooks[i].Name
		}
	}
	return "a hook"
}

// answerCalls ends a run whose calls hooks answered instead: the calls get results and never run.
func (r *AgentRun) answerCalls(now time.Time, calls []step.PlannedCall, text string) {
	r.refuse(now, calls, text)
	r.release(now)
	r.Phase, r.Reply = PhaseAnswered, nil
	r.answerMissed(now)
}

// refuse sets the results of calls that never run.
func (r *AgentRun) refuse(now time.Time, calls []step.PlannedCall, text string) {
	for _, p := range calls {
		(&Call{run: r, Plan: p}).settleWithoutRunning(now, text)
	}
}

// edit removes the calls that hooks removed, and marks the calls that they changed for planning. It
// returns the remaining calls.
func (r *AgentRun) edit(now time.Time, got event.ToolCallEvent, d step.HookDecision) []step.PlannedCall {
	r.Edited = true
	var kept []step.PlannedCall
	for _, p := range r.Reply.Calls {
		if !slices.ContainsFunc(got.ToolCalls, func(c event.ToolCall) bool { return c.ID == p.ID }) {
			(&Call{run: r, Plan: p}).settleWithoutRunning(now, "Not run: "+whyRemoved(got, d, p.ID))
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// whyRemoved returns the reason for which hooks removed a call.
func whyRemoved(got event.ToolCallEvent, d step.HookDecision, id string) string {
	if i := slices.IndexFunc(got.Refused, func(r event.Refusal) bool { return r.ID == id }); i >= 0 {
		return got.Refused[i].Reason
	}
	return by(d) + " took the call out."
}

// begin starts calls. It marks them for planning first if hooks changed their arguments or if their
// approval requests have not been recorded yet.
func (r *AgentRun) begin(now time.Time, calls []step.PlannedCall) {
	if len(calls) > 0 && (r.Edited || r.Gated && slices.ContainsFunc(calls, plannedLate)) {
		r.Phase = PhasePlan
		for _, p := range calls {
			r.Plan = append(r.Plan, p.ID)
		}
		return
	}
	r.planned(now, calls)
}

// plannedLate reports whether a call of a gated reply is planned after hooks have passed it: its
// approval must not be requested earlier, and calls that no activity checks again must be checked
// against the current policy.
func plannedLate(p step.PlannedCall) bool {
	return p.NeedsApproval || p.By == step.ByAgent || p.By == step.ByClient
}

// PlanStep returns the input of the planning of the run's calls.
func (r *AgentRun) PlanStep() step.Plan {
	return step.Plan{Run: r.step(r.MessageID), Only: r.Plan, Pending: r.pendingCalls()}
}

// Planned applies the plans of calls that hooks changed or created.
func (r *AgentRun) Planned(now time.Time, reply step.PlanReply) {
	s := r.turn.thread
	r.Agent, r.Model, r.MaxSteps, r.OnWaiting = reply.Agent, reply.Model, s.ParentLink.maxSteps(reply.MaxSteps), reply.OnWaiting
	r.planned(now, reply.Calls)
}

// PlanFailed ends a run whose calls cannot be planned, for example because its agent was removed.
func (r *AgentRun) PlanFailed(now time.Time, why string, retryable bool) {
	r.refuse(now, r.open(), "Error: "+why)
	r.Fail(now, why, retryable)
}

func (r *AgentRun) planned(now time.Time, calls []step.PlannedCall) {
	s := r.turn.thread
	r.Phase, r.Plan, r.Calls, r.Reply = PhaseTools, nil, nil, nil
	for _, p := range calls {
		c := &Call{run: r, Plan: p, Stage: CallReady}
		c.accept(now)
		r.Calls = append(r.Calls, c)
	}
	s.applyEarly(now)
}

// adopt starts a run for the tool calls with which hooks replaced a message. The agent continues
// with their results as if it had made the calls.
func (t *Turn) adopt(now time.Time, of string, e event.ToolCallEvent) {
	s := t.thread
	r := t.addRun(&AgentRun{Agent: e.AgentName, Phase: PhasePlan, ReplyTo: of})
	r.MessageID = fmt.Sprintf("%s.%d.0", t.TurnID(), r.Slot)
	r.Reply = &step.ModelReply{Agent: e.AgentName, Message: event.Message{ID: r.MessageID}}
	calls := make([]event.ToolCall, len(e.ToolCalls))
	for i, c := range e.ToolCalls {
		// All providers accept such an id.
		c.ID = "call_" + strings.ToLower(s.derivedID(r.MessageID, i))
		calls[i] = c
		r.Plan = append(r.Plan, c.ID)
		r.Reply.Calls = append(r.Reply.Calls, step.PlannedCall{ID: c.ID, Name: c.Function.Name})
	}
	t.record(now, r.MessageID, event.TypeMessage, event.Message{
		ID: r.MessageID, ThreadID: s.ThreadID, SenderID: e.AgentName, SenderType: event.CreatedByAgent, Role: event.RoleAssistant,
		ToolCalls: calls, AgentID: e.AgentName, ReplyToMessageID: of,
	})
	t.record(now, recordid.Calls(r.MessageID), event.TypeToolCall,
		event.ToolCallEvent{ThreadID: s.ThreadID, AgentName: e.AgentName, ToolCalls: calls})
}

// asOtherType returns the event to queue when hooks replaced an event by one of another type. It is
// processed separately. Tool calls that replace an item are not queued: they run immediately.
func (t *Turn) asOtherType(e HookEvent, d step.HookDecision) (Deferred, bool) {
	s := t.thread
	made := Deferred{ID: s.derivedID(e.decision()+".instead", 0), By: by(d), Parent: e.ID, Hooked: true}
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
