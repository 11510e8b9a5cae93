package tests

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/world"
	"github.com/threadmill/threadmill/workflows"
)

// update writes the histories of this version; those of released versions stay.
var update = flag.Bool("update", false, "write the histories of the current version anew")

// shape is the folder of the histories that the current code writes. A release
// gives it a new name; the old folders are replayed for as long as threads that
// began with them may live.
const shape = "testdata/histories/v0.1"

// TestReplay replays the stored histories of every released shape.
func TestReplay(t *testing.T) {
	if *update {
		record(t)
	}
	files, err := filepath.Glob("testdata/histories/*/*.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), len(lives), "stored histories; write them with -update")
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/histories/"), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			h := &history.History{}
			require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, h))
			r := worker.NewWorkflowReplayer()
			r.RegisterWorkflowWithOptions(workflows.Thread, workflow.RegisterOptions{Name: signals.ThreadWorkflow})
			id := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
			require.NoError(t, r.ReplayWorkflowHistoryWithOptions(nil, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id, RunID: "replay"}}))
		})
	}
}

// lives are threads that go through everything that a thread can go through.
var lives = map[string]func(t *testing.T, w *world.World, id string){
	"reply": func(_ *testing.T, w *world.World, id string) { w.Say(id, "hello") },
	"tools": func(_ *testing.T, w *world.World, id string) {
		w.Say(id, "use note {}\nuse current_time {}\nuse nonsense {}")
	},
	"approvals": liveApprovals,
	"interrupt": liveInterrupt,
	"failure":   liveFailure,
	"refusals":  liveRefusals,
	"long":      liveLong,
	"closed": func(t *testing.T, w *world.World, id string) {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		w.AwaitApproval(id, 1)
		w.Post(id, "too late")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
		require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "").Get(w.Ctx(), nil))
	},
	"cancelled": func(t *testing.T, w *world.World, id string) {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		w.AwaitApproval(id, 1)
		require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), ""))
		require.Error(t, w.Temporal.GetWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "").Get(w.Ctx(), nil))
	},
}

func liveApprovals(t *testing.T, w *world.World, id string) {
	for i, d := range []event.Decision{event.Approve, event.Deny} {
		posted := w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0]
		decision := signals.Decide{ToolCallID: call.ToolCallID, Decision: d, By: "ann"}
		if i == 0 {
			_, err := w.Threads.Decide(w.Ctx(), id, decision)
			require.NoError(t, err)
		} else {
			require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, decision))
		}
		await(t, w, id, posted)
	}
}

func liveInterrupt(t *testing.T, w *world.World, id string) {
	gate := w.Provider.Block(3)
	defer gate.Release()
	posted := w.Post(id, "count 100")
	<-gate.Reached()
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	await(t, w, id, posted)
	gate.Release()
	w.Say(id, "go on")
}

func liveFailure(t *testing.T, w *world.World, id string) {
	w.Provider.Fail(llmtest.Status(400, ""))
	require.Equal(t, signals.TurnFailed, w.Say(id, "hello").Status)
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlRetry, By: "ann"}))
	awaitMessages(w, id, 2)
}

func liveRefusals(t *testing.T, w *world.World, id string) {
	workflowID := signals.WorkflowID(w.TaskQueue, id)
	for name, payload := range map[string]any{signals.SignalPost: "nonsense", signals.SignalDecide: map[string]any{"toolCallId": "x"}, signals.SignalControl: []int{1}} {
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), workflowID, "", name, payload))
	}
	w.Say(id, "hello")
}

func liveLong(t *testing.T, w *world.World, id string) {
	w.Post(id, `use shell_cmd {"command":"true"}`)
	w.AwaitApproval(id, 1)
	first := run(w, id)
	require.Eventually(t, func() bool {
		_, err := w.Threads.PostUpdate(w.Ctx(), id, signals.UserMessage(id, "ann", "more"))
		return err == nil && run(w, id) != first
	}, waitLong, waitTick)
	_, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.Approve, By: "ann"})
	require.NoError(t, err)
	settle(w, id)
}

// record lives each life once and stores the histories of all its runs.
func record(t *testing.T) {
	w := world.New(t, world.Options{Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 60}})
	host, err := os.Hostname()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(shape, 0o750))
	for name, live := range lives {
		id := w.Open("assistant")
		first := run(w, id)
		live(t, w, id)
		runs := map[string]string{name: first}
		if last := run(w, id); last != first {
			runs[name+"-last"] = last
		}
		for file, runID := range runs {
			data, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(&history.History{Events: historyOf(w, id, runID)})
			require.NoError(t, err)
			clean := strings.ReplaceAll(string(data), host+":", "worker:")
			require.NoError(t, os.WriteFile(filepath.Join(shape, file+".json"), []byte(clean), 0o600))
		}
	}
}

// historyOf returns the events of one run of a thread's workflow; "" is the current one.
func historyOf(w *world.World, thread, runID string) []*history.HistoryEvent {
	w.T.Helper()
	var out []*history.HistoryEvent
	it := w.Temporal.GetWorkflowHistory(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		require.NoError(w.T, err)
		out = append(out, e)
	}
	return out
}
