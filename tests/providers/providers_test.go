package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// providers has a model of each provider.
var providers = []string{"openai/gpt-5", "openai-responses/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-3-pro"}

// switched are models of each provider, with what makes them think.
var switched = append(slices.Clone(providers), "anthropic/claude-opus-4-8", "openai-responses/gpt-5.1", "google/gemini-2.5-flash")

// protocolOf returns the protocol that a model's provider speaks, and the provider's name of the model.
func protocolOf(model string) (protocol, name string) {
	protocol, name, _ = strings.Cut(model, "/")
	if protocol == "openai" {
		protocol = harness.Protocol()
	}
	return protocol, name
}

// TestProviders runs turns with each provider. The servers reject what the real ones reject.
func TestProviders(t *testing.T) {
	t.Parallel()
	for _, model := range providers {
		t.Run("S4-63 "+model, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Options{Agents: []agent.Agent{
				{Name: "scribe", Instructions: "You write down.", Model: model, Tools: []string{"note", "current_time"}, ReasoningEffort: "low"},
				{Name: "talker", Instructions: "You talk.", Model: model},
			}})
			id := w.Open("scribe", "talker")
			view := check.Watch(t, w, id, "")
			p := signals.NewPost("e1", event.NewMessage{
				ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Metadata: map[string]any{"secret": "kept-from-models"},
				Content: "@scribe\nthink of milk\nuse note {\"text\":\"milk\"}\nuse note {}\nthen\nthink of the time\nuse current_time {}\nthen\nthink well\none two three",
			})
			out, err := w.Threads.Turn(w.Ctx(), id, p)
			require.NoError(t, err)
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			require.Contains(t, out.Message.Content, "one two three")
			calls := check.ModelCalls(w)
			require.Len(t, calls, 3)
			t.Run("S4-55 custom fields stay here", func(t *testing.T) {
				for _, c := range calls {
					require.NotContains(t, c.Raw, "kept-from-models")
					require.NotContains(t, c.Raw, id)
					check.RequireAnswered(t, c.Messages)
				}
			})
			t.Run("S4-58 S4-60 pieces come in order, under the id of the message", func(t *testing.T) {
				last := w.Messages(id)[6]
				require.Equal(t, last.Content, check.Streamed(view.Until(t, check.IsFinal), last.ID))
			})
			t.Run("S4-57 S4-62 tools can be left out, and their rules are then", func(t *testing.T) {
				require.Equal(t, []string{"note", "current_time"}, calls[0].Offered())
				require.Contains(t, calls[0].Messages[0].Content, "Rules for tools:")
				w.Provider.Reset()
				check.Say(w, id, "@talker\nhello")
				last := check.Only(t, check.ModelCalls(w))
				require.Empty(t, last.Tools)
				require.Equal(t, "You talk.", last.Messages[0].Content)
			})
			t.Run("thoughts are sent back to the model", func(t *testing.T) {
				protocol, name := protocolOf(model)
				var kept int
				for _, r := range check.OfType(w, id, event.TypeLLMCall) {
					call := harness.Payload[event.LLMCall](w, r)
					if call.Opaque != nil {
						kept++
						require.Equal(t, protocol, call.Opaque.Origin.Provider)
						require.Equal(t, name, call.Opaque.Origin.Model)
						var data any
						require.NoError(t, json.Unmarshal(call.Opaque.Data, &data))
					}
				}
				switch protocol {
				case "openai":
					require.Zero(t, kept, "Chat Completions has none")
				case "openai-responses":
					require.Equal(t, 3, kept)
					require.Contains(t, calls[1].Raw, `"summary":[{"text":"of milk","type":"summary_text"}]`)
					require.Contains(t, calls[1].Raw, `"encrypted_content":"`)
				case "anthropic":
					require.Equal(t, 3, kept)
					require.Contains(t, calls[1].Raw, `"thinking":"of milk"`)
				default:
					require.Equal(t, 2, kept)
					require.Contains(t, calls[1].Raw, "thoughtSignature")
					require.NotContains(t, calls[1].Raw, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "it has its own")
				}
			})
		})
	}
}

// TestProviderSwitches changes the provider at every model call of one conversation, in the middle of
// turns with parallel tools and thoughts. Each server rejects what the real one rejects.
func TestProviderSwitches(t *testing.T) {
	t.Parallel()
	var w *harness.Harness
	w = harness.New(t, harness.Options{
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/gpt-5", ReasoningEffort: "low", Tools: []string{"note"}}},
		Configure: func(c *threadmill.Config) {
			c.Hooks = []hook.Hook{hook.OnLLMCall("switch", func(_ context.Context, call event.LLMCallEvent) (hook.Result, error) {
				call.Model = switched[w.Provider.Calls()%len(switched)]
				return hook.Replace(call), nil
			})}
		},
	})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	const turns, rounds = 3, 12
	var asked string
	for i := range rounds {
		asked += fmt.Sprintf("think of %d\nuse note {\"text\":\"%d\"}\nuse note {}\nthen\n", i, i)
	}
	for range turns {
		out := w.Say(id, asked+"think well\ndone")
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	}
	models := map[string]int{}
	for _, r := range check.OfType(w, id, event.TypeLLMCall) {
		models[harness.Payload[event.LLMCall](w, r).Model]++
	}
	t.Run("S4-63 every provider goes on with what the others began", func(t *testing.T) {
		for _, model := range switched {
			require.GreaterOrEqual(t, models[model], 5, "%v", models)
		}
		require.Equal(t, turns*(rounds+1), w.Provider.Calls(), "each request is accepted the first time")
		paths := map[string]bool{}
		for _, r := range w.Provider.Requests() {
			path, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL, "/v1beta"), "/v1"), "/gemini")
			paths[path] = true
		}
		for path, protocol := range map[string]string{"/chat/completions": "openai", "/responses": "openai-responses", "/messages": "anthropic", "/models": "google"} {
			require.True(t, paths[path] || protocol == "openai" && harness.Protocol() != "openai", path)
		}
	})
	t.Run("each gets its own thoughts back, within the turn", func(t *testing.T) {
		back := map[string]int{}
		for _, c := range check.ModelCalls(w) {
			for _, field := range []string{`"encrypted_content":"`, `"signature":"`, `"thoughtSignature":"`} {
				if strings.Contains(c.Raw, field) {
					back[field]++
				}
			}
			check.RequireAnswered(t, c.Messages)
		}
		require.Len(t, back, 3, "%v", back)
	})
	t.Run("S4-58 S4-60 viewers see the thoughts of all", func(t *testing.T) {
		var thoughts strings.Builder
		finals := 0
		for _, f := range view.Until(t, func(f check.Frame) bool {
			if check.IsFinal(f) {
				finals++
			}
			return finals == turns
		}) {
			if f.Event.Type == event.EventThought {
				thoughts.WriteString(f.Event.Content)
			}
		}
		for i := range rounds {
			require.GreaterOrEqual(t, strings.Count(thoughts.String(), fmt.Sprintf("of %d", i)), turns)
		}
	})
}

// TestProviderRefusals: what no retry can change fails at once, and says why.
func TestProviderRefusals(t *testing.T) {
	t.Parallel()
	for _, model := range providers {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Model: model}}})
			id := w.Open()
			v := check.Watch(t, w, id, "")
			w.Provider.Fail(llmtest.Status(400, "").WithError("", "prompt is too long: 210000 tokens > 200000 maximum"))
			out := w.Say(id, "hello")
			require.Equal(t, signals.TurnFailed, out.Status)
			require.Contains(t, out.Error, "prompt is too long")
			require.Equal(t, llm.ClassContextOverflow, out.Class)
			failed := harness.Payload[event.Failure](w, check.Only(t, check.OfType(w, id, event.TypeError)))
			require.Equal(t, llm.ClassContextOverflow, failed.Class)
			shown := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventError })
			require.Equal(t, llm.ClassContextOverflow, shown[len(shown)-1].Event.Class)
			require.Contains(t, failureTypes(check.HistoryOf(w, id, "")), "model.context_overflow")
			require.Equal(t, 1, w.Provider.Calls())
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and now").Status)
		})
	}
}

// failureTypes returns the types of the errors of failed activities.
func failureTypes(events []*history.HistoryEvent) (types []string) {
	for _, e := range events {
		if f := e.GetActivityTaskFailedEventAttributes().GetFailure(); f != nil {
			types = append(types, f.GetApplicationFailureInfo().GetType())
		}
	}
	return types
}

// TestReplyIsAnnounced: viewers of a world learn of a reply before the provider does, with every
// provider. A message has one start, however often the model is called for it.
func TestReplyIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, model := range providers {
		t.Run("S4-54 S4-60 "+model, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Model: model, Tools: []string{"note"}}}})
			id := w.Open()
			v := check.WatchAt(t, w, "/v1/threads/"+id+"/events?view=world", "")
			gate := w.Provider.Block(0)
			defer gate.Release()
			w.Provider.Fail(llmtest.Drop(2), llmtest.Status(429, "1"))
			w.Post(id, "one two three")
			require.Equal(t, []string{"start"}, repliesOf(t, v, 1), "the provider has said nothing yet")
			gate.Release()
			require.Equal(t, []string{"chunk", "chunk", "reset", "reset", "chunk", "chunk", "chunk", "end"}, repliesOf(t, v, 8))
			require.Equal(t, 3, w.Provider.Calls())

			w.Provider.Fail(llmtest.Status(429, "1"), llmtest.Status(401, ""))
			w.Post(id, "one two three")
			require.Equal(t, []string{"start", "reset"}, repliesOf(t, v, 2), "also of one that does not come")

			t.Run("S4-59 a reply with tool calls has an end too", func(t *testing.T) {
				w.Post(id, "use note {}\nthen\ndone")
				require.Equal(t, []string{"start", "end", "start"}, repliesOf(t, v, 3))
			})
		})
	}
}

// repliesOf reads n events of replies, and returns their types.
func repliesOf(t *testing.T, v *check.View, n int) (types []string) {
	t.Helper()
	for len(types) < n {
		line, err := v.Lines.ReadString('\n')
		require.NoError(t, err)
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		var e struct {
			Type event.WorldEventType `json:"type"`
			Data event.WorldSSE       `json:"data"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		if e.Type == event.WorldSSEEvent {
			types = append(types, string(e.Data.Type))
		}
	}
	return types
}
