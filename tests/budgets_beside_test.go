package tests

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestBudgetBesideAWait: an event that is handled while a call waits for approval costs the same as
// alone, and the waiting turn costs no more.
func TestBudgetBesideAWait(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w := harness.New(t, harness.Options{StepsAsActivities: true})
	// publish returns when the event has been handled.
	publish := func(id string) {
		e := event.EnvEvent{ID: signals.NewEventID(), Type: "file.changed", Timestamp: 1, Payload: json.RawMessage("null")}
		_, err := w.Threads.PostSignal(w.Ctx(), id, signals.EnvPost(e))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			q, err := w.Threads.Queue(w.Ctx(), id)
			return err == nil && slices.ContainsFunc(q.Ended, func(it event.Item) bool { return it.ID == e.ID })
		}, testenv.Patience, testenv.Tick)
		check.AwaitRest(w, id)
	}
	id := w.Open()
	publish(id) // the rules enter history with the first event

	var beside []*history.HistoryEvent
	added := measure(t, w, id, func() {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0]
		check.AwaitRest(w, id)
		before := len(check.HistoryOf(w, id, ""))
		publish(id)
		beside = check.HistoryOf(w, id, "")[before:]
		decision := signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"}
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, decision))
	})
	require.Equal(t, cost{10, 2}, cost{len(beside), billed(beside)}, "events and actions:\n%s", check.Describe(beside))
	require.Equal(t, cost{28 + 10, 7 + 2}, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
}

// TestBudgetTitle: a title is an activity and a change of the memo, once for each thread.
func TestBudgetTitle(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	named := harness.New(t, harness.Options{StepsAsActivities: true, Configure: func(cfg *threadmill.Config) { cfg.TitleModel = "openai/stand-in" }})
	first := func(w *harness.Harness, done func(signals.State) bool) cost {
		for range 5 {
			id := w.Open()
			before := len(check.Settle(w, id))
			w.Post(id, "hello")
			require.Eventually(t, func() bool {
				state, err := w.Threads.State(w.Ctx(), id)
				return err == nil && done(state)
			}, testenv.Patience, testenv.Tick)
			if added := check.Settle(w, id)[before:]; !check.Stalled(added) {
				return cost{len(added), billed(added)}
			}
		}
		require.Fail(t, "the machine was too busy to measure a thread's first turn")
		return cost{}
	}
	plain := first(harness.New(t, harness.Options{StepsAsActivities: true}), func(s signals.State) bool { return s.Usage.OutputTokens > 0 && s.Status == signals.ThreadIdle })
	titled := first(named, func(s signals.State) bool { return s.Title != "" })
	require.Equal(t, cost{plain.events + 7, plain.actions + 2}, titled)
}
