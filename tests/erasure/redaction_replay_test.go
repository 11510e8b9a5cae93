package erasure

import (
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// replay replays the history of a thread with other redactors than it had.
func replay(t *testing.T, w *world, thread string) {
	t.Helper()
	var history historypb.History
	events := w.Temporal.GetWorkflowHistory(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", false, 0)
	for events.HasNext() {
		one, err := events.Next()
		require.NoError(t, err)
		history.Events = append(history.Events, one)
	}
	other, err := redact.New(redact.Config{Patterns: []redact.Pattern{{Name: "word", Expression: "signalled|nothing"}}})
	require.NoError(t, err)
	for name, r := range map[string]*redact.Redactor{"none": nil, "other": other} {
		t.Run("replayed with "+name, func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			all := workflows.Workflows{NameStep: workflows.Unregistered, Redact: r}
			all.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistoryWithOptions(nil, &history, worker.ReplayWorkflowHistoryOptions{
				OriginalExecution: workflow.Execution{ID: signals.WorkflowID(w.TaskQueue, thread), RunID: "replay"},
			}))
		})
	}
}
