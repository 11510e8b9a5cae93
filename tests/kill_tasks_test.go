package tests

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

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

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
func (v victim) chores() []tool.Tool {
	chore := func(name string, opts ...tool.Option) tool.Tool {
		return tool.MustFunc(name, "Does a chore.", func(ctx context.Context, _ tool.Call, in struct {
			How string `json:"how"`
		},
		) (string, error) {
			return "done: " + in.How, v.tell(ctx, name, in.How)
		}, append(opts, tool.Background())...)
	}
	return []tool.Tool{
		chore("chore"), chore("chore_again", tool.Idempotent(choreAttempts)),
		handsOver("errand", tool.Background()), handsOver("errand_brief", tool.Background(), tool.Deadline(2*time.Second)),
	}
}

// choreAttempts is the maximum number of runs of an idempotent chore.
const choreAttempts = 2

func withChores(v *victim) { v.Chores = true }

// starts posts a message that starts a task, waits for the end of that turn, and returns the task.
func (k *killing) starts(t *testing.T, thread, says string) event.Task {
	t.Helper()
	require.NoError(t, k.Threads.Open(k.Ctx(), thread, signals.Start{}, nil))
	return startTask(t, k.Harness, thread, says)
}

// requireToldOnce checks that the agent has received the end of a task once, and has sent one
// message about it, with a number of model calls.
func (k *killing) requireToldOnce(t *testing.T, task event.Task, typ string, asked int) told {
	t.Helper()
	got := awaitTold(t, k.Harness, task)
	id := taskThread(t, task)
	settle(k.Harness, id)
	require.Equal(t, signals.TurnCompleted, got.turn.Status)
	require.Equal(t, typ, got.event.Type)
	require.Len(t, taskEvents(k.Harness, id), 1)
	require.Equal(t, got.event.ID, taskEvents(k.Harness, id)[0].ID)
	var about []string
	for _, m := range k.Messages(id) {
		if strings.Contains(m.ID, got.event.ID) {
			about = append(about, m.ID)
		}
	}
	require.Equal(t, []string{
		recordid.Observed(got.event.ID), got.event.ID + ".asked", "call_" + got.event.ID + ".result", got.event.ID + ".0.1",
	}, about, "it is shown once, and answered once")
	require.Len(t, modelsOf(k.Harness, "Event ID: "+got.event.ID), asked)
	requireSettled(t, k.Harness, id)
	for _, r := range ofType(k.Harness, id, event.TypeTask) {
		require.Contains(t, []string{task.ID, task.ID + ".ended"}, r.ID)
	}
	require.Len(t, ofType(k.Harness, id, event.TypeTask), 2)
	return got
}

// tasksKilled kills one worker while each of several threads is at another point.
func tasksKilled(t *testing.T) {
	k := newKilling(t, harness.Options{}, withChores)
	k.start(k.victim)
	slowly, again := k.hold("chore", "slowly"), k.hold("chore_again", "again")
	running := k.starts(t, "running", `use chore {"how":"slowly"}`)
	arrives(t, slowly, "the tool")
	repeated := k.starts(t, "repeated", `use chore_again {"how":"again"}`)
	arrives(t, again, "the tool that is idempotent")
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
	arrives(t, during.Reached(), "the agent's turn about the task")
	before := k.Provider.Block(2)
	defer before.Release()
	k.says("queued", "e1", "count 4")
	arrives(t, before.Reached(), "a turn in progress")
	complete(queued)
	queue, err := k.Threads.Queue(k.Ctx(), "queued")
	require.NoError(t, err)
	require.Equal(t, endEventID(k.Harness, queued.ID), only(t, queue.Items).ID)

	k.worker.Kill()
	during.Release()
	before.Release()
	require.Empty(t, taskEvents(k.Harness, "queued"), "nobody has heard of it yet")
	k.start(k.victim)

	t.Run("S2-51 while the tool runs: the outcome is unknown, and the agent is told so", func(t *testing.T) {
		got := k.requireToldOnce(t, running, event.TypeBackgroundTaskFailed, 1)
		require.Contains(t, got.end.Error, "The outcome is unknown")
		require.Equal(t, 1, k.asked("chore", "slowly"), "what may have had an effect is not run again")
	})
	t.Run("S2-51 while an idempotent tool runs: it runs again", func(t *testing.T) {
		got := k.requireToldOnce(t, repeated, event.TypeBackgroundTaskCompleted, 1)
		require.Equal(t, `"done: again"`, string(got.end.Result))
		require.Equal(t, 2, k.asked("chore_again", "again"))
	})
	t.Run("S2-51 while nothing runs: it waits on", func(t *testing.T) {
		require.Equal(t, event.TaskRunning, taskOf(k.Harness, waiting.ID).State)
		complete(waiting)
		require.Equal(t, `"a kettle"`, string(k.requireToldOnce(t, waiting, event.TypeBackgroundTaskCompleted, 1).end.Result))
	})
	t.Run("S2-51 in the agent's turn about it: one reply", func(t *testing.T) {
		k.requireToldOnce(t, told, event.TypeBackgroundTaskCompleted, 2)
	})
	t.Run("S2-51 between its end and the agent's turn: one turn, behind the one that was cut", func(t *testing.T) {
		k.requireToldOnce(t, queued, event.TypeBackgroundTaskCompleted, 1)
		said := saidIn(k.Harness, "queued")
		at := slices.Index(said, "assistant: 1 2 3 4")
		require.Positive(t, at)
		require.Contains(t, said[at+1], "Observed event: background_task.completed")
	})
}

// taskKilledBeforeReport kills the worker when Temporal has the tool's result, but the task's
// workflow has not seen it.
func taskKilledBeforeReport(t *testing.T) {
	k := newKilling(t, harness.Options{}, withChores)
	held := k.startBehindProxy("done: quickly")
	id := k.Open()
	k.says(id, "e1", `use chore {"how":"quickly"}`)
	arrives(t, held, "the result")
	task := k.childTask(t, id)
	k.awaitEventOf(t, signals.TaskWorkflowID(k.TaskQueue, task.ID), enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	k.worker.Kill()
	require.Empty(t, taskEvents(k.Harness, id))
	k.start(k.victim)
	got := k.requireToldOnce(t, task, event.TypeBackgroundTaskCompleted, 1)
	require.Equal(t, `"done: quickly"`, string(got.end.Result))
	require.Equal(t, 1, k.asked("chore", "quickly"), "it has run, and does not again")
}

// taskKilledBeforeThread kills the worker when Temporal has the report of a task, but the thread
// has not seen it.
func taskKilledBeforeThread(t *testing.T) {
	k := newKilling(t, harness.Options{}, withChores)
	held := k.startBehindProxy("had not completed by its deadline")
	task := k.starts(t, "t", "use errand_brief {}")
	arrives(t, held, "the report")
	k.awaitEventOf(t, signals.WorkflowID(k.TaskQueue, "t"), enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
	k.worker.Kill()
	require.Empty(t, taskEvents(k.Harness, "t"))
	k.start(k.victim)
	got := k.requireToldOnce(t, task, event.TypeBackgroundTaskFailed, 1)
	require.Contains(t, got.end.Error, "had not completed by its deadline")
}

// taskKilledOften kills the worker whenever the tool runs, until it may run no more.
func taskKilledOften(t *testing.T) {
	k := newKilling(t, harness.Options{}, withChores)
	begun := k.hold("chore_again", "again")
	k.start(k.victim)
	task := k.starts(t, "t", `use chore_again {"how":"again"}`)
	for range choreAttempts {
		arrives(t, begun, "the tool")
		k.worker.Kill()
		begun = k.hold("chore_again", "again")
		k.start(k.victim)
	}
	require.Contains(t, k.requireToldOnce(t, task, event.TypeBackgroundTaskFailed, 1).end.Error, "The outcome is unknown")
	require.Equal(t, choreAttempts, k.asked("chore_again", "again"))
}

// childTask is a thread's task, as Temporal knows it.
func (k *killing) childTask(t *testing.T, thread string) event.Task {
	t.Helper()
	for _, e := range historyOf(k.Harness, thread, "") {
		if child := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); child != nil {
			return event.Task{ID: strings.TrimPrefix(child.GetWorkflowId(), signals.TaskWorkflowID(k.TaskQueue, ""))}
		}
	}
	require.Fail(t, "the thread has started no task")
	return event.Task{}
}

// startBehindProxy starts a worker that gets no more responses from Temporal after it has sent a
// text. The channel is closed then.
func (k *killing) startBehindProxy(text string) <-chan struct{} {
	k.T.Helper()
	p := proc.NewProxy(k.T, k.victim.Temporal)
	behind := k.victim
	behind.Temporal = p.Addr
	k.start(behind)
	return p.HoldAnswerTo(text)
}

// awaitEventOf waits until the last event of a workflow's history is of a kind, ignoring the
// workflow task that it causes.
func (k *killing) awaitEventOf(t *testing.T, workflowID string, kind enumspb.EventType) {
	t.Helper()
	require.Eventually(t, func() bool {
		events, err := runHistory(k.Ctx(), k.Temporal, workflowID, "")
		return err == nil && slices.ContainsFunc(events[max(0, len(events)-3):], func(e *history.HistoryEvent) bool { return e.GetEventType() == kind })
	}, waitLong, waitTick)
}
