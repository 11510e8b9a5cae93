package localsteps

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"telling": telling, "nats": onNATS})
}

// paced makes turns until all of their steps are local activities: on a busy machine, a step may take long at first.
func paced(w *harness.Harness, thread string, turn func()) {
	w.T.Helper()
	if harness.StepsAsActivities() {
		w.T.Skip("the suite runs each step as an activity")
	}
	for range 10 {
		before := len(check.Settle(w, thread))
		turn()
		if after := check.Settle(w, thread)[before:]; len(localSteps(after)) > 0 && !scheduled(after) {
			return
		}
	}
	require.Fail(w.T, "the machine is too busy for local activities", check.Describe(check.HistoryOf(w, thread, "")))
}

// localSteps returns the markers of local activities.
func localSteps(events []*history.HistoryEvent) []*history.HistoryEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e *history.HistoryEvent) bool {
		return e.GetMarkerRecordedEventAttributes().GetMarkerName() != "LocalActivity"
	})
}

// scheduled reports whether an activity was scheduled.
func scheduled(events []*history.HistoryEvent) bool {
	return has(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
}

func has(events []*history.HistoryEvent, kind enumspb.EventType) bool {
	return slices.ContainsFunc(events, func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
}

// lostTask reports whether the thread is in the workflow task of a turn, whose steps so far were local activities.
func lostTask(w *harness.Harness, thread string, before int) bool {
	w.T.Helper()
	cut := check.HistoryOf(w, thread, "")[before:]
	return cut[len(cut)-1].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED && !scheduled(cut)
}
