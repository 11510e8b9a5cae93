package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// backgroundTool is a tool that runs as a background task.
func backgroundTool(do func(context.Context, tool.Call) (tool.Result, error), change ...func(*tool.Definition)) *raw {
	def := tool.Definition{Name: "build", Background: true}
	for _, c := range change {
		c(&def)
	}
	return &raw{def: def, do: do}
}

func returns(output string) func(context.Context, tool.Call) (tool.Result, error) {
	return func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: output}, nil }
}

// taskStep stores a reply with this call and returns the step that runs it as a task.
func (w *fixture) taskStep(c event.ToolCall, runs string) step.Task {
	w.t.Helper()
	w.asked(c)
	return step.Task{Thread: ref, EventID: "e1", MessageID: "e1.0.1", Task: event.Task{
		ID: "t1~t1", Title: "Build it", State: event.TaskRunning, Tool: runs, Agent: "assistant", ToolCallID: c.ID, TraceID: "e1",
	}}
}

func (w *fixture) runTask(in step.Task) (step.TaskReply, error) {
	w.t.Helper()
	var out step.TaskReply
	v, err := w.env.ExecuteActivity(step.ActivityRunTask, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

func TestRunTask(t *testing.T) {
	for name, c := range map[string]event.ToolCall{
		"a tool that runs in the background": call("c1", "build", `{"target":"x"}`),
		"a tool that task runs":              call("c1", "task", `{"tool":"build","arguments":{"target":"x"},"title":"Build it"}`),
	} {
		t.Run(name, func(t *testing.T) {
			var got tool.Call
			build := backgroundTool(func(_ context.Context, c tool.Call) (tool.Result, error) {
				got = c
				return tool.Result{Output: `{"built":"x"}`}, nil
			})
			w := newFixture(t, withOwnTools, build)
			in := w.taskStep(c, "build")
			out, err := w.runTask(in)
			require.NoError(t, err)
			require.Equal(t, step.TaskReply{Result: json.RawMessage(`{"built":"x"}`)}, out, "S3-54")
			require.Equal(t, "c1", got.ID)
			require.Equal(t, "t1~t1", got.TaskID)
			require.JSONEq(t, `{"target":"x"}`, got.Arguments)
			require.Equal(t, 1, got.Attempt)
			require.Equal(t, "e1", got.Exec.TraceID(), "S1-38")
			log := w.toolLog("c1")
			require.Equal(t, "build", log.ToolName)
			require.Equal(t, store.ToolSucceeded, log.Status)
			require.JSONEq(t, `{"target":"x"}`, string(log.Input))
			require.Equal(t, []string{"e1.0.1"}, w.ids(), "the call has its result already: how the task ends is the thread's to tell")

			again, err := w.runTask(in)
			require.NoError(t, err)
			require.Equal(t, out, again, "what became of it was lost on the way back")
			require.EqualValues(t, 1, build.runs.Load(), "S2-51")
		})
	}
}

// withOwnTools gives agents the built-in tools, too.
func withOwnTools(c *activities.Config) {
	who, err := c.Agents.Agent(context.Background(), "ns", "assistant")
	if err != nil {
		panic(err)
	}
	who.Tools = append(who.Tools, "task", "call_agent", "call-agent", "list_tasks", "get_task", "cancel_task")
	c.Agents = agent.Fixed{who, {Name: "bob", Model: "fake/small"}}
}

// TestToolCalledTask: an application's tool of that name takes precedence.
func TestToolCalledTask(t *testing.T) {
	own := backgroundTool(func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Output: c.Arguments}, nil
	}, func(d *tool.Definition) { d.Name = "task" })
	w := newFixture(t, nil, own)
	out, err := w.runTask(w.taskStep(call("c1", "task", `{"list":["milk"]}`), "task"))
	require.NoError(t, err)
	require.JSONEq(t, `{"list":["milk"]}`, string(out.Result))
}

func TestTaskEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(context.Context, tool.Call) (tool.Result, error)
		want   step.TaskReply
		status store.ToolStatus
	}{
		{"text", returns("all is built"), step.TaskReply{Result: json.RawMessage(`"all is built"`)}, store.ToolSucceeded},
		{"nothing", returns(""), step.TaskReply{Result: json.RawMessage(`""`)}, store.ToolSucceeded},
		{
			"a result that is an error", func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{Output: "404", IsError: true}, nil
			},
			step.TaskReply{Error: "404"},
			store.ToolFailed,
		},
		{
			"an error", func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, errors.New("disk full") },
			step.TaskReply{Error: "Error: disk full"},
			store.ToolFailed,
		},
		{"a panic", func(context.Context, tool.Call) (tool.Result, error) { panic("nil map") }, step.TaskReply{Error: "Error: the tool panicked: nil map"}, store.ToolFailed},
		{
			"an error that might pass, of a tool that is not idempotent",
			func(context.Context, tool.Call) (tool.Result, error) {
				return tool.Result{}, tool.Retryable(errors.New("timeout"))
			},
			step.TaskReply{Error: "Error: timeout"},
			store.ToolFailed,
		},
		{
			"the work goes on elsewhere", func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, tool.ErrPending },
			step.TaskReply{Pending: true},
			store.ToolPending,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			build := backgroundTool(tc.do)
			w := newFixture(t, nil, build)
			in := w.taskStep(call("c1", "build", "{}"), "build")
			for range 2 {
				out, err := w.runTask(in)
				require.NoError(t, err)
				require.Equal(t, tc.want, out, "the same, however often it is asked")
			}
			require.EqualValues(t, 1, build.runs.Load())
			require.Equal(t, tc.status, w.toolLog("c1").Status)
		})
	}
}

func TestTaskCannotRun(t *testing.T) {
	for _, tc := range []struct {
		name   string
		call   event.ToolCall
		runs   string
		change func(*step.Task)
		want   string
	}{
		{"an unknown tool", call("c1", "deploy", "{}"), "deploy", nil, `Error: unknown tool "deploy"`},
		{"arguments that do not fit", call("c1", "task", `{"tool":"add","arguments":{"a":"x"}}`), "add", nil, "Error: Tool parameter validation failed for add"},
		{"arguments that are none", call("c1", "task", `{"tool":1}`), "add", nil, "Error: Tool parameter validation failed for task: tool: "},
		{"an agent that is gone", call("c1", "add", `{"a":1,"b":2}`), "add", func(in *step.Task) { in.Task.Agent = "eve" }, `Error: unknown agent: "eve"; known are [assistant bob]`},
		{"S2-25 a tool that the turn does not allow", call("c1", "add", `{"a":1,"b":2}`), "add", func(in *step.Task) { in.Tools = []string{} }, `Error: unknown tool "add"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t, withOwnTools, add)
			in := w.taskStep(tc.call, tc.runs)
			if tc.change != nil {
				tc.change(&in)
			}
			out, err := w.runTask(in)
			require.NoError(t, err, "the task fails, not its workflow")
			require.True(t, strings.HasPrefix(out.Error, tc.want), out.Error)
			require.NotContains(t, out.Error, "retryable", "it is for the agent")
			require.Equal(t, store.ToolFailed, w.toolLog("c1").Status)
		})
	}
	w := newFixture(t, nil, add)
	in := w.taskStep(call("c1", "add", `{"a":1,"b":2}`), "add")
	in.Task.ToolCallID = "c9"
	_, err := w.runTask(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type(), "S4-91 a call that is not stored does not run")
}

// TestTaskLostWithItsWorker: the effect of the lost attempt is unknown.
func TestTaskLostWithItsWorker(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*tool.Definition)
		status store.ToolStatus
		runs   int32
	}{
		{"is not run again", func(*tool.Definition) {}, store.ToolUnknown, 0},
		{"is run again when that does no harm", func(d *tool.Definition) { d.Idempotent = true }, store.ToolSucceeded, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			build := backgroundTool(returns("built"), tc.change)
			w := newFixture(t, nil, build)
			in := w.taskStep(call("c1", "build", "{}"), "build")
			w.append(store.Batch{ToolStart: &store.ToolLog{ToolCallID: "c1", ToolName: "build", StartedAt: time.Now(), Attempt: 1}})
			out, err := w.runTask(in)
			require.NoError(t, err)
			require.Equal(t, tc.runs, build.runs.Load(), "S2-51")
			require.Equal(t, tc.status, w.toolLog("c1").Status)
			if tc.runs == 0 {
				require.Contains(t, out.Error, "outcome is unknown")
				again, err := w.runTask(in)
				require.NoError(t, err)
				require.Equal(t, out, again)
			}
		})
	}
}

// TestTaskIsLookedAtBeforeItBegins: an attempt may have ended before the tool started.
func TestTaskIsLookedAtBeforeItBegins(t *testing.T) {
	for name, fault := range map[string]func(*activities.Config, *registry){
		"the registry did not answer":   func(_ *activities.Config, r *registry) { r.faults = 1 },
		"the approvals were not read":   func(c *activities.Config, _ *registry) { c.Store = &faulty{Store: teststore.Of(c.Store), reads: 1} },
		"the refusal could not be kept": func(c *activities.Config, _ *registry) { c.Store = &faulty{Store: teststore.Of(c.Store), ends: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			build, agents := backgroundTool(returns("built")), newRegistry("build")
			w := newFixture(t, func(c *activities.Config) { c.Agents = agents; fault(c, agents) }, build)
			in := w.taskStep(call("c1", "build", "{}"), "build")
			in.DecisionID = "c1.decision"
			w.append(store.Batch{Records: []event.Record{
				decisionOn("c1", event.Approval{Decision: event.DecisionApprove, By: "ann", Digest: digestOf(t, "build", "{}"), Definition: build.def.Digest()}),
				event.NewRecord("c1.revoked.1", event.TypeApproval, "e1", "e1", time.Now(), event.Approval{ToolCallID: "c1", Decision: event.DecisionRevoked, By: "ben"}),
			}})
			require.NoError(t, w.retried(step.ActivityRunTask, in))
			require.Zero(t, build.runs.Load())
			log := w.toolLog("c1")
			require.Equal(t, store.ToolDenied, log.Status)
			require.Equal(t, 2, log.Attempt)
			require.Contains(t, string(log.Output), "the approval was taken back")
		})
	}
	t.Run("one that has begun goes on", func(t *testing.T) {
		build := backgroundTool(returns("built"), func(d *tool.Definition) { d.Idempotent = true })
		w := newFixture(t, denyBuilds, build)
		in := w.taskStep(call("c1", "build", "{}"), "build")
		w.append(store.Batch{ToolStart: &store.ToolLog{ToolCallID: "c1", ToolName: "build", StartedAt: time.Now(), Attempt: 1}})
		_, err := w.runTask(in)
		require.NoError(t, err)
		require.EqualValues(t, 1, build.runs.Load(), "it cannot be said any more that it was not run")
	})
}

// TestTaskIsTakenAway: without the tool "task", the inner call is not checked against the policy.
func TestTaskIsTakenAway(t *testing.T) {
	build := backgroundTool(returns("built"))
	w := newFixture(t, denyBuilds, build)
	out, err := w.runTask(w.taskStep(call("c1", "task", `{"tool":"build","arguments":{}}`), "build"))
	require.NoError(t, err)
	require.Equal(t, `Error: unknown tool "task"; the tools are [build]`, out.Error)
	require.Zero(t, build.runs.Load())
	require.Equal(t, store.ToolFailed, w.toolLog("c1").Status)
}

func denyBuilds(c *activities.Config) {
	c.ApprovalRules = []approval.Rule{{Name: "no builds", Tools: []string{"build"}, Effect: approval.EffectDeny}}
}

func TestAttemptsOfATask(t *testing.T) {
	fails := backgroundTool(func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, tool.Retryable(errors.New("timeout"))
	}, func(d *tool.Definition) { d.Idempotent, d.MaxAttempts = true, 2 })
	w := newFixture(t, nil, fails)
	require.NoError(t, w.retried(step.ActivityRunTask, w.taskStep(call("c1", "build", "{}"), "build")))
	require.EqualValues(t, 2, fails.runs.Load())
	require.Equal(t, store.ToolFailed, w.toolLog("c1").Status)
}

func TestTaskTakesTooLong(t *testing.T) {
	slow := backgroundTool(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{Output: "half of it"}, ctx.Err()
	}, func(d *tool.Definition) { d.Timeout = time.Millisecond })
	w := newFixture(t, nil, slow)
	out, err := w.runTask(w.taskStep(call("c1", "build", "{}"), "build"))
	require.NoError(t, err)
	require.Equal(t, "Error: the tool took longer than its limit of 1ms and was stopped.\nhalf of it", out.Error)
}

// TestTaskIsCancelled: an interrupt of the turn that started it does not cancel the task.
func TestTaskIsCancelled(t *testing.T) {
	var w *fixture
	slow := backgroundTool(func(ctx context.Context, c tool.Call) (tool.Result, error) {
		w.interruptAs(ctx, c.TaskID) // after a notice for another
		return tool.Result{Output: "half of it"}, ctx.Err()
	})
	w = newFixture(t, nil, slow)
	out, err := w.runTask(w.taskStep(call("c1", "build", "{}"), "build"))
	require.NoError(t, err)
	require.Equal(t, step.TaskReply{Cancelled: true, Error: "The task was cancelled.\nhalf of it"}, out)
	require.Equal(t, store.ToolInterrupted, w.toolLog("c1").Status)
}

// TestLongResultOfATask: the log has all of it, the event a part.
func TestLongResultOfATask(t *testing.T) {
	long := strings.Repeat("é", signals.MaxPayload/2)
	w := newFixture(t, nil, backgroundTool(returns(long)))
	out, err := w.runTask(w.taskStep(call("c1", "build", "{}"), "build"))
	require.NoError(t, err)
	var cut struct {
		Truncated bool
		Bytes     int
		Start     string
	}
	require.NoError(t, json.Unmarshal(out.Result, &cut))
	require.True(t, cut.Truncated)
	require.Equal(t, len(long)+2, cut.Bytes)
	require.True(t, strings.HasPrefix(cut.Start, `"ééé`))
	require.NotContains(t, cut.Start, "\uFFFD", "no character is cut in two")
	require.Less(t, len(out.Result), signals.MaxPayload/2)
	require.Len(t, w.toolLog("c1").Output, len(long)+2)

	w = newFixture(t, nil, backgroundTool(func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, errors.New(long) }))
	out, err = w.runTask(w.taskStep(call("c1", "build", "{}"), "build"))
	require.NoError(t, err)
	require.Less(t, len(out.Error), 5<<10)
}

// TestProgressOfATask: viewers see it live, as an event of the task, and nothing is stored.
func TestProgressOfATask(t *testing.T) {
	w := newFixture(t, nil, backgroundTool(func(_ context.Context, c tool.Call) (tool.Result, error) {
		c.Progress(map[string]int{"percent": 50})
		c.Progress(func() {}) // not valid JSON
		return tool.Result{Output: "built"}, nil
	}))
	_, err := w.runTask(w.taskStep(call("c1", "build", "{}"), "build"))
	require.NoError(t, err)
	var shown []event.AgentEvent
	for _, e := range w.live() {
		if e.Event != nil {
			shown = append(shown, *e.Event)
		}
	}
	require.Len(t, shown, 1)
	progress, ok := shown[0].TaskProgress()
	require.True(t, ok)
	require.Equal(t, "t1~t1", progress.TaskID)
	require.JSONEq(t, `{"percent":50}`, string(progress.Data))
	require.Equal(t, "assistant", shown[0].Agent)
	require.Equal(t, []string{"e1.0.1"}, w.ids())
}
