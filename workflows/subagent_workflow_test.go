package workflows_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// subWorld is a world with the thread of a sub-agent only. reports are its reports to the parent
// thread; err is their result.
func subWorld(t *testing.T, f *fakes, err error) (w *fixture, reports *inbox[step.SubAgentEnded]) {
	t.Helper()
	w = fixtureWith(t, f)
	w.alone(subWorkflowID)
	return w, box[step.SubAgentEnded](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentEnded, err)
}

// asksBob is the input of a sub-agent's thread; with a deadline, it is a background task.
func (w *fixture) asksBob(deadline time.Duration) workflows.Input {
	parent := &step.Parent{
		ThreadID: "t1", Agent: "alice", ToolName: "call_agent", ToolCallID: "c1", MessageID: "go.0.1", TraceID: "go", EventID: "go", Depth: 1,
	}
	sub := thread.New("ns", subThread, signals.Start{}, w.Now(), w.Now())
	sub.ParentLink.Parent = parent
	post := signals.NewPost(sub.ParentLink.FirstID(sub.Ref()), event.NewMessage{ThreadID: subThread, SenderID: "alice", SenderType: event.CreatedByUser, Content: "do it"})
	in := workflows.Input{Start: signals.Start{Agents: []string{"bob"}, First: &post}, Parent: parent}
	if deadline != 0 {
		in.Parent.Background = &event.Task{
			ID: taskID, Title: "bob", State: event.TaskRunning, Agent: "alice", ToolCallID: "c1", TraceID: "go",
			SubAgent: "bob", ThreadID: subThread, StartedAt: w.Now(), Deadline: w.Now().Add(deadline),
		}
	}
	return in
}

// delegate runs the thread of a sub-agent until it ends.
func (w *fixture) delegate(in workflows.Input) (step.DelegateReply, error) {
	w.t.Helper()
	w.ExecuteWorkflow(signals.DelegateWorkflow, in)
	require.True(w.t, w.IsWorkflowCompleted())
	if err := w.GetWorkflowError(); err != nil {
		return step.DelegateReply{}, err
	}
	var out step.DelegateReply
	require.NoError(w.t, w.GetWorkflowResult(&out))
	return out, nil
}

func TestThreadOfASubAgent(t *testing.T) {
	w, reports := subWorld(t, newFakes(t), nil)
	out, err := w.delegate(w.asksBob(0))
	require.NoError(t, err)
	require.Equal(t, step.DelegateReply{Status: signals.TurnCompleted, Usage: event.Usage{InputTokens: 1, OutputTokens: 1, ModelCalls: 1}}, out)
	require.Empty(t, reports.all(), "who waits hears of it anyway")
	require.Equal(t, "closed", w.row.Status)
	require.Equal(t, []event.StatusChange{
		{Status: event.StatusOpened, Agents: []string{"bob"}}, {Status: event.StatusClosed, By: "alice", Detail: "the sub-agent has answered"},
	}, stored[event.StatusChange](w.fakes, event.TypeStatus))
}

// TestClientsStartNoSubAgents: there is no parent thread to answer.
func TestClientsStartNoSubAgents(t *testing.T) {
	for name, change := range map[string]func(*workflows.Input){
		"without a parent": func(in *workflows.Input) { in.Parent = nil }, "without a question": func(in *workflows.Input) { in.First = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := subWorld(t, newFakes(t), nil)
			in := w.asksBob(0)
			change(&in)
			_, err := w.delegate(in)
			require.ErrorContains(t, err, "a sub-agent's thread is started by a thread, not by clients; start a thread")
			require.Empty(t, w.types())
		})
	}
	w := newFixture(t)
	in := w.asksBob(0)
	in.First = nil
	w.run(in)
	require.Empty(t, w.ends, "a thread that a client starts works for no other")
}

// TestQuestionThatDoesNotArrive: the sub-agent does not wait for a decision.
func TestQuestionThatDoesNotArrive(t *testing.T) {
	w, _ := subWorld(t, newFakes(t), nil)
	in := w.asksBob(0)
	in.First.Payload = json.RawMessage(`{"content":"` + strings.Repeat("x", signals.MaxPayload) + `"}`)
	_, err := w.delegate(in)
	require.NoError(t, err)
	require.Empty(t, w.models)
	require.Len(t, w.ends, 1)
	require.NotEqual(t, signals.TurnCompleted, w.ends[0].Status)
}

// TestDeadlineOfASubAgent: the deadline interrupts any wait.
func TestDeadlineOfASubAgent(t *testing.T) {
	w, reports := subWorld(t, newFakes(t), nil)
	box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
	box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
	w.model = script(asks("x1"))
	w.end = func(in step.End) (step.EndReply, error) { return step.EndReply{Error: in.Error}, nil }
	began := w.Now()
	_, err := w.delegate(w.asksBob(30 * day))
	require.NoError(t, err)
	require.Equal(t, 30*day, w.Now().Sub(began).Round(time.Minute))
	require.Equal(t, signals.TurnInterrupted, w.ends[0].Status)
	require.Len(t, reports.all(), 1)
	require.Contains(t, reports.all()[0].Error, "it had not completed by its deadline, ")
}

// TestDeadlineOfASubAgentThatHasMoved: continue-as-new keeps the deadline.
func TestDeadlineOfASubAgentThatHasMoved(t *testing.T) {
	f := newFakes(t)
	f.model = script(asks("x1"))
	next := subMoves(t, f, 30*day)
	w, reports := subWorld(t, f, nil)
	box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
	deadline := next.State.ParentLink.Parent.Background.Deadline
	w.SetStartTime(deadline.Add(-time.Hour))
	_, err := w.delegate(next)
	require.NoError(t, err)
	require.WithinDuration(t, deadline, w.Now(), time.Minute)
	require.Len(t, reports.all(), 1)
}

// subMoves lets the thread of a sub-agent continue as new while it waits for approval. It returns
// the next input.
func subMoves(t *testing.T, f *fakes, deadline time.Duration, before ...func(*fixture)) workflows.Input {
	t.Helper()
	w, _ := subWorld(t, f, nil)
	asked := box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
	for _, do := range before {
		w.then(func() { do(w) })
	}
	w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
	in := w.asksBob(deadline)
	w.ExecuteWorkflow(signals.DelegateWorkflow, in)
	next := w.continued()
	require.Len(t, asked.all(), 1)
	require.Equal(t, "x1", asked.all()[0].Request.ToolCallID)
	require.Equal(t, subThread, asked.all()[0].ThreadID)
	require.NotNil(t, next.State.ParentLink.Parent)
	return next
}

// TestSubAgentMoves: it continues as a sub-agent.
func TestSubAgentMoves(t *testing.T) {
	f := newFakes(t)
	f.model = script(asks("x1"))
	next := subMoves(t, f, 0)
	w, reports := subWorld(t, f, nil)
	decisions := box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
	w.then(func() { w.decide("x1", event.DecisionApprove, "") })
	out, err := w.delegate(next)
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Len(t, decisions.all(), 1)
	require.Equal(t, event.DecisionApprove, decisions.all()[0].Approval.Decision)
	require.Empty(t, reports.all())
	require.Equal(t, "c1", f.ends[0].Parent.ToolCallID)
}

// TestSubAgentReportsToAThreadThatHasMoved: even if it has itself continued as new since the
// request.
func TestSubAgentReportsToAThreadThatHasMoved(t *testing.T) {
	report := func(w *fixture) { w.SignalWorkflow(step.SignalReport, nil) }
	t.Run("asked in its first run", func(t *testing.T) {
		f := newFakes(t)
		w, reports := subWorld(t, f, nil)
		box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
		box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
		f.model = script(asks("x1"))
		w.then(func() { report(w); report(w) })
		w.then(func() { w.decide("x1", event.DecisionApprove, "") })
		out, err := w.delegate(w.asksBob(0))
		require.NoError(t, err)
		require.Equal(t, []step.SubAgentEnded{{ThreadID: subThread, DelegateReply: out}}, reports.all())
	})
	t.Run("asked before it moved", func(t *testing.T) {
		f := newFakes(t)
		f.model = script(asks("x1"))
		next := subMoves(t, f, 0, report)
		w, reports := subWorld(t, f, nil)
		box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
		w.then(func() { w.decide("x1", event.DecisionApprove, "") })
		out, err := w.delegate(next)
		require.NoError(t, err)
		require.Equal(t, []step.SubAgentEnded{{ThreadID: subThread, DelegateReply: out}}, reports.all())
	})
}

// TestSubAgentOutlivesTheThreadAbove: the end of a task is still recorded there.
func TestSubAgentOutlivesTheThreadAbove(t *testing.T) {
	w, _ := subWorld(t, newFakes(t), gone)
	w.end = func(step.End) (step.EndReply, error) {
		return step.EndReply{Result: json.RawMessage(`"answered"`)}, nil
	}
	_, err := w.delegate(w.asksBob(day))
	require.NoError(t, err)
	require.Equal(t, event.TaskCompleted, stored[event.Task](w.fakes, event.TypeTask)[0].State)
	require.Equal(t, event.TypeBackgroundTaskCompleted, stored[event.EnvEvent](w.fakes, event.TypeEnv)[0].Type)
}

// TestTaskOfASubAgentThatIsLost: the task reports to its thread, which does not wait for it.
func TestTaskOfASubAgentThatIsLost(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		w, reports := subWorld(t, newFakes(t), nil)
		box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
		box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
		w.model = script(asks("x1"))
		w.then(w.CancelWorkflow)
		_, err := w.delegate(w.asksBob(day))
		require.ErrorContains(t, err, "canceled")
		require.Len(t, reports.all(), 1)
		require.Equal(t, "the task was cancelled", reports.all()[0].Error)
	})
	t.Run("what it said cannot be read", func(t *testing.T) {
		w, reports := subWorld(t, newFakes(t), nil)
		w.end = func(step.End) (step.EndReply, error) {
			return step.EndReply{}, notConfigured("it cannot be read")
		}
		_, err := w.delegate(w.asksBob(day))
		require.ErrorContains(t, err, "it cannot be read")
		require.Len(t, reports.all(), 1)
		require.Contains(t, reports.all()[0].Error, "it cannot be read")
	})
}

// TestSubAgentIsClosed: a person closes it before it has answered.
func TestSubAgentIsClosed(t *testing.T) {
	w, _ := subWorld(t, newFakes(t), nil)
	box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
	decided := box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
	w.model = script(asks("x1"))
	w.then(func() { w.control(signals.ControlClose) })
	out, err := w.delegate(w.asksBob(0))
	require.NoError(t, err)
	require.Equal(t, signals.TurnInterrupted, out.Status)
	require.Len(t, w.ends, 1, "the call has a result")
	require.Equal(t, []step.SubAgentDecision{{ThreadID: subThread, ToolCallID: "x1"}}, decided.all(), "and nobody is asked any more")
	closed := 0
	for _, change := range stored[event.StatusChange](w.fakes, event.TypeStatus) {
		if change.Status == event.StatusClosed {
			closed++
		}
	}
	require.Equal(t, 1, closed)
}

// TestBackgroundTasksOfASubAgent: they end with its thread.
func TestBackgroundTasksOfASubAgent(t *testing.T) {
	w, _ := subWorld(t, newFakes(t), nil)
	w.SetDetachedChildWait(false)
	w.work = pendingTask
	box[step.SubAgentRequest](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentApprovals, nil)
	box[step.SubAgentDecision](w, signals.WorkflowID("ns", "t1"), step.SignalSubAgentDecision, nil)
	// The task's activity has returned before the cancellation, as in TestAgentCancelsItsTask.
	w.model = script(background("x1", false), asks("x2"))
	w.then(func() { w.decide("x2", event.DecisionApprove, "") })
	_, err := w.delegate(w.asksBob(0))
	require.NoError(t, err)
	require.Equal(t, "the thread was closed", stored[event.Task](w.fakes, event.TypeTask)[1].Error)
	require.Contains(t, ids(w.ends[0].Flush.Records), subThread+"~t1.ended")
}
