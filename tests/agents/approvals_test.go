package agents

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// awaitDecided waits until a thread has stored the decision on a call, once.
func awaitDecided(w *harness.Harness, thread, toolCallID string) event.Approval {
	w.T.Helper()
	var found []event.Approval
	require.Eventually(w.T, func() bool {
		found = check.ApprovalsOf(w, thread, toolCallID)
		return len(found) > 0
	}, testenv.Patience, testenv.Tick, "a decision on %s in thread %s", toolCallID, thread)
	require.Len(w.T, found, 1)
	return found[0]
}

// TestApprovalOfASubAgent decides in the parent thread, over each entry point.
//
//ci:replayed only
func TestApprovalOfASubAgent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	for how, d := range check.Drivers(w) {
		t.Run(how, func(t *testing.T) {
			id := w.Open()
			v := check.Watch(t, w, id, "")
			posted := w.Post(id, check.Asks("helper", check.Touches(id)))
			request := w.AwaitApproval(id, 1)[0]
			below := check.Sub(w, id, 1)
			require.Equal(t, "shell_cmd", request.ToolName)
			require.Equal(t, "helper", request.Agent)
			require.Contains(t, request.Arguments, "echo made")
			require.Equal(t, request.ToolCallID, w.AwaitApproval(below, 1)[0].ToolCallID, "the same, in its own thread")
			for _, at := range []string{id, below} {
				state, err := w.Threads.State(w.Ctx(), at)
				require.NoError(t, err)
				require.Equal(t, signals.ThreadWaitingApproval, state.Status, at)
			}
			asked := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventApprovalRequest })
			require.Equal(t, request.ToolCallID, asked[len(asked)-1].Event.Request.ToolCallID, "viewers are asked")

			d.Decide(t, id, request.ToolCallID, event.DecisionApprove, "")
			require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
			require.Equal(t, "made\n", check.Made(w, id))
			for _, at := range []string{id, below} {
				got := awaitDecided(w, at, request.ToolCallID)
				require.Equal(t, event.DecisionApprove, got.Decision)
				require.Equal(t, "ann", got.By)
				require.Equal(t, posted, check.Only(t, check.OfType(w, at, event.TypeApprovalRequest)).TraceID)
				require.Equal(t, posted, check.Only(t, check.OfType(w, at, event.TypeApproval)).TraceID)
			}
			frames := v.Until(t, check.IsFinal)
			require.Equal(t, 1, check.Count(frames, event.EventApproval), "viewers hear of the decision")
			require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "shell_cmd returned:")
			w.AwaitApproval(id, 0)
		})
	}
}

// TestDecisionsOnSubAgents decides in the parent thread and in the sub-agent's own.
func TestDecisionsOnSubAgents(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	// waiting begins a turn whose sub-agent waits for approval.
	waiting := func(t *testing.T) (id, posted, call string) {
		t.Helper()
		id = w.Open()
		posted = w.Post(id, check.Asks("helper", check.Touches(id)))
		return id, posted, w.AwaitApproval(id, 1)[0].ToolCallID
	}
	decide := func(t *testing.T, thread string, d signals.Decide) signals.DecideOutcome {
		t.Helper()
		d.By = "ann"
		out, err := w.Threads.Decide(w.Ctx(), thread, d)
		require.NoError(t, check.Unrefused(err))
		return out.Result
	}
	// settled checks that both threads have the same single decision.
	settled := func(t *testing.T, id, call string, want event.Decision) {
		t.Helper()
		for _, at := range []string{id, check.Sub(w, id, 1)} {
			require.Equal(t, want, awaitDecided(w, at, call).Decision)
		}
		w.AwaitApproval(id, 0)
	}

	t.Run("above: settles both, and again is already_resolved or conflict", func(t *testing.T) {
		id, posted, call := waiting(t)
		require.Equal(t, signals.DecideAccepted, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove}))
		require.Equal(t, signals.DecideAlreadyResolved, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove}))
		require.Equal(t, signals.DecideConflict, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny}))
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		require.Equal(t, signals.DecideConflict, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny}), "after the end, too")
		settled(t, id, call, event.DecisionApprove)
		require.Equal(t, "made\n", check.Made(w, id), "once")
	})
	t.Run("in its own: settles both", func(t *testing.T) {
		id, posted, call := waiting(t)
		require.Equal(t, signals.DecideAccepted, decide(t, check.Sub(w, id, 1), signals.Decide{ToolCallID: call, Decision: event.DecisionApprove}))
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		settled(t, id, call, event.DecisionApprove)
		require.Equal(t, signals.DecideAlreadyResolved, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove}))
		require.Equal(t, signals.DecideConflict, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny}))
		require.Equal(t, "made\n", check.Made(w, id))
	})
	t.Run("deny: it never runs, and the sub-agent is told why", func(t *testing.T) {
		id, posted, call := waiting(t)
		require.Equal(t, signals.DecideAccepted, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionDeny, Reason: "not here"}))
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		settled(t, id, call, event.DecisionDeny)
		denied := check.ResultIn(t, w, check.Sub(w, id, 1), "shell_cmd")
		require.Equal(t, step.DeniedText+" Reason: not here", denied.Content)
		require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "not here")
		require.Empty(t, check.Made(w, id))
	})
	t.Run("another tool or agent: mismatch, and it waits on", func(t *testing.T) {
		id, posted, call := waiting(t)
		for _, d := range []signals.Decide{
			{ToolCallID: call, Decision: event.DecisionApprove, ToolName: "note"},
			{ToolCallID: call, Decision: event.DecisionApprove, Agent: "assistant"},
		} {
			require.Equal(t, signals.DecideMismatch, decide(t, id, d))
			require.Equal(t, signals.DecideMismatch, decide(t, check.Sub(w, id, 1), d))
		}
		require.Equal(t, signals.DecideNotPending, decide(t, id, signals.Decide{ToolCallID: "call_0", Decision: event.DecisionApprove}))
		require.Len(t, w.AwaitApproval(id, 1), 1)
		require.Empty(t, check.ApprovalsOf(w, id, call))
		require.Equal(t, signals.DecideAccepted, decide(t, id, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, ToolName: "shell_cmd", Agent: "helper"}))
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	})
	t.Run("by signal: what does not fit changes nothing, and leaves a trace", func(t *testing.T) {
		id, posted, call := waiting(t)
		signal := func(d signals.Decide) {
			require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalDecide, d))
		}
		signal(signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, ToolName: "note", By: "ann"})
		signal(signals.Decide{ToolCallID: call, Decision: event.DecisionDeny, By: "bob"})
		signal(signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		settled(t, id, call, event.DecisionDeny)
		// The last record may be stored after the turn.
		require.Eventually(t, func() bool { return len(check.OfType(w, id, event.TypeRejected)) == 2 }, testenv.Patience, testenv.Tick)
		var problems []string
		for _, r := range check.OfType(w, id, event.TypeRejected) {
			problems = append(problems, harness.Payload[event.Rejected](w, r).Problem)
		}
		require.Equal(t, []string{string(signals.DecideMismatch), string(signals.DecideConflict)}, problems)
		require.Empty(t, check.Made(w, id), "the first decision that fits stands")
	})
	t.Run("by HTTP the problem says it", func(t *testing.T) {
		id, posted, call := waiting(t)
		path := "/v1/threads/" + id + "/approvals"
		_, out := check.Request(t, w, http.MethodGet, path, nil)
		require.Len(t, out["approvals"], 1)
		status, out := check.Request(t, w, http.MethodPost, path+"/"+call, map[string]any{"by": "ann", "decision": "approve", "toolName": "note"})
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "mismatch", out["result"])
		status, out = check.Request(t, w, http.MethodPost, path+"/"+call, map[string]any{"by": "ann", "decision": "approve", "toolName": "shell_cmd"})
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "accepted", out["result"])
		status, out = check.Request(t, w, http.MethodPost, path+"/"+call, map[string]any{"by": "ann", "decision": "deny"})
		require.Equal(t, http.StatusConflict, status)
		require.Equal(t, "conflict", out["result"])
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	})
	t.Run("many decide at once: one decision stands", func(t *testing.T) {
		id, posted, call := waiting(t)
		var wg sync.WaitGroup
		outcomes := make(chan signals.DecideOutcome, 8)
		for i := range cap(outcomes) {
			wg.Go(func() {
				at := []string{id, check.Sub(w, id, 1)}[i%2]
				d := []event.Decision{event.DecisionApprove, event.DecisionDeny}[i/2%2]
				out, err := w.Threads.Decide(w.Ctx(), at, signals.Decide{ToolCallID: call, Decision: d, By: "ann"})
				err = check.Unrefused(err)
				// The sub-agent's thread may be closed by then.
				if at == id {
					assert.NoError(t, err)
				}
				if err == nil {
					outcomes <- out.Result
				}
			})
		}
		wg.Wait()
		close(outcomes)
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		stands := awaitDecided(w, id, call)
		require.Equal(t, stands.Decision, awaitDecided(w, check.Sub(w, id, 1), call).Decision)
		for out := range outcomes {
			require.Contains(t, []signals.DecideOutcome{signals.DecideAccepted, signals.DecideAlreadyResolved, signals.DecideConflict, signals.DecideNotPending}, out)
		}
		want := map[event.Decision]string{event.DecisionApprove: "made\n", event.DecisionDeny: ""}[stands.Decision]
		require.Equal(t, want, check.Made(w, id))
	})
}

// TestApprovalsOfMany: several sub-agents and the thread's own agent wait for approval at once.
func TestApprovalsOfMany(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", check.Touches(id+"-a"))+"\n"+check.Asks("manager", check.Touches(id+"-b"))+"\n"+check.Touches(id+"-c"))
	waiting := w.AwaitApproval(id, 3)
	by := map[string]event.ApprovalRequest{}
	for _, q := range waiting {
		by[q.Agent] = q
	}
	require.Len(t, by, 3)
	decide := func(agent string, d event.Decision) {
		out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: by[agent].ToolCallID, Decision: d, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideAccepted, out.Result)
	}
	decide("manager", event.DecisionApprove)
	decide("assistant", event.DecisionDeny)
	require.Equal(t, by["helper"].ToolCallID, w.AwaitApproval(id, 1)[0].ToolCallID)
	decide("helper", event.DecisionApprove)
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, []string{"made\n", "made\n", ""}, []string{check.Made(w, id+"-a"), check.Made(w, id+"-b"), check.Made(w, id+"-c")})
}

// TestApprovalTwoLevelsDown: people decide in the top thread on a call of a sub-agent's sub-agent.
//
//ci:replayed only
func TestApprovalTwoLevelsDown(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	for name, decider := range map[string]int{"at the top": 0, "between": 1, "at the bottom": 2} {
		t.Run(name, func(t *testing.T) {
			id := w.Open()
			posted := w.Post(id, check.Asks("manager", check.Asks("helper", check.Touches(id))))
			request := w.AwaitApproval(id, 1)[0]
			require.Equal(t, "helper", request.Agent)
			levels := []string{id, check.Sub(w, id, 1), check.Sub(w, check.Sub(w, id, 1), 1)}
			require.Equal(t, signals.DecideAccepted, check.Approve(t, w, levels[decider], request.ToolCallID))
			require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
			for _, at := range levels {
				require.Equal(t, event.DecisionApprove, awaitDecided(w, at, request.ToolCallID).Decision)
				require.Len(t, check.OfType(w, at, event.TypeApprovalRequest), 1)
			}
			require.Equal(t, "made\n", check.Made(w, id))
			require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "call-agent returned: shell_cmd returned: ")
		})
	}
}

// TestApprovalOfTheCall: the call of a sub-agent itself needs approval.
func TestApprovalOfTheCall(t *testing.T) {
	t.Parallel()
	agents := check.Team()
	agents[0].Approvals = map[string]agent.Policy{"call-agent": agent.PolicyAlways}
	w := harness.New(t, harness.Options{Agents: agents})
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", "hello"))
	request := w.AwaitApproval(id, 1)[0]
	require.Equal(t, "call-agent", request.ToolName)
	require.Equal(t, "assistant", request.Agent)
	require.Empty(t, check.Subs(w, id), "it has not begun")
	check.Approve(t, w, id, request.ToolCallID)
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, "hello", check.ResultIn(t, w, id, "call-agent").Content)

	posted = w.Post(id, check.Asks("helper", "hello"))
	out, err := w.Threads.Decide(w.Ctx(), id, signals.Decide{ToolCallID: w.AwaitApproval(id, 1)[0].ToolCallID, Decision: event.DecisionDeny, By: "ann"})
	require.NoError(t, check.Unrefused(err))
	require.Equal(t, signals.DecideAccepted, out.Result)
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, step.DeniedText, check.ResultsOf(w, id, "call-agent")[1].Content)
	require.Len(t, check.Subs(w, id), 1)
}

// TestMessagesWhileASubAgentWaits posts to an agent whose sub-agent waits for approval, before and
// after a restart of the worker.
func TestMessagesWhileASubAgentWaits(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team(), NoWorker: true})
	stop := w.StartWorker()
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", check.Touches(id)))
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	require.Equal(t, signals.TurnCompleted, w.Say(id, "are you there?").Status)
	stop()
	w.StartWorker()
	require.Equal(t, signals.TurnCompleted, w.Say(id, "still?").Status)
	require.Empty(t, check.Made(w, id), "nobody has decided")
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, "made\n", check.Made(w, id))
	require.Contains(t, check.ResultIn(t, w, id, "call-agent").Content, "shell_cmd returned")
	check.RequireSettled(t, w, id)
	require.Empty(t, w.Provider.Violations())
}
