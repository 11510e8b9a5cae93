package agents

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// choreAttempts is the maximum number of runs of an idempotent chore.
const choreAttempts = 2

// killed is a world whose workers a test kills.
type killed struct{ *killing.World }

// TestFaultsOfTasks kills the worker with SIGKILL at every point of a background task: the work has
// one effect, and its end is reported once.
func TestFaultsOfTasks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"S2-51 while tasks run, and later on":           tasksKilled,
		"S2-51 between the tool and the task":           taskKilledBeforeReport,
		"S2-51 between the report and the thread":       taskKilledBeforeThread,
		"S2-51 again and again, as often as it may run": taskKilledOften,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// chores are background tools whose effect is their report; an errand is completed from outside.
func chores(w killing.Worker) []tool.Tool {
	chore := func(name string, opts ...tool.Option) tool.Tool {
		return tool.MustFunc(name, "Does a chore.", func(ctx context.Context, _ tool.Call, in struct {
			How string `json:"how"`
		},
		) (string, error) {
			return "done: " + in.How, w.Tell(ctx, name, in.How)
		}, append(opts, tool.Background())...)
	}
	return []tool.Tool{
		chore("chore"), chore("chore_again", tool.Idempotent(), tool.MaxAttempts(choreAttempts)),
		check.HandsOver("errand", tool.Background()), check.HandsOver("errand_brief", tool.Background(), tool.Deadline(2*time.Second)),
	}
}

// withChores is a kind of worker: its agent has background tools.
func withChores(w killing.Worker, c *threadmill.Config) error {
	c.Agents[0].Tools, c.Tools = []string{"chore", "chore_again", "errand", "errand_brief"}, append(c.Tools, chores(w)...)
	return nil
}

// starts posts a message that starts a task, waits for the end of that turn, and returns the task.
func (k killed) starts(t *testing.T, thread, says string) event.Task {
	t.Helper()
	require.NoError(t, k.Threads.Open(k.Ctx(), thread, signals.Start{}, nil))
	return check.StartTask(t, k.Harness, thread, says)
}

// requireToldOnce checks that the agent has received the end of a task once, and has sent one
// message about it, with a number of model calls.
func (k killed) requireToldOnce(t *testing.T, task event.Task, typ string, asked int) check.Told {
	t.Helper()
	got := check.AwaitTold(t, k.Harness, task)
	id := taskThread(t, task)
	check.Settle(k.Harness, id)
	require.Equal(t, signals.TurnCompleted, got.Turn.Status)
	require.Equal(t, typ, got.Event.Type)
	require.Len(t, check.TaskEvents(k.Harness, id), 1)
	require.Equal(t, got.Event.ID, check.TaskEvents(k.Harness, id)[0].ID)
	var about []string
	for _, m := range k.Messages(id) {
		if strings.Contains(m.ID, got.Event.ID) {
			about = append(about, m.ID)
		}
	}
	require.Equal(t, []string{
		recordid.Observed(got.Event.ID), got.Event.ID + ".asked", "call_" + got.Event.ID + ".result", got.Event.ID + ".0.1",
	}, about, "it is shown once, and answered once")
	require.Len(t, check.ModelsOf(k.Harness, "Event ID: "+got.Event.ID), asked)
	check.RequireSettled(t, k.Harness, id)
	for _, r := range check.OfType(k.Harness, id, event.TypeTask) {
		require.Contains(t, []string{task.ID, task.ID + ".ended"}, r.ID)
	}
	require.Len(t, check.OfType(k.Harness, id, event.TypeTask), 2)
	return got
}

// tasksKilled kills one worker while each of several threads is at another point.
func tasksKilled(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "chores")}
	k.Start()
	slowly, again := k.Hold("chore", "slowly"), k.Hold("chore_again", "again")
	running := k.starts(t, "running", `use chore {"how":"slowly"}`)
	check.Arrives(t, slowly, "the tool")
	repeated := k.starts(t, "repeated", `use chore_again {"how":"again"}`)
	check.Arrives(t, again, "the tool that is idempotent")
	waiting := k.starts(t, "waiting", "use errand {}")

	told, queued := k.starts(t, "told", "use errand {}"), k.starts(t, "queued", "use errand {}")
	complete := func(task event.Task) {
		t.Helper()
		out, err := k.Threads.CompleteTask(k.Ctx(), signals.CompleteTask{TaskID: task.ID, Result: json.RawMessage(`"a kettle"`), By: "shop"})
		require.NoError(t, err)
		require.Equal(t, signals.TaskAccepted, out.Result)
	}
	during := k.Provider.Block(0)
	defer during.Release()
	complete(told)
	check.Arrives(t, during.Reached(), "the agent's turn about the task")
	before := k.Provider.Block(2)
	defer before.Release()
	k.PostMessage("queued", "e1", "count 4")
	check.Arrives(t, before.Reached(), "a turn in progress")
	complete(queued)
	queue, err := k.Threads.Queue(k.Ctx(), "queued")
	require.NoError(t, err)
	require.Equal(t, check.EndEventID(k.Harness, queued.ID), check.Only(t, queue.Items).ID)

	k.Kill()
	during.Release()
	before.Release()
	require.Empty(t, check.TaskEvents(k.Harness, "queued"), "nobody has heard of it yet")
	k.Start()

	t.Run("S2-51 while the tool runs: the outcome is unknown, and the agent is told so", func(t *testing.T) {
		got := k.requireToldOnce(t, running, event.TypeBackgroundTaskFailed, 1)
		require.Contains(t, got.End.Error, "The outcome is unknown")
		require.Equal(t, 1, k.Asked("chore", "slowly"), "what may have had an effect is not run again")
	})
	t.Run("S2-51 while an idempotent tool runs: it runs again", func(t *testing.T) {
		got := k.requireToldOnce(t, repeated, event.TypeBackgroundTaskCompleted, 1)
		require.Equal(t, `"done: again"`, string(got.End.Result))
		require.Equal(t, 2, k.Asked("chore_again", "again"))
	})
	t.Run("S2-51 while nothing runs: it waits on", func(t *testing.T) {
		require.Equal(t, event.TaskRunning, check.TaskOf(k.Harness, waiting.ID).State)
		complete(waiting)
		require.Equal(t, `"a kettle"`, string(k.requireToldOnce(t, waiting, event.TypeBackgroundTaskCompleted, 1).End.Result))
	})
	t.Run("S2-51 in the agent's turn about it: one reply", func(t *testing.T) {
		k.requireToldOnce(t, told, event.TypeBackgroundTaskCompleted, 2)
	})
	t.Run("S2-51 between its end and the agent's turn: one turn, behind the one that was cut", func(t *testing.T) {
		k.requireToldOnce(t, queued, event.TypeBackgroundTaskCompleted, 1)
		said := check.SaidIn(k.Harness, "queued")
		at := slices.Index(said, "assistant: 1 2 3 4")
		require.Positive(t, at)
		require.Contains(t, said[at+1], "Observed event: background_task.completed")
	})
}

// taskKilledBeforeReport kills the worker when Temporal has the tool's result, but the task's
// workflow has not seen it.
func taskKilledBeforeReport(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "chores")}
	held := k.StartBehindProxy("done: quickly")
	id := k.Open()
	k.PostMessage(id, "e1", `use chore {"how":"quickly"}`)
	check.Arrives(t, held, "the result")
	task := k.childTask(t, id)
	k.awaitEventOf(t, signals.TaskWorkflowID(k.TaskQueue, task.ID), enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	k.Kill()
	require.Empty(t, check.TaskEvents(k.Harness, id))
	k.Start()
	got := k.requireToldOnce(t, task, event.TypeBackgroundTaskCompleted, 1)
	require.Equal(t, `"done: quickly"`, string(got.End.Result))
	require.Equal(t, 1, k.Asked("chore", "quickly"), "it has run, and does not again")
}

// taskKilledBeforeThread kills the worker when Temporal has the report of a task, but the thread
// has not seen it.
func taskKilledBeforeThread(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "chores")}
	held := k.StartBehindProxy("had not completed by its deadline")
	require.NoError(t, k.Threads.Open(k.Ctx(), "t", signals.Start{}, nil))
	k.Post("t", "use errand_brief {}") // its turn may end later: a worker whose report is held answers no query
	check.Arrives(t, held, "the report")
	task := k.childTask(t, "t")
	k.awaitEventOf(t, signals.WorkflowID(k.TaskQueue, "t"), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
	k.Kill()
	require.Empty(t, check.TaskEvents(k.Harness, "t"))
	k.Start()
	got := k.requireToldOnce(t, task, event.TypeBackgroundTaskFailed, 1)
	require.Contains(t, got.End.Error, "had not completed by its deadline")
}

// taskKilledOften kills the worker whenever the tool runs, until it may run no more.
func taskKilledOften(t *testing.T) {
	k := killed{killing.New(t, harness.Options{}, "chores")}
	begun := k.Hold("chore_again", "again")
	k.Start()
	task := k.starts(t, "t", `use chore_again {"how":"again"}`)
	for range choreAttempts {
		check.Arrives(t, begun, "the tool")
		k.Kill()
		begun = k.Hold("chore_again", "again")
		k.Start()
	}
	require.Contains(t, k.requireToldOnce(t, task, event.TypeBackgroundTaskFailed, 1).End.Error, "The outcome is unknown")
	require.Equal(t, choreAttempts, k.Asked("chore_again", "again"))
}

// childTask is a thread's task, as Temporal knows it.
func (k killed) childTask(t *testing.T, thread string) event.Task {
	t.Helper()
	for _, e := range check.HistoryOf(k.Harness, thread, "") {
		if child := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); child != nil {
			return event.Task{ID: strings.TrimPrefix(child.GetWorkflowId(), signals.TaskWorkflowID(k.TaskQueue, ""))}
		}
	}
	require.Fail(t, "the thread has started no task")
	return event.Task{}
}

// awaitEventOf waits until the last event of a workflow's history is of a kind, ignoring the
// workflow task that it causes.
func (k killed) awaitEventOf(t *testing.T, workflowID string, kind enumspb.EventType) {
	t.Helper()
	require.Eventually(t, func() bool {
		events, err := check.RunHistory(k.Ctx(), k.Temporal, workflowID, "")
		return err == nil && slices.ContainsFunc(events[max(0, len(events)-3):], func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
	}, testenv.Patience, testenv.Tick)
}
