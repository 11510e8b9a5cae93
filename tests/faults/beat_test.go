package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestHeartbeats: on a live worker, a slow tool sends heartbeats so often that a stall of half the
// time after which it counts as lost does no harm.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	slow := check.NewGate("slow")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{slow}})
	id := w.Open()
	posted := w.Post(id, "use slow {}")
	<-slow.Reached
	defer slow.Release()

	beat := func() (time.Time, bool) {
		d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "")
		if err != nil || len(d.GetPendingActivities()) != 1 {
			return time.Time{}, false
		}
		at := d.GetPendingActivities()[0].GetLastHeartbeatTime()
		return at.AsTime(), at != nil
	}
	var lost time.Duration
	for _, e := range check.HistoryOf(w, id, "") {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			lost = a.GetHeartbeatTimeout().AsDuration()
		}
	}
	require.Positive(t, lost)
	t.Run("S2-50 what takes its time is not taken for lost", func(t *testing.T) {
		var last time.Time
		require.Eventually(t, func() bool {
			at, ok := beat()
			if !ok || at.Equal(last) {
				return false
			}
			// A little more than half: nothing is instantaneous.
			often := !last.IsZero() && at.Sub(last) < lost*2/3
			last = at
			return often
		}, testenv.Patience, testenv.Tick)
	})

	slow.Release()
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, "open", w.Messages(id)[2].Content, "the tool ran, once")
}
