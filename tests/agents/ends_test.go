package agents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// endsAs waits until the workflow of a thread has ended with a status.
func endsAs(w *harness.Harness, thread string, as enumspb.WorkflowExecutionStatus) {
	w.T.Helper()
	check.Review{Harness: w}.EndsAs(signals.WorkflowID(w.TaskQueue, thread), as)
}

// TestSubAgentIsStopped ends a sub-agent from its parent thread, in all ways, while its tool runs
// or its call waits.
func TestSubAgentIsStopped(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	// Running steps do not learn of it by a heartbeat.
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}, Deaf: true})
	interrupt := func(id string) {
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	}
	t.Run("an interrupt of the turn stops it and its tool", func(t *testing.T) {
		id := w.Open()
		v := check.Watch(t, w, id, "")
		posted := w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		interrupt(id)
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, posted).Status)
		v.Until(t, check.IsFinal)
		require.Equal(t, step.InterruptedText, check.ResultIn(t, w, id, "call-agent").Content)
		awaitClosed(w, check.Sub(w, id, 1))
		require.Contains(t, check.ResultIn(t, w, check.Sub(w, id, 1), "wait").Content, step.InterruptedText)
		endsAs(w, check.Sub(w, id, 1), enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
		check.RequireSettled(t, w, id)
		check.RequireSettled(t, w, check.Sub(w, id, 1))
		require.Equal(t, "hello", w.Say(id, "hello").Message.Content, "the thread is usable")
	})
	t.Run("an interrupt stops what works two levels down", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, check.Asks("manager", check.Asks("helper", "use wait {}")))
		check.Arrives(t, g.Reached, "the tool")
		interrupt(id)
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, posted).Status)
		for _, at := range []string{check.Sub(w, id, 1), check.Sub(w, check.Sub(w, id, 1), 1)} {
			awaitClosed(w, at)
			endsAs(w, at, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
			check.RequireSettled(t, w, at)
		}
	})
	t.Run("an interrupt withdraws what it asks for", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, check.Asks("helper", check.Touches(id)))
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		interrupt(id)
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, posted).Status)
		w.AwaitApproval(id, 0)
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideNotPending, out.Result)
		awaitClosed(w, check.Sub(w, id, 1))
		require.Empty(t, check.Made(w, id))
	})
	t.Run("closing the thread stops it", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
		awaitClosed(w, id)
		awaitClosed(w, check.Sub(w, id, 1))
		require.Equal(t, step.InterruptedText, check.ResultIn(t, w, id, "call-agent").Content)
		check.RequireSettled(t, w, check.Sub(w, id, 1))
	})
	t.Run("cancelling the thread through Temporal stops it", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), ""))
		awaitClosed(w, id)
		awaitClosed(w, check.Sub(w, id, 1))
		check.RequireSettled(t, w, id)
	})
	t.Run("a message that interrupts stops it", func(t *testing.T) {
		id := w.Open()
		w.Post(id, check.Asks("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		p := signals.UserMessage(id, "ann", "hello")
		p.OnBusy = event.OnBusyInterrupt
		out, err := w.Threads.Turn(w.Ctx(), id, p)
		require.NoError(t, err)
		require.Equal(t, "hello", out.Message.Content)
		awaitClosed(w, check.Sub(w, id, 1))
	})
}

// TestSubAgentIsLost ends a sub-agent's thread without its parent thread: the call fails with the
// reason, and the turn continues.
func TestSubAgentIsLost(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	for name, tc := range map[string]struct {
		end  func(below string) error
		want []string
	}{
		"a user closes it": {
			func(below string) error {
				return w.Threads.Control(w.Ctx(), below, signals.Control{Action: signals.ControlClose, By: "bob", Reason: "enough of it"})
			},
			[]string{"Error: the sub-agent was interrupted: enough of it\n", "said so far"},
		},
		"a user interrupts it": {
			func(below string) error {
				return w.Threads.Control(w.Ctx(), below, signals.Control{Action: signals.ControlInterrupt, By: "bob"})
			},
			[]string{"Error: the sub-agent was interrupted.\n", "said so far"},
		},
		"an operator terminates it": {
			func(below string) error {
				return w.Temporal.TerminateWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, below), "", "it hangs")
			},
			[]string{"Error: the sub-agent ended without an answer: it was terminated"},
		},
		"an operator cancels it": {
			func(below string) error {
				return w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, below), "")
			},
			[]string{"Error: the sub-agent ended without an answer: it was cancelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			posted := w.Post(id, check.Asks("helper", "said so far", "use wait {}")+"\nthen\nso be it")
			check.Arrives(t, g.Reached, "the tool")
			require.NoError(t, tc.end(check.Sub(w, id, 1)))
			out := w.Await(id, posted)
			require.Equal(t, signals.TurnCompleted, out.Status)
			require.Contains(t, out.Message.Content, "so be it")
			result := check.ResultIn(t, w, id, "call-agent")
			require.True(t, result.IsError)
			for _, want := range tc.want {
				require.Contains(t, result.Content, want)
			}
			require.Equal(t, "hello", w.Say(id, "hello").Message.Content)
		})
	}
	t.Run("while its call waits for approval", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, check.Asks("helper", check.Touches(id)))
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		require.NoError(t, w.Temporal.TerminateWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, check.Sub(w, id, 1)), "", "it hangs"))
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		w.AwaitApproval(id, 0)
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideNotPending, out.Result)
	})
}

// TestThreadThatBeginsAnew terminates a thread and opens it again: it numbers its sub-agents again,
// and does not take an old answer for a new one.
func TestThreadThatBeginsAnew(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	w.Say(id, check.Asks("helper", "the first"))
	awaitClosed(w, check.Sub(w, id, 1))
	check.Settle(w, id)
	require.NoError(t, w.Temporal.TerminateWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", "it hangs"))
	require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{}, nil))
	w.Say(id, check.Asks("helper", "the second"))
	results := check.ResultsOf(w, id, "call-agent")
	require.Len(t, results, 2)
	require.Equal(t, "the first", results[0].Content)
	require.Equal(t, "the second", results[1].Content)
}

// chain asks an agent to ask an agent, and so on, depth levels deep.
func chain(depth int, last string) string {
	line := last
	for range depth {
		line = check.Asks("manager", line)
	}
	return line
}

// TestLimitsOfSubAgents reaches and exceeds the limits.
func TestLimitsOfSubAgents(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	t.Run("five in a row", func(t *testing.T) {
		id := w.Open()
		w.Say(id, chain(5, "the bottom"))
		require.Equal(t, strings.Repeat("call-agent returned: ", 4)+"the bottom", check.ResultIn(t, w, id, "call-agent").Content)
	})
	t.Run("six are one too many", func(t *testing.T) {
		id := w.Open()
		w.Say(id, chain(6, "never said"))
		deepest := id
		for range 5 {
			deepest = check.Sub(w, deepest, 1)
		}
		result := check.ResultIn(t, w, deepest, "call-agent")
		require.True(t, result.IsError)
		require.Equal(t, "Error: 5 agents work for one another in a row, the limit. Do it yourself.", result.Content)
		require.False(t, check.ResultIn(t, w, id, "call-agent").IsError, "who asked it got an answer")
		require.Empty(t, check.Subs(w, deepest))
	})
	t.Run("ten at once", func(t *testing.T) {
		id := w.Open()
		posted := w.Post(id, strings.Repeat(check.Asks("helper", "use wait {}")+"\n", 11))
		for range 10 {
			check.Arrives(t, g.Reached, "the tool")
		}
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Len(t, check.Only(t, state.Turn.Runs).Threads, 10)
		g.Release()
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		var refused []string
		for _, r := range check.ResultsOf(w, id, "call-agent") {
			if r.IsError {
				refused = append(refused, r.Content)
			}
		}
		require.Equal(t, []string{"Error: 10 sub-agents work for this thread, the limit. Wait for one of them."}, refused)
		require.Len(t, check.Results(w, id), 11)
	})
	t.Run("fifty in a turn", func(t *testing.T) {
		id := w.Open()
		ten := strings.Repeat(check.Asks("helper", "hello")+"\n", 10)
		w.Say(id, strings.Repeat(ten+"then\n", 5)+check.Asks("helper", "one more")+"\nthen\nwell")
		all := check.ResultsOf(w, id, "call-agent")
		require.Len(t, all, 51)
		require.Equal(t, "Error: 50 sub-agents were started in this turn, which is the limit.", all[50].Content)
		check.Only(t, slices.DeleteFunc(slices.Clone(all), func(m event.Message) bool { return !m.IsError }))
		w.Say(id, check.Asks("helper", "another turn"))
		require.Equal(t, "another turn", check.ResultsOf(w, id, "call-agent")[51].Content)
	})
}

// TestBudgetsPassDown: a sub-agent's budget is the rest of its parent's.
func TestBudgetsPassDown(t *testing.T) {
	t.Parallel()
	agents := check.Team()
	agents[0].Limits = agent.Limits{MaxSteps: 4}
	agents[2].Limits = agent.Limits{MaxSteps: 10}
	w := harness.New(t, harness.Options{Agents: agents})
	// steps makes n model calls: one for each tool, and one more.
	steps := func(n int) string { return strings.Repeat("use note {}\nthen\n", n-1) + "done" }
	t.Run("steps", func(t *testing.T) {
		id := w.Open()
		w.Say(id, check.Asks("helper", steps(3)))
		require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "done", "one step was made of four")
		id = w.Open()
		w.Say(id, check.Asks("helper", steps(4)))
		result := check.ResultIn(t, w, id, "call-agent")
		require.True(t, result.IsError)
		require.Contains(t, result.Content, "Stopped after 3 model calls in one turn")
		id = w.Open()
		w.Say(id, "use note {}\nthen\n"+check.Asks("helper", steps(3)))
		require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "Stopped after 2 model calls in one turn")
	})
	t.Run("its own limit holds as well", func(t *testing.T) {
		agents := check.Team()
		agents[2].Limits = agent.Limits{MaxSteps: 2}
		w := harness.New(t, harness.Options{Agents: agents})
		id := w.Open()
		w.Say(id, check.Asks("helper", steps(3)))
		require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "Stopped after 2 model calls in one turn")
	})
	t.Run("tools", func(t *testing.T) {
		w := harness.New(t, harness.Options{Agents: check.Team()})
		id := w.Open()
		p := signals.UserMessage(id, "ann", check.Asks("manager", "use note {}\nthen\n"+check.Asks("helper", "use note {}")))
		p.Tools = []string{"call-agent"}
		require.Equal(t, signals.TurnCompleted, check.Turn(w, id, p).Status)
		between := check.Sub(w, id, 1)
		for _, at := range []string{between, check.Sub(w, between, 1)} {
			require.True(t, check.ResultIn(t, w, at, "note").IsError, at)
		}
		calls := check.ModelCalls(w)
		require.Len(t, calls, 2+3+2)
		for _, call := range calls {
			for _, offered := range call.Tools {
				require.Equal(t, "call-agent", offered.Name, "to a model in %s", call.Raw)
			}
		}
		w.Say(id, check.Asks("helper", "use note {}"))
		require.False(t, check.ResultIn(t, w, check.Sub(w, id, 2), "note").IsError, "the next turn has them all")
	})
}

// TestLongIDs: the sub-agents of a thread with an id of maximum length have unique ids.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := strings.Repeat("x", 128)
	require.NoError(t, w.Threads.Open(w.Ctx(), id, signals.Start{}, nil))
	w.Say(id, check.Asks("helper", "hello")+"\n"+check.Asks("helper", "hello again"))
	require.Len(t, check.Subs(w, id), 2)
	said := map[string]bool{}
	for _, at := range check.Subs(w, id) {
		require.NoError(t, signals.ValidateID("threadId", at))
		said[w.Transcript(at)] = true
		status, out := check.Request(t, w, "GET", "/v1/threads/"+at, nil)
		require.Equal(t, 200, status)
		require.Equal(t, id, out["parent"])
	}
	require.Equal(t, map[string]bool{
		"user assistant: hello\nassistant helper: hello\n":             true,
		"user assistant: hello again\nassistant helper: hello again\n": true,
	}, said)
}

// TestOnlyThreadsStartSubAgents: a client cannot start the workflow of a sub-agent.
func TestOnlyThreadsStartSubAgents(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	run, err := w.Temporal.ExecuteWorkflow(w.Ctx(), client.StartWorkflowOptions{ID: signals.WorkflowID(w.TaskQueue, "by-hand"), TaskQueue: w.TaskQueue}, signals.DelegateWorkflow, json.RawMessage(`{}`))
	require.NoError(t, err)
	require.ErrorContains(t, run.Get(w.Ctx(), nil), "a sub-agent's thread is started by a thread, not by clients")

	run, err = w.Temporal.ExecuteWorkflow(w.Ctx(), client.StartWorkflowOptions{ID: signals.WorkflowID(w.TaskQueue, "no-sub"), TaskQueue: w.TaskQueue}, signals.ThreadWorkflow, json.RawMessage(`{"parent":{"threadId":"other"}}`))
	require.NoError(t, err)
	state, err := w.Threads.State(w.Ctx(), "no-sub")
	require.NoError(t, err)
	require.Empty(t, state.Parent, "nor makes one of a thread")
	require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), run.GetID(), ""))
	endsAs(w, "no-sub", enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
}
