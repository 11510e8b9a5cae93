package check

import (
	"context"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Settle waits until the workflow task after a turn has completed, so that the turn's history is
// complete.
func Settle(w *harness.Harness, thread string) []*history.HistoryEvent {
	w.T.Helper()
	var out []*history.HistoryEvent
	require.Eventually(w.T, func() bool {
		state, err := w.Threads.State(w.Ctx(), thread)
		// Read after the state, so that it contains the end of the turn.
		out = HistoryOf(w, thread, "")
		return err == nil && state.Status == signals.ThreadIdle && state.QueueLength == 0 && !TaskOpen(out)
	}, testenv.Patience, testenv.Tick)
	return out
}

// TaskOpen reports whether a workflow task has not been completed.
func TaskOpen(events []*history.HistoryEvent) bool {
	open := false
	for _, e := range events {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
			open = true
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			open = false
		}
	}
	return open
}

// AwaitRest waits until a thread has handled everything so far. A query may be ahead of that.
func AwaitRest(w *harness.Harness, thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool { return !TaskOpen(HistoryOf(w, thread, "")) }, testenv.Patience, testenv.Tick)
}

// Stalled reports whether the machine was too busy for a turn: a worker did not start or finish a
// task in time. The events that the server then adds are no cost of the turn.
func Stalled(events []*history.HistoryEvent) bool {
	return slices.ContainsFunc(events, func(e *history.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT ||
			e.GetMarkerRecordedEventAttributes().GetFailure() != nil ||
			e.GetActivityTaskStartedEventAttributes().GetLastFailure().GetTimeoutFailureInfo() != nil
	})
}

// Describe names events, a line each.
func Describe(events []*history.HistoryEvent) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.GetEventType().String()
	}
	return strings.Join(names, "\n")
}

// RunHistory returns the events of one run of a workflow; "" is the current one.
func RunHistory(ctx context.Context, temporal client.Client, workflowID, runID string) ([]*history.HistoryEvent, error) {
	var out []*history.HistoryEvent
	it := temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// CurrentRun is the id of the current run of a thread's workflow.
func CurrentRun(w *harness.Harness, thread string) string {
	w.T.Helper()
	d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "")
	require.NoError(w.T, err)
	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// HistoryOf returns the events of one run of a thread's workflow; "" is the current one.
func HistoryOf(w *harness.Harness, thread, runID string) []*history.HistoryEvent {
	w.T.Helper()
	out, err := RunHistory(w.Ctx(), w.Temporal, signals.WorkflowID(w.TaskQueue, thread), runID)
	require.NoError(w.T, err)
	return out
}

// RunsOf returns the events of a thread's workflow, run by run from a given one on.
func RunsOf(w *harness.Harness, thread, runID string) (runs [][]*history.HistoryEvent) {
	w.T.Helper()
	for runID != "" {
		events := HistoryOf(w, thread, runID)
		runs = append(runs, events)
		runID = events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return runs
}
