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
		sees := func(want ...string) {
			t.Helper()
			events, all := check.HistoryOf(w, thread, ""), []string{}
			for _, e := range events[read:] {
				if shown := shownByUI(t, e); shown != "" {
					all = append(all, shown)
				}
			}
			read = len(events)
			for _, one := range want {
				require.True(t, slices.ContainsFunc(all, regexp.MustCompile("^"+one).MatchString), "%s is none of\n%s", one, strings.Join(all, "\n"))
			}
		}
		quick := func() bool { return !asActivities && !check.Slow(check.HistoryOf(w, thread, "")) }
		w.SayBySignal(thread, "hello")
		sees("the registered hooks: none$", "the registered rules$", "call_model • alice · step 1$")
		w.SayBySignal(thread, "use note {}")
		sees("call_model [·•] alice · openai/stand-in", "run_tool [·•] alice · note")
		w.SayBySignal(thread, `use failing {"how":"error"}`)
		sees("call_model [·•] alice · openai/stand-in", "run_tool [·•] alice · failing", "failed: run_tool · alice · failing: .*unexpected EOF")
		w.SayBySignal(thread, "use nothing {}")
		sees("run_tool [·•] alice · (invalid call|nothing)", "failed: run_tool · alice · invalid call: .*unknown tool")
		w.Provider.Fail(llmtest.Status(http.StatusServiceUnavailable, ""))
		w.SayBySignal(thread, "hello again")
		again := "call_model • alice · openai/stand-in · step 1 · [0-9]+ tokens so far$"
		if quick() { // otherwise Temporal shows the attempts of the activity
			sees("before the model is called again: .*503", again)
		} else {
			sees(again)
		}
		w.Provider.Fail(check.Failing400)
		w.SayBySignal(thread, "and again")
		if quick() { // otherwise the activity has failed
			sees("failed: call_model · alice · openai/stand-in: .*400")
		}
		require.Eventually(t, func() bool {
			details, err := w.Temporal.QueryWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", "__temporal_workflow_metadata")
			var out sdkpb.WorkflowMetadata
			return err == nil && details.Get(&out) == nil && strings.Contains(out.GetCurrentDetails(), "| ann | alice |") && strings.Contains(out.GetCurrentDetails(), " | failed |")
		}, testenv.Patience, testenv.Tick)
	})
}
