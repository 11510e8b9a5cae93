package faults

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// recovering is a kind of worker: its agents have tools of each sort, whose effect is a report, and can ask one another.
func recovering(w killing.Worker, c *threadmill.Config) error {
	acts := func(name string, opts ...tool.Option) tool.Tool {
		return tool.MustFunc(name, "Acts.", func(ctx context.Context, _ tool.Call, in struct {
			How string `json:"how"`
		},
		) (string, error) {
			return name + ": " + in.How, w.Tell(ctx, name, in.How)
		}, opts...)
	}
	c.Tools = append(c.Tools, acts("again", tool.Idempotent(), tool.MaxAttempts(2)), acts("quick", tool.Quick()))
	c.Agents = check.Team("act", "again", "quick")
	for i := range c.Agents {
		c.Agents[i].Tools = slices.DeleteFunc(c.Agents[i].Tools, func(name string) bool { return name == "note" || name == "shell_cmd" })
	}
	return nil
}

// recovery is a world whose workers free the steps of killed ones. Otherwise these would continue after an hour.
type recovery struct {
	*killing.World
	folder string
}

func newRecovery(t *testing.T) recovery {
	t.Helper()
	r := recovery{killing.New(t, harness.Options{}, "recovering"), filepath.Join(t.TempDir(), "recovery")}
	r.Worker.Recovery = r.folder
	return r
}

// holds opens a thread whose tool waits for its worker to be killed.
func (r recovery) holds(t *testing.T, name, says string) (id, posted string) {
	t.Helper()
	reached := r.Hold(name, "")
	id = r.Open()
	posted = r.Post(id, says)
	check.Arrives(t, reached, name)
	return id, posted
}

// lostSteps counts the retries of a thread's steps after their worker was killed.
func lostSteps(events []*history.HistoryEvent) (n int) {
	for _, e := range events {
		if e.GetActivityTaskStartedEventAttributes().GetLastFailure().GetApplicationFailureInfo().GetType() == step.ErrTypeLost {
			n++
		}
	}
	return n
}

// requireNotCached checks that no workflow task has waited for the worker that was killed, which had the thread in its cache.
func requireNotCached(t *testing.T, events []*history.HistoryEvent) {
	t.Helper()
	first := ""
	for _, e := range events {
		if queue := e.GetWorkflowTaskScheduledEventAttributes().GetTaskQueue(); queue.GetKind() == enumspb.TASK_QUEUE_KIND_STICKY && first == "" {
			first = queue.GetName()
		}
		if e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			at := slices.IndexFunc(events, func(s *history.HistoryEvent) bool {
				return s.GetEventId() == e.GetWorkflowTaskTimedOutEventAttributes().GetScheduledEventId()
			})
			require.NotEqual(t, first, events[at].GetWorkflowTaskScheduledEventAttributes().GetTaskQueue().GetName())
		}
	}
}

// TestRecovery kills a worker with SIGKILL. Its successor continues the interrupted turns, and no live worker loses a step.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"S2-51 in steps":           recoverSteps,
		"S2-51 in a workflow task": recoverWorkflowTask,
		"S2-51 not of live ones":   recoverNoLiveOnes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func recoverSteps(t *testing.T) {
	r := newRecovery(t)
	r.Start()
	model, inTool, again, above := r.Open(), "", "", ""
	gate := r.Provider.Block(2)
	defer gate.Release()
	saysModel := r.Post(model, "one two three four")
	check.Arrives(t, gate.Reached(), "the model call")
	inTool, saysTool := r.holds(t, "act", `use act {"how":"once"}`)
	again, saysAgain := r.holds(t, "again", `use again {"how":"twice"}`)
	above, saysAbove := r.holds(t, "again", check.Asks("helper", `use again {"how":"below"}`))
	r.Kill()
	gate.Release()
	r.Start()

	t.Run("a model call", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, r.Ends(model, saysModel).Status)
		messages := r.Messages(model)
		require.Len(t, messages, 2)
		require.Equal(t, "one two three four", messages[1].Content)
		require.Equal(t, 1, lostSteps(check.HistoryOf(r.Harness, model, "")))
	})
	t.Run("a tool that must not run twice", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, r.Ends(inTool, saysTool).Status)
		require.Contains(t, check.ResultIn(t, r.Harness, inTool, "act").Content, "outcome is unknown")
		require.Equal(t, 1, r.Asked("act", "once"))
	})
	t.Run("an idempotent tool", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, r.Ends(again, saysAgain).Status)
		require.Equal(t, "again: twice", check.ResultIn(t, r.Harness, again, "again").Content)
		require.Equal(t, 2, r.Asked("again", "twice"))
		requireNotCached(t, check.HistoryOf(r.Harness, again, ""))
	})
	t.Run("a sub-agent", func(t *testing.T) {
		require.Equal(t, signals.TurnCompleted, r.Ends(above, saysAbove).Status)
		require.Equal(t, 2, r.Asked("again", "below"))
		require.Equal(t, 1, lostSteps(check.HistoryOf(r.Harness, check.Sub(r.Harness, above, 1), "")))
	})
}

// recoverWorkflowTask kills the worker while a quick tool runs, which is a local activity.
func recoverWorkflowTask(t *testing.T) {
	r := newRecovery(t)
	r.Start()
	// A quick tool becomes an activity if the worker is not killed within seconds.
	require.Eventually(t, func() bool {
		id, posted := r.holds(t, "quick", `use quick {"how":"well"}`)
		r.Kill()
		r.Start()
		require.Equal(t, signals.TurnCompleted, r.Ends(id, posted).Status)
		require.Equal(t, "quick: well", check.ResultIn(t, r.Harness, id, "quick").Content)
		return slices.ContainsFunc(check.HistoryOf(r.Harness, id, ""), func(e *history.HistoryEvent) bool {
			f := e.GetWorkflowTaskFailedEventAttributes()
			return f.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE &&
				f.GetFailure().GetApplicationFailureInfo().GetType() == step.ErrTypeLost
		})
	}, 2*testenv.Patience, testenv.Tick)
}

// recoverNoLiveOnes kills one of two workers with the same identity and folder. The other one keeps its step, also while it is
// paused, until it is killed as well.
func recoverNoLiveOnes(t *testing.T) {
	r := newRecovery(t)
	other := r.Worker.Start(t)
	keeps, posted := r.holds(t, "again", `use again {"how":"kept"}`)
	requireKept := func(while string) {
		r.awaitLook(t)
		step := r.pending(t, keeps)
		require.Equal(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, step.GetState(), while)
		require.EqualValues(t, 1, step.GetAttempt(), while)
		require.Equal(t, 1, r.Asked("again", "kept"), while)
	}
	r.Start()
	requireKept("a worker starts beside it")
	r.Kill()
	r.Start()
	requireKept("the other worker is killed")
	require.NoError(t, other.Signal(syscall.SIGSTOP))
	r.Kill()
	r.Start()
	requireKept("it is paused")
	require.NoError(t, other.Signal(syscall.SIGCONT))
	requireKept("it continues")
	other.Kill()
	require.Equal(t, signals.TurnCompleted, r.Ends(keeps, posted).Status)
	require.Equal(t, 2, r.Asked("again", "kept"))
}

// pending returns the one running step of a thread.
func (r recovery) pending(t *testing.T, id string) *workflow.PendingActivityInfo {
	t.Helper()
	d, err := r.Temporal.DescribeWorkflowExecution(r.Ctx(), signals.WorkflowID(r.TaskQueue, id), "")
	require.NoError(t, err)
	return check.Only(t, d.GetPendingActivities())
}

// awaitLook waits until a worker has looked at all journals: it removes one without a process, which comes last.
func (r recovery) awaitLook(t *testing.T) {
	t.Helper()
	last := filepath.Join(r.folder, "zzz.tasks")
	require.NoError(t, os.WriteFile(last, nil, 0o600))
	require.Eventually(t, func() bool {
		_, err := os.Stat(last)
		return os.IsNotExist(err)
	}, testenv.Patience, testenv.Tick)
}
