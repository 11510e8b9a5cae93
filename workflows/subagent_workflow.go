package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// delegate is the workflow of a sub-agent's thread. It ends when the agent has answered.
func (w *Workflows) delegate(ctx workflow.Context, in input) (step.DelegateReply, error) {
	ctx = w.context(ctx)
	if in.State == nil && (in.Parent == nil || in.First == nil) {
		return step.DelegateReply{}, temporal.NewNonRetryableApplicationError("a sub-agent's thread is started by a thread, not by clients; start a "+signals.ThreadWorkflow, signals.RefusedType, nil)
	}
	c, err := w.open(ctx, in)
	if err != nil {
		return step.DelegateReply{}, err
	}
	t := subAgent{c}
	t.notifyParent(ctx)
	t.watchDeadline(ctx)
	err = t.live(ctx, signals.DelegateWorkflow)
	switch {
	case temporal.IsCanceledError(err):
		return t.endLost(ctx, step.DelegateReply{Cancelled: true, Error: cancelled.Error}, err)
	case err != nil:
		return step.DelegateReply{}, err
	}
	return t.endDelegate(ctx)
}

// subAgent is the thread of a sub-agent.
type subAgent struct{ *conversation }

// endLost reports a sub-agent that ended without an answer to a parent thread that does not wait
// for the child workflow, since it may have been cancelled by someone else.
func (t subAgent) endLost(ctx workflow.Context, reply step.DelegateReply, err error) (step.DelegateReply, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if lost := t.reportToParent(ctx, reply); lost != nil {
		return step.DelegateReply{}, lost
	}
	return step.DelegateReply{}, err
}

// watchDeadline cancels a sub-agent's work at the deadline of its task.
func (t subAgent) watchDeadline(ctx workflow.Context) {
	task := t.state.ParentLink.Parent.Background
	if task == nil {
		return
	}
	deadline := task.Deadline
	workflow.GoNamed(ctx, "deadline", func(ctx workflow.Context) {
		if late, err := workflow.AwaitWithTimeout(ctx, deadline.Sub(workflow.Now(ctx)), func() bool { return t.state.Closing != nil }); err != nil || late {
			return
		}
		reason := fmt.Sprintf("it had not completed by its deadline, %s", deadline.UTC().Format(time.RFC3339))
		c := signals.Control{Action: signals.ControlInterrupt, By: "threadmill", Reason: reason, EventID: t.state.ParentLink.FirstID(t.state.Ref())}
		_ = t.interruptEvent(ctx, c)
	})
}

// notifyParent sends the notices about requests for approval and input to the parent thread, in order.
func (t subAgent) notifyParent(ctx workflow.Context) {
	above := signals.WorkflowID(t.state.Namespace, t.state.ParentLink.Parent.ThreadID)
	workflow.GoNamed(ctx, "notes", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		for workflow.Await(ctx, func() bool { return len(t.state.ParentLink.Notices) > 0 }) == nil {
			var sent workflow.Future
			if note := t.state.ParentLink.Notices[0]; note.Approvals != nil {
				sent = workflow.SignalExternalWorkflow(ctx, above, "", step.SignalSubAgentApprovals, note.Approvals)
			} else {
				sent = workflow.SignalExternalWorkflow(ctx, above, "", step.SignalSubAgentDecision, note.Decided)
			}
			// A failure means that the parent thread is gone.
			_ = sent.Get(ctx, nil)
			t.state.ParentLink.NoticeSent()
		}
	})
}

// endDelegate closes the thread of a sub-agent that has answered, and stores the result of the call
// that waits for it.
func (t subAgent) endDelegate(ctx workflow.Context) (step.DelegateReply, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	s := t.state
	t.drain(ctx)
	// Before the thread is closed, since the outcome of its first turn is soon forgotten.
	input := s.EndStep()
	// The thread may have been closed before the sub-agent answered.
	closed := s.Closing != nil
	if !closed {
		s.StartClosing(signals.Control{Action: signals.ControlClose, By: s.ParentLink.Parent.Agent, Reason: "the sub-agent has answered"})
		t.endWork(ctx)
	}
	input.Flush = s.Outbox.Flush()
	var end step.EndReply
	if err := t.stored(input.Flush, t.effect(ctx, activity, "answer", step.ActivityEndDelegate, input, &end)); err != nil {
		return t.endLost(ctx, step.DelegateReply{Error: step.Why(reason(err))}, err)
	}
	if !closed {
		t.finish(ctx)
	}
	_ = workflow.Await(ctx, func() bool { return len(s.ParentLink.Notices) == 0 })
	reply := step.DelegateReply{Status: input.Status, Usage: s.Usage, Answer: end.Answer, Truncated: end.Truncated, Failed: end.Failed, Result: end.Result, Error: end.Error}
	return reply, t.reportToParent(ctx, reply)
}
