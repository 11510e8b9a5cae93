package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// cost is the number of events that a turn adds to a thread's history, and of actions that Temporal
// bills.
type cost struct{ events, actions int }

// measure runs one turn in a thread, and returns the events that it adds to the thread's history. A
// turn that stalled, or with which the thread continued as new, is followed by another.
func measure(t *testing.T, w *harness.Harness, thread string, turn func()) []*history.HistoryEvent {
	t.Helper()
	for range 5 {
		begun, before := check.CurrentRun(w, thread), len(check.Settle(w, thread))
		turn()
		switch after := check.Settle(w, thread); {
		case check.CurrentRun(w, thread) != begun:
			t.Log("the thread has moved; the next turn is measured")
		case check.Stalled(after[before:]):
			t.Logf("the machine was too busy; the next turn is measured:\n%s", check.Describe(after[before:]))
		default:
			return after[before:]
		}
	}
	require.Fail(t, "no turn could be measured")
	return nil
}

// billed counts the billed actions in history events, as Temporal Cloud's pricing page defines
// them: a signal, an update, an activity, a timer, a local activity batch with its workflow task,
// an upsert.
func billed(events []*history.HistoryEvent) int {
	n := 0
	for _, e := range events {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
			enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
			enumspb.EVENT_TYPE_TIMER_STARTED,
			enumspb.EVENT_TYPE_MARKER_RECORDED,
			enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
			enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
			enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
			n++
		}
	}
	return n
}

//ci:replayed
func TestBudgets(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w := harness.New(t, harness.Options{})
	// A waiting thread is marked by two upserts of search attributes. Without them, only the
	// decision costs.
	approved := func(w *harness.Harness, decide func(id string, d signals.Decide)) func(id string) {
		return func(id string) {
			w.Post(id, `use shell_cmd {"command":"true"}`)
			call := w.AwaitApproval(id, 1)[0]
			check.AwaitRest(w, id)
			decide(id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		}
	}
	bySignal := func(w *harness.Harness) func(string, signals.Decide) {
		return func(id string, d signals.Decide) {
			require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, d))
		}
	}
	byUpdate := func(w *harness.Harness) func(string, signals.Decide) {
		return func(id string, d signals.Decide) {
			_, err := w.Threads.Decide(w.Ctx(), id, d)
			require.NoError(t, err)
		}
	}
	type shape struct {
		name string
		turn func(thread string)
		want cost
	}
	unlisted := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.UnlistedApprovals = true }})
	for _, tc := range []shape{
		{"model, approved tool, model", approved(unlisted, bySignal(unlisted)), cost{26, 5}},
		{"decided by update", approved(unlisted, byUpdate(unlisted)), cost{27, 5}},
		{"model, two calls, each denied by itself, model", func(id string) {
			unlisted.Post(id, "use shell_cmd {\"command\":\"true\"}\nuse shell_cmd {\"command\":\"false\"}")
			for n := 2; n > 0; n-- {
				call := unlisted.AwaitApproval(id, n)[0]
				check.AwaitRest(unlisted, id)
				bySignal(unlisted)(id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, By: "ann"})
			}
		}, cost{25, 6}},
	} {
		t.Run(tc.name+", unlisted", func(t *testing.T) { requireCost(t, unlisted, tc.turn, tc.want) })
	}
	for _, tc := range []shape{
		{"user message, reply", func(id string) { w.Post(id, "hello") }, cost{10, 2}},
		{"two hundred tokens to ten viewers", func(id string) {
			for range 10 {
				check.Watch(t, w, id, "")
			}
			w.Post(id, "count 200")
		}, cost{10, 2}},
		{"model, tool, model", func(id string) { w.Post(id, "use note {}") }, cost{22, 4}},
		{"model, quick tool, model", func(id string) { w.Post(id, "use current_time {}") }, cost{17, 4}},
		{"model, approved tool, model", approved(w, bySignal(w)), cost{28, 7}},
		{"posted by update", func(id string) {
			_, err := w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "hello"))
			require.NoError(t, err)
		}, cost{11, 2}},
		{"posted and waited for by update", func(id string) { w.Say(id, "hello") }, cost{11, 2}},
		{"run and watched from Go", func(id string) {
			completes(t, begin(w, id, "count 200", threadmill.SendOptions{Stream: true}))
		}, cost{11, 2}},
		{"decided by update", approved(w, byUpdate(w)), cost{29, 7}},
	} {
		t.Run(tc.name, func(t *testing.T) { requireCost(t, w, tc.turn, tc.want) })
	}
}

// TestBudgetsOfBuilds: turns of threads that are pinned to a build of a Worker Deployment cost what others cost.
func TestBudgetsOfBuilds(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) { c.Deployment = threadmill.Deployment{Build: "1"} }})
	check.MakeCurrent(w, w.TaskQueue, "1")
	for _, tc := range []struct {
		post string
		want cost
	}{
		{"hello", cost{10, 2}},
		{"use note {}", cost{22, 4}},
		{"use current_time {}", cost{17, 4}},
	} {
		t.Run(tc.post, func(t *testing.T) {
			requireCost(t, w, func(id string) {
				require.Equal(t, "1", check.BuildOf(w, id))
				w.Post(id, tc.post)
			}, tc.want)
		})
	}
}

func requireCost(t *testing.T, w *harness.Harness, turn func(thread string), want cost) {
	t.Helper()
	id := w.Open()
	w.Say(id, "warm up")
	added := measure(t, w, id, func() { turn(id) })
	require.Equal(t, want, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
}

// TestBudgetBytes: the cost of a step does not depend on the length of the conversation.
func TestBudgetBytes(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	const young, old = 10, 330
	w := harness.New(t, harness.Options{})
	id := w.Open()
	turns := 0
	say := func() {
		turns++
		w.Post(id, fmt.Sprintf("message %03d of a long conversation", turns))
		check.AwaitMessages(w, id, 2*turns)
	}
	weigh := func(turn int) (bytes int) {
		for turns < turn {
			say()
		}
		for _, e := range measure(t, w, id, say) {
			bytes += proto.Size(e)
		}
		return bytes
	}
	begun := check.CurrentRun(w, id)
	first := weigh(young)
	last := weigh(old)
	require.NotEqual(t, begun, check.CurrentRun(w, id), "the thread has moved on before its history grew long")
	require.Positive(t, last)
	require.InEpsilon(t, first, last, 0.05, "bytes of history for a turn: %d at turn %d, %d at turn %d", first, young+1, last, old+1)
}
