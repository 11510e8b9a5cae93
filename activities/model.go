package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

// callModel makes one model call of a turn: it stores the workflow's records, loads the context,
// streams the reply to viewers, stores the reply and its records, and returns it with a plan for
// each tool call.
func (a *Activities) callModel(ctx context.Context, in step.Model) (step.ModelReply, error) {
	return runStep(ctx, a, in.Thread, in.Local, in.MessageID, func(ctx context.Context) (step.ModelReply, error) { return a.oneModelCall(ctx, in) })
}

func (a *Activities) oneModelCall(ctx context.Context, in step.Model) (step.ModelReply, error) {
	call := &modelCall{a: a, in: in, arrived: time.Now(), attempt: attemptsBefore(in) + int(activity.GetInfo(ctx).Attempt)}
	var waited error
	call.sent, waited = call.awaitTurn(ctx)
	defer call.sent()
	if waited != nil && !errors.Is(waited, errInterrupted) {
		return step.ModelReply{}, waited
	}
	head, err := a.arrive(ctx, in)
	if err != nil {
		return step.ModelReply{}, err
	}
	who, err := a.agentAt(ctx, in.Thread, in.Agent, head)
	if err != nil {
		return step.ModelReply{}, agentError(err)
	}
	who = allowed(who, in.Tools)
	if in.Model != "" {
		who.Model = in.Model
	}
	if in.Instructions != "" {
		who.Instructions = strings.TrimSpace(who.Instructions + "\n\n" + in.Instructions)
	}
	call.agent, call.head, call.replaced = who, head.Head, head.Replaced
	call.agent.Limits = who.Limits.WithDefaults()
	call.planner, call.plans = a.planner(ctx, in.Thread, who, in.WorkingDirectory), map[event.ToolCall]step.PlannedCall{}
	call.planner.pending = in.Pending
	call.parent = a.parentViewersOf(ctx, in)
	if reply, ok, err := call.stored(ctx, head); ok || err != nil {
		return reply, err
	}
	call.choose()
	if in.Shown {
		call.attempt = max(call.attempt, a.attemptsShown(ctx, in.Thread, in.MessageID)+1)
	}
	if route := a.route(ctx, call.agent.Model); route != nil {
		return step.ModelReply{Route: route}, nil
	}
	provider, model, err := a.cfg.provider(call.agent.Model)
	if err != nil {
		return step.ModelReply{}, configError(fmt.Errorf("agent %q: %w", who.Name, err))
	}
	defer call.share.free()
	for {
		req, err := llm.Request{}, waited
		if err == nil {
			req, err = call.request(ctx, model)
		}
		switch {
		case errors.Is(err, errInterrupted):
			return call.keep(ctx, llm.Response{}, true)
		case err != nil:
			return step.ModelReply{}, err
		}
		call.sent()
		if reply, err := call.generate(ctx, provider, req); !errors.Is(err, errTooLong) {
			return reply, err
		}
	}
}

// modelCall is one model call.
type modelCall struct {
	a       *Activities
	in      step.Model
	agent   agent.Agent
	head    int64
	attempt int
	arrived time.Time

	// replaced is [store.Appended].Replaced when the call began.
	replaced int64

	started time.Time
	context []llm.Message
	share   share

	// sent gives the place of the call back: see awaitTurn.
	sent func()

	// shortened bounds the conversation after a request that did not fit; 0 = none did not.
	shortened int

	// opaque are the opaque parts of the run's earlier replies, by their ids.
	opaque map[string]*event.Opaque

	// saw is what the model sees, and common what this call has in common with others.
	saw    *event.ModelContext
	common llm.Request

	// found are the passages for the run's question, and searched reports whether this call has found them.
	found    *event.Retrieval
	searched bool

	// thought and text are what viewers have received. begun reports whether they have received
	// anything.
	thought, text strings.Builder
	begun         bool

	// choices are the models that may make the call, and failed those that have failed or are
	// skipped.
	choices choices
	failed  []event.FailedModel

	// planner plans the calls of the reply, and plans are those that it has made.
	planner *planner
	plans   map[event.ToolCall]step.PlannedCall

	// parent shows the reply to viewers of the parent thread, for a sub-agent.
	parent *parentViewers
}

// choose chooses the model of the call.
func (c *modelCall) choose() {
	next := ""
	if c.in.Outage != nil {
		next, c.failed = c.in.Outage.Next, c.in.Outage.Failed
	}
	c.choices = c.a.choose(c.agent.Model, next, c.in.Route)
	c.agent.Model = c.choices.model()
	c.failed = failures(c.failed, c.choices.skipped...)
}

// stored returns the reply if it is already stored: an earlier attempt made this call, and its
// result was lost. It also reads what the run's earlier calls left for this one.
func (c *modelCall) stored(ctx context.Context, arrived store.Appended) (step.ModelReply, bool, error) {
	ids := append(c.earlier(), c.ids()...)
	if c.retrieves() {
		ids = append(ids, recordid.Retrieval(c.in.MessageID))
	}
	// The event of a turn is its first record.
	found, err := c.a.recent.RecordsByID(ctx, c.a.cfg.Store, c.in.Thread, arrived, c.eventID(), ids...)
	if err != nil {
		return step.ModelReply{}, false, readError(err)
	}
	var records []event.Record
	c.opaque = map[string]*event.Opaque{}
	for _, r := range found {
		if slices.Contains(c.ids(), r.ID) {
			records = append(records, r)
			continue
		}
		if c.readRetrieval(r) {
			continue
		}
		var earlier event.LLMCall
		if json.Unmarshal(r.Payload, &earlier) == nil && earlier.Opaque != nil {
			c.opaque[earlier.MessageID] = earlier.Opaque
		}
	}
	if len(records) == 0 {
		return step.ModelReply{}, false, nil
	}
	reply, err := c.reply(ctx, records)
	if err == nil {
		err = c.storeMissingRequests(ctx, records, reply)
	}
	c.a.publish(ctx, c.in.Thread, stream.Entry{Stored: c.head})
	return reply, true, err
}

// ids returns the ids of the records that identify a reply.
func (c *modelCall) ids() []string {
	ids := []string{c.in.MessageID, c.llmCallID()}
	if c.in.Ends != "" {
		ids = append(ids, c.in.Ends)
	}
	return ids
}

// earlier returns the ids of the records of the run's earlier model calls.
func (c *modelCall) earlier() (ids []string) {
	run := c.in.MessageID[:strings.LastIndex(c.in.MessageID, ".")+1]
	for n := 1; n < c.in.Step; n++ {
		ids = append(ids, recordid.LLMCall(run+strconv.Itoa(n)))
	}
	return ids
}

// storeMissingRequests stores the missing approval requests of calls: when the reply was generated, an
// approval covered them that is no longer valid.
func (c *modelCall) storeMissingRequests(ctx context.Context, records []event.Record, reply step.ModelReply) error {
	var batch store.Batch
	for _, p := range reply.Calls {
		if !p.NeedsApproval || c.in.Gated || reply.Gated {
			continue
		}
		for _, r := range records {
			var m event.Message
			if r.ID != c.in.MessageID || json.Unmarshal(r.Payload, &m) != nil {
				continue
			}
			for _, call := range m.ToolCalls {
				if call.ID == p.ID {
					batch.Records = append(batch.Records, request(call, p, c.agent.Name, c.in.MessageID, c.in.TraceID, c.in.EventID, time.Now()).In(c.eventID()))
				}
			}
		}
	}
	if len(batch.Records) == 0 {
		return nil
	}
	_, err := c.a.append(ctx, c.in.Thread, batch, step.Flush{})
	return err
}

// reply builds the activity's result from the records of the reply. An empty reply has no message
// among them.
func (c *modelCall) reply(ctx context.Context, records []event.Record) (step.ModelReply, error) {
	out := step.ModelReply{Agent: c.agent.Name, Model: c.agent.Model, MaxSteps: c.agent.Limits.MaxSteps, OnWaiting: c.agent.OnWaiting, Titles: c.a.cfg.TitleModel != ""}
	out.Message = event.Message{ID: c.in.MessageID, ThreadID: c.in.Thread.ThreadID}
	rejected := 0
	for _, r := range records { // that of the model call precedes the message
		switch r.Type {
		case event.TypeMessage:
			if r.ID != c.in.MessageID {
				continue // the result of a rejected call
			}
			var m event.Message
			if err := json.Unmarshal(r.Payload, &m); err != nil {
				return out, configError(fmt.Errorf("reading stored message %s: %w", r.ID, err))
			}
			var size argumentBytes
			for _, call := range m.ToolCalls[:max(0, len(m.ToolCalls)-rejected)] {
				out.Calls = append(out.Calls, size.bound(c.plan(ctx, call), call))
			}
			out.Message = c.carry(m)
			c.decide(&out, m)
		case event.TypeLLMCall:
			var call event.LLMCall
			if err := json.Unmarshal(r.Payload, &call); err != nil {
				return out, configError(fmt.Errorf("reading stored record %s: %w", r.ID, err))
			}
			out.Usage, out.Model, rejected = call.Usage, call.Model, call.RejectedCalls
		case event.TypeTurnEnded:
			out.EndStored = true
		}
	}
	return out, nil
}

// decide runs inline hooks on the reply. The thread records their changes.
func (c *modelCall) decide(out *step.ModelReply, m event.Message) {
	if len(c.in.Inline) == 0 {
		return
	}
	out.MessageDecision, out.CallsDecision = c.inline(m)
	out.Gated = !out.MessageDecision.Silent || !out.CallsDecision.Silent
}

func (c *modelCall) inline(m event.Message) (onMessage, onCalls *step.HookDecision) {
	about := hook.Subject{Namespace: c.in.Thread.Namespace, Type: event.TypeMessage, CreatedBy: event.CreatedByAgent, Agent: c.agent.Name}
	info := hook.Context{
		Namespace: c.in.Thread.Namespace, ThreadID: c.in.Thread.ThreadID, EventID: c.in.MessageID, TraceID: c.in.TraceID,
		ParentEventID: c.in.EventID, Agent: c.agent.Name,
	}
	said := step.HookDecision{Outcome: event.OutcomePassed, Silent: true}
	asked := said
	if m.Content != "" {
		said = step.Inline(c.a.cfg.Hooks, hook.Matching(c.in.Inline, about), info, step.MessageEvent(m))
	}
	if len(m.ToolCalls) > 0 {
		about.Type, info.EventID = event.TypeToolCall, recordid.Calls(c.in.MessageID)
		for _, call := range m.ToolCalls {
			about.Tools = append(about.Tools, call.Function.Name)
		}
		asked = step.Inline(c.a.cfg.Hooks, hook.Matching(c.in.Inline, about), info,
			event.ToolCallEvent{ThreadID: c.in.Thread.ThreadID, AgentName: c.agent.Name, ToolCalls: m.ToolCalls})
	}
	return &said, &asked
}

// carry returns the message for the workflow.
func (c *modelCall) carry(m event.Message) event.Message {
	m.Usage = event.Usage{} // the reply has it
	if !c.in.Gated && !c.in.Quiet {
		m.DurationMS = 0 // no decision repeats the message
	}
	if c.in.Quiet {
		return step.CarryWhole(m)
	}
	return step.Carry(m)
}

func (c *modelCall) llmCallID() string { return recordid.LLMCall(c.in.MessageID) }

// request returns the request to the model: the agent's instructions, the thread's newest messages
// and all of the turn with the changes of hooks, and the agent's tools.
func (c *modelCall) request(ctx context.Context, model string) (llm.Request, error) {
	at := event.ModelContext{Head: c.head, Limit: c.agent.Limits.ContextMessages, Turn: c.eventID(), Bytes: c.windowBytes(), Result: c.resultBytes()}
	if c.in.Observe == nil {
		// The event of a retry may have been stored long ago.
		at.Question = c.in.ReplyTo
	}
	defer beating(ctx)()
	messages, err := c.transcript(ctx, modelcontext.Window(at))
	if err != nil {
		return llm.Request{}, err
	}
	if err := c.retrieve(ctx, messages); err != nil {
		return llm.Request{}, err
	}
	c.context = prepare(c.agent, c.in, asking(c.in, messages))
	v := newView(c.agent.Name, c.in, messages)
	question := v.question(messages)
	c.context = withPassages(c.context, question, c.found)
	c.context = withSent(c.context, question, v.sent(messages, c.eventID()))
	tools := c.tools(v.cut(messages))
	if len(tools) > 0 {
		c.context = withToolRules(c.agent, c.context)
	}
	c.giveBack(messages)
	req := llm.Request{
		Model: model, Messages: c.context, Tools: tools,
		Temperature: c.agent.Temperature, MaxOutputTokens: c.agent.MaxOutputTokens, ReasoningEffort: c.agent.ReasoningEffort, MaxReplyBytes: c.agent.Limits.MaxReplyBytes,
	}
	c.saw, c.common = modelcontext.Describe(c.agent.Name, req, messages, at)
	c.share.reduce(bytesOf(req))
	return req, nil
}

// giveBack adds their opaque parts to the run's earlier replies, unless hooks have changed them. Such
// a reply is known by its calls: one without calls ends the run.
func (c *modelCall) giveBack(messages []*transcript.Message) {
	byCall := map[string]*event.Opaque{}
	for _, m := range messages {
		if o := c.opaque[m.Record.ID]; o != nil && len(m.ToolCalls) > 0 && m.Intact() {
			byCall[m.ToolCalls[0].ID] = o
		}
	}
	for i, m := range c.context {
		if len(m.ToolCalls) > 0 {
			c.context[i].Opaque = byCall[m.ToolCalls[0].ID]
		}
	}
}

func (c *modelCall) generate(ctx context.Context, provider llm.Provider, req llm.Request) (step.ModelReply, error) {
	a := c.a
	if c.attempt > 1 && !c.in.Quiet {
		// An earlier attempt may have shown a part of its reply.
		c.reset(ctx)
	}
	if !c.in.Quiet {
		// Viewers learn of the reply before the provider does.
		c.piece(ctx, llm.Delta{})
	}
	c.started = time.Now()
	running := a.begin(ctx, c.in.Thread, c.in.TraceID, c.agent.Limits.ModelTimeout)
	defer running.done()
	size, limit := 0, req.MaxReplyBytes
	began := running.within(c.choices.firstToken())
	res, err := c.safely(running.ctx, provider, req, func(d llm.Delta) {
		if began(); d == (llm.Delta{}) {
			return
		}
		if size += len(d.Text) + len(d.Thought); size <= limit {
			c.show(ctx, d)
			return
		}
		running.cancel(errTooLarge)
	})
	cause := context.Cause(running.ctx)
	switch {
	case errors.Is(cause, errTooLarge), err == nil && replyBytes(res) > limit:
		return c.fail(ctx, llm.NewReplyTooLarge(c.agent.Model, "the reply", limit))
	case err == nil:
		c.fitted()
		c.a.down.answered(c.agent.Model)
		c.a.used(c.agent.Model, res.Usage)
		return c.keep(ctx, res, false)
	case errors.Is(cause, errSlow):
		return c.fail(ctx, &llm.Error{
			Provider: c.agent.Model, Retryable: true, Slow: true, Cause: err,
			Message: fmt.Sprintf("no part of the reply within %s (firstToken of the chain)", c.choices.firstToken()),
		})
	case errors.Is(cause, errInterrupted):
		res.ToolCalls = nil
		return c.keep(ctx, res, true)
	case errors.Is(cause, errTimeout):
		return c.fail(ctx, &llm.Error{
			Provider: c.agent.Model, Retryable: true, Cause: err,
			Message: fmt.Sprintf("no complete reply within %s (limits.modelTimeout of agent %s)", c.agent.Limits.ModelTimeout, c.agent.Name),
		})
	case cause != nil:
		return step.ModelReply{}, temporal.NewApplicationErrorWithCause("The worker stopped during the model call; the step is retried.", step.ErrTypeRetry, cause)
	case c.shorten(req, err):
		return step.ModelReply{}, errTooLong
	}
	return c.fail(ctx, err)
}

// replyBytes returns the size of a reply.
func replyBytes(res llm.Response) int {
	n := len(res.Content) + len(res.Thought)
	for _, call := range res.ToolCalls {
		n += len(call.Function.Name) + len(call.Function.Arguments)
	}
	return n
}

// safely calls the model. A driver that panics has failed.
func (c *modelCall) safely(ctx context.Context, p llm.Provider, req llm.Request, onDelta func(llm.Delta)) (res llm.Response, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			c.a.log.ErrorContext(ctx, "model driver panicked", "thread", c.in.Thread.ThreadID, "agent", c.agent.Name,
				"event", c.in.EventID, "traceId", c.in.TraceID, "attempt", c.attempt, "stack", string(debug.Stack()))
			res, err = llm.Response{}, fmt.Errorf("%s: the driver panicked: %v", c.agent.Model, problem)
		}
	}()
	return p.Generate(ctx, req, onDelta)
}

// show publishes a fragment of the reply. If the stream lost earlier fragments, it resets the
// message and publishes all of it.
func (c *modelCall) show(ctx context.Context, d llm.Delta) {
	if c.in.Quiet {
		return
	}
	c.thought.WriteString(d.Thought)
	c.text.WriteString(d.Text)
	c.parent.say(ctx, d.Text)
	if !c.piece(ctx, d) {
		return
	}
	c.reset(ctx)
	for _, whole := range []llm.Delta{{Thought: c.thought.String()}, {Text: c.text.String()}} {
		if whole != (llm.Delta{}) {
			c.piece(ctx, whole)
		}
	}
}

func (c *modelCall) piece(ctx context.Context, d llm.Delta) (lost bool) {
	e := event.AgentEvent{Type: event.EventStream, Content: d.Text, EventID: c.eventID(), Agent: c.agent.Name, MessageID: c.in.MessageID, Attempt: c.attempt}
	if d.Thought != "" {
		e.Type, e.Content = event.EventThought, d.Thought
	}
	lost = c.a.publish(ctx, c.in.Thread, stream.Entry{After: c.head, TraceID: c.in.TraceID, Event: &e, Begins: !c.begun})
	// The fragment marked as the first may have been lost.
	c.begun = !lost
	return lost
}

// reset tells viewers to discard the fragments of the message.
func (c *modelCall) reset(ctx context.Context) {
	c.a.publish(ctx, c.in.Thread, stream.Entry{After: c.head, TraceID: c.in.TraceID, Event: &event.AgentEvent{
		Type: event.EventReset, EventID: c.eventID(), Agent: c.agent.Name, MessageID: c.in.MessageID, Attempt: c.attempt,
	}})
}

// keep stores a reply and its records in one transaction.
func (c *modelCall) keep(ctx context.Context, res llm.Response, interrupted bool) (step.ModelReply, error) {
	// Store the text even if the step has just been cancelled.
	ctx = context.WithoutCancel(ctx)
	if interrupted && res.Content == "" {
		m := event.Message{ID: c.in.MessageID, ThreadID: c.in.Thread.ThreadID, Interrupted: true}
		return step.ModelReply{Agent: c.agent.Name, Model: c.agent.Model, MaxSteps: c.agent.Limits.MaxSteps, Message: m, Usage: res.Usage}, nil
	}
	var over excess
	res.ToolCalls, over = c.bound(res.ToolCalls)
	res = c.addressed(ctx, res, interrupted)
	batch := store.Batch{Once: c.llmCallID(), Records: c.records(ctx, res, over, interrupted)}
	if len(res.ToolCalls) == 0 {
		batch.Extract = c.extractions()
	}
	done, err := c.a.append(ctx, c.in.Thread, batch, step.Flush{})
	if err != nil {
		return step.ModelReply{}, err
	}
	for _, r := range done.Records {
		if r.Type == event.TypePrompt {
			c.a.prompts.Add(prompt{c.in.Thread, r.ID}, struct{}{})
		}
	}
	if len(batch.Extract) > 0 {
		c.a.wakeExtraction(ctx, c.in.Thread.Namespace)
	}
	// As stored: the reply of another attempt may have been first.
	reply, err := c.reply(ctx, done.Records)
	reply.Took = c.a.took(c.arrived)
	return reply, err
}

func (c *modelCall) records(ctx context.Context, res llm.Response, over excess, interrupted bool) []event.Record {
	now := time.Now()
	record := func(id, typ string, payload any) event.Record {
		return event.NewRecord(id, typ, c.in.TraceID, c.in.EventID, now, payload).In(c.eventID())
	}
	took := now.Sub(c.started).Milliseconds()
	out := []event.Record{record(c.llmCallID(), event.TypeLLMCall, event.LLMCall{
		Agent: c.agent.Name, Model: c.agent.Model, AnsweredBy: res.Model, Tier: res.Tier, MessageID: c.in.MessageID, Step: c.in.Step, Attempt: c.attempt,
		Usage: res.Usage, Messages: len(c.context), FinishReason: res.FinishReason, DurationMS: took, Context: c.saw, Opaque: res.Opaque,
		RejectedCalls: over.rejected, Failed: c.failed,
	})}
	if _, stored := c.a.prompts.Get(prompt{c.in.Thread, c.saw.Prompt}); !stored {
		out = append(out, record(c.saw.Prompt, event.TypePrompt, c.common))
	}
	if c.searched {
		out = append(out, record(recordid.Retrieval(c.in.MessageID), event.TypeRetrieval, c.found))
	}
	final := event.Final{Agent: c.agent.Name}
	hold := c.in.Gated
	if res.Content != "" || len(res.ToolCalls) > 0 {
		final.MessageID = c.in.MessageID
		m := event.Message{
			ID: c.in.MessageID, ThreadID: c.in.Thread.ThreadID, SenderID: c.agent.Name, SenderType: event.CreatedByAgent,
			Role: event.RoleAssistant, Content: res.Content, ToolCalls: res.ToolCalls, AgentID: c.agent.Name,
			ReplyToMessageID: c.in.ReplyTo, Interrupted: interrupted, Held: c.in.Quiet && res.Content != "",
			Usage: res.Usage, DurationMS: took,
		}
		var decided step.ModelReply
		c.decide(&decided, m)
		hold = hold || decided.Gated
		out = append(out, record(m.ID, event.TypeMessage, m).WithUndecided(c.undecided(decided, m)...))
	}
	switch {
	case len(res.ToolCalls) > 0:
		out = append(out, record(recordid.Calls(c.in.MessageID), event.TypeToolCall, event.ToolCallEvent{
			ThreadID: c.in.Thread.ThreadID, AgentName: c.agent.Name, ToolCalls: res.ToolCalls,
		}))
		out = append(out, over.results(c, res.ToolCalls, now)...)
		var size argumentBytes
		for _, call := range res.ToolCalls[:len(res.ToolCalls)-over.rejected] {
			if p := size.bound(c.plan(ctx, call), call); p.NeedsApproval && !hold {
				out = append(out, request(call, p, c.agent.Name, c.in.MessageID, c.in.TraceID, c.in.EventID, now).In(c.eventID()))
			}
		}
	case !interrupted && !hold:
		out = append(out, record(recordid.Final(c.in.MessageID), event.TypeFinal, final))
		if c.in.Ends != "" && !c.addressesAgents(res.Content) {
			out = append(out, endedBy(c.in, final, now))
		}
	}
	return out
}

// plan plans a call, once.
func (c *modelCall) plan(ctx context.Context, call event.ToolCall) step.PlannedCall {
	p, ok := c.plans[call]
	if !ok {
		p = c.planner.plan(ctx, call)
		c.plans[call] = p
	}
	return p
}

// addressesAgents reports whether a reply addresses agents of the thread, so the turn continues.
func (c *modelCall) addressesAgents(content string) bool {
	m := event.Message{SenderID: c.agent.Name, SenderType: event.CreatedByAgent, AgentID: c.agent.Name, Content: content}
	return len(addressing.Answering(c.in.Agents, step.Carry(m))) > 0
}

// eventID returns the event whose turn the call belongs to.
func (c *modelCall) eventID() string { return step.TurnEvent(c.in.Root, c.in.EventID) }

// undecided returns the types of the events in a reply that hooks have not decided on, or whose
// decision is not recorded yet.
func (c *modelCall) undecided(decided step.ModelReply, m event.Message) []string {
	var types []string
	waits := func(typ string, by *step.HookDecision, is bool) {
		if is && (slices.Contains(c.in.Undecided, typ) || by != nil && !by.Silent) {
			types = append(types, typ)
		}
	}
	waits(event.TypeMessage, decided.MessageDecision, m.Content != "")
	waits(event.TypeToolCall, decided.CallsDecision, len(m.ToolCalls) > 0)
	return types
}

// agentError: an unknown agent is a configuration error; any other error of the registry is
// retried.
func agentError(err error) error {
	if errors.Is(err, agent.ErrUnknown) {
		return configError(err)
	}
	return temporal.NewApplicationErrorWithCause("The agent could not be read; the step is retried.", step.ErrTypeRetry, err)
}

func readError(err error) error {
	return temporal.NewApplicationErrorWithCause("The store could not be read; the step is retried.", step.ErrTypeRetry, err)
}
