package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/workflows"
)

// Records implements [transcript.Reader]. Nothing calls it.
func (f *fakes) Records(context.Context, store.Key, store.Query) ([]event.Record, error) {
	return nil, store.ErrNotFound
}

func (f *fakes) RecordsByID(_ context.Context, _ store.Key, ids ...string) (out []event.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		if slices.Contains(ids, r.ID) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (f *fakes) loadEvent(ctx context.Context, in step.Load) (step.LoadReply, error) {
	it, err := transcript.Content(ctx, f, in.Thread, in.EventID)
	if err != nil {
		return step.LoadReply{}, temporal.NewNonRetryableApplicationError(err.Error(), step.ErrTypeConfig, err)
	}
	return step.LoadReply{Payload: it.Payload, Metadata: it.Metadata}, nil
}

// TestSignalsToAFullQueue: signals that arrive during a slow turn and do not fit into the queue
// become failed events with their content, which can be retried.
func TestSignalsToAFullQueue(t *testing.T) {
	for name, burst := range map[string]struct{ count, size int }{
		"large": {12, 200 << 10},
		"small": {300, 6 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			content := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", burst.size)) }
			w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
				for i := 0; i < burst.count && in.EventID == "slow"; i++ {
					w.SignalWorkflowSkippingWorkflowTask(signals.SignalPost, says(fmt.Sprintf("e%d", i), content(i)))
				}
				return reply(in, "ok"), nil
			}
			var failed []event.Item
			w.then(func() { w.post("slow", "go") })
			w.then(func() {
				failed = w.state().Failed
				require.NotEmpty(t, failed)
				require.NotEmpty(t, stored[event.Unqueued](w.fakes, event.TypeUnqueued))
				for _, it := range failed {
					w.SignalWorkflow(signals.SignalControl, signals.Control{Action: signals.ControlRetry, EventID: it.ID, By: "ann"})
				}
			})
			w.then(func() { require.Empty(t, w.state().Failed) })
			w.run(workflows.Input{})
			got := map[string]int{}
			for _, m := range w.messages() {
				_, said, _ := strings.Cut(m, ": ")
				got[said]++
			}
			for i := range burst.count {
				require.Equal(t, 1, got[content(i)], "event %d is processed once, with all its content", i)
			}
			require.Empty(t, stored[event.Rejected](w.fakes, event.TypeRejected))
			require.Greater(t, len(w.models), len(failed), "each has its turn")
		})
	}
}

// TestLargeSignalsBeforeTheNextRun: a burst of large signals is stored before continue-as-new.
func TestLargeSignalsBeforeTheNextRun(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		w.SetContinueAsNewSuggested(true)
		for i := range 12 {
			w.SignalWorkflowSkippingWorkflowTask(signals.SignalPost, says(fmt.Sprintf("e%d", i), strings.Repeat("x", 250<<10)))
		}
		return reply(in, "ok"), nil
	}
	w.then(func() { w.post("slow", "go") })
	out := w.leave(workflows.Input{})
	raw, err := json.Marshal(out)
	require.NoError(t, err)
	require.Less(t, len(raw), 2<<20, "Temporal takes no more")
	require.Len(t, out.State.Inbox.Failed, 9)
	require.Len(t, stored[event.Unqueued](w.fakes, event.TypeUnqueued), 9)
}

// TestSignalsToAClosingThread: signals that arrive while the thread closes become failed events,
// too.
func TestSignalsToAClosingThread(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		w.SignalWorkflowSkippingWorkflowTask(signals.SignalPost, says("before", "waits"))
		w.SignalWorkflowSkippingWorkflowTask(signals.SignalControl, signals.Control{Action: signals.ControlClose, By: "ann"})
		w.SignalWorkflowSkippingWorkflowTask(signals.SignalPost, says("after", "late"))
		return reply(in, "ok"), nil
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Subset(t, w.messages(), []string{"before: waits", "after: late"})
	closed := 0
	for _, end := range stored[event.TurnEnded](w.fakes, event.TypeTurnEnded) {
		if strings.Contains(end.Error, "closed before its turn") {
			closed++
		}
	}
	require.Equal(t, 2, closed)
	require.Empty(t, stored[event.Rejected](w.fakes, event.TypeRejected))
}

func TestPostBatch(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) { return reply(in, "ok"), nil }
	busy := says("e4", "x")
	busy.OnBusy = event.OnBusyReject
	var first, nothing, empty *answer
	w.then(func() {
		first = w.update(signals.UpdatePostBatch, signals.PostBatch{Posts: []signals.Post{
			says("e1", "one"), says("e1", "one"), {ID: "e2", Type: event.TypeToken}, says("e3", "three"), busy,
		}})
	})
	w.then(func() {
		nothing = w.update(signals.UpdatePostBatch, signals.PostBatch{Posts: []signals.Post{says("e1", "one"), {ID: "e2", Type: event.TypeToken}}})
		empty = w.update(signals.UpdatePostBatch, signals.PostBatch{})
	})
	w.run(workflows.Input{})
	require.NoError(t, first.err)
	got := first.result.(signals.PostBatchResult).Results
	require.Equal(t, []signals.PostOutcome{
		{EventID: "e1", Status: signals.PostQueued},
		{EventID: "e1", Status: signals.PostDuplicate},
		{Status: signals.RefusedType, Error: got[2].Error},
		{EventID: "e3", Status: signals.PostQueued},
		{Status: signals.BusyType, Error: got[4].Error},
	}, got)
	require.Contains(t, got[2].Error, "type: ")
	require.Equal(t, []string{"e1: one", "e1.0.1: ok", "e3: three", "e3.0.1: ok"}, w.messages())

	require.False(t, nothing.accepted, "what changes nothing does not reach history")
	var app *temporal.ApplicationError
	require.ErrorAs(t, nothing.rejected, &app)
	require.Equal(t, signals.NothingPostedType, app.Type())
	var out signals.PostBatchResult
	require.NoError(t, app.Details(&out))
	require.Equal(t, signals.PostOutcome{EventID: "e1", Status: signals.PostDuplicate}, out.Results[0])
	require.Equal(t, signals.RefusedType, out.Results[1].Status)
	requireRefused(t, signals.RefusedType, empty.rejected)
}
