package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// activeTurn is a turn in progress.
type activeTurn struct {
	*conversation
	turn *thread.Turn
}

// runTurn runs the current turn.
func (t *conversation) runTurn(ctx workflow.Context) {
	(&activeTurn{t, t.state.Turns.Current}).run(ctx)
}

// run continues the turn until all its runs are done, the thread must continue as new, or the turn
// waits for people while the thread has other work.
func (t *activeTurn) run(ctx workflow.Context) {
	turnCtx, stop := workflow.WithCancel(t.observer.Turn(ctx, t.observed()))
	defer stop()
	t.stop = stop
	defer func() { t.stop = nil }()
	if t.turn.Interrupted != nil {
		stop()
	}

	t.show(ctx)
	finished := false
	workflow.GoNamed(ctx, "notify", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return finished || t.turn.Interrupted != nil })
		if !finished && t.interrupted(ctx) {
			// Running steps are notified even when the workflow itself was cancelled. Nothing
			// cancels this context, since the thread may have ended when the result arrives.
			ctx, _ = workflow.NewDisconnectedContext(ctx)
			t.notify(ctx)
		}
	})
	if t.turn.Stage == thread.ItemArrived && t.turn.Interrupted == nil {
		t.enter(turnCtx)
	}
	t.handle(turnCtx)
	t.runs(turnCtx)
	finished = true

	// Otherwise the thread parks the turn, or continues it in its next run.
	if t.turn.Done() {
		t.cancelOutstanding(ctx)
		out := t.turn.End(workflow.Now(ctx))
		t.observer.TurnEnded(ctx, t.observed(), out.Status)
	}
}

// enter processes the turn's item, once hooks have decided on it.
func (t *activeTurn) enter(ctx workflow.Context) {
	d, seen := t.turn.DecidedBefore()
	if !seen {
		var ok bool
		if d, ok = t.intercept(ctx, t.turn.ItemEvent()); !ok {
			return
		}
	}
	var rules []rule.Spec
	if t.turn.IsEnv() {
		rules = t.rules(ctx)
	}
	t.turn.Enter(workflow.Now(ctx), d, rules...)
	t.log(ctx)
}

// runs runs the turn's agents concurrently. A run that ends may address other agents, whose runs
// start immediately, even while others wait for people.
func (t *activeTurn) runs(ctx workflow.Context) {
	turn := t.turn
	started, running := 0, 0
	// An interrupted turn waits for its runs too.
	wait, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for started < len(turn.Runs) || running > 0 {
		for ; started < len(turn.Runs); started++ {
			running++
			r := turn.Runs[started]
			workflow.GoNamed(ctx, fmt.Sprintf("run %d", r.Slot), func(ctx workflow.Context) {
				defer func() { running-- }()
				t.runAgent(ctx, r)
			})
		}
		_ = workflow.Await(wait, func() bool { return running == 0 || started < len(turn.Runs) })
	}
}

// runAgent alternates model calls and tool calls of an agent, until a reply has no tool calls.
func (t *activeTurn) runAgent(ctx workflow.Context, r *thread.AgentRun) {
	s := t.state
	ctx, end := t.observeRun(ctx, r)
	defer end()
	for !r.Done() {
		t.show(ctx)
		switch {
		case t.interrupted(ctx):
			r.StopRun(workflow.Now(ctx))
		case t.rollover(ctx) && !r.Decided(), s.CanPark():
			return
		case r.Phase == thread.PhaseModel:
			t.model(ctx, r)
		case r.Phase == thread.PhaseReply:
			if d, ok := t.decided(ctx, r.Reply.MessageDecision, r.ReplyEvent()); ok {
				r.ApplyReplyDecision(workflow.Now(ctx), d)
			}
		case r.Phase == thread.PhaseCalls:
			if d, ok := t.decided(ctx, r.Reply.CallsDecision, r.CallsEvent()); ok {
				r.ApplyCallsDecision(workflow.Now(ctx), d)
			}
		case r.Phase == thread.PhasePlan:
			t.plan(ctx, r)
		case r.Phase == thread.PhaseTools:
			each(ctx, r.Calls, func(ctx workflow.Context, c *thread.Call) { t.call(ctx, c) })
			r.ToolsDone(workflow.Now(ctx))
		}
	}
}

// interrupted reports whether the turn must end. Cancelling the workflow interrupts its turn.
func (t *activeTurn) interrupted(ctx workflow.Context) bool {
	if ctx.Err() != nil && t.turn.Interrupted == nil {
		t.state.Turns.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "temporal", Reason: "the workflow was cancelled"})
	}
	return t.turn.Interrupted != nil
}

// model makes one model call.
func (t *activeTurn) model(ctx workflow.Context, r *thread.AgentRun) {
	if !t.awaitModel(ctx, r) {
		return
	}
	// First, so that no message joins the turn and no hook runs for a call that is not made.
	if r.AtLimit(workflow.Now(ctx)) || !t.steer(ctx) || !r.HooksDecided && !t.interceptModelCall(ctx, r) {
		return
	}
	reply, err := t.callModel(ctx, r)
	// Signals that arrived during the call, such as an interrupt, take effect first.
	t.drain(ctx)
	switch {
	case err == nil && reply.Outage != nil:
		r.Unavailable(*reply.Outage)
	case err == nil:
		r.Replied(workflow.Now(ctx), reply)
	case t.interrupted(ctx):
		r.StopRun(workflow.Now(ctx))
	default:
		why, retryable := explain(err)
		r.ModelFailed(workflow.Now(ctx), why, classOf(err), retryable)
	}
}

// awaitModel waits until the next attempt at a model that was unavailable; a message that joins the
// turn ends the wait. It returns false if there is other work first.
func (t *activeTurn) awaitModel(ctx workflow.Context, r *thread.AgentRun) bool {
	due := r.RetryDue(workflow.Now(ctx))
	if due == 0 {
		return true
	}
	elsewhere := func() bool { return t.state.HasSteered() || t.rollover(ctx) }
	if _, err := awaitFor(ctx, due, brief("before the model is called again: "+r.Outage.Error), elsewhere); err != nil {
		return false
	}
	return !t.rollover(ctx)
}

// steer adds the queued messages that join the turn. It returns false if the turn must stop first.
func (t *activeTurn) steer(ctx workflow.Context) bool {
	for {
		q, ok := t.turn.NextSteered(workflow.Now(ctx))
		if !ok {
			return true
		}
		d, ok := q.DecidedBefore()
		if !ok {
			d, ok = t.intercept(ctx, t.turn.SteeredEvent(q))
		}
		if !ok {
			t.turn.PutBack(workflow.Now(ctx), q)
			return false
		}
		t.turn.Join(workflow.Now(ctx), q, d)
	}
}

// interceptModelCall runs the hooks of a model call. It reports whether to make the call.
func (t *activeTurn) interceptModelCall(ctx workflow.Context, r *thread.AgentRun) bool {
	d, ok := t.intercept(ctx, r.ModelCallEvent())
	return ok && r.ApplyModelCallDecision(workflow.Now(ctx), d)
}

// plan plans the calls that hooks changed or created.
func (t *activeTurn) plan(ctx workflow.Context, r *thread.AgentRun) {
	reply, err := t.planCalls(ctx, r.PlanStep)
	switch {
	case err == nil:
		r.Planned(workflow.Now(ctx), reply)
	case t.interrupted(ctx):
		r.StopRun(workflow.Now(ctx))
	default:
		why, retryable := explain(err)
		r.PlanFailed(workflow.Now(ctx), why, retryable)
	}
}

// call completes one tool call: it waits for a decision or for input if necessary, then runs the call. It
// returns early when the turn is interrupted, and when the thread must continue as new or has other
// work while the call waits.
func (t *activeTurn) call(ctx workflow.Context, c *thread.Call) {
	s := t.state
	asks := func() bool { return c.Stage == thread.CallWaiting || c.Stage == thread.CallAtInput }
	for again := true; again; {
		if asks() {
			err := workflow.Await(ctx, func() bool { return !asks() || t.leaves(ctx) })
			if err != nil || asks() {
				return
			}
		}
		t.observeDecision(ctx, c)
		again = c.Stage == thread.CallReady && !t.interrupted(ctx) && !t.execute(ctx, c)
	}
	if c.Stage == thread.CallDelegated && !t.interrupted(ctx) && !t.rollover(ctx) && !s.CanPark() {
		t.awaitSub(ctx, c)
	}
	if c.Stage == thread.CallAtClient {
		_ = workflow.Await(ctx, func() bool { return c.Stage != thread.CallAtClient || t.leaves(ctx) })
	}
	if c.Stage == thread.CallRan && !t.interrupted(ctx) {
		if d, ok := t.decided(ctx, c.Decision, c.ResultEvent()); ok {
			c.ApplyResultDecision(workflow.Now(ctx), d)
			t.toolDone(ctx, c)
		}
	}
}

// leaves reports whether to stop waiting for people, because the thread must continue as new or has
// other work. It does not continue as new while steps are running, so the call may still be
// decided.
func (t *activeTurn) leaves(ctx workflow.Context) bool {
	return t.stepsUnderWay == 0 && t.rollover(ctx) || t.state.CanPark()
}

// execute runs a tool call. It returns false if the call needs people first: another approval, because
// the one that it had is no longer valid, or input that the tool asks for.
func (t *activeTurn) execute(ctx workflow.Context, c *thread.Call) bool {
	if c.Guarded() {
		switch holds, ok := t.guard(ctx, c); {
		case !ok:
			return true
		case !holds:
			return false
		}
	}
	switch c.Plan.By {
	case step.ByTask:
		t.startTask(ctx, c)
		return true
	case step.ByAgent:
		t.delegate(ctx, c)
		return true
	case step.ByThread:
		t.answer(ctx, c)
		return true
	case step.ByClient:
		c.AskClient(workflow.Now(ctx))
		return true
	}
	reply, err := t.runTool(ctx, c)
	if err != nil {
		if !c.Plan.Quick && temporal.IsCanceledError(err) {
			// A tool's activity was awaited, so a cancelled one has never started.
			c.NeverStarted()
		}
		t.callFailed(ctx, c, err)
		return true
	}
	if reply.Approval != nil {
		c.RequestAgain(workflow.Now(ctx), *reply.Approval)
		return false
	}
	if reply.Input != nil {
		c.AskInput(workflow.Now(ctx), *reply.Input)
		return false
	}
	c.CallRan(reply)
	return true
}

// callFailed sets an error as the result of a call that could not be run. The run continues, and
// the model sees the error.
func (t *activeTurn) callFailed(ctx workflow.Context, c *thread.Call, err error) {
	if t.interrupted(ctx) {
		return
	}
	why, _ := explain(err)
	c.CallFailed(workflow.Now(ctx), why)
	t.toolDone(ctx, c)
}

// guard checks the approval of a call that no activity checks. ok is false if there is nothing more
// to do for the call.
func (t *activeTurn) guard(ctx workflow.Context, c *thread.Call) (holds, ok bool) {
	reply, err := t.planCalls(ctx, c.GuardStep)
	if err != nil {
		t.callFailed(ctx, c, err)
		return false, false
	}
	return c.Guard(workflow.Now(ctx), reply.Calls[0]), true
}

// toolDone publishes the end of a tool call, if a rule handles such events.
func (t *activeTurn) toolDone(ctx workflow.Context, c *thread.Call) {
	c.ToolDone(workflow.Now(ctx), t.rules(ctx))
}

// each runs f for all items concurrently and waits for all of them. A single item runs in the
// calling coroutine.
func each[T any](ctx workflow.Context, items []T, f func(workflow.Context, T)) {
	if len(items) == 1 {
		f(ctx, items[0])
		return
	}
	wg := workflow.NewWaitGroup(ctx)
	for i, item := range items {
		wg.Add(1)
		workflow.GoNamed(ctx, fmt.Sprintf("part %d", i), func(ctx workflow.Context) {
			defer wg.Done()
			f(ctx, item)
		})
	}
	wg.Wait(ctx)
}

// classOf returns the class of a failed model call, or "".
func classOf(err error) string {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return ""
	}
	return step.ModelErrorClass(app.Type())
}

// explain returns the reason of a step's failure for people, and whether a retry may help.
func explain(err error) (why string, retryable bool) {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return app.Message(), app.Type() != step.ErrTypeConfig
	case errors.As(err, &timeout):
		return "The step took longer than its limit and was given up.", true
	}
	return "The step failed: " + err.Error(), true
}
