package hooks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/workflows"
)

// hookVersions starts workers with different hooks on one task queue.
type hookVersions struct {
	t    *testing.T
	w    *harness.Harness
	base threadmill.Config
	wait *check.Halt
	stop func()
}

// TestHooksOutliveWorkers replaces the worker while hooks decide.
//
//ci:replayed
func TestHooksOutliveWorkers(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	w := d.Open(t, harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) { c.StopTimeout = 10 * time.Millisecond }},
		[]hook.Hook{d.Hook("first"), d.Inline("inline")})
	play := func(t *testing.T, disturb func()) []string {
		id := w.Open("assistant")
		stages := map[string]*check.Halt{"message user": check.NewHalt(), "tool_call": check.NewHalt(), "message tool": check.NewHalt()}
		rule := func(ctx context.Context, e event.Event) (hook.Result, error) {
			switch e := e.(type) {
			case event.ToolCallEvent:
				e.ToolCalls[0].Function.Arguments = `{"text":"edited"}`
				return hook.Replace(e), nil
			case event.MessageEvent:
				if e.CreatedBy == event.CreatedByTool {
					return hook.Respond(hook.Response{Content: "one"}, hook.Response{Content: "two", SenderType: event.CreatedBySystem}), nil
				}
			}
			return hook.Pass(), nil
		}
		for what, h := range stages {
			rule = h.Before(what, rule)
		}
		d.Set(id, "first", rule)
		d.Set(id, "inline", check.Saying(event.CreatedByUser, "text", "words"))
		_, err := w.Threads.Post(w.Ctx(), id, check.Message(id, "e1", "well\nuse note {\"text\":\"x\"}"))
		require.NoError(t, err)
		for _, what := range []string{"message user", "tool_call", "message tool"} {
			h := stages[what]
			<-h.Reached
			if disturb != nil {
				disturb()
				<-h.Reached
			}
			h.Release()
		}
		require.Equal(t, signals.TurnCompleted, check.Wholly(w, id, w.Await(id, "e1")).Status)
		var out []string
		for _, r := range w.Records(id) {
			line := r.Type
			switch r.Type {
			case event.TypeMessage:
				m := harness.Payload[event.Message](w, r)
				line += fmt.Sprint(" ", m.SenderID, ": ", m.Content)
			case event.TypeHook:
				decided := harness.Payload[event.Interception](w, r)
				line += fmt.Sprint(" ", decided.EventType, " ", decided.Outcome, " ", len(decided.Produced))
			}
			out = append(out, line)
		}
		for _, e := range check.HistoryOf(w, id, "") {
			require.NotEqual(t, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, e.GetEventType())
		}
		return out
	}
	stop := w.StartWorker()
	want := play(t, nil)
	require.Len(t, want, 17, strings.Join(want, "\n"))
	t.Run("S0-36 S0-24 S2-51 the same order, and one effect each, with a new worker in mid-hook", func(t *testing.T) {
		require.Equal(t, want, play(t, func() {
			stop()
			stop = w.StartWorker()
		}))
	})
}

// TestHooksChange runs one thread on workers with different hooks.
//
//ci:replayed
func TestHooksChange(t *testing.T) {
	t.Parallel()
	var base threadmill.Config
	w := harness.New(t, harness.Options{NoWorker: true, Configure: func(c *threadmill.Config) {
		c.StopTimeout = 10 * time.Millisecond
		base = *c
	}})
	h := &hookVersions{t: t, w: w, base: base, wait: check.NewHalt()}
	h.start("one")
	id := w.Open("assistant")
	require.Equal(t, "hello one inline-one", check.Say(w, id, "hello").Message.Content)

	t.Run("a hook is changed, another removed", func(t *testing.T) {
		h.start("two")
		require.Equal(t, "hello two", check.Say(w, id, "hello").Message.Content)
	})
	t.Run("all are removed", func(t *testing.T) {
		h.start("none")
		require.Equal(t, "hello", check.Say(w, id, "hello").Message.Content)
	})
	t.Run("hooks come back in the middle of a turn, others with them", func(t *testing.T) {
		posted := w.Post(id, `use shell_cmd {"command":"true"}`)
		call := w.AwaitApproval(id, 1)[0].ToolCallID
		h.start("one")
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, call))
		out := check.Wholly(w, id, check.Await(t, w, id, posted))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, event.OutcomePassed, check.DecisionOn(w, id, call+".result").Outcome, "what comes from then on, they see")
	})
	t.Run("S0-23 one goes that is to decide: the event fails, and is there when it comes back", func(t *testing.T) {
		posted := w.Post(id, "wait")
		<-h.wait.Reached
		h.start("none")
		out := check.Wholly(w, id, check.Await(t, w, id, posted))
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "hook first failed: this worker does not have it")
		require.Equal(t, out.Error, check.FailedEvent(w, id, posted).Error)
		h.wait.Release()
		h.start("one")
		_, err := w.Threads.Retry(w.Ctx(), id, posted, "ann")
		require.NoError(t, err)
		require.Equal(t, "wait one inline-one", check.Wholly(w, id, w.Await(id, posted)).Message.Content)
	})
	t.Run("one that held a reply goes: the reply is shown", func(t *testing.T) {
		h.start("holding")
		half := w.Provider.Block(2)
		posted := w.Post(id, "count 5")
		<-half.Reached()
		h.start("none")
		half.Release()
		require.Equal(t, "1 2 3 4 5", check.Wholly(w, id, check.Await(t, w, id, posted)).Message.Content)
		said := check.MessagesPage(t, w, id)
		require.Equal(t, "1 2 3 4 5", said[len(said)-1]["content"])
	})
	h.start("two")
	require.Equal(t, "bye two", check.Say(w, id, "bye").Message.Content)
	h.stop()

	t.Run("nothing had to be replayed otherwise than it was", func(t *testing.T) { h.requireReplays(t, id) })
}

// hooks are the hooks of a version. They append their version to messages of people.
func (h *hookVersions) hooks(version string) []hook.Hook {
	adding := func(what string) hook.Func {
		return check.OnMessage(event.CreatedByUser, func(m event.MessageEvent) hook.Result {
			m.Message.Content += " " + what
			return hook.Replace(m)
		})
	}
	first := hook.OnEvent("first", adding(version))
	first.MaxAttempts = 1
	inline := hook.Inline("inline", func(_ hook.Context, e event.Event) (hook.Result, error) {
		return adding("inline-"+version)(context.Background(), e)
	})
	switch version {
	case "one":
		first.Func = func(ctx context.Context, e event.Event) (hook.Result, error) {
			if m, ok := e.(event.MessageEvent); ok && m.Message.Content == "wait" {
				return h.wait.Before("message user", adding(version))(ctx, e)
			}
			return adding(version)(ctx, e)
		}
		return []hook.Hook{first, inline}
	case "two":
		inline.Inline = func(_ hook.Context, e event.Event) (hook.Result, error) {
			return adding("two")(context.Background(), e)
		}
		return []hook.Hook{inline}
	case "holding":
		first.HoldOutput, first.Filter = true, hook.Filter{Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByAgent}}
		return []hook.Hook{first}
	}
	return nil
}

// start replaces the worker by one with the hooks of a version.
func (h *hookVersions) start(version string) {
	h.t.Helper()
	if h.stop != nil {
		h.stop()
	}
	cfg := h.base
	cfg.Hooks = h.hooks(version)
	h.stop = check.Work(h.t, cfg)
}

// requireReplays replays the history with the hooks of every version.
func (h *hookVersions) requireReplays(t *testing.T, thread string) {
	t.Helper()
	events := check.HistoryOf(h.w, thread, "")
	histories := map[string]*history.History{signals.WorkflowID(h.w.TaskQueue, thread): {Events: events}}
	for _, e := range events {
		require.NotEqual(t, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, e.GetEventType(), e.GetWorkflowTaskFailedEventAttributes().GetFailure())
		if child := e.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution(); child != nil {
			decided, err := check.RunHistory(h.w.Ctx(), h.w.Temporal, child.GetWorkflowId(), child.GetRunId())
			require.NoError(t, err)
			histories[child.GetWorkflowId()] = &history.History{Events: decided}
		}
	}
	require.Greater(t, len(histories), 3, "hook workflows ran")
	for _, version := range []string{"none", "one", "two", "holding"} {
		set, err := hook.NewSet(hook.Config{Hooks: h.hooks(version)})
		require.NoError(t, err)
		for id, hist := range histories {
			r := worker.NewWorkflowReplayer()
			(&workflows.Workflows{NameStep: workflows.Unregistered, Hooks: set}).Register(r)
			require.NoError(t, r.ReplayWorkflowHistoryWithOptions(nil, hist, worker.ReplayWorkflowHistoryOptions{
				OriginalExecution: workflow.Execution{ID: id, RunID: "replay"},
			}), "%s with the hooks of %q", id, version)
		}
	}
}

// TestHooksAcrossContinueAsNew continues a thread as new while a hook decides.
//
//ci:replayed
func TestHooksAcrossContinueAsNew(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	w := d.Open(t, harness.Options{Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 40}}, []hook.Hook{d.Hook("first")})
	moves := func(id string) { check.Moves(t, w, id) }
	id, wait := w.Open("assistant"), check.NewHalt()
	d.Set(id, "first", wait.Before("message user", check.Saying(event.CreatedByUser, "hello", "good day")))
	e := w.Post(id, "hello\nuse note {\"text\":\"x\"}")
	<-wait.Reached
	moves(id)
	t.Run("S0-24 S0-36 its decision holds, and it is asked once", func(t *testing.T) {
		moves(id)
		wait.Release()
		out := check.Wholly(w, id, w.Await(id, e))
		require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
		require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "first"), e))
		require.Equal(t, event.OutcomeReplaced, check.DecisionOn(w, id, e).Outcome)
		require.Contains(t, w.Messages(id)[1].Content, "good day")
		check.RequireSettled(t, w, id)
	})
	t.Run("an interrupt ends it there, too", func(t *testing.T) {
		id, wait := w.Open("assistant"), check.NewHalt()
		d.Set(id, "first", wait.Before("message user", nil))
		e := w.Post(id, "hello")
		<-wait.Reached
		moves(id)
		require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Equal(t, signals.TurnInterrupted, check.Wholly(w, id, w.Await(id, e)).Status)
		require.NotContains(t, w.Transcript(id), "assistant:")
	})
}
