package providers

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// maxHeap is the maximum memory, in bytes, by which the live and dead objects of the test process grow. It is
// server and provider as well.
const maxHeap = 1 << 30

// heapPeak measures the heap until the function that it returns is called, which returns its maximal growth.
func heapPeak() func() uint64 {
	// Objects of other tests must not keep this test's dead ones alive.
	percent := debug.SetGCPercent(10)
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	base := sample[0].Value.Uint64()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
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
		debug.SetGCPercent(percent)
		return max(<-peak, base) - base
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
				v := check.Watch(t, w, id, "")
				w.Provider.Fail(fault)
				peak := heapPeak()
				eventID := w.Post(id, "one two three")
				require.Eventually(t, func() bool { return w.Provider.Calls() > 0 }, testenv.Patience, testenv.Tick)
				require.Equal(t, signals.TurnCompleted, w.Say(other, "hello").Status)
				out := w.Await(id, eventID)
				require.Less(t, peak(), uint64(maxHeap))
				require.Equal(t, signals.TurnFailed, out.Status)
				require.Equal(t, "reply_too_large", out.Class)
				require.Contains(t, out.Error, "limits.maxReplyBytes")
				require.Equal(t, 2, w.Provider.Calls(), "it is not retried")
				require.Equal(t, "user ann: one two three\n", w.Transcript(id))
				seen := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventError })
				require.Equal(t, "reply_too_large", seen[len(seen)-1].Event.Class)
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
