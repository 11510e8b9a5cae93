package agents

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestSubAgentInTheBackground runs an agent while the thread continues.
//
//ci:replayed
func TestSubAgentInTheBackground(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	w := harness.New(t, harness.Options{Agents: check.Team("wait"), Tools: []tool.Tool{g}})
	id := w.Open()
	v := check.Watch(t, w, id, "")
	task := check.StartTask(t, w, id, assigns("helper", "said so far", "use wait {}"))
	check.Arrives(t, g.Reached, "the tool")
	below := check.Sub(w, id, 1)

	t.Run("S3-54 the call has the task as its result, at once", func(t *testing.T) {
		require.Equal(t, event.TaskRunning, task.State)
		require.Equal(t, "helper", task.SubAgent)
		require.Equal(t, below, task.ThreadID)
		require.Equal(t, 24*time.Hour, task.Deadline.Sub(task.StartedAt))
		require.Contains(t, check.ResultIn(t, w, id, "task").Content, task.ID)
	})
	t.Run("the thread goes on meanwhile, also when a turn is interrupted", func(t *testing.T) {
		require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content)
		stops := w.Provider.Block(1)
		defer stops.Release()
		posted := w.Post(id, "count 50")
		check.Arrives(t, stops.Reached(), "the model call")
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, posted).Status)
		require.Equal(t, event.TaskRunning, check.TaskOf(w, task.ID).State)
	})

	g.Release()
	told := check.AwaitTold(t, w, task)
	t.Run("S3-54 its answer comes as an event, and the agent acts", func(t *testing.T) {
		require.Equal(t, event.TypeBackgroundTaskCompleted, told.Event.Type)
		require.JSONEq(t, `"said so farwait returned: open"`, string(told.End.Result))
		require.Equal(t, task.ID, told.End.TaskID)
		require.Equal(t, "Process event: background_task.completed", told.Turn.Message.Content)
		require.Equal(t, "assistant", told.Turn.Message.SenderID)
		require.Len(t, check.TaskEvents(w, id), 1)
		require.Equal(t, event.TaskCompleted, check.TaskOf(w, task.ID).State)
		awaitClosed(w, below)
	})
	t.Run("what it says is progress of the task, and marked as that", func(t *testing.T) {
		frames := v.Until(t, func(f check.Frame) bool {
			return f.Event.Type == event.EventMessage && f.Event.Message.ID == told.Turn.Message.ID
		})
		text := ""
		for _, f := range frames {
			if f.Event.Type != event.EventToolProgress {
				continue
			}
			p, ok := f.Event.TaskProgress()
			require.True(t, ok, "S1-26 the call has its result already: %s", f.Event.Data)
			require.Equal(t, task.ID, p.TaskID)
			require.Equal(t, "task", f.Event.ToolName)
			require.Equal(t, task.ToolCallID, f.Event.ToolCallID)
			var piece string
			require.NoError(t, json.Unmarshal(p.Data, &piece))
			text += piece
		}
		require.Equal(t, "said so farwait returned: open", text)
	})
	t.Run("what it uses counts", func(t *testing.T) {
		all := event.Usage{}
		for _, at := range []string{id, below} {
			for _, r := range check.OfType(w, at, event.TypeLLMCall) {
				one := harness.Payload[event.LLMCall](w, r).Usage
				one.ModelCalls = 1
				all = all.Add(one)
			}
		}
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Equal(t, all, state.Usage)
	})
}

// TestApprovalInTheBackground: people decide on calls of a background agent while the thread itself
// is idle.
func TestApprovalInTheBackground(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	v := check.Watch(t, w, id, "")
	task := check.StartTask(t, w, id, assigns("helper", check.Touches(id)))
	request := w.AwaitApproval(id, 1)[0]
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, signals.ThreadWaitingApproval, state.Status)
	require.Nil(t, state.Turn)
	v.Until(t, func(f check.Frame) bool {
		return f.Event.Type == event.EventApprovalRequest && f.Event.Request.ToolCallID == request.ToolCallID
	})
	require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content, "nobody has to decide first")

	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, request.ToolCallID))
	require.Contains(t, string(check.AwaitTold(t, w, task).End.Result), "shell_cmd returned")
	require.Equal(t, "made\n", check.Made(w, id))
	w.AwaitApproval(id, 0)
	for _, at := range []string{id, check.Sub(w, id, 1)} {
		require.Equal(t, event.DecisionApprove, awaitDecided(w, at, request.ToolCallID).Decision)
		for _, typ := range []string{event.TypeApprovalRequest, event.TypeApproval} {
			require.Equal(t, task.TraceID, check.Only(t, check.OfType(w, at, typ)).TraceID, "it is part of the turn that started the task")
		}
	}
}

// TestApprovalWithdrawnInTheBackground: the request of an agent that was interrupted ends in the parent thread too, for its viewers
// and for lists of threads. No turn of the parent ends with it.
func TestApprovalWithdrawnInTheBackground(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team()})
	id := w.Open()
	v := check.Watch(t, w, id, "")
	task := check.StartTask(t, w, id, assigns("helper", check.Touches(id)))
	request := w.AwaitApproval(id, 1)[0]
	require.Eventually(t, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(id))
		return err == nil && row.Activity == store.ActivityWaiting
	}, testenv.Patience, testenv.Tick)
	require.NoError(t, w.Threads.Control(w.Ctx(), check.Sub(w, id, 1), signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	check.AwaitTold(t, w, task)
	frames := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventApproval })
	require.Equal(t, event.DecisionWithdrawn, frames[len(frames)-1].Event.Approval.Decision)
	require.Equal(t, request.ToolCallID, frames[len(frames)-1].Event.Approval.ToolCallID)
	w.AwaitApproval(id, 0)
	row, err := w.Store.Thread(w.Ctx(), w.Key(id))
	require.NoError(t, err)
	require.NotEqual(t, store.ActivityWaiting, row.Activity)
	check.RequireSettled(t, w, id)
}

// TestApprovalOfAnAgentInTheBackground: the task needs approval like the same call in the
// foreground.
func TestApprovalOfAnAgentInTheBackground(t *testing.T) {
	t.Parallel()
	agents := check.Team()
	agents[0].Approvals = map[string]agent.Policy{"call_agent": agent.PolicyAlways}
	w := harness.New(t, harness.Options{Agents: agents})
	id := w.Open()
	posted := w.Post(id, assigns("helper", "hello"))
	request := w.AwaitApproval(id, 1)[0]
	require.Equal(t, "task", request.ToolName)
	require.Empty(t, check.TasksOf(w, id))
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, request.ToolCallID))
	require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, posted).Status)
	require.JSONEq(t, `"hello"`, string(check.AwaitTold(t, w, check.Only(t, check.TasksOf(w, id))).End.Result))
}

// TestAgentInTheBackgroundEnds covers all ends of sub-agents' tasks but completion.
func TestAgentInTheBackgroundEnds(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	broken := agent.Agent{Name: "broken", Model: "absent/any"}
	w := harness.New(t, harness.Options{Agents: append(check.Team("wait"), broken), Tools: []tool.Tool{g}})
	waiting := func(t *testing.T) (string, event.Task) {
		t.Helper()
		id := w.Open()
		task := check.StartTask(t, w, id, assigns("helper", "use wait {}"))
		check.Arrives(t, g.Reached, "the tool")
		return id, task
	}
	ended := func(t *testing.T, id string, task event.Task, want event.TaskState, why string) {
		t.Helper()
		told := check.AwaitTold(t, w, task)
		require.Equal(t, event.TypeBackgroundTaskFailed, told.Event.Type)
		require.Contains(t, told.End.Error, why)
		require.Equal(t, "Process event: background_task.failed", told.Turn.Message.Content)
		got := check.TaskOf(w, task.ID)
		require.Equal(t, want, got.State)
		require.Len(t, check.TaskEvents(w, id), 1)
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Zero(t, state.Tasks)
	}
	t.Run("it fails", func(t *testing.T) {
		id := w.Open()
		task := check.StartTask(t, w, id, assigns("broken", "hello"))
		ended(t, id, task, event.TaskFailed, `the sub-agent failed: agent "broken": model "absent/any" needs a provider "absent"`)
		awaitClosed(w, task.ThreadID)
	})
	t.Run("a person cancels it", func(t *testing.T) {
		id, task := waiting(t)
		status, out := check.Request(t, w, http.MethodPost, "/v1/tasks/"+task.ID+"/cancel", map[string]any{"by": "ann", "reason": "too slow"})
		require.Equal(t, http.StatusOK, status, out)
		ended(t, id, task, event.TaskCancelled, "cancelled by ann: too slow")
		awaitClosed(w, task.ThreadID)
		endsAs(w, task.ThreadID, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
		check.RequireSettled(t, w, task.ThreadID)
	})
	t.Run("the agent cancels it, and is not told", func(t *testing.T) {
		id, task := waiting(t)
		check.Say(w, id, `use cancel_task {"taskId":"`+task.ID+`"}`)
		require.Contains(t, check.ResultIn(t, w, id, "cancel_task").Content, "was cancelled")
		awaitClosed(w, task.ThreadID)
		endsAs(w, task.ThreadID, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
		check.Settle(w, id)
		require.Empty(t, check.TaskEvents(w, id))
		require.Equal(t, event.TaskCancelled, check.TaskOf(w, task.ID).State)
	})
	t.Run("a user closes its thread", func(t *testing.T) {
		id, task := waiting(t)
		require.NoError(t, w.Threads.Control(w.Ctx(), task.ThreadID, signals.Control{Action: signals.ControlClose, By: "bob", Reason: "enough of it"}))
		ended(t, id, task, event.TaskFailed, "enough of it")
	})
	t.Run("an operator cancels its workflow", func(t *testing.T) {
		id, task := waiting(t)
		require.NoError(t, w.Temporal.CancelWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, task.ThreadID), ""))
		ended(t, id, task, event.TaskCancelled, "cancelled")
	})
	t.Run("an operator terminates its workflow", func(t *testing.T) {
		id, task := waiting(t)
		check.Review{Harness: w}.Terminate(signals.WorkflowID(w.TaskQueue, task.ThreadID))
		ended(t, id, task, event.TaskFailed, "terminated")
	})
	t.Run("its thread above is closed", func(t *testing.T) {
		id, task := waiting(t)
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlClose, By: "ann"}))
		awaitClosed(w, id)
		awaitClosed(w, task.ThreadID)
		require.Empty(t, check.TaskEvents(w, id))
		require.Equal(t, event.TaskCancelled, check.TaskOf(w, task.ID).State)
	})
	t.Run("somebody else has completed it", func(t *testing.T) {
		id, task := waiting(t)
		status, out := check.Request(t, w, http.MethodPost, "/v1/tasks/"+task.ID+"/complete", map[string]any{"result": 7, "by": "ann"})
		require.Equal(t, http.StatusOK, status, out)
		require.JSONEq(t, `7`, string(check.AwaitTold(t, w, task).End.Result))
		awaitClosed(w, task.ThreadID)
		endsAs(w, task.ThreadID, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
		require.Len(t, check.TaskEvents(w, id), 1)
	})
}

// TestAgentInTheBackgroundNeedsThePermission: an agent without call_agent cannot start a task that
// asks an agent.
func TestAgentInTheBackgroundNeedsThePermission(t *testing.T) {
	t.Parallel()
	agents := check.Team()
	agents[0].Tools = []string{"task"}
	w := harness.New(t, harness.Options{Agents: agents})
	id := w.Open()
	for says, want := range map[string]string{
		assigns("helper", "hello"):                                    "that requires the tool call_agent",
		assigns("nobody", "hello"):                                    "cannot be called",
		`use task {"agent":"helper","tool":"note","message":"hello"}`: "exclude each other",
	} {
		check.Say(w, id, says)
		all := check.ResultsOf(w, id, "task")
		require.True(t, all[len(all)-1].IsError)
		require.Contains(t, all[len(all)-1].Content, want)
	}
	require.Empty(t, check.Subs(w, id))
	require.Empty(t, check.TasksOf(w, id))
}

// TestAgentInTheBackgroundLasts continues the threads as new, and restarts the worker, during the
// task.
func TestAgentInTheBackgroundLasts(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: check.Team(), NoWorker: true, Dynamic: check.MovesOften})
	stop := w.StartWorker()
	id := w.Open()
	task := check.StartTask(t, w, id, assigns("helper", check.Touches(id)))
	call := w.AwaitApproval(id, 1)[0].ToolCallID
	for range 2 {
		check.Review{Harness: w}.Move(id)
		check.Review{Harness: w}.Move(task.ThreadID)
	}
	stop()
	stop = w.StartWorker()
	require.Equal(t, call, w.AwaitApproval(id, 1)[0].ToolCallID)
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
	told := check.AwaitTold(t, w, task)
	require.Equal(t, event.TypeBackgroundTaskCompleted, told.Event.Type)
	require.True(t, strings.HasPrefix(string(told.End.Result), `"shell_cmd returned: `), "%s", told.End.Result)
	require.Equal(t, "made\n", check.Made(w, id))
	require.Len(t, check.TaskEvents(w, id), 1)
	stop()
}
