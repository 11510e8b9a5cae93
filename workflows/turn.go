package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// activeTurn is a turn while it runs.
type activeTurn struct {
	*conversation
	turn *thread.Turn
}

// run goes on with the turn until all its runs are done, or until the
// thread has to move to a new run of its workflow first.
func (t *activeTurn) run(ctx workflow.Context) {
	turnCtx, stop := workflow.WithCancel(ctx)
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
			// Running steps are told also when the workflow itself was cancelled. Nothing cancels
			// this context: the thread may have ended by then, and the result come meanwhile.
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

	if (t.turn.Stage == thread.ItemArrived || t.turn.Unhandled()) && t.turn.Interrupted == nil {
		return
	}
	for _, r := range t.turn.Runs {
		if r.Phase != thread.PhaseDone {
			return
		}
	}
	t.cancelOutstanding(ctx)
	t.turn.End(workflow.Now(ctx))
}

// enter takes on the turn's item, once hooks have decided on it.
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

// runs lets the turn's runs run side by side. One that ends may address other agents: their
// runs begin at once, whoever else still waits for a person.
func (t *activeTurn) runs(ctx workflow.Context) {
	turn := t.turn
	started, running := 0, 0
	// A turn that is interrupted waits for its runs, too.
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

// runAgent takes an agent from model call to tool calls and back, until its reply asks
// for no more tools.
func (t *activeTurn) runAgent(ctx workflow.Context, r *thread.Run) {
	s := t.state
	for r.Phase != thread.PhaseDone {
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
		case r.Phase == thread.PhaseCalls && len(r.Plan) > 0:
			t.plan(ctx, r)
		case r.Phase == thread.PhaseCalls:
			if d, ok := t.decided(ctx, r.Reply.CallsDecision, r.CallsEvent()); ok {
				r.ApplyCallsDecision(workflow.Now(ctx), d)
			}
		case r.Phase == thread.PhaseTools:
			each(ctx, r.Calls, func(ctx workflow.Context, c *thread.Call) { t.call(ctx, r, c) })
			r.ToolsDone(workflow.Now(ctx))
		}
	}
}

// interrupted reports whether the turn has to end. A workflow that is cancelled
// interrupts its turn.
func (t *activeTurn) interrupted(ctx workflow.Context) bool {
	if ctx.Err() != nil && t.turn.Interrupted == nil {
		t.state.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "temporal", Reason: "the workflow was cancelled"})
	}
	return t.turn.Interrupted != nil
}

// model makes one model call.
func (t *activeTurn) model(ctx workflow.Context, r *thread.Run) {
	s := t.state
	if !t.awaitModel(ctx, r) {
		return
	}
	// First, so that nothing joins a turn, and no hook is asked, for a call that is not made.
	if r.AtLimit(workflow.Now(ctx)) || !t.steer(ctx) || !r.Asked && !t.askModelCall(ctx, r) {
		return
	}
	t.flushIfOverloaded(ctx)
	step := r.NextModelStep(t.specs(ctx))
	reply, err := t.callModel(ctx, r, step)
	// What came while the model spoke, an interrupt above all, takes effect first.
	t.drain(ctx)
	switch {
	case err == nil && reply.Outage != nil:
		s.Flushed(step.Flush)
		r.Unavailable(*reply.Outage)
	case err == nil:
		s.Flushed(step.Flush)
		r.Replied(workflow.Now(ctx), reply)
	case t.interrupted(ctx):
		r.StopRun(workflow.Now(ctx))
	default:
		why, retryable := explain(err)
		r.Fail(workflow.Now(ctx), why, retryable)
	}
}

// awaitModel waits until a model that has not answered is called again: at once, if a message
// joins the turn. It returns false when there is something else to do first.
func (t *activeTurn) awaitModel(ctx workflow.Context, r *thread.Run) bool {
	due := r.RetryDue(workflow.Now(ctx))
	if due == 0 {
		return true
	}
	elsewhere := func() bool { return t.state.HasSteered() || t.rollover(ctx) }
	if _, err := awaitFor(ctx, due, elsewhere); err != nil {
		return false
	}
	return !t.rollover(ctx)
}

// steer lets the messages join the turn that ask for it. It returns false when the
// turn has to stop first.
func (t *activeTurn) steer(ctx workflow.Context) bool {
	for {
		q, ok := t.turn.NextSteered(workflow.Now(ctx))
		if !ok {
			return true
		}
		d, ok := t.intercept(ctx, t.turn.SteeredEvent(q))
		if !ok {
			t.turn.PutBack(workflow.Now(ctx), q)
			return false
		}
		t.turn.Join(workflow.Now(ctx), q, d)
	}
}

// askModelCall asks the hooks of model calls. It reports whether the call is to be made.
func (t *activeTurn) askModelCall(ctx workflow.Context, r *thread.Run) bool {
	d, ok := t.intercept(ctx, r.ModelCallEvent())
	return ok && r.ApplyModelCallDecision(workflow.Now(ctx), d)
}

// plan plans the calls that hooks have changed or made.
func (t *activeTurn) plan(ctx workflow.Context, r *thread.Run) {
	s := t.state
	t.flushIfOverloaded(ctx)
	step := r.PlanStep()
	reply, err := t.planCalls(ctx, r, step)
	switch {
	case err == nil:
		s.Flushed(step.Flush)
		r.Planned(workflow.Now(ctx), reply)
	case t.interrupted(ctx):
		r.StopRun(workflow.Now(ctx))
	default:
		why, retryable := explain(err)
		r.PlanFailed(workflow.Now(ctx), why, retryable)
	}
}

// call brings one tool call to its result: a person decides if need be, then it
// runs. It returns early when the turn is interrupted, or when the thread has to
// move to a new run, or has something else to do, while it waits for the decision.
func (t *activeTurn) call(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	s := t.state
	for again := true; again; {
		if c.Stage == thread.Waiting {
			err := workflow.Await(ctx, func() bool { return c.Stage != thread.Waiting || t.leaves(ctx) })
			if err != nil || c.Stage == thread.Waiting {
				return
			}
		}
		again = c.Stage == thread.Ready && !t.interrupted(ctx) && !t.execute(ctx, r, c)
	}
	if c.Stage == thread.Delegated && !t.interrupted(ctx) && !t.rollover(ctx) && !s.CanPark() {
		t.awaitSub(ctx, r, c)
	}
	if c.Stage == thread.AtClient {
		_ = workflow.Await(ctx, func() bool { return c.Stage != thread.AtClient || t.leaves(ctx) })
	}
	if c.Stage == thread.Ran && !t.interrupted(ctx) {
		if d, ok := t.decided(ctx, c.Decision, c.ResultEvent()); ok {
			c.ApplyResultDecision(workflow.Now(ctx), d)
			t.toolDone(ctx, r, c)
		}
	}
}

// leaves reports whether a call that waits for people is left alone, because the thread moves
// to a new run or has something else to do. It is not while steps are under way: they have to
// end first, and until then the call may be decided on.
func (t *activeTurn) leaves(ctx workflow.Context) bool {
	return t.stepsUnderWay == 0 && t.rollover(ctx) || t.state.CanPark()
}

// execute runs a tool, or has it run. It returns false when the call did not run because
// its approval does not hold: then people may have been asked again.
func (t *activeTurn) execute(ctx workflow.Context, r *thread.Run, c *thread.Call) bool {
	s := t.state
	if c.Guarded() {
		switch holds, ok := t.guard(ctx, r, c); {
		case !ok:
			return true
		case !holds:
			return false
		}
	}
	switch c.Plan.By {
	case thread.ByTask:
		t.startTask(ctx, r, c)
		return true
	case thread.ByAgent:
		t.delegate(ctx, r, c)
		return true
	case thread.ByThread:
		t.answer(ctx, r, c)
		return true
	case thread.ByClient:
		c.AskClient(workflow.Now(ctx))
		return true
	}
	t.flushIfOverloaded(ctx)
	step := c.ToolStep(t.specs(ctx))
	reply, err := t.runTool(ctx, c, step)
	if err != nil {
		// The activity of a tool that runs is waited for: this one was cancelled before.
		c.Begun = c.Plan.Quick || !temporal.IsCanceledError(err)
		t.callFailed(ctx, r, c, err)
		return true
	}
	s.Flushed(step.Flush)
	if reply.Ask != nil {
		c.AskAgain(workflow.Now(ctx), *reply.Ask)
		return false
	}
	c.CallRan(reply)
	return true
}

// callFailed gives a call its result that could not be run: the run goes on, the model sees
// that this call failed.
func (t *activeTurn) callFailed(ctx workflow.Context, r *thread.Run, c *thread.Call, err error) {
	if t.interrupted(ctx) {
		return
	}
	why, _ := explain(err)
	c.CallFailed(workflow.Now(ctx), why)
	t.toolDone(ctx, r, c)
}

// guard looks again at an approved call that no activity of its own runs. ok is false when
// there is nothing more to do for the call here.
func (t *activeTurn) guard(ctx workflow.Context, r *thread.Run, c *thread.Call) (holds, ok bool) {
	s := t.state
	t.flushIfOverloaded(ctx)
	step := c.GuardStep()
	reply, err := t.planCalls(ctx, r, step)
	if err != nil {
		t.callFailed(ctx, r, c, err)
		return false, false
	}
	s.Flushed(step.Flush)
	return c.Guard(workflow.Now(ctx), reply.Calls[0]), true
}

// toolDone tells how a tool call has ended, if a rule wants to know.
func (t *activeTurn) toolDone(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	c.ToolDone(workflow.Now(ctx), t.rules(ctx))
}

// each runs f for all items at the same time and waits for all of them. A single
// item runs in the calling coroutine.
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

// explain says for people why a step failed, and whether trying again may help.
func explain(err error) (why string, retryable bool) {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return app.Message(), app.Type() != thread.ErrTypeConfig
	case errors.As(err, &timeout):
		return "The step took longer than its limit and was given up.", true
	}
	return "The step failed: " + err.Error(), true
}
