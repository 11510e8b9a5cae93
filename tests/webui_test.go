package tests

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// shownByUI is what Temporal's Web UI shows of an event in the timeline of a workflow, or "".
func shownByUI(t *testing.T, e *historypb.HistoryEvent) string {
	summary := ""
	if p := e.GetUserMetadata().GetSummary(); p != nil {
		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(p, &summary))
	}
	switch {
	case e.GetActivityTaskScheduledEventAttributes() != nil:
		return e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() + " • " + summary
	case e.GetMarkerRecordedEventAttributes().GetMarkerName() == "LocalActivity": // whatever its summary is
		var data struct{ ActivityType string }
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(e.GetMarkerRecordedEventAttributes().GetDetails()["data"], &data))
		return data.ActivityType
	case e.GetMarkerRecordedEventAttributes() != nil, e.GetTimerStartedEventAttributes() != nil:
		require.NotEmpty(t, summary, "nobody knows what this is: %s", e)
		return summary
	}
	return ""
}

// TestWebUI: whoever looks at a thread in Temporal's Web UI reads who did what with which model and tool, what has failed, and why
// it is done again, in both modes of steps.
func TestWebUI(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, asActivities bool, _ func(costs) cost) {
		w := harness.New(t, harness.Options{StepsAsActivities: asActivities, Tools: []tool.Tool{check.Failing}, Agents: []agent.Agent{
			{Name: "alice", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "failing"}},
		}})
		thread, read := w.Open("alice"), 0
		sees := func(want ...string) (all []string, ok bool) {
			for _, e := range check.HistoryOf(w, thread, "")[read:] {
				if shown := shownByUI(t, e); shown != "" {
					all = append(all, shown)
				}
			}
			return all, !slices.ContainsFunc(want, func(one string) bool { return !slices.ContainsFunc(all, regexp.MustCompile("^"+one).MatchString) })
		}
		says := func(content string, want ...string) {
			t.Helper()
			w.SayBySignal(thread, content)
			require.Eventually(t, func() bool { _, ok := sees(want...); return ok }, testenv.Patience, testenv.Tick, "%q", want)
			read = len(check.HistoryOf(w, thread, ""))
		}
		says("hello", "the registered hooks: none$", "the registered rules$", "call_model • alice · step 1$")
		says("use note {}", "call_model [·•] alice · openai/stand-in", "run_tool [·•] alice · note")
		says(`use failing {"how":"error"}`, "call_model [·•] alice · openai/stand-in", "run_tool [·•] alice · failing", "failed: run_tool · alice · failing: .*unexpected EOF")
		says("use nothing {}", "run_tool [·•] alice · (invalid call|nothing)", "failed: run_tool · alice · invalid call: .*unknown tool")
		if asActivities {
			w.Provider.Fail(check.Failing400)
			says("and again", "call_model • alice · openai/stand-in · step 1 · [0-9]+ tokens so far$")
		} else {
			for status, want := range map[int]string{
				http.StatusServiceUnavailable: "before the model is called again: .*503", http.StatusBadRequest: "failed: call_model · alice · openai/stand-in: .*400",
			} {
				require.Eventually(t, func() bool { // the call is an activity on a machine that stalls
					w.Provider.Fail(llmtest.Status(status, ""))
					w.SayBySignal(thread, "and again")
					_, ok := sees(want)
					return ok
				}, testenv.Patience, testenv.Tick, want)
			}
			w.Provider.Fail(check.Failing400)
			w.SayBySignal(thread, "at last")
		}
		require.Eventually(t, func() bool {
			details, err := w.Temporal.QueryWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", "__temporal_workflow_metadata")
			var out sdkpb.WorkflowMetadata
			return err == nil && details.Get(&out) == nil && strings.Contains(out.GetCurrentDetails(), "| ann | alice |") && strings.Contains(out.GetCurrentDetails(), " | failed |")
		}, testenv.Patience, testenv.Tick)
	})
}
