package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/threadmill/threadmill/signals"
)

// newer is what workers of this version say beyond the shapes before, in what an activity
// returns. While workers are replaced, one of the version before may hear it, which passes it
// over: so has every worker that takes over the run.
var newer = map[string]func(activity string, reply map[string]any){
	"titles": inReplies(func(reply map[string]any) { reply["titles"] = true }),
	"terms": inPlans(func(p map[string]any) {
		p["guard"] = map[string]any{"digest": "d", "definition": "x", "arguments": "a"}
		p["ask"] = map[string]any{
			"approvers": []string{"eve"}, "quorum": 2, "expires": time.Second, "remind": time.Millisecond, "endsTurn": true, "listed": true,
		}
	}),
	"denied":  inPlans(func(p map[string]any) { p["denied"], p["deniedBy"] = "nothing is deleted", "policy never-delete" }),
	"granted": inPlans(func(p map[string]any) { p["grant"] = map[string]any{"id": "c0", "scope": "session", "by": "ann"} }),
	"lapsed":  inPlans(func(p map[string]any) { p["lapsed"] = true }),
	"client": inPlans(func(p map[string]any) {
		if p["by"] == nil {
			p["by"], p["clientTime"] = "client", time.Hour
		}
	}),
	"asks again": func(activity string, reply map[string]any) {
		if activity == signals.ActivityRunTool {
			reply["ask"] = map[string]any{"id": reply["toolCallId"], "name": "shell_cmd", "needsApproval": true, "arguments": `{"command":"true"}`}
		}
	},
}

func inReplies(change func(map[string]any)) func(string, map[string]any) {
	return func(activity string, reply map[string]any) {
		if activity == signals.ActivityCallModel {
			change(reply)
		}
	}
}

// inPlans changes the plans of calls.
func inPlans(change func(map[string]any)) func(string, map[string]any) {
	return func(activity string, reply map[string]any) {
		if activity != signals.ActivityCallModel && activity != signals.ActivityPlanCalls {
			return
		}
		calls, _ := reply["calls"].([]any)
		for _, c := range calls {
			change(c.(map[string]any))
		}
	}
}

// TestReplayMixed replays the histories of the shapes before with what activities would have
// returned that workers of this version ran.
func TestReplayMixed(t *testing.T) {
	all := allWorkers(t)["the same rules"]
	for name, change := range newer {
		t.Run(name, func(t *testing.T) {
			changed := 0
			for _, file := range filesBefore(t) {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				h := &history.History{}
				require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, h))
				if n := changeResults(t, h, change); n > 0 {
					changed += n
					require.NoError(t, replay(h, all), file)
				}
			}
			require.Positive(t, changed, "results that say more than those before")
		})
	}
}

// filesBefore are the histories of all shapes before the current one.
func filesBefore(t *testing.T) (files []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/histories/*/*.json")
	require.NoError(t, err)
	for _, file := range all {
		if !strings.HasPrefix(file, shape+"/") {
			files = append(files, file)
		}
	}
	return files
}

// changeResults changes what activities have returned, local ones among them. It returns how
// many results are other than they were.
func changeResults(t *testing.T, h *history.History, change func(string, map[string]any)) (changed int) {
	t.Helper()
	names := map[int64]string{}
	for _, e := range h.GetEvents() {
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			names[e.GetEventId()] = s.GetActivityType().GetName()
		}
		if done := e.GetActivityTaskCompletedEventAttributes(); done != nil {
			changed += changeResult(t, done.GetResult(), names[done.GetScheduledEventId()], change)
		}
		if m := e.GetMarkerRecordedEventAttributes(); m.GetMarkerName() == "LocalActivity" {
			var about struct{ ActivityType string }
			require.NoError(t, json.Unmarshal(m.GetDetails()["data"].GetPayloads()[0].GetData(), &about))
			changed += changeResult(t, m.GetDetails()["result"], about.ActivityType, change)
		}
	}
	return changed
}

func changeResult(t *testing.T, result *common.Payloads, activity string, change func(string, map[string]any)) int {
	t.Helper()
	var reply map[string]any
	if len(result.GetPayloads()) == 0 || json.Unmarshal(result.Payloads[0].Data, &reply) != nil {
		return 0
	}
	before, err := json.Marshal(reply)
	require.NoError(t, err)
	change(activity, reply)
	after, err := json.Marshal(reply)
	require.NoError(t, err)
	if string(before) == string(after) {
		return 0
	}
	result.Payloads[0].Data = after
	return 1
}
