package localsteps

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestWorkerStops: a worker that stops in the middle of a local activity loses no workflow task, and another worker
// continues the turn at once.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	for name, released := range map[string]bool{"while the step ends": true, "before the step ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Options{NoWorker: true})
			stop := w.StartWorker()
			id := w.Open()
			paced(w, id, func() { w.Say(id, "warm") })
			before, calls := len(check.HistoryOf(w, id, "")), w.Provider.Calls()
			gate := w.Provider.Block(2)
			defer gate.Release()
			posted := w.Post(id, "one two three four")
			check.Arrives(t, gate.Reached(), "the model's reply")
			other := w.Beside(func(c *threadmill.Config) { c.Stream = memory.New(memory.Config{}) })
			runs, end := context.WithCancel(context.Background())
			defer end()
			done := make(chan error, 1)
			go func() { done <- other.Run(runs) }()
			stopped := make(chan struct{})
			go func() { stop(); close(stopped) }()
			if released {
				gate.Release()
			}
			<-stopped
			out := w.Await(id, posted)
			require.Equal(t, "one two three four", out.Message.Content)
			events := check.Settle(w, id)[before:]
			if released && !has(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED) { // on a busy machine, the worker may not wait that long
				require.Equal(t, calls+1, w.Provider.Calls(), "the model is not called again")
			}
			require.False(t, has(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), "no workflow task is lost")
			require.False(t, has(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT), "no activity waits for a process that has gone")
			end()
			require.NoError(t, <-done)
		})
	}
}
