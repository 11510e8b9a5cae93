package localsteps

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestWorkerStops: a worker that stops in the middle of a local activity loses no workflow task, and another worker
// continues the turn at once.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	const threads = 10
	for name, released := range map[string]bool{"while the step ends": true, "before the step ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Workflow tasks of all threads have to end within it. Steps that are held last for all of it.
			limit := 10 * time.Second
			if released {
				limit = testenv.Patience
			}
			w := harness.New(t, harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) { c.StopTimeout = limit }})
			stop := w.StartWorker()
			var ids, posted []string
			var befores []int
			for range threads {
				id := w.Open()
				check.Paced(w, id, func() { w.SayBySignal(id, "warm") })
				ids, befores = append(ids, id), append(befores, len(check.HistoryOf(w, id, "")))
			}
			calls := w.Provider.Calls()
			var gates []*llmtest.Gate
			for range threads {
				gates = append(gates, w.Provider.Block(2))
			}
			release := func() {
				for _, g := range gates {
					g.Release()
				}
			}
			defer release()
			for _, id := range ids {
				posted = append(posted, w.Post(id, "one two three four"))
			}
			for _, g := range gates {
				check.Arrives(t, g.Reached(), "the model's reply")
			}
			other := w.Beside(func(c *threadmill.Config) { c.Stream = memory.New(memory.Config{}) })
			runs, end := context.WithCancel(context.Background())
			defer end()
			done := make(chan error, 1)
			go func() { done <- other.Run(runs) }()
			stopped := make(chan struct{})
			go func() { stop(); close(stopped) }()
			if released {
				release()
			}
			<-stopped
			again := 0
			for i, id := range ids {
				require.Equal(t, "one two three four", w.Await(id, posted[i]).Message.Content)
				events := check.Settle(w, id)[befores[i]:]
				require.False(t, has(events, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), "no workflow task is lost")
				require.False(t, has(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT), "no activity waits for a process that has gone")
				if has(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED) {
					again++ // the worker does not wait longer for its steps
				}
			}
			require.Equal(t, calls+threads+again, w.Provider.Calls(), "no other call is made again")
			end()
			require.NoError(t, <-done)
		})
	}
}
