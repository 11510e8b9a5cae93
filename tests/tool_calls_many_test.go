package tests

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// manyCalls is the script of a model that writes the number of calls in a message "calls <number> <tool>".
func manyCalls(req llm.Request) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		var n int
		var name string
		if m := req.Messages[i]; m.Role == event.RoleUser {
			if _, err := fmt.Sscanf(m.Content, "calls %d %s", &n, &name); err != nil {
				return ""
			}
			return strings.Repeat("use "+name+"\n", n) + "then\ndone"
		}
	}
	return ""
}

// TestManyToolCalls: a reply with more tool calls than its agent may make settles at once. The calls
// beyond the limit have errors as their results, and cost neither an activity nor history.
func TestManyToolCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		model               string
		limit, made, stored int
	}{
		{"openai/gpt-5", 0, 64, 64},
		{"openai/gpt-5", 0, 500, 500},
		{"openai/gpt-5", 3, 10_000, 512},
		{"anthropic/claude-sonnet-4-5", 0, 10_000, 512},
		{"google/gemini-3-pro", 0, 10_000, 512},
	} {
		t.Run(fmt.Sprintf("%d of %s, at most %d", c.made, c.model, c.limit), func(t *testing.T) {
			t.Parallel()
			var ran atomic.Int64
			count := tool.MustFunc("count", "Counts.", func(context.Context, tool.Call, struct {
				Text string `json:"text,omitempty"`
			},
			) (string, error) {
				ran.Add(1)
				return "counted", nil
			})
			w := harness.New(t, harness.Options{Provider: llmtest.Config{Script: manyCalls}, Tools: []tool.Tool{count}, Agents: []agent.Agent{{
				Name: "assistant", Model: c.model, ReasoningEffort: "low", Tools: []string{"count"},
				Limits: agent.Limits{MaxToolCalls: c.limit, ContextMessages: 2000},
			}}})
			id := w.Open()
			out := w.Say(id, fmt.Sprintf("calls %d count", c.made))
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			limit := agent.Limits{MaxToolCalls: c.limit}.WithDefaults().MaxToolCalls
			require.EqualValues(t, limit, ran.Load())
			check.RequireSettled(t, w, id)
			require.Len(t, check.Results(w, id), c.stored)
			activities := 0
			for _, e := range check.Settle(w, id) {
				if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == step.ActivityRunTool {
					activities++
				}
			}
			require.Equal(t, limit, activities)

			seen := check.ModelCalls(w)
			check.RequireAnswered(t, seen[1].Messages)
			var told []string
			for _, m := range seen[1].Messages {
				if m.Role == event.RoleTool && strings.Contains(m.Content, "limits.maxToolCalls") {
					told = append(told, m.Content)
				}
			}
			require.Len(t, told, c.stored-limit)
			if c.made > limit {
				require.Contains(t, told[0], fmt.Sprintf("at most %d tool calls (limits.maxToolCalls), and this one has %d", limit, c.made))
			}
			if c.made > c.stored {
				require.Contains(t, told[len(told)-1], fmt.Sprintf("The last %d calls of the reply are not shown.", c.made-c.stored))
			}
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and now").Status)
		})
	}
}

// TestManyToolCallsAndOthers: while the calls of such a reply run, other threads of the worker are
// answered, and an interrupt ends the turn.
func TestManyToolCallsAndOthers(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		t.Run(fmt.Sprintf("quick %v", quick), func(t *testing.T) {
			t.Parallel()
			var opts []tool.Option
			if quick {
				opts = append(opts, tool.Quick())
			}
			slow := check.NewGate("slow", opts...)
			defer slow.Release()
			w := harness.New(t, harness.Options{
				Provider: llmtest.Config{Script: manyCalls}, Tools: []tool.Tool{slow},
				Agents: []agent.Agent{{Name: "assistant", Model: "openai/gpt-5", Tools: []string{"slow"}, Limits: agent.Limits{ContextMessages: 2000}}},
			})
			id, other := w.Open(), w.Open()
			eventID := w.Post(id, "calls 10000 slow")
			for range agent.DefaultMaxToolCalls {
				select {
				case <-slow.Reached:
				case <-time.After(testenv.Patience):
					t.Fatal("the calls do not run")
				}
			}
			for range 3 {
				require.Equal(t, signals.TurnCompleted, w.Say(other, "hello").Status)
			}
			require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
			require.Equal(t, signals.TurnInterrupted, w.Await(id, eventID).Status)
			check.RequireSettled(t, w, id)
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and now").Status)
		})
	}
}
