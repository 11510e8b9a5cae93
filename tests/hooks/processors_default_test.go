package hooks

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// waitForPerson is a hook workflow that responds with a person's decision.
const waitForPerson = "wait_for_person"

// TestProcessorsReplaceDefault: a processor replaces the built-in processing, whatever it produces.
//
//ci:replayed only
func TestProcessorsReplaceDefault(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	replacing := func(name, typ string) hook.Processor {
		p := d.Processor(name, typ)
		p.ShouldProcess, p.ReplaceDefault = nil, true
		return p
	}
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.Hook("first")},
		replacing("tools", event.TypeToolCall), replacing("messages", "message"))
	quiet := func(id string) {
		d.Make(id, "messages", nothing)
		d.Make(id, "tools", nothing)
	}

	t.Run("S2-34 of messages", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		quiet(id)
		out := check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.NotEqual(t, signals.TurnFailed, out.Status, out.Error)
		require.Equal(t, calls, w.Provider.Calls())
		require.Equal(t, []string{"ann: hello"}, check.SaidIn(w, id))
		require.Equal(t, []string{"message user"}, d.Whats(id, "messages"))
	})
	t.Run("S2-33 S2-34 of messages that a hook has changed", func(t *testing.T) {
		id, calls := w.Open("assistant"), w.Provider.Calls()
		quiet(id)
		d.Set(id, "first", check.Saying(event.CreatedByUser, "hello", "good day"))
		check.Turn(w, id, check.Message(id, "e1", "hello"))
		require.Equal(t, calls, w.Provider.Calls())
		require.Equal(t, []string{"ann: hello"}, check.SaidIn(w, id))
	})
}

// TestToolsReplaced: a processor replaces all tools.
func TestToolsReplaced(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	p := d.Processor("sandbox", event.TypeToolCall)
	p.ShouldProcess, p.ReplaceDefault = nil, true
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied}}, []hook.Hook{d.Hook("first")}, p)
	for name, rule := range map[string]hook.Func{
		"as they are": nil,
		"that a hook has changed": check.OnCalls(func(c event.ToolCallEvent) hook.Result {
			c.ToolCalls[0].Function.Arguments = `{"n":2}`
			return hook.Replace(c)
		}),
	} {
		t.Run("S2-34 calls "+name, func(t *testing.T) {
			id, calls := w.Open("assistant"), w.Provider.Calls()
			d.Make(id, "sandbox", nothing)
			d.Set(id, "first", rule)
			out := check.Say(w, id, "use spied {}")
			require.NotEqual(t, signals.TurnFailed, out.Status, out.Error)
			require.Empty(t, spied.Seen())
			require.Equal(t, calls+1, w.Provider.Calls())
			check.RequireSettled(t, w, id)
			for _, m := range check.Results(w, id) {
				require.Contains(t, m.Content, "sandbox", "the result says who kept it from running")
			}
		})
	}
}

func processorsUrgent(t *testing.T, d *check.Desk, w *harness.Harness) {
	id, low := w.Open("assistant"), -1
	urgent, late := system("urgent"), system("low")
	five := 5
	urgent.Priority, late.Priority = &five, &low
	late.TTL = 1
	keep := system("as it was")
	keep.TTL = 3_600_000
	d.Make(id, "orders", func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{late, keep, urgent}, nil
	})
	post := check.Custom("e1", "order.placed", 1)
	post.Priority = 2
	out := check.Turn(w, id, post)
	require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
	require.Equal(t, []string{"System: urgent", "System: as it was"}, check.SaidIn(w, id))
	made := check.DecisionOn(w, id, "e1").Produced
	require.Len(t, made, 3)
	statuses := []event.ItemStatus{}
	for _, eventID := range made {
		statuses = append(statuses, check.ItemOf(w, id, eventID).Status)
	}
	require.Equal(t, []event.ItemStatus{event.ItemExpired, event.ItemCompleted, event.ItemCompleted}, statuses)
	require.Equal(t, 2, check.ItemOf(w, id, made[1]).Priority)
	require.EqualValues(t, 3_600_000, check.ItemOf(w, id, made[1]).TTL)
}

func personDecides(ctx workflow.Context, _ hook.Request) (hook.Verdict, error) {
	var approved bool
	workflow.GetSignalChannel(ctx, "approved").Receive(ctx, &approved)
	if approved {
		return hook.Verdict{}, nil
	}
	return hook.Verdict{Responses: []hook.Response{{Content: "no", SenderID: "desk", SenderType: event.CreatedBySystem}}}, nil
}

// TestOneMechanism responds to the same event in all three ways.
func TestOneMechanism(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	w := d.Open(t, harness.Options{Configure: func(c *threadmill.Config) {
		person := hook.InWorkflow("person", hook.Workflow{Type: waitForPerson})
		person.Filter.Types = []string{"message"}
		person.Filter.CreatedBy = []event.CreatedBy{event.CreatedByUser}
		person.Filter.Namespaces = []string{c.Namespace}
		c.Hooks = append(c.Hooks, person)
		c.RegisterWith = func(r worker.Registry) {
			r.RegisterWorkflowWithOptions(personDecides, workflow.RegisterOptions{Name: waitForPerson})
		}
	}}, []hook.Hook{d.Hook("guard")}, d.Processor("maker", "message"))

	decide := func(id, eventID string, approved bool) {
		child := signals.HookWorkflowID(w.TaskQueue, id, eventID) + "/person"
		require.Eventually(t, func() bool {
			return w.Temporal.SignalWorkflow(w.Ctx(), child, "", "approved", approved) == nil
		}, testenv.Patience, testenv.Tick)
	}
	ways := map[string]struct {
		outcome event.Outcome
		status  event.ItemStatus
		rules   func(id string)
		asks    bool
	}{
		"guard": {event.OutcomeResponded, event.ItemCompleted, func(id string) {
			d.Set(id, "guard", check.Responding(event.CreatedByUser, hook.Response{Content: "no", SenderID: "desk", SenderType: event.CreatedBySystem}))
		}, false},
		"maker": {event.OutcomeOverwritten, event.ItemOverwritten, func(id string) {
			d.Make(id, "maker", producing(hook.Message(event.CreatedBySystem, "desk", "no")))
		}, true},
		"person": {event.OutcomeResponded, event.ItemCompleted, func(string) {}, true},
	}
	for by, way := range ways {
		t.Run("X15 "+by, func(t *testing.T) {
			id, calls := w.Open("assistant"), w.Provider.Calls()
			way.rules(id)
			p := check.Message(id, "e1", "hello")
			p.Priority = 4
			_, err := w.Threads.Post(w.Ctx(), id, p)
			require.NoError(t, err)
			if way.asks {
				decide(id, "e1", by != "person")
			}
			out := check.Turn(w, id, p)
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			require.Equal(t, calls, w.Provider.Calls())
			require.Equal(t, []string{"ann: hello", "desk: no"}, check.SaidIn(w, id))
			require.Equal(t, []string{"status", "message", "hook", "message", "hook", "final", "turn_ended"}, w.Types(id), "the records are the same")
			decided := check.DecisionOn(w, id, "e1")
			require.Equal(t, way.outcome, decided.Outcome)
			require.Equal(t, by, decided.Hooks[len(decided.Hooks)-1].Name)
			made := check.Only(t, decided.Produced)
			require.Equal(t, made, out.Message.ID)
			require.Equal(t, way.status, check.ItemOf(w, id, "e1").Status)
			it := check.ItemOf(w, id, made)
			require.Equal(t, "e1 e1 completed 4", fmt.Sprint(it.ParentEventID, " ", it.TraceID, " ", it.Status, " ", it.Priority))
			require.Equal(t, event.OutcomePassed, check.DecisionOn(w, id, made).Outcome, "the answer passes the hooks")
			require.Equal(t, []string{"message user", "message system"}, d.Whats(id, "guard"))
		})
	}
}
