package workflows

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Delegate is the thread of a sub-agent: it ends when the agent has answered.
func (w *Workflows) Delegate(ctx workflow.Context, in Input) (thread.DelegateReply, error) {
	ctx = staleAfter(ctx, w.StaleAfter)
	if in.State == nil && (in.Parent == nil || in.First == nil) {
		return thread.DelegateReply{}, temporal.NewNonRetryableApplicationError("a sub-agent's thread is started by a thread, not by clients; start a "+signals.ThreadWorkflow, signals.RefusedType, nil)
	}
	t, err := w.open(ctx, in)
	if err != nil {
		return thread.DelegateReply{}, err
	}
	t.report(ctx)
	t.watchDeadline(ctx)
	t.over = t.state.SubAnswered
	err = t.live(ctx, signals.DelegateWorkflow)
	switch {
	case temporal.IsCanceledError(err):
		return t.endLost(ctx, thread.DelegateReply{Cancelled: true, Error: cancelled.Error}, err)
	case err != nil:
		return thread.DelegateReply{}, err
	}
	return t.endDelegate(ctx)
}

// endLost reports a sub-agent that ends without an answer to a thread that cannot see it.
// It may not have been that thread which cancelled it.
func (t *conversation) endLost(ctx workflow.Context, reply thread.DelegateReply, err error) (thread.DelegateReply, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if lost := t.tellAbove(ctx, reply); lost != nil {
		return thread.DelegateReply{}, lost
	}
	return thread.DelegateReply{}, err
}

// watchDeadline ends the work of a sub-agent that takes too long.
func (t *conversation) watchDeadline(ctx workflow.Context) {
	task := t.state.Parent.Background
	if task == nil {
		return
	}
	deadline := task.Deadline
	workflow.GoNamed(ctx, "deadline", func(ctx workflow.Context) {
		if late, err := workflow.AwaitWithTimeout(ctx, deadline.Sub(workflow.Now(ctx)), func() bool { return t.state.Closing != nil }); err != nil || late {
			return
		}
		reason := fmt.Sprintf("it had not completed by its deadline, %s", deadline.UTC().Format(time.RFC3339))
		c := signals.Control{Action: signals.ControlInterrupt, By: "threadmill", Reason: reason, EventID: t.state.FirstID()}
		_ = t.interruptEvent(ctx, c)
	})
}

// report tells the thread above, in order, which calls wait for approval and which do no
// more.
func (t *conversation) report(ctx workflow.Context) {
	above := signals.WorkflowID(t.state.Namespace, t.state.Parent.ThreadID)
	workflow.GoNamed(ctx, "notes", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		for workflow.Await(ctx, func() bool { return len(t.state.Notes) > 0 }) == nil {
			var sent workflow.Future
			if note := t.state.Notes[0]; note.Asks != nil {
				sent = workflow.SignalExternalWorkflow(ctx, above, "", signals.SignalSubAsks, note.Asks)
			} else {
				sent = workflow.SignalExternalWorkflow(ctx, above, "", signals.SignalSubDecided, note.Decided)
			}
			// A thread that is gone asks nobody.
			_ = sent.Get(ctx, nil)
			t.state.NoteSent()
		}
	})
}

// endDelegate closes the thread of a sub-agent that has answered, and gives the call that
// waits for it its result.
func (t *conversation) endDelegate(ctx workflow.Context) (thread.DelegateReply, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	s := t.state
	t.drain(ctx)
	// Before the thread is closed: how its first turn ended is soon forgotten among many.
	step := s.EndStep()
	// Somebody may have closed it before it had answered.
	closed := s.Closing != nil
	if !closed {
		s.Closing = &signals.Control{Action: signals.ControlClose, By: s.Parent.Agent, Reason: "the sub-agent has answered"}
		t.settle(ctx)
	}
	step.Flush = s.Flush()
	var end thread.EndReply
	err := workflow.ExecuteLocalActivity(local(ctx, "answer"), signals.ActivityEndDelegate, step).Get(ctx, &end)
	if err != nil {
		err = workflow.ExecuteActivity(activity(ctx, "answer"), signals.ActivityEndDelegate, step).Get(ctx, &end)
	}
	if err != nil {
		return t.endLost(ctx, thread.DelegateReply{Error: thread.Why(reason(err))}, err)
	}
	s.Flushed(step.Flush)
	if !closed {
		t.conclude(ctx)
	}
	_ = workflow.Await(ctx, func() bool { return len(s.Notes) == 0 })
	reply := thread.DelegateReply{Status: step.Status, Usage: s.Usage, Answer: end.Answer, Truncated: end.Truncated, Failed: end.Failed, Result: end.Result, Error: end.Error}
	return reply, t.tellAbove(ctx, reply)
}

// tellAbove reports to a thread that has moved to a new run meanwhile, or that does not
// wait.
func (t *conversation) tellAbove(ctx workflow.Context, reply thread.DelegateReply) error {
	s := t.state
	t.drain(ctx)
	if !s.Parent.Called && s.Parent.Background == nil {
		return nil
	}
	to := signals.WorkflowID(s.Namespace, s.Parent.ThreadID)
	err := workflow.SignalExternalWorkflow(ctx, to, "", signals.SignalSubEnded, thread.SubEnded{ThreadID: s.ThreadID, DelegateReply: reply}).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &gone) {
		return err
	}
	if s.Parent.Background == nil {
		return nil
	}
	above := thread.Ref{Namespace: s.Namespace, ThreadID: s.Parent.ThreadID}
	records := thread.TaskRecords(above, *s.Parent.Background, reply.Task(), workflow.Now(ctx))
	if reply.Cancelled {
		// Because the thread was closed: that is no event.
		records = records[:1]
	}
	step := thread.RecordStep{Thread: above, Flush: thread.Flush{Records: records}}
	return workflow.ExecuteActivity(activity(ctx, "store the result"), signals.ActivityRecord, step).Get(ctx, nil)
}

// called hears from the thread above that it moves, and wants to be told by signal.
func (t *conversation) called(_ workflow.Context, c workflow.ReceiveChannel) bool {
	heard := c.ReceiveAsync(nil)
	t.state.Parent.Called = t.state.Parent.Called || heard
	return heard
}

// delegate asks a sub-agent, whose answer is the result of the call.
func (t *conversation) delegate(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	s := t.state
	if refusal := s.Turn.CheckDelegate(); refusal != "" {
		c.Refused(workflow.Now(ctx), refusal)
		return
	}
	id, start := c.Delegate(t.specs(ctx)...)
	t.show(ctx)
	child, err := t.startSub(ctx, id, start)
	if err != nil {
		c.SubLost(workflow.Now(ctx), reason(err))
		return
	}
	t.watchSub(ctx, id, child)
}

// watchSub hears how a sub-agent has ended that this run has asked.
func (t *conversation) watchSub(ctx workflow.Context, id string, child workflow.ChildWorkflowFuture) {
	if t.subs == nil {
		t.subs = map[string]workflow.ChildWorkflowFuture{}
	}
	t.subs[id] = child
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(ctx, "sub-agent", func(ctx workflow.Context) {
		var reply thread.DelegateReply
		if err := child.Get(ctx, &reply); err != nil {
			t.state.SubGone(id, reason(err))
		} else {
			t.state.SubEnded(workflow.Now(ctx), thread.SubEnded{ThreadID: id, DelegateReply: reply})
		}
		delete(t.subs, id)
	})
}

// awaitSub waits for the answer of a sub-agent. It returns early when the turn is interrupted,
// when the thread has to move first, and when it has something else to do while the sub-agent
// waits for people.
func (t *conversation) awaitSub(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	s := t.state
	ended := func() bool { _, _, ok := s.SubEnd(c.Sub); return ok }
	if t.subs[c.Sub] != nil || ended() {
		_ = workflow.Await(ctx, func() bool { return ended() || t.rollover(ctx) || s.Parks() })
	} else {
		to := signals.WorkflowID(s.Namespace, c.Sub)
		gone := t.awaitReport(ctx, to, func() bool { return ended() || s.Turn.Interrupted != nil || s.Parks() })
		if gone != nil {
			s.SubGone(c.Sub, reason(gone))
		}
	}
	reply, gone, ok := s.SubEnd(c.Sub)
	switch {
	case !ok || t.interrupted(ctx):
	case reply == nil:
		c.SubLost(workflow.Now(ctx), gone)
	case reply.Cancelled:
		c.SubLost(workflow.Now(ctx), "it was cancelled")
	case reply.Status == "":
		c.SubLost(workflow.Now(ctx), reply.Error)
	default:
		c.Heard(*reply)
	}
}

// startSub starts the thread of a sub-agent. It goes on when the turn moves to a new run
// with the thread.
func (t *conversation) startSub(ctx workflow.Context, id string, start thread.DelegateStart) (workflow.ChildWorkflowFuture, error) {
	// To cancel this context would cancel the sub-agent.
	own, _ := workflow.NewDisconnectedContext(ctx)
	s := t.state
	opts := workflow.ChildWorkflowOptions{
		WorkflowID:        signals.WorkflowID(s.Namespace, id),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief(start.Title),
		StaticDetails:     fmt.Sprintf("Sub-agent `%s` works for thread `%s`.", start.Agents[0], s.ThreadID),
		Memo:              map[string]any{signals.MemoTitle: start.Title, signals.MemoAgents: start.Agents, signals.MemoParent: s.ThreadID},

		TypedSearchAttributes: temporal.NewSearchAttributes(threadclient.AttributeUpdates(s.Namespace, start.Agents)...),
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(own, opts), signals.DelegateWorkflow, start)
	return child, child.GetChildWorkflowExecution().Get(own, nil)
}

// leaveSubs asks the threads of sub-agents to report to the run that follows this one.
func (t *conversation) leaveSubs(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for _, id := range t.state.Uncalled() {
		child := t.subs[id]
		if child == nil {
			continue
		}
		if child.SignalChildWorkflow(ctx, signals.SignalReport, nil).Get(ctx, nil) == nil {
			t.state.CallSub(id)
		}
		if child.IsReady() {
			// Only this run hears what it has said before it was asked.
			_ = workflow.Await(ctx, func() bool { return t.subs[id] == nil })
		}
	}
}

// delegateTask lets a sub-agent work as a background task.
func (t *conversation) delegateTask(ctx workflow.Context, r *thread.Run, c *thread.Call) {
	s := t.state
	if refusal := s.Turn.CheckDelegate(); refusal != "" {
		c.Refused(workflow.Now(ctx), refusal)
		return
	}
	step, start := c.DelegateTask(workflow.Now(ctx))
	child, err := t.startSub(ctx, step.Task.ThreadID, start)
	if err != nil {
		c.TaskNotStarted(workflow.Now(ctx), step.Task, reason(err))
		s.ForgetSub(step.Task.ThreadID)
		return
	}
	c.TaskStarted(workflow.Now(ctx), step.Task)
	t.watchTask(ctx, child, step.Task)
}

// stopSubs ends the sub-agents that nobody waits for any more.
func (t *conversation) stopSubs(ctx workflow.Context) {
	for _, id := range t.state.Turn.StopSubs() {
		t.cancelThread(ctx, id)
	}
}

func (t *conversation) cancelThread(ctx workflow.Context, threadID string) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	// One that has ended needs no end.
	_ = t.tell(ctx, workflow.RequestCancelExternalWorkflow(ctx, signals.WorkflowID(t.state.Namespace, threadID), ""))
}

func (t *conversation) subEnded(ctx workflow.Context, _ string, e thread.SubEnded) {
	t.state.SubEnded(workflow.Now(ctx), e)
}

func (t *conversation) subAsks(_ workflow.Context, _ string, a thread.SubAsks) {
	t.state.SubAsked(a)
}

func (t *conversation) subDecided(ctx workflow.Context, _ string, d thread.SubDecided) {
	t.state.SubHasDecided(workflow.Now(ctx), d)
}

// decideBelow passes a decision on to the sub-agent whose call it is about, and says what
// became of it there.
func (t *conversation) decideBelow(ctx workflow.Context, d signals.Decide) (signals.DecideResult, error) {
	id, out, err := t.state.PassDown(workflow.Now(ctx), d)
	switch {
	case err != nil:
		return signals.DecideResult{}, refuse(err)
	case out == signals.Mismatch || out == signals.NotAllowed:
		return signals.DecideResult{Result: out}, nil
	case out == signals.Accepted && t.passDecision(ctx, id, d) != nil:
		return signals.DecideResult{Result: signals.NotPending}, nil
	case t.state.Several(d.ToolCallID):
		// Whether it settles the call is known there.
		return signals.DecideResult{Result: out}, nil
	}
	done, err := awaitFor(ctx, thread.PassPatience, func() bool {
		_, _, waits := t.state.AskedBelow(d.ToolCallID)
		return !waits
	})
	switch {
	case err != nil:
		return signals.DecideResult{}, err
	case !done:
		return signals.DecideResult{}, refuse(&event.FieldError{Field: "toolCallId", Problem: "is a call of a sub-agent that has not answered yet; look whether it still waits"})
	}
	if out != signals.Accepted {
		// Another one was passed on before it.
		return signals.DecideResult{Result: t.state.Decide(workflow.Now(ctx), d)}, nil
	}
	return signals.DecideResult{Result: t.state.DecidedBelow(d)}, nil
}

// decideBelowBySignal is [conversation.decideBelow] when nobody waits for an answer.
func (t *conversation) decideBelowBySignal(ctx workflow.Context, name string, d signals.Decide) {
	id, out, err := t.state.PassDown(workflow.Now(ctx), d)
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, d, err)
		return
	}
	switch out {
	case signals.Accepted:
		// A sub-agent that has ended meanwhile waits for no decision.
		_ = t.passDecision(ctx, id, d)
	case signals.AlreadyResolved:
	case signals.Conflict, signals.Mismatch, signals.NotPending, signals.NotAllowed:
		t.state.Reject(workflow.Now(ctx), name, d, errors.New(string(out)))
	}
}

func (t *conversation) passDecision(ctx workflow.Context, threadID string, d signals.Decide) error {
	err := t.tell(ctx, workflow.SignalExternalWorkflow(ctx, signals.WorkflowID(t.state.Namespace, threadID), "", signals.SignalDecide, d))
	if err != nil {
		t.state.NotPassed(threadID, d.ToolCallID)
		if t.subs[threadID] == nil && ctx.Err() == nil {
			// What it has said before it ended counts.
			t.drain(ctx)
			t.state.SubGone(threadID, reason(err))
		}
	}
	return err
}
