package check

import (
	"slices"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Paced makes turns until all of their steps are local activities: on a busy machine, a step may take long at first.
func Paced(w *harness.Harness, thread string, turn func()) {
	w.T.Helper()
	if w.StepsAsActivities() {
		w.T.Skip("the suite runs each step as an activity")
	}
	for range 10 {
		before := len(Settle(w, thread))
		turn()
		if after := Settle(w, thread)[before:]; len(LocalSteps(after)) > 0 && !Slow(after) {
			return
		}
	}
	require.Fail(w.T, "the machine is too busy for local activities", Describe(HistoryOf(w, thread, "")))
}

// LocalSteps returns the markers of local activities.
func LocalSteps(events []*history.HistoryEvent) []*history.HistoryEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e *history.HistoryEvent) bool {
		return e.GetMarkerRecordedEventAttributes().GetMarkerName() != "LocalActivity"
	})
}

// Slow reports whether a step took too long for a local activity. The first step after an update is none, since Temporal has to keep
// the update before.
func Slow(events []*history.HistoryEvent) bool {
	n := 0
	for _, e := range events {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			n++
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			n--
		}
	}
	return n > 0
}

// Scheduled reports whether an activity was scheduled.
func Scheduled(events []*history.HistoryEvent) bool {
	return slices.ContainsFunc(events, func(e *history.HistoryEvent) bool {
		return e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
	})
}
