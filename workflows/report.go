package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// A child workflow returns its result to the workflow run that started it, and that run is gone when
// the thread continues as new. The thread therefore sends signal "report" to its hook workflows and
// sub-agents first: those that have not ended by then also send their results to the thread by
// signal. The next run waits for these signals, and checks that the children still exist.

// requestReport asks a hook workflow to report to the next workflow run. It returns false if the
// hook workflow has ended.
func (t *activeTurn) requestReport(ctx workflow.Context, e thread.HookEvent, child workflow.ChildWorkflowFuture) bool {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return false
	}
	if err := child.SignalChildWorkflow(ctx, step.SignalReport, nil).Get(ctx, nil); err != nil {
		return false
	}
	t.turn.ReportRequested(e)
	return !child.IsReady()
}

// requestSubReports asks the threads of sub-agents to report to the next workflow run.
func (t *conversation) requestSubReports(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for _, id := range t.state.Children.ReportsToRequest() {
		child := t.subs[id]
		if child == nil {
			continue
		}
		if child.SignalChildWorkflow(ctx, step.SignalReport, nil).Get(ctx, nil) == nil {
			t.state.Children.MarkReportRequested(id)
		}
		if child.IsReady() {
			// Only this run receives a result that was returned before the request.
			_ = workflow.Await(ctx, func() bool { return t.subs[id] == nil })
		}
	}
}

// The interval at which a thread that has continued as new checks that a child workflow still
// exists, since a terminated one does not report. It doubles from firstLook to lastLook.
const (
	firstLook = 10 * time.Second
	lastLook  = time.Hour
)

// awaitReport waits until a child workflow has reported or the thread must continue as new again.
// It fails if the workflow is gone.
func (t *activeTurn) awaitReport(ctx workflow.Context, id string, reported func() bool) error {
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		if err := workflow.SignalExternalWorkflow(ctx, id, "", step.SignalReport, nil).Get(ctx, nil); err != nil {
			// Handle the signals that it sent before it ended.
			t.drain(ctx)
			return err
		}
		done, err := awaitFor(ctx, wait, "the report of a sub-agent", func() bool { return reported() || t.rollover(ctx) })
		if done || err != nil {
			return nil
		}
	}
}

// reportRequested handles the parent thread's request to report by signal.
func (t subAgent) reportRequested(_ workflow.Context, c workflow.ReceiveChannel) bool {
	if !c.ReceiveAsync(nil) {
		return false
	}
	t.state.ParentLink.ReportToParent()
	return true
}

// report sends the decision to a thread that has continued as new.
func (h *hookRun) report(ctx workflow.Context) error {
	requests := workflow.GetSignalChannel(ctx, step.SignalReport)
	if !requests.ReceiveAsync(nil) {
		return nil
	}
	to := signals.WorkflowID(h.in.Thread.Namespace, h.in.Thread.ThreadID)
	key := workflow.GetInfo(ctx).WorkflowExecution.ID[len(signals.HookWorkflowID(h.in.Thread.Namespace, h.in.Thread.ThreadID, "")):]
	return workflow.SignalExternalWorkflow(ctx, to, "", step.SignalHookDecided, step.HookDecided{EventID: key, Decision: h.decision}).Get(ctx, nil)
}

// reportToParent reports by signal to a parent thread that has continued as new, or that does not
// wait.
func (t subAgent) reportToParent(ctx workflow.Context, reply step.DelegateReply) error {
	s := t.state
	t.drain(ctx)
	if !s.ParentLink.Parent.ReportRequested && s.ParentLink.Parent.Background == nil {
		return nil
	}
	to := signals.WorkflowID(s.Namespace, s.ParentLink.Parent.ThreadID)
	err := workflow.SignalExternalWorkflow(ctx, to, "", step.SignalSubAgentEnded, step.SubAgentEnded{ThreadID: s.ThreadID, DelegateReply: reply}).Get(ctx, nil)
	var gone *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &gone) {
		return err
	}
	if s.ParentLink.Parent.Background == nil {
		return nil
	}
	above := step.Ref{Namespace: s.Namespace, ThreadID: s.ParentLink.Parent.ThreadID}
	records := thread.TaskRecords(above, *s.ParentLink.Parent.Background, reply.Task(), workflow.Now(ctx))
	if reply.Cancelled {
		// The task was cancelled because the thread was closed, which is not an event.
		records = records[:1]
	}
	input := step.Record{Thread: above, Flush: step.Flush{Records: records}}
	return workflow.ExecuteActivity(activity(ctx, "store the result"), step.ActivityRecord, input).Get(ctx, nil)
}
