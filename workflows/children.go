package workflows

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// children handles reports of sub-agents' threads, and decisions and answers for their calls.
type children struct{ *conversation }

func (t children) handlers() []handler {
	all := []handler{
		onSignal(t.conversation, step.SignalSubAgentEnded, t.subAgentEnded),
		onSignal(t.conversation, step.SignalSubAgentApprovals, t.subAgentRequest),
		onSignal(t.conversation, step.SignalSubAgentDecision, t.subAgentDecision),
	}
	if t.state.ParentLink.Parent != nil {
		all = append(all, handler{signal: step.SignalReport, receive: subAgent(t).reportRequested})
	}
	return all
}

// delegate starts a sub-agent, whose answer is the result of the call.
func (t *activeTurn) delegate(ctx workflow.Context, c *thread.Call) {
	if refusal := t.turn.CheckDelegate(); refusal != "" {
		c.Refused(workflow.Now(ctx), refusal)
		return
	}
	id, start := c.Delegate(t.specs(ctx)...)
	t.show(ctx)
	child, err := t.startSub(ctx, id, start)
	if err != nil {
		c.SubAgentLost(workflow.Now(ctx), reason(err))
		return
	}
	t.watchSub(ctx, id, child)
}

// watchSub waits in a coroutine for the end of a sub-agent that this workflow run started.
func (t *conversation) watchSub(ctx workflow.Context, id string, child workflow.ChildWorkflowFuture) {
	if t.subs == nil {
		t.subs = map[string]workflow.ChildWorkflowFuture{}
	}
	t.subs[id] = child
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(ctx, "sub-agent", func(ctx workflow.Context) {
		var reply step.DelegateReply
		if err := child.Get(ctx, &reply); err != nil {
			t.state.Children.ApplyLoss(id, reason(err))
		} else {
			t.state.SubAgentEnded(workflow.Now(ctx), step.SubAgentEnded{ThreadID: id, DelegateReply: reply})
		}
		delete(t.subs, id)
	})
}

// awaitSub waits for the answer of a sub-agent. It returns early when the turn is interrupted, when
// the thread must continue as new, and when the thread has other work while the sub-agent waits for
// people.
func (t *activeTurn) awaitSub(ctx workflow.Context, c *thread.Call) {
	s := t.state
	ended := func() bool { _, _, ok := s.Children.End(c.SubAgent); return ok }
	if t.subs[c.SubAgent] != nil || ended() {
		_ = workflow.Await(ctx, func() bool { return ended() || t.rollover(ctx) || s.CanPark() })
	} else {
		to := signals.WorkflowID(s.Namespace, c.SubAgent)
		gone := t.awaitReport(ctx, to, func() bool { return ended() || t.turn.Interrupted != nil || s.CanPark() })
		if gone != nil {
			s.Children.ApplyLoss(c.SubAgent, reason(gone))
		}
	}
	reply, gone, ok := s.Children.End(c.SubAgent)
	switch {
	case !ok || t.interrupted(ctx):
	case reply == nil:
		c.SubAgentLost(workflow.Now(ctx), gone)
	case reply.Cancelled:
		c.SubAgentLost(workflow.Now(ctx), "it was cancelled")
	case reply.Status == "":
		c.SubAgentLost(workflow.Now(ctx), reply.Error)
	default:
		c.SubAgentReplied(workflow.Now(ctx), *reply)
	}
}

// startSub starts the thread of a sub-agent. The child workflow outlives this workflow run.
func (t *conversation) startSub(ctx workflow.Context, id string, start step.Delegate) (workflow.ChildWorkflowFuture, error) {
	// Cancelling ctx must not cancel the sub-agent.
	own, _ := workflow.NewDisconnectedContext(ctx)
	s := t.state
	opts := workflow.ChildWorkflowOptions{
		WorkflowID:        signals.WorkflowID(s.Namespace, id),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief(start.Title),
		StaticDetails:     fmt.Sprintf("Sub-agent `%s` works for thread `%s`.", start.Agents[0], s.ThreadID),
		Memo:              map[string]any{signals.MemoTitle: start.Title, signals.MemoAgents: start.Agents, signals.MemoParent: s.ThreadID},

		TypedSearchAttributes: temporal.NewSearchAttributes(searchattr.Open(s.Namespace, start.Agents)...),
	}
	start.First.Traceparent = t.observer.Traceparent(ctx)
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(own, opts), signals.DelegateWorkflow, start)
	return child, child.GetChildWorkflowExecution().Get(own, nil)
}

// delegateTask starts a sub-agent as a background task.
func (t *activeTurn) delegateTask(ctx workflow.Context, c *thread.Call) {
	s := t.state
	if refusal := t.turn.CheckDelegate(); refusal != "" {
		c.Refused(workflow.Now(ctx), refusal)
		return
	}
	input, start := c.DelegateTask(workflow.Now(ctx))
	child, err := t.startSub(ctx, input.Task.ThreadID, start)
	if err != nil {
		c.TaskNotStarted(workflow.Now(ctx), input.Task, reason(err))
		s.ForgetSubAgent(workflow.Now(ctx), input.Task.ThreadID)
		return
	}
	c.TaskStarted(workflow.Now(ctx), input.Task)
	t.watchTask(ctx, child, input.Task)
}

// stopSubs cancels the sub-agents whose answers are no longer needed.
func (t *activeTurn) stopSubs(ctx workflow.Context) {
	for _, id := range t.turn.StopSubAgents(workflow.Now(ctx)) {
		t.cancelThread(ctx, id)
	}
}

func (t *conversation) cancelThread(ctx workflow.Context, threadID string) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	// A failure means that the thread has already ended.
	_ = t.awaitSent(ctx, workflow.RequestCancelExternalWorkflow(ctx, signals.WorkflowID(t.state.Namespace, threadID), ""))
}

func (t children) subAgentEnded(ctx workflow.Context, _ string, e step.SubAgentEnded) {
	t.state.SubAgentEnded(workflow.Now(ctx), e)
}

func (t children) subAgentRequest(_ workflow.Context, _ string, a step.SubAgentRequest) {
	t.state.SubAgentRequested(a)
}

func (t children) subAgentDecision(ctx workflow.Context, _ string, d step.SubAgentDecision) {
	t.state.SubAgentDecided(workflow.Now(ctx), d)
}

// decideForChild forwards a decision or an answer by update to the child thread of its call and returns the
// outcome.
func (t children) decideForChild(ctx workflow.Context, r forwardable) (signals.DecideResult, error) {
	f, err := r.Forward(workflow.Now(ctx))
	switch {
	case err != nil:
		return signals.DecideResult{}, refuse(err)
	case f.Outcome == signals.DecideMismatch || f.Outcome == signals.DecideNotAllowed:
		return signals.DecideResult{Result: f.Outcome}, nil
	case f.Outcome == signals.DecideAccepted && t.forward(ctx, f) != nil:
		return signals.DecideResult{Result: signals.DecideNotPending}, nil
	case t.state.Children.NeedsSeveral(f):
		// Only the child thread knows whether the decision settles the call.
		return signals.DecideResult{Result: f.Outcome}, nil
	}
	done, err := awaitFor(ctx, thread.ForwardTimeout, "an answer for a sub-agent", func() bool { return !t.state.Children.Waits(f) })
	switch {
	case err != nil:
		return signals.DecideResult{}, err
	case !done:
		return signals.DecideResult{}, refuse(event.FieldErrorf("toolCallId", "is a call of a sub-agent that has not answered yet; look whether it still waits"))
	}
	return signals.DecideResult{Result: t.state.Decisions.Forwarded(f)}, nil
}

// forwardable is a decision or an answer as the thread has read it: a sub-agent's call may wait for it.
type forwardable interface {
	Below() bool
	Forward(now time.Time) (thread.Forward, error)
	Take(now time.Time)
}

// take handles a decision or an answer by signal.
func (t children) take(ctx workflow.Context, name string, r forwardable) {
	if !r.Below() {
		r.Take(workflow.Now(ctx))
		return
	}
	f, err := r.Forward(workflow.Now(ctx))
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, f.Payload, err)
		return
	}
	switch f.Outcome {
	case signals.DecideAccepted:
		// A failure means that the sub-agent has ended.
		_ = t.forward(ctx, f)
	case signals.DecideAlreadyResolved:
	case signals.DecideConflict, signals.DecideMismatch, signals.DecideNotPending, signals.DecideNotAllowed:
		t.state.Reject(workflow.Now(ctx), name, f.Payload, errors.New(string(f.Outcome)))
	}
}

func (t children) forward(ctx workflow.Context, f thread.Forward) error {
	err := t.awaitSent(ctx, workflow.SignalExternalWorkflow(ctx, signals.WorkflowID(t.state.Namespace, f.ThreadID), "", f.Signal, f.Payload))
	if err != nil {
		t.state.Children.NotForwarded(f)
		if t.subs[f.ThreadID] == nil && ctx.Err() == nil {
			// Handle the signals that it sent before it ended.
			t.drain(ctx)
			t.state.Children.ApplyLoss(f.ThreadID, reason(err))
		}
	}
	return err
}
