package erasure

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestRedactionBudget counts the markers of a thread: a turn has none, and a plain signal has one if something is left in it.
func TestRedactionBudget(t *testing.T) {
	w := newWorld(t, harness.Options{})
	plain, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	thread := w.Open()
	w.Say(thread, "first")
	markers := func() (n int) {
		events := w.Temporal.GetWorkflowHistory(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			one, err := events.Next()
			require.NoError(t, err)
			switch one.GetEventType() {
			case enumspb.EVENT_TYPE_MARKER_RECORDED, enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
				if one.GetMarkerRecordedEventAttributes().GetMarkerName() != "LocalActivity" {
					n++
				}
			}
		}
		return n
	}
	before := markers()
	w.Say(thread, "I pay with "+card)
	w.Await(thread, w.Post(thread, "I pay with "+card))
	require.Equal(t, before, markers(), "the client has redacted")
	id, err := plain.PostSignal(w.Ctx(), thread, signals.UserMessage(thread, "ann", "nothing"))
	require.NoError(t, err)
	w.Await(thread, id)
	require.Equal(t, before, markers(), "nothing to redact")
	id, err = plain.PostSignal(w.Ctx(), thread, signals.UserMessage(thread, "ann", "I pay with "+card))
	require.NoError(t, err)
	w.Await(thread, id)
	require.Equal(t, before+1, markers())
}
