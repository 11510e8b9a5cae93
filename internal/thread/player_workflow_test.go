package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// newRun goes on in another run of the workflow.
func (p *player) newRun() {
	for _, f := range p.flights {
		require.Contains(p.t, []string{"hook"}, f.kind, "a run waits for its steps before it ends")
		if f.ahead != nil {
			f.ahead.ReportRequested(f.seen)
			continue
		}
		p.s.Turns.Current.ReportRequested(f.seen)
		if f.queued != nil {
			p.s.Turns.Current.PutBack(p.now, *f.queued)
		}
	}
	for _, id := range p.s.Children.ReportsToRequest() {
		p.s.Children.MarkReportRequested(id)
	}
	p.flights = nil
	p.s = copied(p.t, p.s)
}

// start begins something that ends by a command.
func (p *player) start(f *flight, format string, args ...any) {
	p.show()
	p.flights = append(p.flights, f)
	p.say("> "+format, args...)
}

func (p *player) flying(match func(*flight) bool) bool { return slices.ContainsFunc(p.flights, match) }

// land ends the first flight of a kind that has this key or, without a key, any.
func (p *player) land(kind, key string) *flight {
	i := slices.IndexFunc(p.flights, func(f *flight) bool {
		return f.kind == kind && (key == "" || f.key == key || f.run != nil && strings.EqualFold(f.run.Agent, key))
	})
	require.GreaterOrEqual(p.t, i, 0, "no %s %s is in flight", kind, key)
	f := p.flights[i]
	p.flights = slices.Delete(p.flights, i, i+1)
	p.s.Outbox.Flushed(f.flush)
	return f
}

// reply ends what is in flight.
func (p *player) reply(c command) bool {
	s, now := p.s, p.now
	interrupted := s.Turns.Current != nil && s.Turns.Current.Interrupted != nil
	switch c.verb {
	case "reply":
		f := p.land("model", strings.TrimSuffix(c.id, "-"))
		f.run.Replied(now, p.modelReply(c, f))
	case "model-fails":
		f := p.land("model", "")
		if interrupted {
			f.run.StopRun(now)
			return true
		}
		f.run.fail(now, c.text, c.id != "for-good")
	case "model-out":
		f := p.land("model", "")
		f.run.Unavailable(read(c, event.Retry{Since: now, Attempts: 1, Error: c.id + " " + c.text, NextAttemptAt: now.Add(time.Minute)}))
	case "ran":
		f := p.land("tool", c.id)
		reply := read(c, step.ToolReply{ToolCallID: c.id, Status: "succeeded"})
		if reply.Approval != nil {
			f.call.RequestAgain(now, *reply.Approval)
			return true
		}
		if reply.Input != nil {
			f.call.AskInput(now, *reply.Input)
			return true
		}
		f.call.CallRan(reply)
	case "tool-fails":
		f := p.land("tool", c.id)
		f.call.CallFailed(now, c.text)
		f.call.ToolDone(now, p.rules)
	case "hook":
		p.land("hook", c.opts["on"]).decided(p.decision(c))
	case "planned":
		f := p.land("plan", "")
		reply := step.PlanReply{Agent: f.run.Agent, MaxSteps: f.run.MaxSteps}
		for _, id := range f.only {
			reply.Calls = append(reply.Calls, step.PlannedCall{ID: id, Name: "note"})
		}
		f.planned(read(c, reply))
	case "plan-fails":
		f := p.land("plan", "")
		f.run.PlanFailed(now, c.text, c.id != "for-good")
	case "checked":
		p.land("check", c.id).checked(read(c, step.CheckReply{Guard: &step.Guard{Digest: "checked"}}))
	case "function":
		p.land("function", "")
		if c.id == "fails" {
			s.Turns.Current.FunctionFailed(now, c.text)
			return true
		}
		s.Turns.Current.FunctionDone(c.text == "and ended")
	case "loaded":
		s.Inbox.Loaded(p.land("load", "").key, read(c, step.LoadReply{}))
	case "not-loaded":
		s.NotLoaded(now, p.land("load", "").key, c.id+" "+c.text)
	case "title":
		p.land("title", "")
		p.say("= titled: %v", s.ApplyTitle(read(c, step.TitleReply{Title: strings.TrimSpace(c.id + " " + c.text)})))
	default:
		return false
	}
	return true
}

// modelReply is "reply alice calls=c1:note,c2:rm! text": a call with "!" waits for approval, and
// has what "plan" of the JSON says.
func (p *player) modelReply(c command, f *flight) step.ModelReply {
	agent := f.run.Agent
	if agent == "" {
		agent = "assistant"
	}
	var extra struct {
		Plan json.RawMessage
	}
	_ = json.Unmarshal(c.raw, &extra)
	reply := step.ModelReply{
		Agent: agent, Model: "demo/demo", MaxSteps: 9, Usage: event.Usage{InputTokens: 1},
		Message: event.Message{ID: f.key, ThreadID: "t1", SenderID: agent, SenderType: event.CreatedByAgent, AgentID: agent, Content: c.text},
	}
	for call := range strings.SplitSeq(c.opts["calls"], ",") {
		id, name, ok := strings.Cut(call, ":")
		if !ok {
			continue
		}
		plan := step.PlannedCall{ID: id, Name: strings.TrimSuffix(name, "!")}
		if plan.NeedsApproval = plan.Name != name; plan.NeedsApproval {
			plan.Arguments, plan.Guard = `{"path":"a"}`, &step.Guard{Digest: "digest of " + id}
		}
		if len(extra.Plan) > 0 {
			require.NoError(p.t, json.Unmarshal(extra.Plan, &plan))
		}
		reply.Calls = append(reply.Calls, plan)
	}
	delete(c.opts, "calls")
	reply = read(c, reply)
	reply.EndStored = f.only[0] != "" && len(reply.Calls) == 0 && !f.run.Gated && len(addressing.Answering(p.s.Roster.Agents, reply.Message)) == 0
	return reply
}

// decision is what hooks have decided: "pass", "fail why", "respond text", "drop", "replace" and
// "produce" with the event as JSON, or a whole decision as JSON.
func (p *player) decision(c command) step.HookDecision {
	by := "guard"
	d := step.HookDecision{Outcome: event.OutcomePassed, By: by}
	outcome := func(out event.Outcome, each event.Outcome) {
		d.Outcome, d.Hooks = out, []event.HookOutcome{{Name: by, Outcome: each}}
	}
	word := c.id
	if c.verb == "hook-decided" {
		word, c.text, _ = strings.Cut(c.text, " ")
	}
	switch word {
	case "pass":
		outcome(event.OutcomePassed, event.OutcomePassed)
		d.By = ""
	case "silent":
		return passing
	case "fail":
		outcome(event.OutcomeFailed, event.OutcomeFailed)
		d.Error = c.text
	case "respond":
		outcome(event.OutcomeResponded, event.OutcomeResponded)
		d.Responses = []hook.Response{read(c, hook.Response{Content: c.text})}
	case "drop":
		outcome(event.OutcomeDropped, event.OutcomeDropped)
	case "swallow":
		outcome(event.OutcomePassed, event.OutcomePassed)
		d.NoDefault = true
	case "replace":
		outcome(event.OutcomeReplaced, event.OutcomeReplaced)
		d.By, d.Event = "", c.raw
	case "produce":
		outcome(event.OutcomeOverwritten, event.OutcomeOverwritten)
		d.Produced = []hook.Produced{read(c, hook.NewProduced(c.text, 1))}
	case "many":
		outcome(event.OutcomeOverwritten, event.OutcomeOverwritten)
		n, err := strconv.Atoi(c.text)
		require.NoError(p.t, err)
		d.Produced = slices.Repeat([]hook.Produced{hook.NewProduced("note.taken", 1)}, n)
	default:
		p.t.Fatalf("no such decision: %s", word)
	}
	return d
}

// passing is the decision where no hook has a say.
var passing = step.HookDecision{Outcome: event.OutcomePassed, Silent: true, Unmatched: true}

// intercept lets hooks decide on an event. It reports whether something has happened.
func (p *player) intercept(e HookEvent, by *step.HookDecision, q *Queued, then func(step.HookDecision)) bool {
	if p.flying(func(f *flight) bool { return f.kind == "hook" && f.key == e.Key }) {
		return false
	}
	matching := e.Processing(hook.Matching(p.specs, e.Subject(p.s.Namespace)))
	d, asked := p.s.Turns.Current.HooksPending(e)
	switch {
	case by != nil:
		then(*by)
	case asked && d == nil:
		return false
	case asked:
		p.s.Turns.Current.HooksFinished(e)
		then(*d)
	case len(matching) == 0:
		then(passing)
	default:
		p.ask(e, matching, q, then)
	}
	return true
}

func (p *player) ask(e HookEvent, specs []hook.Spec, q *Queued, then func(step.HookDecision)) {
	input := p.s.Turns.Current.HookStep(e, specs)
	p.s.Turns.Current.HooksStarted(e, specs...)
	p.start(&flight{kind: "hook", key: e.Key, seen: e, flush: input.Flush, queued: q, decided: func(d step.HookDecision) {
		p.s.Turns.Current.HooksFinished(e)
		then(d)
	}}, "hooks %s on %s %s", Names(specs), e.Key, short(input, "thread", "traceId", "hooks", "flush", "eventId"))
}

// affect lets a message affect the turns in progress once hooks have passed it.
func (p *player) affect(q Queued) {
	if len(p.s.Ahead(q, p.specs)) == 0 {
		p.takeEffect(q)
		return
	}
	p.s.BeginAhead(p.now, q)
}

func (p *player) takeEffect(q Queued) {
	if ctl, ok := InterruptBy(q); ok {
		p.control(ctl, false)
	}
	p.s.Supersede(p.now, q)
}

// decideAhead does the next thing for a message that hooks decide on ahead of its turn.
func (p *player) decideAhead(t *Turn) bool {
	e := t.ItemEvent()
	decided := func(d step.HookDecision) {
		t.HooksFinished(e)
		if q, effective := t.DecidedAhead(p.now, d); effective {
			p.takeEffect(q)
		}
	}
	d, asked := t.HooksPending(e)
	switch {
	case !t.IsQueued():
		p.say("> cancel hooks on %s", e.Key)
		p.flights = slices.DeleteFunc(p.flights, func(f *flight) bool { return f.ahead == t })
		t.GiveUpAhead()
	case d != nil:
		decided(*d)
	case asked:
		return false
	default:
		specs := p.s.Ahead(t.Queued, p.specs)
		input := t.HookStep(e, specs)
		t.HooksStarted(e, specs...)
		p.start(&flight{kind: "hook", key: e.Key, seen: e, flush: input.Flush, ahead: t, decided: decided},
			"hooks %s on %s ahead %s", Names(specs), e.Key, short(input, "thread", "traceId", "hooks", "flush", "eventId"))
	}
	return true
}

// advance does the next thing that the workflow does by itself. It reports whether there was any.
func (p *player) advance() bool {
	s, now := p.s, p.now
	if s.Overdue(len(p.flights), false) || s.Outbox.Heavy() {
		f := s.Outbox.Flush()
		p.show()
		p.say("> store %s", strings.Join(recordIDs(f.Records), " "))
		s.Outbox.Flushed(f)
		return true
	}
	if q, ok := s.Superseding(); ok {
		p.affect(q)
		return true
	}
	for _, t := range s.Turns.Deciding {
		if p.decideAhead(t) {
			return true
		}
	}
	switch d, a := s.NextEarly(now); {
	case d != nil:
		p.take(true, *d)
		return true
	case a != nil:
		p.takeInput(true, *a)
		return true
	}
	if d, ok := s.Decisions.NextToCheck(); ok && !p.flying(func(f *flight) bool { return f.kind == "check" }) {
		p.start(&flight{kind: "check", key: d.ToolCallID, checked: func(reply step.CheckReply) { s.ApplyChecked(now, reply) }}, "check %s", d.ToolCallID)
		return true
	}
	if t := s.Turns.Cascading(); t != nil && !p.flying(func(f *flight) bool { return f.kind == "plan" }) {
		r := t.NextCascade()
		if r == nil {
			t.Cascaded()
			return true
		}
		input := r.CascadeStep()
		p.start(&flight{kind: "plan", run: r, flush: input.Flush, only: input.Only, planned: func(reply step.PlanReply) {
			t.Cascaded()
			r.Cover(p.now, reply)
		}}, "plan %s", short(input, stepNoise...))
		return true
	}
	for len(s.ParentLink.Notices) > 0 {
		p.say("> tell the parent %s", short(s.ParentLink.Notices[0]))
		s.ParentLink.NoticeSent()
	}
	if s.TitleDue() && !p.flying(func(f *flight) bool { return f.kind == "title" }) {
		p.start(&flight{kind: "title"}, "title %s", short(s.TitleStep(), "thread", "flush"))
		return true
	}
	return p.live()
}

func (p *player) live() bool {
	s, now := p.s, p.now
	if s.Closing != nil && s.Turns.Current == nil && !s.Turns.Unpark() {
		s.Lifecycle(now, event.TypeSessionDeleted, "", p.rules)
		for _, task := range s.CloseTasks(now) {
			p.say("> stop task %s", task.ID)
		}
		s.Close(now)
		p.over = true
		return true
	}
	switch s.NextAction(now) {
	case ActionPark:
		return s.Park()
	case ActionUnpark:
		return s.Turns.Unpark()
	case ActionRunTurn:
		return p.turn()
	case ActionLoad:
		if p.flying(func(f *flight) bool { return f.kind == "load" }) {
			return false
		}
		input, _ := s.NextStored(now)
		p.start(&flight{kind: "load", key: input.EventID}, "load %s", input.EventID)
		return true
	case ActionBegin:
		p.show()
		s.BeginNext(now)
		p.say("= begin %s", s.Turns.Current.Item.ID)
		return true
	case ActionStore, ActionNone:
	}
	p.show()
	return false
}

func (p *player) turn() bool {
	s := p.s
	t := s.Turns.Current
	if t.Stage == ItemArrived && t.Interrupted == nil {
		var rules []rule.Spec
		if t.IsEnv() {
			rules = p.rules
		}
		enter := func(d step.HookDecision) { s.Turns.Current.Enter(p.now, d, rules...) }
		if d, seen := t.DecidedBefore(); seen {
			enter(d)
			return true
		}
		return p.intercept(s.Turns.Current.ItemEvent(), nil, nil, enter)
	}
	if t.handlingPending() && t.Interrupted == nil {
		return p.handle(t.Handling)
	}
	for _, r := range t.Runs {
		if p.run(r) {
			return true
		}
	}
	if p.flying(func(f *flight) bool { return f.kind != "title" && f.kind != "check" }) ||
		slices.ContainsFunc(t.Runs, func(r *AgentRun) bool { return !r.Done() }) {
		return false
	}
	for _, id := range s.Turns.Current.StopSubAgents(p.now) {
		p.say("> stop sub-agent %s", id)
	}
	p.show()
	out := s.Turns.Current.End(p.now)
	p.show()
	p.say("= turn %s", told(out))
	return true
}

// told is how a turn has ended, in short.
func told(out signals.TurnResult) string {
	line := fmt.Sprintf("%s %s", out.EventID, out.Status)
	for _, m := range out.AllReplies() {
		line += fmt.Sprintf(" | %s: %s", m.SenderID, m.Content)
	}
	if out.Error != "" {
		line += " | error: " + out.Error
	}
	return line
}

func (p *player) handle(h *Handling) bool {
	s := p.s
	if p.flying(func(*flight) bool { return true }) {
		return false
	}
	if h.Stage == HandlingFunction {
		input := s.Turns.Current.EventStep()
		p.start(&flight{kind: "function", flush: input.Flush}, "function %s", short(input, stepNoise...))
		return true
	}
	e := s.Turns.Current.RuleEvent()
	heard := func(d step.HookDecision) { s.Turns.Current.ApplyProcessorDecision(p.now, d) }
	for _, spec := range p.specs {
		if spec.Kind == hook.KindProcessor && spec.Name == h.Rule.Processor {
			p.ask(e, []hook.Spec{spec}, nil, heard)
			return true
		}
	}
	heard(step.HookDecision{Outcome: event.OutcomeFailed, By: h.Rule.Name, Error: "no such processor"})
	return true
}

var stepNoise = []string{"thread", "traceId", "flush", "messageId", "version"}

func (p *player) run(r *AgentRun) bool {
	s, now := p.s, p.now
	busy := p.flying(func(f *flight) bool { return f.run == r })
	switch {
	case r.Done():
		return false
	case s.Turns.Current.Interrupted != nil:
		if !busy {
			r.StopRun(now)
		}
		return !busy
	case s.CanPark():
		return false
	case r.Phase == PhaseTools:
		return p.tools(r)
	case busy:
		return false
	case r.Phase == PhaseModel:
		return p.model(r)
	case r.Phase == PhaseReply:
		return p.intercept(r.ReplyEvent(), r.Reply.MessageDecision, nil, func(d step.HookDecision) { r.ApplyReplyDecision(p.now, d) })
	case r.Phase == PhasePlan:
		input := r.PlanStep()
		p.start(&flight{kind: "plan", run: r, flush: input.Flush, only: input.Only, planned: func(reply step.PlanReply) {
			r.Planned(p.now, reply)
		}}, "plan %s", short(input, stepNoise...))
		return true
	}
	return p.intercept(r.CallsEvent(), r.Reply.CallsDecision, nil, func(d step.HookDecision) { r.ApplyCallsDecision(p.now, d) })
}

func (p *player) model(r *AgentRun) bool {
	s, now := p.s, p.now
	if due := r.RetryDue(now); due > 0 && !s.HasSteered() {
		return false
	}
	if r.AtLimit(now) {
		return true
	}
	if p.flying(func(f *flight) bool { return f.queued != nil }) {
		return false
	}
	p.show()
	if q, ok := s.Turns.Current.NextSteered(now); ok {
		p.say("= %s joins", q.Item.ID)
		var by *step.HookDecision
		if d, ok := q.DecidedBefore(); ok {
			by = &d
		}
		return p.intercept(s.Turns.Current.SteeredEvent(q), by, &q, func(d step.HookDecision) { s.Turns.Current.Join(p.now, q, d) })
	}
	if !r.HooksDecided {
		if e := r.ModelCallEvent(); len(hook.Matching(p.specs, e.Subject(s.Namespace))) > 0 || s.Turns.Current.find(e.Key) != nil {
			return p.intercept(e, nil, nil, func(d step.HookDecision) { r.ApplyModelCallDecision(p.now, d) })
		}
		if !r.ApplyModelCallDecision(now, passing) {
			return true
		}
	}
	input := r.NextModelStep(p.specs)
	p.start(&flight{kind: "model", key: input.MessageID, run: r, flush: input.Flush, only: []string{input.Ends}},
		"model %s %s", input.MessageID, short(input, append(stepNoise, "agents", "inline")...))
	return true
}

func (p *player) tools(r *AgentRun) bool {
	s, now := p.s, p.now
	for _, c := range r.Calls {
		if p.flying(func(f *flight) bool { return f.call == c }) {
			continue
		}
		switch c.Stage {
		case CallReady:
			p.execute(r, c)
			return true
		case CallDelegated:
			if reply, gone, ok := s.Children.End(c.SubAgent); ok {
				switch {
				case reply == nil:
					c.SubAgentLost(now, gone)
				case reply.Cancelled:
					c.SubAgentLost(now, "it was cancelled")
				case reply.Status == "":
					c.SubAgentLost(now, reply.Error)
				default:
					c.SubAgentReplied(now, *reply)
				}
				return true
			}
		case CallRan:
			if p.intercept(c.ResultEvent(), c.Decision, nil, func(d step.HookDecision) {
				c.ApplyResultDecision(p.now, d)
				c.ToolDone(p.now, p.rules)
			}) {
				return true
			}
		case CallWaiting, CallAtClient, CallSettled:
		}
	}
	if slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.Stage != CallSettled }) {
		return false
	}
	r.ToolsDone(now)
	return true
}

func (p *player) execute(r *AgentRun, c *Call) {
	s, now := p.s, p.now
	if c.Guarded() && c.Plan.Guard.Digest != "looked at" {
		input := c.GuardStep()
		p.start(&flight{kind: "plan", run: r, call: c, flush: input.Flush, only: input.Only, planned: func(reply step.PlanReply) {
			plan := c.Plan
			plan.Lapsed, plan.Denied, plan.NeedsApproval = reply.Calls[0].Lapsed, reply.Calls[0].Denied, reply.Calls[0].NeedsApproval
			plan.Guard = &step.Guard{Digest: "looked at"}
			c.Guard(p.now, plan)
		}}, "plan %s", short(input, stepNoise...))
		return
	}
	refuse := func(why string) bool {
		if why != "" {
			c.Refused(now, why)
		}
		return why != ""
	}
	broken := p.broken
	switch {
	case c.Plan.By == step.ByTask && refuse(s.Tasks.CheckLimit()), c.Plan.SubAgent != nil && refuse(s.Turns.Current.CheckDelegate()):
	case c.Plan.By == step.ByTask:
		var input step.Task
		if c.Plan.SubAgent != nil {
			var start step.Delegate
			input, start = c.DelegateTask(now)
			p.say("> sub-agent %s", short(start))
		} else {
			input = c.StartTask(now)
		}
		p.say("> task %s", short(input, stepNoise...))
		if p.broken = ""; broken != "" {
			c.TaskNotStarted(now, input.Task, broken)
			s.ForgetSubAgent(now, input.Task.ThreadID)
			return
		}
		c.TaskStarted(now, input.Task)
	case c.Plan.By == step.ByAgent:
		id, start := c.Delegate(p.specs...)
		p.say("> sub-agent %s %s", id, short(start))
		if p.broken = ""; broken != "" {
			c.SubAgentLost(now, broken)
		}
	case c.Plan.By == step.ByThread:
		if stop := c.Answer(now, p.specs...); stop != nil {
			p.say("> stop task %s", stop.ID)
		}
	case c.Plan.By == step.ByClient:
		c.AskClient(now)
	default:
		input := c.ToolStep(p.specs)
		p.start(&flight{kind: "tool", key: c.Plan.ID, run: r, call: c, flush: input.Flush}, "tool %s %s", c.Plan.ID, short(input, append(stepNoise, "toolCallId")...))
	}
}
