package thread

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// specs are the hooks that there are at the moment.
func (m *machine) specs() []hook.Spec {
	if !m.hooked {
		return nil
	}
	return [][]hook.Spec{
		nil, watch,
		{{Name: "i", Kind: hook.KindInline}},
		{{Name: "i", Kind: hook.KindInline, HoldOutput: true}},
		{{Name: "h", Kind: hook.KindFunc, HoldOutput: true}},
	}[m.rnd.IntN(5)]
}

// decision draws what hooks make of an event; instead is what they may put in its place.
func (m *machine) decision(instead ...event.Event) step.HookDecision {
	custom := event.CustomEvent{Type: "note.taken", ThreadID: "t1"}
	switch m.rnd.IntN(20) {
	case 0:
		return decides("watch", event.OutcomePassed)
	case 1:
		return refuses("watch", "hook watch failed: no")
	case 2:
		return swallows("watch")
	case 3, 4:
		by := []event.CreatedBy{event.CreatedByUser, event.CreatedByAgent, event.CreatedBySystem}[m.rnd.IntN(3)]
		after := []hook.EnqueueAfter{"", hook.EnqueueImmediately, hook.EnqueueAfterToolResults}
		return responds("watch", hook.Response{Content: "@bob one", SenderType: by, EnqueueAfter: after[m.rnd.IntN(3)]}, hook.Response{Content: "two", EnqueueAfter: after[m.rnd.IntN(3)]})
	case 5:
		priority := m.rnd.IntN(5) - 2
		return produces("watch", hook.Produced{Type: "note.taken", Payload: []byte(`1`), Priority: &priority, TTL: int64(m.rnd.IntN(2) * 3000)},
			hook.NewProduced(event.TypeEntityExtract, 1))
	case 6, 7:
		instead = append(instead, custom)
		return replaces("watch", instead[m.rnd.IntN(len(instead))])
	}
	return pass
}

// hears asks hooks about an event, by a hook workflow or not. It reports false when the
// turn has to stop before they have decided.
func (m *machine) hears(e HookEvent, instead ...event.Event) (step.HookDecision, bool) {
	if !m.hooked {
		return pass, true
	}
	if m.s.Turns.Current.Interrupted != nil {
		return step.HookDecision{}, false
	}
	d, asked := m.s.Turns.Current.HooksPending(e)
	if !asked && m.one(2) {
		return m.decision(instead...), true
	}
	m.s.Turns.Current.HooksStarted(e, watch...)
	if d == nil && m.one(2) {
		require.NoError(m.t, m.s.Turns.HookDecided(step.HookDecided{EventID: e.Key, Decision: m.decision(instead...)}))
		d, _ = m.s.Turns.Current.HooksPending(e)
	}
	if d == nil {
		return step.HookDecision{}, false
	}
	m.s.Turns.Current.HooksFinished(e)
	return *d, true
}

func (m *machine) enter() {
	t := m.s.Turns.Current
	if t == nil || t.Stage != ItemArrived || t.Interrupted != nil {
		return
	}
	d, seen := t.DecidedBefore()
	if !seen {
		var ok bool
		if d, ok = m.hears(m.s.Turns.Current.ItemEvent(), saying(event.CreatedByUser, "ann", "@alice other"), calling("alice", "x1", "x2")); !ok {
			return
		}
	}
	m.s.Turns.Current.Enter(m.now, d, m.rules()...)
	m.adopted()
	if t.Stage == ItemDebounced {
		m.end() // nothing comes between
	}
}

// adopted notes the calls that hooks have put in the place of messages.
func (m *machine) adopted() {
	for _, r := range m.s.Turns.Current.Runs {
		if r.Reply == nil {
			continue
		}
		for _, p := range r.Reply.Calls {
			m.asked[p.ID] = true
		}
	}
}

// steer lets messages join the turn. It reports false when one has to wait for hooks.
func (m *machine) steer() bool {
	for {
		q, ok := m.s.Turns.Current.NextSteered(m.now)
		if !ok {
			return true
		}
		require.True(m.t, m.s.Turns.Awaits(q.Item.ID))
		d, ok := m.hears(m.s.Turns.Current.SteeredEvent(q), saying(event.CreatedByUser, "ann", "other"), calling("bob", "x3"))
		if !ok {
			m.s.Turns.Current.PutBack(m.now, q)
			return false
		}
		m.s.Turns.Current.Join(m.now, q, d)
		m.adopted()
	}
}

func (m *machine) askModelCall(r *AgentRun) bool {
	d, ok := m.hears(r.ModelCallEvent(), event.LLMCallEvent{ThreadID: "t1", AgentName: r.agentOf(), Step: r.Step + 1, Instructions: "Be brief."})
	if d.Outcome == event.OutcomeReplaced {
		if _, ok := readEvent(d.Event).(event.LLMCallEvent); !ok {
			d = pass // a model call can become nothing else
		}
	}
	return ok && r.ApplyModelCallDecision(m.now, d)
}

// inline asks inline hooks about a reply, as the step does that makes it.
func (m *machine) inline(in step.Model, reply *step.ModelReply) {
	if len(in.Inline) == 0 {
		return
	}
	said, asked := pass, pass
	if reply.Message.Content != "" {
		said = m.decision(saying(event.CreatedByAgent, "assistant", "other"))
	}
	if len(reply.Calls) > 0 {
		asked = m.decision(m.someOf(reply.Calls))
	}
	reply.MessageDecision, reply.CallsDecision, reply.Gated = &said, &asked, !said.Silent || !asked.Silent
}

// someOf are calls as hooks may leave them.
func (m *machine) someOf(calls []step.PlannedCall) event.ToolCallEvent {
	kept := []string{}
	for _, p := range calls {
		if m.one(2) {
			kept = append(kept, p.ID)
		}
	}
	return calling("assistant", kept...)
}

func (m *machine) heardReply() {
	r := m.run(PhaseReply)
	if r == nil {
		return
	}
	if r.Decided() {
		r.ApplyReplyDecision(m.now, *r.Reply.MessageDecision)
	} else if !r.Gated {
		r.ApplyReplyDecision(m.now, pass) // there was no hook that might see it
	} else if d, ok := m.hears(r.ReplyEvent(), saying(event.CreatedByAgent, "assistant", "@alice other")); ok {
		r.ApplyReplyDecision(m.now, d)
	}
}

func (m *machine) heardCalls() {
	r := m.run(PhaseCalls)
	if r == nil {
		return
	}
	if r.Decided() {
		r.ApplyCallsDecision(m.now, *r.Reply.CallsDecision)
	} else if d, ok := m.hears(r.CallsEvent(), m.someOf(r.Reply.Calls), saying(event.CreatedBySystem, "watch", "denied")); ok {
		r.ApplyCallsDecision(m.now, d)
	}
	if r.Phase == PhaseTools {
		r.ToolsDone(m.now)
	}
}

func (m *machine) plan() {
	r := m.run(PhasePlan)
	if r == nil {
		return
	}
	in := r.PlanStep()
	require.Equal(m.t, r.Plan, in.Only)
	if m.one(6) {
		r.PlanFailed(m.now, "no such agent", false)
		return
	}
	m.flush(in.Flush)
	reply := step.PlanReply{Agent: in.Agent, MaxSteps: 4}
	for _, id := range in.Only {
		p := runs(id)
		if m.one(2) {
			p = asks(id)
		}
		reply.Calls = append(reply.Calls, p)
	}
	r.Planned(m.now, reply)
}

func (m *machine) heardResult() {
	r, c := m.call(CallRan)
	if r == nil {
		return
	}
	if c.Decision != nil {
		c.ApplyResultDecision(m.now, *c.Decision)
	} else if d, ok := m.hears(c.ResultEvent(), saying(event.CreatedByTool, "note", "[gone]")); ok {
		c.ApplyResultDecision(m.now, d)
	}
	r.ToolsDone(m.now)
}

// some is an event that the thread may know.
func (m *machine) some() string {
	if all := m.s.Inbox.View().Items; len(all) > 0 && m.one(2) {
		return all[m.rnd.IntN(len(all))].ID
	}
	if m.s.Turns.Current != nil && m.one(3) {
		return m.s.Turns.Current.Item.ID
	}
	return fmt.Sprintf("p%d", m.rnd.IntN(m.events()))
}

func (m *machine) setStatus() {
	if !m.one(6) {
		return
	}
	all := []event.ItemStatus{event.ItemPending, event.ItemProcessing, event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten}
	id, st := m.some(), all[m.rnd.IntN(len(all))]
	before := asJSON(m.t, m.s)
	it, interrupt, err := m.s.Inbox.SetStatus(m.now, setTo(id, st))
	if err != nil {
		require.Equal(m.t, before, asJSON(m.t, m.s), "a refusal changes nothing")
		return
	}
	require.Equal(m.t, st, it.Status)
	if interrupt {
		m.s.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt})
	}
}

func (m *machine) cancel() {
	if m.one(3) {
		m.s.Inbox.Cancel(m.now, signals.Control{Action: signals.ControlInterrupt, EventID: m.some()})
	}
}

// stop ends one of several runs of a turn that was interrupted.
func (m *machine) stop() {
	if m.s.Turns.Current == nil || m.s.Turns.Current.Interrupted == nil {
		return
	}
	for _, r := range m.s.Turns.Current.Runs {
		if !r.Done() && m.one(2) {
			r.StopRun(m.now)
		}
	}
}
