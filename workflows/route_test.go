package workflows_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/workflows"
)

// TestModelQueue: a model call moves to the task queue of its provider, later calls of the agent begin
// there, and a call that no worker there begins asks the common queue again.
func TestModelQueue(t *testing.T) {
	const queue = "threads/model/busy"
	w := newFixture(t)
	var mu sync.Mutex
	limited, served := true, true
	var asked []string
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		mu.Lock()
		defer mu.Unlock()
		here := activity.GetInfo(ctx).TaskQueue
		asked = append(asked, here)
		switch {
		case here == queue && !served:
			return step.ModelReply{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		case limited && here != queue:
			require.Nil(t, in.Route)
			return step.ModelReply{Route: &step.Route{Model: "busy/model", TaskQueue: queue}}, nil
		}
		out := reply(in, "hi")
		return out, nil
	}
	w.then(func() { w.post("e1", "one") })
	w.then(func() { w.post("e2", "two") })
	w.then(func() {
		mu.Lock()
		limited, served = false, false
		mu.Unlock()
		w.post("e3", "three")
	})
	w.then(func() { w.post("e4", "four") })
	w.then(func() { require.Nil(t, w.state().Turn) })
	w.run(workflows.Input{})
	common := asked[0]
	require.Equal(t, []string{common, queue, queue, queue, common, common}, asked, "the next turn does not wait for a queue that nobody serves")
	require.Equal(t, []string{"e1: one", "e1.0.1: hi", "e2: two", "e2.0.1: hi", "e3: three", "e3.0.1: hi", "e4: four", "e4.0.1: hi"}, w.messages())
}
