package hooks

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// verdicts are rules for a message whose content is "stop", and whether it takes effect.
var verdicts = map[string]struct {
	rule   hook.Func
	passes bool
	status signals.TurnStatus
}{
	"pass":    {func(context.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil }, true, signals.TurnCompleted},
	"replace": {check.Saying(event.CreatedByUser, "stop", "please stop"), true, signals.TurnCompleted},
	"drop": {func(_ context.Context, e event.Event) (hook.Result, error) {
		if (check.Entry{Event: e}).What() == "message user" {
			return hook.Drop(), nil
		}
		return hook.Pass(), nil
	}, false, signals.TurnUnanswered},
	"respond": {check.Responding(event.CreatedByUser, hook.Response{Content: "no", SenderType: event.CreatedBySystem}), false, signals.TurnCompleted},
	"fail": {func(_ context.Context, e event.Event) (hook.Result, error) {
		if (check.Entry{Event: e}).What() == "message user" {
			return hook.Result{}, errors.New("no way")
		}
		return hook.Pass(), nil
	}, false, signals.TurnFailed},
}

// TestEffectsComeAfterHooks: a message interrupts a turn, or cancels its calls, if hooks pass it.
func TestEffectsComeAfterHooks(t *testing.T) {
	t.Parallel()
	d, spied, g := check.NewDesk(), check.NewSpy("spied", tool.NeedsApproval("")), check.NewGate("held")
	once := func(h hook.Hook) hook.Hook { h.MaxAttempts = 1; return h }
	o := harness.Options{Tools: []tool.Tool{spied, g}}
	for kind, w := range map[string]*harness.Harness{
		"a function": d.Open(t, o, []hook.Hook{once(d.Hook("guard", event.TypeMessage))}),
		"inline":     d.Open(t, o, []hook.Hook{d.Inline("guard", event.TypeMessage)}),
	} {
		for name, v := range verdicts {
			for by, post := range map[string]func(string, signals.Post) error{
				"update": func(id string, p signals.Post) error { _, err := w.Threads.Post(w.Ctx(), id, p); return err },
				"signal": func(id string, p signals.Post) error { _, err := w.Threads.PostSignal(w.Ctx(), id, p); return err },
			} {
				t.Run(kind+" lets an interrupt "+name+" by "+by, func(t *testing.T) {
					id := w.Open("assistant")
					running := w.Post(id, "use held {}")
					<-g.Reached
					d.Set(id, "guard", v.rule)
					p := check.Message(id, "stops", "stop")
					p.OnBusy = event.OnBusyInterrupt
					require.NoError(t, post(id, p))
					if !v.passes {
						require.Eventually(t, func() bool {
							decided, err := w.Store.RecordsByID(w.Ctx(), w.Key(id), "stops.hook", "stops.hook.failed")
							return err == nil && len(decided) == 1
						}, testenv.Patience, testenv.Tick)
						d.Set(id, "guard", nil)
						require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, EventID: running, By: "ann"}))
						out := check.Await(t, w, id, running)
						require.Equal(t, signals.TurnInterrupted, out.Status)
						require.Empty(t, out.Error, "by ann, not by the message")
						require.Equal(t, v.status, check.Await(t, w, id, "stops").Status)
						return
					}
					require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, running).Status)
					require.Equal(t, v.status, check.Await(t, w, id, "stops").Status)
					check.RequireSettled(t, w, id)
				})
				t.Run(kind+" lets a cancellation "+name+" by "+by, func(t *testing.T) {
					id := w.Open("assistant")
					running := w.Post(id, "use spied {}")
					q := w.AwaitApproval(id, 1)[0]
					d.Set(id, "guard", v.rule)
					before := len(spied.Seen())
					p := check.Message(id, "cancels", "stop")
					p.OnWaiting = event.OnWaitingCancel
					require.NoError(t, post(id, p))
					out := check.Await(t, w, id, "cancels")
					require.Equal(t, v.status, out.Status, out.Error)
					d.Set(id, "guard", nil)
					if !v.passes {
						decided, err := w.Threads.Decide(w.Ctx(), id, check.Approving(q))
						require.NoError(t, err)
						require.Equal(t, signals.DecideAccepted, decided.Result)
					}
					require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, running).Status)
					require.Equal(t, !v.passes, len(spied.Seen()) > before, "the call runs if the message was blocked")
					check.RequireSettled(t, w, id)
				})
			}
		}
	}
}

// TestEffectsWaitForHooks: hooks take their time with messages that interrupt a turn or cancel its
// calls, even across continue-as-new. The turn waits on meanwhile.
func TestEffectsWaitForHooks(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied", tool.NeedsApproval(""))
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}, Dynamic: map[string]any{"limit.historyCount.suggestContinueAsNew": 60}},
		[]hook.Hook{d.Hook("guard", event.TypeMessage)})
	moves := func(id string) { check.Moves(t, w, id) }
	begin := func(effect func(*signals.Post)) (id, running string, q event.ApprovalRequest, wait *check.Halt) {
		id, wait = w.Open("assistant"), check.NewHalt()
		running = w.Post(id, "use spied {}")
		q = w.AwaitApproval(id, 1)[0]
		d.Set(id, "guard", wait.Before("message user", check.Saying(event.CreatedByUser, "stop", "please stop")))
		p := check.Message(id, "stops", "stop")
		effect(&p)
		_, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err)
		<-wait.Reached
		moves(id)
		require.Len(t, w.AwaitApproval(id, 1), 1, "the call still waits")
		state, err := w.Threads.State(w.Ctx(), id)
		require.NoError(t, err)
		require.Equal(t, "stops", check.Only(t, state.Turn.Deciding).EventID, "people see what it waits for")
		moves(id)
		return id, running, q, wait
	}
	interrupts := func(p *signals.Post) { p.OnBusy = event.OnBusyInterrupt }
	cancels := func(p *signals.Post) { p.OnWaiting = event.OnWaitingCancel }
	t.Run("an interrupt", func(t *testing.T) {
		id, running, _, wait := begin(interrupts)
		wait.Release()
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, running).Status)
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, "stops").Status)
		require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "guard"), "stops"), "hooks are asked once")
		require.Contains(t, w.Transcript(id), "please stop")
		check.RequireSettled(t, w, id)
	})
	t.Run("a cancellation", func(t *testing.T) {
		id, running, _, wait := begin(cancels)
		wait.Release()
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, running).Status)
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, "stops").Status)
		require.Equal(t, []int{1}, attemptsOn(d.Asked(id, "guard"), "stops"), "hooks are asked once")
		check.RequireSettled(t, w, id)
	})
	t.Run("the call is decided first", func(t *testing.T) {
		id, running, q, wait := begin(cancels)
		_, err := w.Threads.Decide(w.Ctx(), id, check.Approving(q))
		require.NoError(t, err)
		d.Set(id, "guard", nil)
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, running).Status)
		wait.Release()
		require.Equal(t, signals.TurnCompleted, check.Await(t, w, id, "stops").Status)
		check.RequireSettled(t, w, id)
	})
	t.Run("the thread is closed", func(t *testing.T) {
		id, running, _, _ := begin(interrupts)
		check.Closed(t, w, id)
		require.Equal(t, "ann", harness.Payload[event.StatusChange](w, check.RecordOf(w, id, running+".interrupted")).By)
		require.Contains(t, w.Transcript(id), "ann: stop", "the message is kept")
		require.Eventually(t, func() bool {
			d, err := w.Temporal.DescribeWorkflowExecution(w.Ctx(), signals.HookWorkflowID(w.TaskQueue, id, "stops"), "")
			return err == nil && d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		}, testenv.Patience, testenv.Tick, "nobody is asked any longer")
	})
	require.Len(t, spied.Seen(), 1)
}
