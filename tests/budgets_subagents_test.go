package tests

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// patient is a model that waits until the parent thread has seen the start of its sub-agent: on a
// busy machine it might see start and end together, which costs less.
type patient struct {
	llm.Provider
	begun func(ctx context.Context) error
}

func (p patient) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := p.begun(ctx); err != nil {
		return llm.Response{}, err
	}
	return p.Provider.Generate(ctx, req, onDelta)
}

// newPatientTeam builds a world whose helper is patient. The measured thread must be named.
func newPatientTeam(t *testing.T) (w *harness.Harness, measured *atomic.Value) {
	t.Helper()
	measured = &atomic.Value{}
	agents := check.Team("book")
	agents[2].Model = "patient/stand-in"
	w = harness.New(t, harness.Options{StepsAsActivities: true, Agents: agents, Tools: []tool.Tool{&harness.Booking{}}, Configure: func(c *threadmill.Config) {
		temporal, namespace := c.Temporal, c.Namespace
		c.Models["patient"] = patient{c.Models["openai"], func(ctx context.Context) error {
			tick := time.NewTicker(testenv.Tick)
			defer tick.Stop()
			for {
				events, err := check.RunHistory(ctx, temporal, signals.WorkflowID(namespace, measured.Load().(string)), "")
				if err != nil || started(events) > 0 && !check.TaskOpen(events) {
					return err
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}}
	}})
	return w, measured
}

// started is the number of sub-agents that are still working.
func started(events []*history.HistoryEvent) (n int) {
	for _, e := range events {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
			n++
		case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
			n--
		}
	}
	return n
}

// subRuns returns the histories of the sub-agents whose starts are among events.
func subRuns(w *harness.Harness, events []*history.HistoryEvent) (runs [][]*history.HistoryEvent) {
	w.T.Helper()
	for _, e := range events {
		a := e.GetChildWorkflowExecutionStartedEventAttributes()
		if a.GetWorkflowType().GetName() != signals.DelegateWorkflow {
			continue
		}
		var run []*history.HistoryEvent
		require.Eventually(w.T, func() bool {
			var err error
			run, err = check.RunHistory(w.Ctx(), w.Temporal, a.GetWorkflowExecution().GetWorkflowId(), a.GetWorkflowExecution().GetRunId())
			return err == nil && run[len(run)-1].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
		}, testenv.Patience, testenv.Tick)
		runs = append(runs, run)
	}
	return runs
}

// beginAndEnd is the number of events that a sub-agent's thread has beside its turn: its start, the
// snapshots of hooks and rules, the answer and the end.
const beginAndEnd = 6

// TestBudgetsOfSubAgents checks the cost of a sub-agent in its parent thread, beside two model
// calls, and in its own thread, beside its turn.
func TestBudgetsOfSubAgents(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w, measured := newPatientTeam(t)
	for _, tc := range []struct {
		name, says string

		// want is the cost in the thread's history, children in that of each sub-agent.
		want     cost
		children []cost
	}{
		{"a sub-agent that answers", check.Asks("helper", "hello"), cost{16 + 9, 3 + 1}, []cost{{beginAndEnd + 9, 1 + 4}}},
		{"a sub-agent that uses a tool", check.Asks("helper", "use note {}"), cost{16 + 9, 3 + 1}, []cost{{beginAndEnd + 21, 3 + 4}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := w.Open()
			measured.Store(id)
			w.Say(id, "warm up")
			added, children := measureSubs(t, w, id, func() { w.Post(id, tc.says) })
			require.Equal(t, tc.want, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
			var costs []cost
			for _, child := range children {
				costs = append(costs, cost{len(child), billed(child)})
				t.Logf("a sub-agent:\n%s", check.Describe(child))
			}
			require.Equal(t, tc.children, costs, "events and actions of each sub-agent")
		})
	}
}

// TestBudgetOfARequestBelow bounds the cost of an approval request and of a request for input of a sub-agent, and of the
// decision or answer in the parent thread. Concurrent events cost less.
func TestBudgetOfARequestBelow(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w, measured := newPatientTeam(t)
	id := w.Open()
	measured.Store(id)
	w.Say(id, "warm up")
	send := func(signal string, payload any) {
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signal, payload))
	}
	for name, c := range map[string]struct {
		run  int // the events of the tool's second run, with the input
		turn func()
	}{
		"approval": {0, func() {
			w.Post(id, check.Asks("helper", `use shell_cmd {"command":"true"}`))
			send(signals.SignalDecide, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		}},
		"input": {6, func() {
			w.Post(id, check.Asks("helper", "use book {}"))
			var asked []event.InputRequest
			require.Eventually(t, func() bool {
				out, err := w.Threads.Approvals(w.Ctx(), id)
				asked = out.Inputs
				return err == nil && len(asked) == 1
			}, testenv.Patience, testenv.Tick)
			send(signals.SignalAnswerInput, signals.InputAnswers{
				ToolCallID: asked[0].ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{asked[0].Questions[0].ID: {Action: event.InputDecline}},
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			added, children := measureSubs(t, w, id, c.turn)
			// Two more mark the thread as waiting for approval.
			require.LessOrEqual(t, len(added), 16+9+20+2, check.Describe(added))
			require.LessOrEqual(t, billed(added), 4+6+2)
			require.LessOrEqual(t, len(check.Only(t, children)), beginAndEnd+21+15+c.run, check.Describe(children[0]))
			check.Only(t, slices.DeleteFunc(slices.Clone(added), func(e *history.HistoryEvent) bool {
				return e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() != step.SignalSubAgentApprovals
			}))
		})
	}
}

// measureSubs is [measure], with the histories of the turn's sub-agents.
func measureSubs(t *testing.T, w *harness.Harness, id string, turn func()) (thread []*history.HistoryEvent, children [][]*history.HistoryEvent) {
	t.Helper()
	for range 5 {
		thread = measure(t, w, id, turn)
		children = subRuns(w, thread)
		if !slices.ContainsFunc(children, check.Stalled) {
			return thread, children
		}
		t.Log("the machine was too busy; the next turn is measured")
	}
	require.Fail(t, "no turn could be measured")
	return nil, nil
}

// TestBudgetsOfHandledEvents: an environment event that an agent handles costs the same as a
// message.
func TestBudgetsOfHandledEvents(t *testing.T) {
	if harness.StickyOff() {
		t.Skip("budgets are measured with the sticky cache, as workers run")
	}
	w := harness.New(t, harness.Options{StepsAsActivities: true})
	changed := func() signals.Post {
		return signals.EnvPost(event.EnvEvent{ID: signals.NewEventID(), Type: "file.changed", Payload: []byte(`{"path":"a.go"}`), Timestamp: time.Now().UnixMilli()})
	}
	for _, tc := range []struct {
		name string
		turn func(id string)
		want cost
	}{
		{"by signal", func(id string) {
			_, err := w.Threads.PostSignal(w.Ctx(), id, changed())
			require.NoError(t, err)
		}, cost{10, 2}},
		{"by a client", func(id string) {
			_, err := w.Threads.Post(w.Ctx(), id, changed())
			require.NoError(t, err)
		}, cost{10, 2}},
		{"by update, and waited for", func(id string) {
			out, err := w.Threads.Turn(w.Ctx(), id, changed())
			require.NoError(t, err)
			require.Equal(t, "Process event: file.changed", out.Message.Content)
		}, cost{11, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := w.Open()
			w.Say(id, "warm up")
			// The rules enter history with the first event.
			check.Turn(w, id, changed())
			added := measure(t, w, id, func() { tc.turn(id) })
			require.Equal(t, tc.want, cost{len(added), billed(added)}, "events and actions:\n%s", check.Describe(added))
		})
	}
}
