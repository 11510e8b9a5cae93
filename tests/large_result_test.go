package tests

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

var (
	cutNote = regexp.MustCompile(`\[… \d+ of \d+ bytes are left out\. To read them, call read_result with \{"call":"(call_[0-9a-f]+)"`)
	place   = regexp.MustCompile(`(?m)^offset (\d+): `)
)

// seeksNeedle is the script of a model that searches a result that was cut, and reads the place that it finds.
func seeksNeedle(req llm.Request) string {
	script := ""
	for _, m := range req.Messages {
		if m.Role == event.RoleUser {
			script = m.Content
		}
	}
	if script != "seek" {
		return ""
	}
	var call, offset string
	for _, m := range req.Messages {
		if found := cutNote.FindStringSubmatch(m.Content); m.Role == event.RoleTool && found != nil {
			call = found[1]
		}
		if found := place.FindStringSubmatch(m.Content); m.Role == event.RoleTool && found != nil {
			offset = found[1]
		}
	}
	return fmt.Sprintf("use dump\nthen\nuse read_result {\"call\":%q,\"find\":\"NEEDLE\"}\nthen\nuse read_result {\"call\":%[1]q,\"offset\":%s}\nthen\ndone", call, offset)
}

// TestLargeResult: a model is shown the beginning and the end of a large result, finds what it needs in the rest and reads that. The
// thread goes on.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	for name, asActivities := range map[string]bool{"local steps": false, "steps as activities": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit, half = 4 << 10, 512 << 10
			dump := tool.MustFunc("dump", "Returns a lot.", func(context.Context, tool.Call, struct{}) (string, error) {
				return strings.Repeat("hay ", half/4) + "the needle is 42" + strings.Repeat(" hay", half/4), nil
			})
			w := harness.New(t, harness.Options{
				Provider: llmtest.Config{Script: seeksNeedle}, Tools: []tool.Tool{dump}, StepsAsActivities: asActivities,
				Agents: []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"dump"}, Limits: agent.Limits{MaxResult: limit}}},
			})
			id := w.Open()
			require.Equal(t, signals.TurnCompleted, w.Say(id, "hello").Status)
			out := w.Say(id, "seek")
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and now").Status)

			requests := check.ModelCalls(w)
			require.Len(t, requests, 1+4+1)
			require.Equal(t, []string{"dump"}, requests[0].Offered())
			require.Equal(t, []string{"dump"}, requests[1].Offered(), "nothing is cut yet")
			var cut []string
			for _, r := range requests[2:] {
				require.Equal(t, []string{"dump", builtin.ReadResult}, r.Offered())
				i := slices.IndexFunc(r.Messages, func(m llm.Message) bool { return m.Role == event.RoleTool })
				cut = append(cut, r.Messages[i].Content)
				for _, m := range r.Messages {
					require.True(t, m.Role != event.RoleTool || len(m.Content) <= limit)
				}
			}
			require.Regexp(t, cutNote, cut[0])
			require.NotContains(t, cut[0], "needle")
			require.Equal(t, slices.Repeat(cut[:1], len(cut)), cut, "the conversation keeps its beginning, for the caches of providers")

			results := check.ResultsOf(w, id, builtin.ReadResult)
			require.Len(t, results, 2)
			require.Regexp(t, fmt.Sprintf(`^offset %d: … .*the needle is 42.* …\n$`, half+len("the ")), results[0].Content)
			require.Contains(t, results[1].Content, fmt.Sprintf("[bytes %d to ", half+len("the ")))
			require.Contains(t, results[1].Content, "]\nneedle is 42 hay")
			require.Len(t, check.ResultsOf(w, id, "dump")[0].Content, 2*half+len("the needle is 42"), "the record has everything")
			call := harness.Payload[event.LLMCall](w, check.RecordOf(w, id, recordid.LLMCall(out.Message.ID)))
			require.Equal(t, limit, call.Context.Result) // the harness reproduces the calls
		})
	}
}
