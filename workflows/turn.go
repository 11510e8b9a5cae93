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

// turn goes on with the current turn until all its runs are done, or until the
// thread has to move to a new run of its workflow first.
func (t *conversation) turn(ctx workflow.Context) {
	s := t.state
	turnCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	t.stop = stop
	defer func() { t.stop = nil }()
	if s.Turn.Interrupted != nil {
		stop()
	}

	t.show(ctx)
	finished := false
	workflow.GoNamed(ctx, "notify", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return finished || s.Turn.Interrupted != nil })
		if !finished && t.interrupted(ctx) {
			// Running steps are told also when the workflow itself was cancelled. Nothing cancels
			// this context: the thread may have ended by then, and the result come meanwhile.
			ctx, _ = workflow.NewDisconnectedContext(ctx)
			t.notify(ctx)
		}
	})
	if s.Turn.Arrived && s.Turn.Interrupted == nil {
		t.enter(turnCtx)
	}
	t.handle(turnCtx)
	t.runs(turnCtx)
	finished = true

	if (s.Turn.Arrived || s.Turn.Unhandled()) && s.Turn.Interrupted == nil {
		return
	}
	for _, r := range s.Turn.Runs {
		if r.Phase != thread.PhaseDone {
			return
		}
	}
	t.dismiss(ctx)
	s.End(workflow.Now(ctx))
}

// enter takes on the turn's item, once hooks have decided on it.
func (t *conversation) enter(ctx workflow.Context) {
	s := t.state
	d, seen := s.Turn.SeenBefore()
	if !seen {
		var ok bool
		if d, ok = t.intercept(ctx, s.SeenItem()); !ok {
			return
		}
	}
	var rules []rule.Spec
	if s.Turn.IsEnv() {
		rules = t.rules(ctx)
	}
	s.Enter(workflow.Now(ctx), d, rules...)
	t.log(ctx)
}

// runs lets the turn's runs run side by side. One that ends may address other agents: their
// runs begin at once, whoever else still waits for a person.
func (t *conversation) runs(ctx workflow.Context) {
	turn := t.state.Turn
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
				t.run(ctx, r)
			})
		}
		_ = workflow.Await(wait, func() bool { return running == 0 || started < len(turn.Runs) })
	}
}

// run takes an agent from model call to tool calls and back, until its reply asks
// for no more tools.
func (t *conversation) run(ctx workflow.Context, r *thread.Run) {
	s := t.state
	for r.Phase != thread.PhaseDone {
		t.show(ctx)
		switch {
		case t.interrupted(ctx):
			s.StopRun(workflow.Now(ctx), r)
		case t.rollover(ctx) && !r.Decided(), s.Parks():
			return
		case r.Phase == thread.PhaseModel:
			t.model(ctx, r)
		case r.Phase == thread.PhaseReply:
			if d, ok := t.decided(ctx, r.Reply.OnMessage, s.SeenReply(r)); ok {
				s.ReplyHeard(workflow.Now(ctx), r, d)
			}
		case r.Phase == thread.PhaseCalls && len(r.Plan) > 0:
			t.plan(ctx, r)
		case r.Phase == thread.PhaseCalls:
			if d, ok := t.decided(ctx, r.Reply.OnCalls, s.SeenCalls(r)); ok {
				s.CallsHeard(workflow.Now(ctx), r, d)
			}
		case r.Phase == thread.PhaseTools:
			each(ctx, r.Calls, func(ctx workflow.Context, c *thread.Call) { t.call(ctx, r, c) })
			s.ToolsDone(workflow.Now(ctx), r)
		}
	}
}

// interrupted reports whether the turn has to end. A workflow that is cancelled
// interrupts its turn.
func (t *conversation) interrupted(ctx workflow.Context) bool {
	if ctx.Err() != nil && t.state.Turn.Interrupted == nil {
		t.state.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "temporal", Reason: "the workflow was cancelled"})
	}
	return t.state.Turn.Interrupted != nil
}

// model makes one model call.
func (t *conversation) model(ctx workflow.Context, r *thread.Run) {
	s := t.state
	if !t.awaitModel(ctx, r) {
		return
	}
	// First, so that nothing joins a turn, and no hook is asked, for a call that is not made.
	if s.AtLimit(workflow.Now(ctx), r) || !t.steer(ctx) || !r.Asked && !t.askModelCall(ctx, r) {
		return
	}
	t.unburden(ctx)
	step := s.NextModelStep(r, t.specs(ctx))
	reply, err := t.callModel(ctx, r, step)
	// What came while the model spoke, an interrupt above all, takes effect first.
	t.drain(ctx)
	switch {
	case err == nil && reply.Outage != nil:
		s.Flushed(step.Flush)
		s.Unavailable(r, *reply.Outage)
	case err == nil:
		s.Flushed(step.Flush)
		s.Replied(workflow.Now(ctx), r, reply)
	case t.interrupted(ctx):
		s.StopRun(workflow.Now(ctx), r)
	default:
		why, retryable := explain(err)
		s.Fail(workflow.Now(ctx), r, why, retryable)
	}
}

// awaitModel waits until a model that has not answered is called again: at once, if a message
// joins the turn. It returns false when there is something else to do first.
func (t *conversation) awaitModel(ctx workflow.Context, r *thread.Run) bool {
	due := t.state.RetryDue(workflow.Now(ctx), r)
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
func (t *conversation) steer(ctx workflow.Context) bool {
	s := t.state
	for {
		q, ok := s.NextSteered(workflow.Now(ctx))
		if !ok {
			return true
		}
		d, ok := t.intercept(ctx, s.SeenSteered(q))
		if !ok {
			s.PutBack(workflow.Now(ctx), q)
			return false
		}
		s.Join(workflow.Now(ctx), q, d)
	}
}

// askModelCall asks the hooks of model calls. It reports whether the call is to be made.
func (t *conversation) askModelCall(ctx workflow.Context, r *thread.Run) bool {
	d, ok := t.intercept(ctx, t.state.SeenModelCall(r))
	return ok && t.state.ModelCallHeard(workflow.Now(ctx), r, d)
}

// plan plans the calls that hooks have changed or made.
func (t *conversation) plan(ctx workflow.Context, r *thread.Run) {
	s := t.state
	t.unburden(ctx)
	step := s.PlanStep(r)
	reply, err := t.planCalls(ctx, r, step)
	switch {
	case err == nil:
		s.Flushed(step.Flush)
		s.Planned(workflow.Now(ctx), r, reply)
	case t.interrupted(ctx):
		s.StopRun(workflow.Now(ctx), r)
	default:
		why, retryable := explain(err)
		s.PlanFailed(workflow.Now(ctx), r, why, retryable)
	}
}

// call brings one tool call to its result: a person decides if need be, then it
// runs. It returns early when the turn is interrupted, or when the thread has to
// move to a new run, or has something else to do, while it waits for the decision.
func (t *conversation) call(ctx workflow.Context, r *thread.Run, c *thread.Call) {
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
	if c.Stage == thread.Delegated && !t.interrupted(ctx) && !t.rollover(ctx) && !s.Parks() {
		t.awaitSub(ctx, r, c)
	}
	if c.Stage == thread.AtClient {
		_ = workflow.Await(ctx, func() bool { return c.Stage != thread.AtClient || t.leaves(ctx) })
	}
	if c.Stage == thread.Ran && !t.interrupted(ctx) {
		if d, ok := t.decided(ctx, c.Decision, s.SeenResult(r, c)); ok {
			s.ResultHeard(workflow.Now(ctx), r, c, d)
			t.toolDone(ctx, r, c)
		}
	}
}

// leaves reports whether a call that waits for people is left alone, because the thread moves
// to a new run or has something else to do. It is not while steps are under way: they have to
// end first, and until then the call may be decided on.
func (t *conversation) leaves(ctx workflow.Context) bool {
	return t.underWay == 0 && t.rollover(ctx) || t.state.Parks()
}

// execute runs a tool, or has it run. It returns false when the call did not run because
// its approval does not hold: then people may have been asked again.
func (t *conversation) execute(ctx workflow.Context, r *thread.Run, c *thread.Call) bool {
	s := t.state
	if s.Guarded(c) {
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
		s.AskClient(workflow.Now(ctx), r, c)
		return true
	}
	t.unburden(ctx)
	step := s.ToolStep(r, c, t.specs(ctx))
	reply, err := t.runTool(ctx, c, step)
	if err != nil {
		// The activity of a tool that runs is waited for: this one was cancelled before.
		c.Begun = c.Plan.Quick || !temporal.IsCanceledError(err)
		t.callFailed(ctx, r, c, err)
		return true
	}
	s.Flushed(step.Flush)
	if reply.Ask != nil {
		s.AskAgain(workflow.Now(ctx), r, c, *reply.Ask)
		return false
	}
	s.CallRan(c, reply)
	return true
}

// callFailed gives a call its result that could not be run: the run goes on, the model sees
// that this call failed.
func (t *conversation) callFailed(ctx workflow.Context, r *thread.Run, c *thread.Call, err error) {
	if t.interrupted(ctx) {
		return
	}
	why, _ := explain(err)
	t.state.CallFailed(workflow.Now(ctx), r, c, why)
	t.toolDone(ctx, r, c)
}

// guard looks again at an approved call that no activity of its own runs. ok is false when
// there is nothing more to do for the call here.
func (t *conversation) guard(ctx workflow.Context, r *thread.Run, c *thread.Call) (holds, ok bool) {
	s := t.state
	t.unburden(ctx)
	step := s.GuardStep(r, c)
	reply, err := t.planCalls(ctx, r, step)
	if err != nil {
		t.callFailed(ctx, r, c, err)
		return false, false
	}
	s.Flushed(step.Flush)
	return s.Guard(workflow.Now(ctx), r, c, reply.Calls[0]), true
}

// toolDone tells how a tool call has ended, if a rule wants to know.
func (t *conversation) toolDone(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	t.state.ToolDone(workflow.Now(ctx), r, c, t.rules(ctx))
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
