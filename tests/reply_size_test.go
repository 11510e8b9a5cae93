package tests

import (
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// maxHeap is the maximum memory, in bytes, of the live and dead objects of the test process, which is server and
// provider as well.
const maxHeap = 1 << 30

// heapPeak measures the heap until the function that it returns is called, which returns the maximum.
func heapPeak() func() uint64 {
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}

// TestReplyTooLarge: a reply that is too large fails its turn and says why, is not retried, is not
// stored, and takes no memory. Other threads are answered.
func TestReplyTooLarge(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	kib := strings.Repeat("x ", 1<<9)
	for _, model := range []string{"openai/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-3-pro"} {
		for name, fault := range map[string]llmtest.Fault{
			"50 MB":             llmtest.Flood(2, kib, 50<<10),
			"compressed 200 MB": llmtest.Flood(2, kib, 200<<10).Compressed(),
			"one line of 50 MB": llmtest.Endless(2, 50<<10),
		} {
			t.Run(name+" from "+model, func(t *testing.T) {
				w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Model: model}}})
				id, other := w.Open(), w.Open()
				v := watch(t, w, id, "")
				w.Provider.Fail(fault)
				peak := heapPeak()
				eventID := w.Post(id, "one two three")
				require.Eventually(t, func() bool { return w.Provider.Calls() > 0 }, waitLong, waitTick)
				require.Equal(t, signals.TurnCompleted, w.Say(other, "hello").Status)
				out := w.Await(id, eventID)
				require.Less(t, peak(), uint64(maxHeap))
				require.Equal(t, signals.TurnFailed, out.Status)
				require.Equal(t, "reply_too_large", out.Class)
				require.Contains(t, out.Error, "limits.maxReplyBytes")
				require.Equal(t, 2, w.Provider.Calls(), "it is not retried")
				require.Equal(t, "user ann: one two three\n", w.Transcript(id))
				seen := v.until(t, func(f frame) bool { return f.event.Type == event.EventError })
				require.Equal(t, "reply_too_large", seen[len(seen)-1].event.Class)
				require.Equal(t, signals.TurnCompleted, w.Say(id, "and now").Status)
			})
		}
	}
	t.Run("the limit of an agent", func(t *testing.T) {
		w := harness.New(t, harness.Options{Agents: []agent.Agent{{Name: "assistant", Model: "openai/gpt-5", Limits: agent.Limits{MaxReplyBytes: 2048}}}})
		id := w.Open()
		out := w.Say(id, strings.Repeat("word ", 1000))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "larger than 2048 bytes (limits.maxReplyBytes of the agent)")
	})
}
