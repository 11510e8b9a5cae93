package localsteps

import (
	"slices"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"telling": telling, "asking": asking, "answering": answering, "nats": onNATS})
}

func has(events []*history.HistoryEvent, kind enumspb.EventType) bool {
	return slices.ContainsFunc(events, func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
}

// lostTask reports whether the thread is in the workflow task of a turn, whose steps so far were local activities.
func lostTask(w *harness.Harness, thread string, before int) bool {
	w.T.Helper()
	cut := check.HistoryOf(w, thread, "")[before:]
	return cut[len(cut)-1].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED && !check.Scheduled(cut)
}
