package workflows_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

const (
	subThread     = "t1.s1"
	subWorkflowID = "thread/ns/t1.s1"
)

// asked is a call of a sub-agent.
func asked(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "call_agent", By: step.ByAgent, SubAgent: &step.SubAgentPlan{Agent: "bob", Message: "do it"}}
}

// answering is the default reply of a sub-agent's model.
func answering(_ context.Context, in step.Model) (step.ModelReply, error) {
	return reply(in, "answered"), nil
}

// delegating is a world whose agent makes these calls on "go". sub is the model of the sub-agents.
func delegating(t *testing.T, f *fakes, sub func(context.Context, step.Model) (step.ModelReply, error), calls ...step.PlannedCall) *fixture {
	t.Helper()
	w := fixtureWith(t, f)
	w.SetDetachedChildWait(false)
	w.forward(step.SignalSubAgentApprovals, step.SignalSubAgentDecision, step.SignalSubAgentEnded)
	f.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		switch {
		case in.Thread.ThreadID != "t1":
			return sub(ctx, in)
		case in.EventID == "go" && in.Step == 1:
			return reply(in, "", calls...), nil
		}
		return reply(in, "ok"), nil
	}
	return w
}

// who are the threads of the model calls, in order.
func (f *fakes) who() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, in := range f.models {
		out = append(out, in.Thread.ThreadID)
	}
	return out
}

func TestSubAgent(t *testing.T) {
	f := newFakes(t)
	w := delegating(t, f, answering, asked("c1"))
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		require.Equal(t, signals.ThreadIdle, w.state().Status)
		require.Equal(t, 3, w.state().Usage.OutputTokens, "the sub-agent's count")
	})
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice"}}})
	require.Equal(t, []string{"t1", subThread, "t1"}, f.who())
	sub := f.models[1]
	require.Equal(t, "bob", sub.Agent)
	require.Equal(t, "go", sub.TraceID, "S1-38")
	require.Equal(t, &step.Parent{
		ThreadID: "t1", Agent: "alice", ToolName: "call_agent", ToolCallID: "c1", MessageID: "go.0.1", User: "ann", TraceID: "go", EventID: "go", Depth: 1, MaxSteps: 4,
	}, sub.Parent, "S1-28")
	require.Len(t, f.ends, 1)
	require.Equal(t, signals.TurnCompleted, f.ends[0].Status)
	require.Contains(t, f.messages(), "c1.result: answered: completed")
	require.True(t, f.has(subThread+".opened"), "its thread is one like any other")
}

func TestSubAgentsWorkInParallel(t *testing.T) {
	f := newFakes(t)
	both := make(chan struct{}, 2)
	w := delegating(t, f, func(_ context.Context, in step.Model) (step.ModelReply, error) {
		both <- struct{}{}
		if len(both) < 2 {
			require.Eventually(t, func() bool { return len(both) == 2 }, testenv.Patience, time.Millisecond)
		}
		return reply(in, "answered"), nil
	}, asked("c1"), asked("c2"))
	w.then(func() { w.post("go", "go") })
	w.run(workflows.Input{})
	who := f.who()
	require.ElementsMatch(t, []string{"t1.s1", "t1.s2"}, who[1:3])
	require.Equal(t, "t1", who[3], "S2-13 the agent goes on once it has both")
	require.Len(t, who, 4)
}

// TestSubAgentFails: the call has an error as its result, and the agent continues.
func TestSubAgentFails(t *testing.T) {
	f := newFakes(t)
	f.end = func(step.End) (step.EndReply, error) { return step.EndReply{Failed: true}, nil }
	w := delegating(t, f, func(context.Context, step.Model) (step.ModelReply, error) {
		return step.ModelReply{}, notConfigured("no such model")
	}, asked("c1"))
	w.then(func() { w.post("go", "go") })
	w.run(workflows.Input{})
	require.Equal(t, signals.TurnFailed, f.ends[0].Status, "S1-25")
	require.Equal(t, "no such model", f.ends[0].Error)
	require.Equal(t, []string{"t1", subThread, "t1"}, f.who())
}

// TestSubAgentIsLost: the same for a sub-agent that ends without an answer.
func TestSubAgentIsLost(t *testing.T) {
	f := newFakes(t)
	f.end = func(step.End) (step.EndReply, error) {
		return step.EndReply{}, notConfigured("what it said cannot be read")
	}
	w := delegating(t, f, answering, asked("c1"))
	w.then(func() { w.post("go", "go") })
	w.run(workflows.Input{})
	require.Contains(t, f.messages(), "c1.result: Error: the sub-agent ended without an answer: what it said cannot be read")
	require.Equal(t, []string{"t1", subThread, "t1"}, f.who())
}

func TestInterruptWhileASubAgentWorks(t *testing.T) {
	f := newFakes(t)
	w := delegating(t, f, func(_ context.Context, in step.Model) (step.ModelReply, error) {
		return reply(in, "", asks("x1")), nil
	}, asked("c1"))
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		require.Equal(t, []string{subThread}, w.state().Turn.Runs[0].Threads)
		require.Len(t, w.approvals().Approvals, 1)
		w.control(signals.ControlInterrupt)
	})
	w.then(func() {
		require.Equal(t, signals.ThreadIdle, w.state().Status)
		require.Empty(t, w.approvals().Approvals, "nobody waits for that any more")
		require.Error(t, w.SignalWorkflowByID(subWorkflowID, "x", nil), "the sub-agent's thread has ended")
	})
	w.run(workflows.Input{})
	require.Contains(t, f.messages(), "c1.result: Tool execution was interrupted before it finished.", "S4-71")
}

// TestSubAgentAsksPeople: they decide in the parent thread, in one of three ways.
func TestSubAgentAsksPeople(t *testing.T) {
	decide := signals.Decide{ToolCallID: "x1", Decision: event.DecisionApprove, By: "ann"}
	for name, by := range map[string]func(t *testing.T, w *fixture){
		"by signal": func(_ *testing.T, w *fixture) { w.SignalWorkflow(signals.SignalDecide, decide) },
		"by update": func(t *testing.T, w *fixture) {
			other := decide
			other.Agent = "eve"
			mismatch, missing := w.update(signals.UpdateDecide, other), w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "x9", Decision: event.DecisionDeny, By: "ann"})
			accepted := w.update(signals.UpdateDecide, decide)
			// This is real time while an activity runs.
			w.RegisterDelayedCallback(func() {
				require.Equal(t, signals.DecideResult{Result: signals.DecideMismatch}, mismatch.result)
				require.Equal(t, signals.DecideResult{Result: signals.DecideNotPending}, missing.result)
				require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, accepted.result)
				again := w.update(signals.UpdateDecide, decide)
				w.RegisterDelayedCallback(func() {
					require.Equal(t, signals.DecideResult{Result: signals.DecideAlreadyResolved}, again.result)
				}, 20*time.Second)
			}, 20*time.Second)
		},
		"below": func(t *testing.T, w *fixture) {
			require.NoError(t, w.SignalWorkflowByID(subWorkflowID, signals.SignalDecide, decide))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w := delegating(t, f, func(ctx context.Context, in step.Model) (step.ModelReply, error) {
				return script(asks("x1"))(ctx, in)
			}, asked("c1"))
			w.then(func() { w.post("go", "go") })
			w.then(func() {
				require.Equal(t, signals.ThreadWaitingApproval, w.state().Status)
				require.True(t, w.has("x1.request"), "people see it at once")
				by(t, w)
			})
			w.then(func() { require.Equal(t, signals.ThreadIdle, w.state().Status) })
			w.run(workflows.Input{})
			require.Equal(t, []string{"x1"}, f.tools, "S4-94 it runs once")
			require.True(t, f.has("x1.decision"))
			require.Contains(t, f.messages(), "c1.result: answered: completed")
			require.Len(t, f.models, 4)
		})
	}
}

// moving is a thread that continues as new while its sub-agent waits for approval. It returns the
// next input.
func moving(t *testing.T, f *fakes) workflows.Input {
	t.Helper()
	f.onWaiting = event.OnWaitingHold
	w := delegating(t, f, func(_ context.Context, in step.Model) (step.ModelReply, error) {
		return reply(in, "", asks("x1")), nil
	}, asked("c1"))
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.suggestWith(signals.SignalPost, says("e2", "later")) })
	next := w.leave(workflows.Input{})
	require.Len(t, next.State.Children.SubAgents, 1)
	require.True(t, next.State.Children.SubAgents[0].ReportRequested)
	require.Len(t, next.State.Children.SubAgents[0].Approvals, 1)
	return next
}

func TestThreadMovesWhileASubAgentWorks(t *testing.T) {
	f := newFakes(t)
	next := moving(t, f)
	w := delegating(t, f, answering)
	reports := box[struct{}](w, subWorkflowID, step.SignalReport, nil)
	decisions := box[signals.Decide](w, subWorkflowID, signals.SignalDecide, nil)
	w.then(func() {
		require.NotEmpty(t, reports.all())
		require.Equal(t, []string{"t1", subThread}, f.who(), "it is not asked again")
		require.Equal(t, "x1", w.approvals().Approvals[0].ToolCallID)
		w.decide("x1", event.DecisionApprove, "")
	})
	w.then(func() {
		require.Len(t, decisions.all(), 1)
		w.SignalWorkflow(step.SignalSubAgentDecision, step.SubAgentDecision{ThreadID: subThread, ToolCallID: "x1", Approval: &event.Approval{ToolCallID: "x1", Decision: event.DecisionApprove}})
		for range 2 {
			w.SignalWorkflow(step.SignalSubAgentEnded, step.SubAgentEnded{ThreadID: subThread, DelegateReply: step.DelegateReply{Status: signals.TurnCompleted, Usage: event.Usage{InputTokens: 9}}})
		}
	})
	w.then(func() {
		require.Empty(t, w.approvals().Approvals)
		require.Equal(t, 9+3, w.state().Usage.InputTokens, "once")
	})
	w.run(next)
	require.Equal(t, []string{"t1", subThread, "t1", "t1"}, f.who())
	require.Equal(t, "e2", f.models[3].EventID)
	require.Empty(t, stored[event.Rejected](f, event.TypeRejected))
}

// TestSubAgentIsGoneWhenTheThreadHasMoved: the thread does not wait forever.
func TestSubAgentIsGoneWhenTheThreadHasMoved(t *testing.T) {
	f := newFakes(t)
	next := moving(t, f)
	w := delegating(t, f, answering)
	box[struct{}](w, subWorkflowID, step.SignalReport, gone)
	w.run(next)
	require.Contains(t, f.messages(), "c1.result: Error: the sub-agent ended without an answer: it was terminated")
	require.Equal(t, []string{"t1", subThread, "t1", "t1"}, f.who())
}

// TestInterruptAfterTheThreadHasMoved: the interrupt still ends the sub-agent.
func TestInterruptAfterTheThreadHasMoved(t *testing.T) {
	f := newFakes(t)
	next := moving(t, f)
	w := delegating(t, f, answering)
	var cancelled []string
	w.OnRequestCancelExternalWorkflow(mock.Anything, subWorkflowID, "").Return(func(_, id, _ string) error {
		cancelled = append(cancelled, id)
		return nil
	})
	box[struct{}](w, subWorkflowID, step.SignalReport, nil)
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.run(next)
	require.Equal(t, []string{subWorkflowID}, cancelled)
	require.Contains(t, f.messages(), "c1.result: Tool execution was interrupted before it finished.")
}

// TestSubAgentsCanGoNoDeeper: the result has the reason.
func TestSubAgentsCanGoNoDeeper(t *testing.T) {
	f := newFakes(t)
	w := delegating(t, f, func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		return script(asked("c"+in.Thread.ThreadID))(ctx, in)
	}, asked("c1"))
	// The test environment knows the parents of all threads but the first.
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, "", mock.Anything, mock.Anything).Return(nil).Maybe()
	w.then(func() { w.post("go", "go") })
	w.run(workflows.Input{})
	require.Len(t, f.ends, 5)
	require.True(t, slices.ContainsFunc(f.messages(), func(m string) bool {
		return strings.HasPrefix(m, "ct1.s1.s") && strings.HasSuffix(m, ".result: Error: 5 agents work for one another in a row, the limit. Do it yourself.")
	}), f.messages())
	require.Equal(t, "t1", f.who()[len(f.who())-1], "all of them go on")
}

// inTheBackground is a call of a sub-agent as a background task.
func inTheBackground(id string) step.PlannedCall {
	p := asked(id)
	p.Name, p.By, p.Task = "task", step.ByTask, &step.TaskPlan{Deadline: day}
	return p
}

func TestSubAgentInTheBackground(t *testing.T) {
	f := newFakes(t)
	f.end = func(step.End) (step.EndReply, error) {
		return step.EndReply{Result: json.RawMessage(`"answered"`)}, nil
	}
	w := delegating(t, f, func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		return script(asks("x1"))(ctx, in)
	}, inTheBackground("c1"))
	w.then(func() { w.post("go", "go") })
	w.then(func() {
		require.Equal(t, signals.ThreadWaitingApproval, w.state().Status, "people are asked here, though the turn is over")
		require.Equal(t, subThread, w.tasks().Tasks[0].ThreadID)
		require.Equal(t, "bob", w.tasks().Tasks[0].SubAgent)
		w.control(signals.ControlInterrupt)
		w.decide("x1", event.DecisionApprove, "")
	})
	w.then(func() { require.Equal(t, event.TaskCompleted, w.tasks().Tasks[0].State) })
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice"}}})
	require.ElementsMatch(t, []string{"t1", subThread, "t1", subThread, "t1"}, f.who())
	require.Len(t, f.heardOf(), 1, "S3-02 its agent is told")
	require.JSONEq(t, `{"taskId":"t1~t1","title":"bob for alice","result":"answered"}`, string(stored[event.EnvEvent](f, event.TypeEnv)[0].Payload))
}

// TestSubAgentInTheBackgroundIsCancelled: by a person.
func TestSubAgentInTheBackgroundIsCancelled(t *testing.T) {
	f := newFakes(t)
	w := delegating(t, f, func(_ context.Context, in step.Model) (step.ModelReply, error) {
		return reply(in, "", asks("x1")), nil
	}, inTheBackground("c1"))
	w.then(func() { w.post("go", "go") })
	w.then(func() { w.update(signals.UpdateCancelTask, signals.CancelTask{TaskID: taskID, By: "ann"}) })
	w.then(func() {
		require.Equal(t, event.TaskCancelled, w.tasks().Tasks[0].State)
		require.Empty(t, w.approvals().Approvals)
		require.Error(t, w.SignalWorkflowByID(subWorkflowID, "x", nil), "its thread has ended")
	})
	w.run(workflows.Input{})
	require.Len(t, f.heardOf(), 1)
}

// TestMessagesWhileASubAgentWaits: they are answered while the sub-agent waits for people, even
// after continue-as-new. The turn continues with its answer, or when the sub-agent is gone.
func TestMessagesWhileASubAgentWaits(t *testing.T) {
	waits := func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		return script(asks("x1"))(ctx, in)
	}
	begin := func(w *fixture) {
		w.then(func() { w.post("go", "go") })
		w.then(func() {
			said := w.update(signals.UpdateTurn, says("m2", "hello?"))
			w.RegisterDelayedCallback(func() {
				require.True(t, said.done, "it is answered")
				require.Equal(t, signals.ThreadWaitingApproval, w.state().Status)
				require.Equal(t, "x1", w.approvals().Approvals[0].ToolCallID)
			}, time.Second)
		})
	}
	t.Run("it is decided", func(t *testing.T) {
		f := newFakes(t)
		w := delegating(t, f, waits, asked("c1"))
		begin(w)
		w.then(func() { w.decide("x1", event.DecisionApprove, "") })
		w.then(func() {
			require.Equal(t, signals.ThreadIdle, w.state().Status)
			require.Empty(t, w.approvals().Approvals)
		})
		w.run(workflows.Input{})
		require.Equal(t, []string{"c1"}, f.models[2].OpenCalls)
		require.Equal(t, []string{"x1"}, f.tools)
		require.Contains(t, f.modelled(), "go.0.2")
	})
	t.Run("the turn is interrupted", func(t *testing.T) {
		f := newFakes(t)
		w := delegating(t, f, waits, asked("c1"))
		begin(w)
		w.then(func() { w.control(signals.ControlInterrupt) })
		w.then(func() { require.Equal(t, signals.ThreadIdle, w.state().Status) })
		w.run(workflows.Input{})
		require.Contains(t, f.messages(), "c1.result: Tool execution was interrupted before it finished.")
	})
	for name, ends := range map[string]func(w *fixture){
		"it answers after the thread has moved": func(w *fixture) {
			w.SignalWorkflow(step.SignalSubAgentDecision, step.SubAgentDecision{ThreadID: subThread, ToolCallID: "x1"})
			w.SignalWorkflow(step.SignalSubAgentEnded, step.SubAgentEnded{ThreadID: subThread, DelegateReply: step.DelegateReply{Status: signals.TurnCompleted}})
		},
		"it is gone after the thread has moved": func(w *fixture) { w.decide("x1", event.DecisionApprove, "") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w := delegating(t, f, waits, asked("c1"))
			begin(w)
			w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
			next := w.leave(workflows.Input{})
			require.Len(t, next.State.Turns.Parked, 1)
			require.True(t, next.State.Children.SubAgents[0].ReportRequested)

			w = delegating(t, f, answering)
			box[signals.Decide](w, subWorkflowID, signals.SignalDecide, gone)
			box[struct{}](w, subWorkflowID, step.SignalReport, nil)
			var said *answer
			w.then(func() { said = w.update(signals.UpdateTurn, says("m3", "still there?")) })
			w.then(func() {
				require.True(t, said.done)
				ends(w)
			})
			w.then(func() { require.Equal(t, signals.ThreadIdle, w.state().Status) })
			w.run(next)
			require.Contains(t, f.modelled(), "go.0.2")
		})
	}
}
