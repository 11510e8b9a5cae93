package tests

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestBudgetsOfEvents checks the costs in docs/operations.md of events that rules handle without an
// agent, and of background tasks.
func TestBudgetsOfEvents(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	release := make(chan struct{})
	build := tool.MustFunc("build", "Builds.", func(ctx context.Context, _ tool.Call, _ struct{}) (string, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "built", ctx.Err()
	}, tool.Background())
	w := harness.New(t, harness.Options{
		StepsAsActivities: true,
		Agents:            []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"build", "list_tasks"}}},
		Tools:             []tool.Tool{build},
		Configure: func(cfg *threadmill.Config) {
			cfg.Rules = []rule.Rule{
				{Events: []string{"stored"}, Priority: 30},
				{Events: []string{"called"}, Priority: 30, Function: func(context.Context, rule.Context, event.EnvEvent) error { return nil }},
				{Events: []string{"held"}, Priority: 30, Debounce: time.Second},
			}
		},
	})
	publish := func(id, typ string) {
		_, err := w.Threads.PostSignal(w.Ctx(), id, signals.EnvPost(event.EnvEvent{
			ID: signals.NewEventID(), Type: typ, Timestamp: 1, Payload: json.RawMessage("null"),
		}))
		require.NoError(t, err)
	}
	warm := func(t *testing.T) (id string) {
		t.Helper()
		id = w.Open()
		w.Say(id, "warm up")
		// The rules enter history with the first event.
		publish(id, "stored")
		check.Settle(w, id)
		return id
	}
	for _, tc := range []struct {
		name string
		turn func(id string)
		want cost
	}{
		{"an event that is stored", func(id string) { publish(id, "stored") }, cost{5, 2}},
		{"an event, a function", func(id string) { publish(id, "called") }, cost{10, 2}},
		{"an event that is held, until its time has come", func(id string) {
			// Only the end of the turn remains to be stored when the timer fires.
			until(w, id, enumspb.EVENT_TYPE_TIMER_FIRED, func() { publish(id, "held") })
		}, cost{5 + 5 + 1, 2 + 1 + 1}},
		{"model, a tool about tasks, model", func(id string) { w.Post(id, "use list_tasks {}") }, cost{16, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := warm(t)
			added := measure(t, w, id, func() { tc.turn(id) })
			require.Equal(t, tc.want, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
		})
	}
	t.Run("model, background tool, model; the end of a task, reply", func(t *testing.T) {
		id := warm(t)
		added := measure(t, w, id, func() { w.Post(id, "use build {}") })
		require.Equal(t, cost{21, 4}, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
		for range 5 { // attempts at a measurement
			w.Say(id, "use build {}")
		}
		added = measure(t, w, id, func() {
			before := finals(w, id)
			// On a busy machine, the task's workflow may end after the thread's reply.
			until(w, id, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED, func() { release <- struct{}{} })
			require.Eventually(t, func() bool { return finals(w, id) > before }, testenv.Patience, testenv.Tick)
		})
		require.Equal(t, 2, billed(added), "actions:\n%s", check.Describe(added))
		// Temporal reports the end of the task's workflow too, separately or with the rest.
		require.GreaterOrEqual(t, len(added), 11, "events:\n%s", check.Describe(added))
		require.LessOrEqual(t, len(added), 14, "events:\n%s", check.Describe(added))

		tasks, err := w.Threads.Tasks(w.Ctx(), id)
		require.NoError(t, err)
		require.True(t, tasks.Tasks[0].State.Ended(), "those that have ended come first")
		task := signals.TaskWorkflowID(w.TaskQueue, tasks.Tasks[0].ID)
		require.NoError(t, w.Temporal.GetWorkflow(w.Ctx(), task, "").Get(w.Ctx(), nil))
		events, err := check.RunHistory(w.Ctx(), w.Temporal, task, "")
		require.NoError(t, err)
		require.Equal(t, cost{17, 2}, cost{len(events), billed(events)}, "events and actions:\n%s", check.Describe(events))
		close(release)
	})
}

// until acts, and waits for another event of a type in a thread's history. It does not poll for a
// state that may be short.
func until(w *harness.Harness, thread string, typ enumspb.EventType, do func()) {
	w.T.Helper()
	count := func() (n int) {
		for _, e := range check.HistoryOf(w, thread, "") {
			if e.GetEventType() == typ {
				n++
			}
		}
		return n
	}
	before := count()
	do()
	require.Eventually(w.T, func() bool { return count() > before }, testenv.Patience, testenv.Tick, typ.String())
}

// finals is the number of a thread's replies that have ended.
func finals(w *harness.Harness, thread string) int {
	records, err := w.Store.Records(context.Background(), w.Key(thread), store.Query{Types: []string{event.TypeFinal}})
	if err != nil {
		return 0
	}
	return len(records)
}
