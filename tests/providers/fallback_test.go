// Package providers tests what others provide: models, with their limits and failures, and MCP, as a client and as a server.
package providers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// shaky is a world with a second provider, "shaky", which a chain prefers to that of the world.
type shaky struct {
	*harness.Harness
	provider *llmtest.Server
}

func newShaky(t *testing.T, model string, change func(*threadmill.Config)) *shaky {
	w := &shaky{provider: llmtest.NewServer(llmtest.Config{T: t})}
	t.Cleanup(w.provider.Close)
	w.Harness = harness.New(t, harness.Options{
		Agents: []agent.Agent{{Name: "assistant", Model: model, Tools: []string{"note"}}},
		Configure: func(cfg *threadmill.Config) {
			p, err := openai.New(openai.Config{Name: "shaky", APIKey: "test", BaseURL: w.provider.URL, Timeouts: llm.Timeouts{Idle: 2 * time.Second}})
			require.NoError(t, err)
			cfg.Models["shaky"] = p
			cfg.ModelRetries = map[string]llm.Retry{
				"shaky":  {InitialInterval: 200 * time.Millisecond, MaxInterval: time.Second},
				"openai": {InitialInterval: 200 * time.Millisecond, MaxInterval: time.Second},
			}
			cfg.Fallbacks = map[string]llm.Fallback{"main": {Chain: []string{"shaky/first", "openai/second"}, ReturnAfter: 2 * time.Second}}
			if change != nil {
				change(cfg)
			}
		},
	})
	return w
}

// modelCalls are the records of a thread's model calls.
func (w *shaky) modelCalls(thread string) (calls []event.LLMCall, stored []time.Time) {
	records, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{Types: []string{event.TypeLLMCall}})
	require.NoError(w.T, err)
	for _, r := range records {
		var call event.LLMCall
		require.NoError(w.T, json.Unmarshal(r.Payload, &call))
		calls, stored = append(calls, call), append(stored, r.CreatedAt)
	}
	return calls, stored
}

// TestFallbackInMidReply: a reply that breaks off is replaced by that of the next model, for viewers who
// watch and in every record.
func TestFallbackInMidReply(t *testing.T) {
	t.Parallel()
	w := newShaky(t, "main", nil)
	id := w.Open()
	v := check.Watch(t, w.Harness, id, "")
	w.provider.Fail(llmtest.Drop(3))
	out := w.Say(id, "count 6")
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, "user ann: count 6\nassistant assistant: 1 2 3 4 5 6\n", w.Transcript(id))
	calls, _ := w.modelCalls(id)
	require.Len(t, calls, 1)
	require.True(t, strings.HasPrefix(calls[0].Model, "openai/"), calls[0].Model)
	require.Len(t, calls[0].Failed, 1)
	require.Equal(t, "shaky/first", calls[0].Failed[0].Model)
	require.Equal(t, "unreachable", calls[0].Failed[0].Class)
	require.Equal(t, 1, w.provider.Calls())
	require.Equal(t, 1, w.Provider.Calls())

	seen := v.Until(t, check.IsFinal)
	require.Equal(t, "1 2 3 4 5 6", check.Streamed(seen, w.Messages(id)[1].ID), "viewers discard what was cut off")
	var told []event.Retry
	for _, e := range seen {
		if e.Event.Status != nil && e.Event.Status.Retry != nil {
			told = append(told, *e.Event.Status.Retry)
		}
	}
	require.Len(t, told, 1)
	require.Equal(t, "openai/second", told[0].Next, "viewers are told who replies instead")

	events, err := check.RunHistory(w.Ctx(), w.Temporal, signals.WorkflowID(w.TaskQueue, id), "")
	require.NoError(t, err)
	steps := 0
	for _, e := range events {
		if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == step.ActivityCallModel {
			steps++
		}
	}
	require.Equal(t, 2, steps, "each model has an activity of its own")
}

// TestPageFallback shows on the page which model failed and which one is called instead, while it is called and
// afterwards.
func TestPageFallback(t *testing.T) {
	t.Parallel()
	w := newShaky(t, "main", nil)
	id := w.Open()
	p := browser.New(t).Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".thread-header h1", id)
	w.provider.Fail(llmtest.Status(529, ""))
	gate := w.Provider.Block(0)
	w.Post(id, "hi")
	<-gate.Reached()
	p.Sees(".activity", "openai/second is called instead of shaky/first (")
	p.Sees(".activity", "): “hi”")
	gate.Release()
	p.Sees(".message.final .body", "hi")
	p.Until(`!document.querySelector(".activity").textContent.includes("instead")`)
	p.Click(".message.final button", "Why?")
	p.Sees(".side .causes", "instead of shaky/first")
}

// TestFailingProvider: fifty threads reply, whatever their provider does, with and without a chain, and
// within its limit. Each reply is requested until it is stored, and not again.
func TestFailingProvider(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]string{"chain": "main", "alone": "shaky/first"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const threads, limit = 50, 600
			w := newShaky(t, model, func(cfg *threadmill.Config) {
				cfg.ModelLimits = map[string]llm.Limits{"shaky": {RequestsPerMinute: limit}}
			})
			for range 8 {
				w.provider.Fail(llmtest.Status(429, "1"), llmtest.Status(500, ""), llmtest.Status(529, "").WithError("overloaded_error", "Overloaded"),
					llmtest.Hang(1), llmtest.Drop(2), llmtest.Malformed(1), llmtest.Fault{}, llmtest.Status(429, "30"))
			}
			ids, posted := make([]string, threads), make([]string, threads)
			begun := time.Now()
			for i := range threads {
				ids[i] = w.Open()
				posted[i] = w.Post(ids[i], fmt.Sprintf("count 3\nsaid thread %d.", i))
			}
			for i, id := range ids {
				require.Equal(t, signals.TurnCompleted, w.Await(id, posted[i]).Status)
				require.Equal(t, fmt.Sprintf("1 2 3\nsaid thread %d.", i), w.Messages(id)[1].Content, "whole, and by one model")
			}
			requests := w.provider.Requests()
			holds(t, limit, begun, requests)
			for i, id := range ids {
				calls, stored := w.modelCalls(id)
				require.Len(t, calls, 1)
				for _, r := range append(requests, w.Provider.Requests()...) {
					if strings.Contains(string(r.Body), fmt.Sprintf("said thread %d.", i)) {
						require.False(t, r.At.After(stored[0]), "a stored reply is not requested again")
					}
				}
			}
			if model == "main" {
				require.NotZero(t, w.Provider.Calls(), "the second model has replied")
			}
		})
	}
}
