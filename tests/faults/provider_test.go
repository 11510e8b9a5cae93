package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestProviderFaults covers temporary and permanent failures of a model's provider.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults []llmtest.Fault
		// limit is the timeout of a reply, apart the least time between the first two calls.
		limit, apart time.Duration
	}{
		{"lost before its first word", []llmtest.Fault{llmtest.Drop(0)}, 0, 0},
		{"lost in mid-stream", []llmtest.Fault{llmtest.Drop(3)}, 0, 0},
		{"ended early", []llmtest.Fault{llmtest.EndEarly(2)}, 0, 0},
		{"not the protocol", []llmtest.Fault{llmtest.Malformed(1)}, 0, 0},
		{"silent in mid-stream", []llmtest.Fault{llmtest.Hang(2)}, 4 * time.Second, 0},
		{"429 with Retry-After", []llmtest.Fault{llmtest.Status(429, "3")}, 0, 3 * time.Second},
		{"500 until it succeeds", []llmtest.Fault{llmtest.Status(500, ""), llmtest.Status(503, "")}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := faultyProvider(t, c.limit)
			id := w.Open()
			v := check.Watch(t, w, id, "")
			w.Provider.Fail(c.faults...)
			began := time.Now()
			out := w.Say(id, "count 6")
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			require.Equal(t, "user ann: count 6\nassistant assistant: 1 2 3 4 5 6\n", w.Transcript(id))
			requests := w.Provider.Requests()
			require.Len(t, requests, 1+len(c.faults))
			require.GreaterOrEqual(t, requests[1].At.Sub(requests[0].At), c.apart)
			require.GreaterOrEqual(t, requests[1].At.Sub(began), c.limit, "the model has had its time")
			require.JSONEq(t, string(requests[0].Body), string(requests[1].Body))

			seen := v.Until(t, check.IsFinal)
			require.Equal(t, 2, check.Count(seen, event.EventMessage))
			require.Equal(t, "1 2 3 4 5 6", check.Streamed(seen, w.Messages(id)[1].ID), "viewers discard what was cut off")
			require.Zero(t, check.Count(seen, event.EventError), "what passes is not shown as a failure")
			require.Equal(t, signals.TurnCompleted, w.Say(id, "and on").Status)
		})
	}
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		w := harness.New(t, harness.Options{Provider: llmtest.Config{Delay: 200 * time.Millisecond}})
		id := w.Open()
		require.Equal(t, signals.TurnCompleted, w.Say(id, "count 10").Status)
		require.Equal(t, 1, w.Provider.Calls(), "who is slow is not asked again")
	})
	for name, faults := range map[string][]llmtest.Fault{
		"attempts used up": {llmtest.Status(500, ""), llmtest.Drop(2), llmtest.Status(503, "")},
		"refused":          {llmtest.Status(http.StatusBadRequest, "").WithError("bad", "no such model")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			givesUp(t, faults)
		})
	}
}

func faultyProvider(t *testing.T, limit time.Duration) *harness.Harness {
	return harness.New(t, harness.Options{MaxModelAttempts: 3, Agents: []agent.Agent{{
		Name: "assistant", Model: "openai/stand-in", Limits: agent.Limits{ModelTimeout: limit},
	}}})
}

// givesUp checks a turn that fails: visibly and once; the thread remains usable, and the turn can
// be retried.
func givesUp(t *testing.T, faults []llmtest.Fault) {
	w := faultyProvider(t, 0)
	id := w.Open()
	v := check.Watch(t, w, id, "")
	w.Provider.Fail(faults...)
	out := w.Say(id, "count 6")
	require.Equal(t, signals.TurnFailed, out.Status)
	require.NotEmpty(t, out.Error)
	require.Equal(t, len(faults), w.Provider.Calls())
	seen := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventError })
	require.Equal(t, out.Error, seen[len(seen)-1].Event.Error)
	require.Equal(t, "user ann: count 6\n", w.Transcript(id))

	require.Equal(t, signals.TurnCompleted, w.Say(id, "still here").Status)
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlRetry, By: "ann"}))
	check.AwaitMessages(w, id, 4)
	require.Equal(t, "user ann: count 6\nuser ann: still here\nassistant assistant: still here\nassistant assistant: 1 2 3 4 5 6\n", w.Transcript(id),
		"what is retried is what is answered, behind all that was said since")
	seen = v.Until(t, check.IsFinal)
	seen = append(seen, v.Until(t, check.IsFinal)...)
	require.Zero(t, check.Count(seen, event.EventError))
}
