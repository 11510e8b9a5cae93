package tests

import (
	"fmt"
	"net/http"
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
// turn that stalled, or with which the thread continued as new, is followed by another, and one with a slow step where quick
// ones are local activities.
func measure(t *testing.T, w *harness.Harness, thread string, turn func()) []*history.HistoryEvent {
	t.Helper()
	for range 10 {
		begun, before := check.CurrentRun(w, thread), len(check.Settle(w, thread))
		turn()
		switch after := check.Settle(w, thread); {
		case check.CurrentRun(w, thread) != begun:
			t.Log("the thread has moved; the next turn is measured")
		case !w.StepsAsActivities() && check.Slow(after[before:]):
			t.Log("a step was slow; the next turn is measured")
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
// them: a signal, an update, an activity, a timer, the local activities of a workflow task together,
// another marker, an upsert.
func billed(events []*history.HistoryEvent) int {
	n := 0
	withLocal := map[int64]bool{} // workflow tasks
	for _, e := range events {
		if marker := e.GetMarkerRecordedEventAttributes(); marker.GetMarkerName() == "LocalActivity" {
			if task := marker.GetWorkflowTaskCompletedEventId(); !withLocal[task] {
				withLocal[task] = true
				n++
			}
			continue
		}
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

// costs are those of a turn whose steps are activities, and of one whose quick steps are local activities.
type costs struct{ activities, local cost }

// inBothModes measures turns in both modes: of is named after its mode, and builds its own worlds.
func inBothModes(t *testing.T, of func(t *testing.T, asActivities bool, want func(costs) cost)) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	t.Run("activities", func(t *testing.T) { of(t, true, func(c costs) cost { return c.activities }) })
	if harness.StepsAsActivities() {
		return
	}
	t.Run("local activities", func(t *testing.T) { of(t, false, func(c costs) cost { return c.local }) })
}

//ci:replayed
func TestBudgets(t *testing.T) {
	inBothModes(t, func(t *testing.T, asActivities bool, want func(costs) cost) {
		w := harness.New(t, harness.Options{StepsAsActivities: asActivities})
		// A waiting thread is marked by two upserts of search attributes. Without them, only the
		// decision costs.
		unlisted := harness.New(t, harness.Options{StepsAsActivities: asActivities, Configure: func(c *threadmill.Config) { c.UnlistedApprovals = true }})
		for _, tc := range []struct {
			name string
			in   *harness.Harness
			turn func(thread string)
			want costs
		}{
			{"model, approved tool, model, unlisted", unlisted, approved(unlisted, decideBySignal), costs{cost{26, 5}, cost{11, 4}}},
			{"decided by update, unlisted", unlisted, approved(unlisted, decideByUpdate), costs{cost{27, 5}, cost{17, 5}}},
			{"model, two calls, each denied by itself, model, unlisted", unlisted, func(id string) {
				unlisted.Post(id, "use shell_cmd {\"command\":\"true\"}\nuse shell_cmd {\"command\":\"false\"}")
				for n := 2; n > 0; n-- {
					call := unlisted.AwaitApproval(id, n)[0]
					check.AwaitRest(unlisted, id)
					decideBySignal(unlisted, id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionDeny, By: "ann"})
				}
			}, costs{cost{25, 6}, cost{15, 6}}},
			{"user message, reply", w, func(id string) { w.Post(id, "hello") }, costs{cost{10, 2}, cost{5, 2}}},
			{"two hundred tokens to ten viewers", w, func(id string) {
				for range 10 {
					check.Watch(t, w, id, "")
				}
				w.Post(id, "count 200")
			}, costs{cost{10, 2}, cost{5, 2}}},
			{"model, tool, model", w, func(id string) { w.Post(id, "use note {}") }, costs{cost{22, 4}, cost{7, 2}}},
			{"model, quick tool, model", w, func(id string) { w.Post(id, "use current_time {}") }, costs{cost{17, 4}, cost{7, 2}}},
			{"model, approved tool, model", w, approved(w, decideBySignal), costs{cost{28, 7}, cost{13, 6}}},
			{"posted by a client", w, func(id string) {
				_, err := w.Threads.Post(w.Ctx(), id, signals.UserMessage(id, "ann", "hello"))
				require.NoError(t, err)
			}, costs{cost{10, 2}, cost{5, 2}}},
			{"posted by update", w, func(id string) {
				p := signals.UserMessage(id, "ann", "hello")
				p.OnBusy = event.OnBusyReject
				_, err := w.Threads.Post(w.Ctx(), id, p)
				require.NoError(t, err)
			}, costs{cost{11, 2}, cost{11, 2}}},
			{"posted and waited for by update", w, func(id string) {
				_, err := w.Threads.Turn(w.Ctx(), id, signals.UserMessage(id, "ann", "hello"))
				require.NoError(t, err)
			}, costs{cost{11, 2}, cost{11, 2}}},
			{"posted and waited for by HTTP", w, func(id string) {
				status, _ := check.Request(t, w, http.MethodPost, "/v1/threads/"+id+"/messages?wait=true", map[string]any{"content": "hello"})
				require.Equal(t, http.StatusOK, status)
			}, costs{cost{10, 2}, cost{5, 2}}},
			{"run and watched from Go", w, func(id string) {
				completes(t, begin(w, id, "count 200", threadmill.SendOptions{Stream: true}))
			}, costs{cost{10, 2}, cost{5, 2}}},
			{"decided by update", w, approved(w, decideByUpdate), costs{cost{29, 7}, cost{19, 7}}},
		} {
			t.Run(tc.name, func(t *testing.T) { requireCost(t, tc.in, tc.turn, want(tc.want)) })
		}
	})
}

// approved returns a turn with a call that is approved by decide.
func approved(w *harness.Harness, decide func(w *harness.Harness, id string, d signals.Decide)) func(id string) {
	return func(id string) {
		w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0]
		check.AwaitRest(w, id)
		decide(w, id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
	}
}

func decideBySignal(w *harness.Harness, id string, d signals.Decide) {
	require.NoError(w.T, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, d))
}

func decideByUpdate(w *harness.Harness, id string, d signals.Decide) {
	_, err := w.Threads.Decide(w.Ctx(), id, d)
	require.NoError(w.T, err)
}

// TestBudgetsOfBuilds: turns of threads that are pinned to a build of a Worker Deployment cost what others cost.
func TestBudgetsOfBuilds(t *testing.T) {
	inBothModes(t, func(t *testing.T, asActivities bool, want func(costs) cost) {
		w := harness.New(t, harness.Options{StepsAsActivities: asActivities, Configure: func(c *threadmill.Config) { c.Deployment = threadmill.Deployment{Build: "1"} }})
		check.MakeCurrent(w, w.TaskQueue, "1")
		for _, tc := range []struct {
			post string
			want costs
		}{
			{"hello", costs{cost{10, 2}, cost{5, 2}}},
			{"use note {}", costs{cost{22, 4}, cost{7, 2}}},
			{"use current_time {}", costs{cost{17, 4}, cost{7, 2}}},
		} {
			t.Run(tc.post, func(t *testing.T) {
				requireCost(t, w, func(id string) {
					require.Equal(t, "1", check.BuildOf(w, id))
					w.Post(id, tc.post)
				}, want(tc.want))
			})
		}
	})
}

func requireCost(t *testing.T, w *harness.Harness, turn func(thread string), want cost) {
	t.Helper()
	id := w.Open()
	w.Say(id, "warm up")
	turn(id) // from now on, it is known how long its steps take
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
