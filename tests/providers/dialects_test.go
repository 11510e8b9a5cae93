package providers

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestThreadThroughDialects: one thread goes through servers of all dialects and back to the first, with a tool call by each, as its model
// changes with each turn and with each model call. Each server rejects what the real one rejects.
func TestThreadThroughDialects(t *testing.T) {
	t.Parallel()
	for _, eachCall := range []bool{false, true} {
		t.Run(map[bool]string{false: "a turn each", true: "a model call each"}[eachCall], func(t *testing.T) {
			t.Parallel()
			people := []string{"ann", "böb m"}
			var models []string
			servers := map[string]*llmtest.Server{}
			var now atomic.Int64 // the index of the model
			w := harness.New(t, harness.Options{
				Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/gpt-5", Tools: []string{"note"}}},
				Configure: func(c *threadmill.Config) {
					for i, dialect := range llmtest.Dialects() {
						name := fmt.Sprintf("server-%d", i)
						s := llmtest.NewServer(llmtest.Config{T: t, Dialect: dialect, People: people})
						p, err := openai.New(openai.Config{Name: name, APIKey: "test", BaseURL: s.URL, Dialect: dialect.Setting})
						require.NoError(t, err)
						c.Models[name], servers[name+"/any"] = p, s
						models = append(models, name+"/any")
					}
					c.Hooks = []hook.Hook{hook.OnLLMCall("switch", func(_ context.Context, call event.LLMCallEvent) (hook.Result, error) {
						at := now.Load()
						if eachCall {
							at = now.Add(1) - 1
						}
						call.Model = models[at%int64(len(models))]
						return hook.Replace(call), nil
					})}
				},
			})
			id := w.Open()
			turns, rounds := len(models), 1 // and back, with the last message
			if eachCall {
				turns, rounds = 2, len(models)+1
			}
			for turn := range turns {
				var asked strings.Builder
				for i := range rounds {
					fmt.Fprintf(&asked, "think of %d\nuse note {\"text\":\"%d\"}\nuse note {}\nthen\n", i, i)
				}
				out, err := w.Threads.Turn(w.Ctx(), id, signals.UserMessage(id, people[turn%len(people)], asked.String()+"think well\ndone"))
				require.NoError(t, err)
				require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
				if !eachCall {
					now.Add(1)
				}
			}
			require.Equal(t, signals.TurnCompleted, w.Say(id, "bye").Status) // then all records are stored
			answered := map[string]int{}
			for _, r := range check.OfType(w, id, event.TypeLLMCall) {
				answered[harness.Payload[event.LLMCall](w, r).Model]++
			}
			require.Len(t, answered, len(models), "%v", answered)
			require.Greater(t, answered[models[0]], answered[models[len(models)-1]], "and back: %v", answered)
			for model, s := range servers {
				require.Empty(t, s.Violations(), model)
				// A field is refused or required once, and never again.
				require.LessOrEqual(t, s.Calls()-answered[model], 3, model)
				for _, r := range s.Requests() {
					check.RequireAnswered(t, r.Conversation.Messages)
				}
			}
		})
	}
}
