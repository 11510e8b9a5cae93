package tests

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/workflows"
)

// update writes the histories of this version; those of released versions stay.
var update = flag.Bool("update", false, "write the histories of the current version anew")

// shape is the folder of the current code's histories. A release gives it a new name; the old
// folders are replayed as long as threads that started with them may run.
const shape = "testdata/histories/v0.1"

// TestReplay replays the stored histories of every released version, on workers with the recorded
// hooks and rules, and on workers with others.
func TestReplay(t *testing.T) {
	if *update {
		record(t)
	}
	files, err := filepath.Glob("testdata/histories/*/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), len(lives)+len(hookedLives)+len(eventLives)+len(knowledgeLives), "stored histories; write them with -update")
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/histories/"), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			h := &history.History{}
			require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, h))
			for name, all := range allWorkers(t) {
				t.Run(name, func(t *testing.T) { require.NoError(t, replay(h, all)) })
			}
		})
	}
}

// replay replays a history on a worker with these workflows.
func replay(h *history.History, all *workflows.Workflows) error {
	r := worker.NewWorkflowReplayer()
	all.Register(r)
	id := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	return r.ReplayWorkflowHistoryWithOptions(nil, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id, RunID: "replay"}})
}

// lives are threads that cover everything that can happen to a thread.
var lives = map[string]func(t *testing.T, w *harness.Harness, id string){
	"reply": func(_ *testing.T, w *harness.Harness, id string) { w.Say(id, "hello") },
	"tools": func(_ *testing.T, w *harness.Harness, id string) {
		w.Say(id, "use note {}\nuse current_time {}\nuse nonsense {}")
	},
	"approvals": liveApprovals,
	"interrupt": liveInterrupt,
	"failure":   liveFailure,
	"refusals":  liveRefusals,
	"long":      liveLong,
	"closed": func(t *testing.T, w *harness.Harness, id string) {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		w.AwaitApproval(id, 1)
		w.Post(id, "too late")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
		require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "").Get(w.Ctx(), nil))
	},
	"cancelled": func(t *testing.T, w *harness.Harness, id string) {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		w.AwaitApproval(id, 1)
		require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), ""))
		require.Error(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "").Get(w.Ctx(), nil))
	},
}

func liveApprovals(t *testing.T, w *harness.Harness, id string) {
	for i, d := range []event.Decision{event.DecisionApprove, event.DecisionDeny} {
		posted := w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0]
		decision := signals.Decide{ToolCallID: call.ToolCallID, Decision: d, By: "ann"}
		if i == 0 {
			_, err := w.Threads.Decide(w.Ctx(), id, decision)
			require.NoError(t, err)
		} else {
			require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, decision))
		}
		check.Await(t, w, id, posted)
	}
}

func liveInterrupt(t *testing.T, w *harness.Harness, id string) {
	gate := w.Provider.Block(3)
	defer gate.Release()
	posted := w.Post(id, "count 100")
	<-gate.Reached()
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	check.Await(t, w, id, posted)
	gate.Release()
	w.Say(id, "go on")
}

func liveFailure(t *testing.T, w *harness.Harness, id string) {
	w.Provider.Fail(llmtest.Status(400, ""))
	require.Equal(t, signals.TurnFailed, w.Say(id, "hello").Status)
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlRetry, By: "ann"}))
	check.AwaitMessages(w, id, 2)
}

func liveRefusals(t *testing.T, w *harness.Harness, id string) {
	workflowID := signals.WorkflowID(w.TaskQueue, id)
	for name, payload := range map[string]any{signals.SignalPost: "nonsense", signals.SignalDecide: map[string]any{"toolCallId": "x"}, signals.SignalControl: []int{1}} {
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), workflowID, "", name, payload))
	}
	w.Say(id, "hello")
}

func liveLong(t *testing.T, w *harness.Harness, id string) {
	w.Post(id, `use shell_cmd {"command":"true"}`)
	w.AwaitApproval(id, 1)
	first := check.CurrentRun(w, id)
	require.Eventually(t, func() bool {
		_, err := w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "more"))
		return err == nil && check.CurrentRun(w, id) != first
	}, testenv.Patience, testenv.Tick)
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, err)
	check.Settle(w, id)
}

// record runs each life once and stores the histories of all its workflows.
func record(t *testing.T) {
	require.NoError(t, os.RemoveAll(shape))
	require.NoError(t, os.MkdirAll(shape, 0o750))
	o := harness.Options{Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 60}}
	// Threads that have used the model and the tools before run them as local activities.
	for _, name := range slices.Sorted(maps.Keys(hookedLives)) {
		r := newRecordedWorld(t, o)
		id := r.Open("assistant", "critic")
		first := check.CurrentRun(r.Harness, id)
		r.Say(id, warmUp)
		hookedLives[name](t, r, id)
		check.Settle(r.Harness, id)
		storeRuns(t, r.Harness, id, first, "local-"+name)
	}
	quick := harness.New(t, o)
	for name, live := range lives {
		id := quick.Open("assistant")
		first := check.CurrentRun(quick, id)
		quick.Say(id, warmUp)
		live(t, quick, id)
		storeRuns(t, quick, id, first, "local-"+name)
	}
	o.StepsAsActivities = true
	plain := harness.New(t, o)
	for name, live := range lives {
		id := plain.Open("assistant")
		first := check.CurrentRun(plain, id)
		live(t, plain, id)
		storeRuns(t, plain, id, first, name)
	}
	stored := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(hookedLives)) {
		r := newRecordedWorld(t, o)
		id := r.Open("assistant", "critic")
		first := check.CurrentRun(r.Harness, id)
		hookedLives[name](t, r, id)
		check.Settle(r.Harness, id)
		storeRuns(t, r.Harness, id, first, name)
		storeHooks(t, r.Harness, id, first, name, stored)
	}
	recordEvents(t, o)
	recordApprovals(t, o)
	recordKnowledge(t, o)
}

// warmUp is a message whose turn uses the model and a tool.
const warmUp = "use note {}"

// storeRuns stores all runs of a thread.
func storeRuns(t *testing.T, w *harness.Harness, id, first, name string) {
	t.Helper()
	for i, events := range check.RunsOf(w, id, first) {
		file := name
		if i > 0 {
			file = fmt.Sprintf("%s-%d", name, i+1)
		}
		write(t, file, events)
	}
}

func write(t *testing.T, name string, events []*history.HistoryEvent) {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	data, err := protojson.Marshal(&history.History{Events: events})
	require.NoError(t, err)
	clean := strings.ReplaceAll(string(data), host+":", "worker:")
	require.NoError(t, os.WriteFile(filepath.Join(shape, name+".json"), []byte(clean), 0o600))
}
