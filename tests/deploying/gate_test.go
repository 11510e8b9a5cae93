package deploying

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/ops/gate"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestGate: a program replays a sample of what runs. It fails for threads that it would replay, and not for those that are
// pinned to another build.
func TestGate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, harness.Options{Agents: check.Team()})
	stop := f.Start("", false)
	idle, waiting := f.Open("assistant"), f.Open("assistant")
	f.Say(idle, check.Asks("helper", "use note {}"))
	f.Post(waiting, `use shell_cmd {"command":"true"}`)
	f.AwaitApproval(waiting, 1)

	replay := func(odd bool) (report gate.Report) {
		t.Helper()
		replayer, err := threadmill.NewReplayer(threadmill.Config{}, gate.Options(client.Options{Interceptors: interceptors(odd)}))
		require.NoError(t, err)
		report = *gate.NewReport()
		g := gate.Gate{Replayer: replayer, Each: report.Add}
		require.NoError(t, g.Live(f.Ctx(), gate.Live{Client: f.Temporal, TaskQueue: f.TaskQueue, Sample: 1}))
		return report
	}
	t.Run("the SDK's calls replay a history that names its workflow", func(t *testing.T) {
		replayer, err := threadmill.NewReplayer(threadmill.Config{}, worker.WorkflowReplayerOptions{})
		require.NoError(t, err)
		h := &history.History{Events: check.HistoryOf(f.Harness, waiting, "")}
		require.NoError(t, replayer.ReplayWorkflowHistory(nil, h))
		raw, err := protojson.Marshal(h)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "history.json")
		require.NoError(t, os.WriteFile(file, raw, 0o600))
		require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		require.ErrorContains(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, "none.json"), "none.json")
		require.NoError(t, replayer.ReplayWorkflowExecution(f.Ctx(), f.Temporal.WorkflowService(), nil, "default", workflow.Execution{ID: signals.WorkflowID(f.TaskQueue, waiting)}))
		require.NoError(t, replayer.ReplayPartialWorkflowHistoryFromJSONFile(nil, file, h.Events[2].EventId))
	})
	both := func(r gate.Report) bool {
		return r.By["newest"] == 1 && r.By["longest"]+r.By["waiting for approval"] == 1
	}
	require.Eventually(t, func() bool { r := replay(false); return both(r) && len(r.Failed) == 0 }, testenv.Patience, testenv.Tick)

	report := replay(true)
	require.Len(t, report.Failed, 2)
	require.Empty(t, report.Pinned)
	for _, one := range report.Failed {
		require.Equal(t, signals.ThreadWorkflow, one.Type)
		require.Contains(t, one.Advice, "workflow.GetVersion")
	}

	f.Start("1", false)
	f.Switch("1")
	f.Moved(idle, "1")
	stop()
	require.Eventually(t, func() bool { return len(replay(true).Pinned) == 1 }, testenv.Patience, testenv.Tick)
	report = replay(true)
	require.Len(t, report.Failed, 1)
	require.Equal(t, "1", report.Pinned[0].Build)
}
