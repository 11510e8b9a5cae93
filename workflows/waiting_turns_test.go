package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// askingFor makes the turns of these events begin with a call of that id.
func askingFor(calls map[string]string) func(context.Context, step.Model) (step.ModelReply, error) {
	return func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if id := calls[in.EventID]; id != "" {
			return script(asksWith(id, step.ApprovalPlan{Listed: true}))(ctx, in)
		}
		return reply(in, "ok"), nil
	}
}

// modelled are the ids of the replies that models generated, in order.
func (f *fakes) modelled() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, in := range f.models {
		out = append(out, in.MessageID)
	}
	return out
}

// TestEventsWhileATurnWaits: they are handled; a message with hold waits.
func TestEventsWhileATurnWaits(t *testing.T) {
	w := newFixture(t)
	w.model = askingFor(map[string]string{"m1": "c1", "v1": "c2"})
	w.then(func() { w.post("m1", "go") })
	w.then(func() {
		p := says("m2", "hello?")
		p.OnWaiting = event.OnWaitingHold
		w.SignalWorkflow(signals.SignalPost, p)
	})
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() { w.publish(happens("v2", "file.changed", `1`)) })
	w.then(func() {
		require.Equal(t, []string{"m1.0.1", "v1.0.1", "v2.0.1"}, w.modelled())
		require.Len(t, w.approvals().Approvals, 2)
		var q signals.Queue
		w.query(signals.QueryQueue, &q)
		require.Equal(t, "m2", q.Items[0].ID)
		w.decide("c1", event.DecisionApprove, "")
	})
	w.then(func() {
		require.Equal(t, "m1.0.2", w.modelled()[3], "the turn that can go on does, though another one waits")
		require.Len(t, w.modelled(), 4)
		w.decide("c2", event.DecisionDeny, "")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"v1.0.2", "m2.0.1"}, w.modelled()[4:])
	require.Equal(t, []string{"c1"}, w.tools)
}

// TestParkedTurnsMove: they continue in the next run of the workflow.
func TestParkedTurnsMove(t *testing.T) {
	f := newFakes(t)
	f.model = askingFor(map[string]string{"m1": "c1", "v1": "c2"})
	w := fixtureWith(t, f)
	w.then(func() { w.post("m1", "go") })
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
	next := w.leave(workflows.Input{})
	require.Len(t, next.State.Turns.Parked, 1)

	w = fixtureWith(t, f)
	w.then(func() { w.decide("c1", event.DecisionDeny, "") })
	w.then(func() { w.decide("c2", event.DecisionDeny, "") })
	w.run(next)
	require.Equal(t, []string{"m1.0.1", "v1.0.1", "m1.0.2", "v1.0.2"}, f.modelled())
}

// TestCloseWithParkedTurns: each of their calls gets a result.
func TestCloseWithParkedTurns(t *testing.T) {
	w := newFixture(t)
	w.model = askingFor(map[string]string{"m1": "c1", "v1": "c2", "v2": "c3"})
	w.then(func() { w.post("m1", "go") })
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() { w.publish(happens("v2", "file.changed", `1`)) })
	w.run(workflows.Input{})
	for _, id := range []string{"c1", "c2", "c3"} {
		require.Contains(t, w.messages(), id+".result: Tool execution was interrupted before it began: the tool did not run.", "S4-71")
	}
}

// attributes are the search attributes that were set, in order.
func (w *fixture) attributes() *[]temporal.SearchAttributes {
	set := &[]temporal.SearchAttributes{}
	w.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		*set = append(*set, args.Get(0).(temporal.SearchAttributes))
	}).Return(nil)
	return set
}

// TestWaitingThreadsAreFound: the search attribute is set as long as a thread waits for approval,
// whatever else it does.
func TestWaitingThreadsAreFound(t *testing.T) {
	status := temporal.NewSearchAttributeKeyKeyword(signals.AttributeStatus)
	w := newFixture(t)
	set := w.attributes()
	w.model = askingFor(map[string]string{"m1": "c1", "v1": "c2", "m2": "c3"})
	said := func() []string {
		var out []string
		for _, a := range *set {
			value, ok := a.GetKeyword(status)
			require.True(t, ok)
			out = append(out, value)
		}
		return out
	}
	w.then(func() { w.post("m1", "go") })
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() { require.Equal(t, []string{"waiting_approval"}, said(), "once for both") })
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.then(func() { require.Len(t, said(), 1, "it still waits") })
	w.then(func() { w.update(signals.UpdateThread, signals.ThreadChange{AddAgents: []string{"bob"}, By: "ann"}) })
	w.then(func() {
		require.Equal(t, []string{"waiting_approval", "open", "waiting_approval"}, said(), "also when the agents change, which says that it is open")
	})
	w.then(func() { w.decide("c2", event.DecisionDeny, "") })
	w.then(func() { w.post("m2", "once more") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"waiting_approval", "open", "waiting_approval", "open", "waiting_approval", "closed"}, said())
}

// TestUnlistedRequests: they do not change the search attribute.
func TestUnlistedRequests(t *testing.T) {
	w := newFixture(t)
	set := w.attributes()
	w.model = script(asksWith("c1", step.ApprovalPlan{Expires: time.Hour}))
	w.then(func() { w.post("m1", "go") })
	w.run(workflows.Input{})
	require.Len(t, *set, 1, "it is closed in the end")
}

// TestInterruptAParkedTurn: the named turn ends, and the other one waits on.
func TestInterruptAParkedTurn(t *testing.T) {
	w := newFixture(t)
	w.model = askingFor(map[string]string{"m1": "c1", "v1": "c2"})
	w.then(func() { w.post("m1", "go") })
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() {
		w.SignalWorkflow(signals.SignalControl, signals.Control{Action: signals.ControlInterrupt, EventID: "m1", By: "ann"})
	})
	w.then(func() {
		require.Contains(t, w.messages(), "c1.result: Tool execution was interrupted before it began: the tool did not run.")
		require.Equal(t, "c2", w.approvals().Approvals[0].ToolCallID)
		w.decide("c2", event.DecisionApprove, "")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"c2"}, w.tools)
}

// TestMessagesWhileATurnWaits: they are answered, whatever the turn waits for, even after
// continue-as-new; or they cancel the call and join its turn.
func TestMessagesWhileATurnWaits(t *testing.T) {
	f := newFakes(t)
	f.model = askingFor(map[string]string{"m1": "c1"})
	w := fixtureWith(t, f)
	var first, second *answer
	w.then(func() { first = w.update(signals.UpdateTurn, says("m1", "go")) })
	w.then(func() { second = w.update(signals.UpdateTurn, says("m2", "hello?")) })
	w.then(func() {
		require.Equal(t, "ok", second.result.(signals.TurnResult).Message.Content)
		require.False(t, first.done)
		require.Equal(t, []string{"c1"}, f.models[1].OpenCalls)
		require.Equal(t, map[string]string{"digest": "c1"}, f.models[1].Pending)
		w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"})
	})
	next := w.leave(workflows.Input{})
	require.Len(t, next.State.Turns.Parked, 1)

	w = fixtureWith(t, f)
	w.then(func() {
		first = w.update(signals.UpdateTurn, says("m1", "go"))
		second = w.update(signals.UpdateTurn, says("m3", "still there?"))
	})
	w.then(func() {
		require.Equal(t, signals.TurnCompleted, second.result.(signals.TurnResult).Status)
		require.False(t, first.done)
		w.decide("c1", event.DecisionApprove, "")
	})
	w.then(func() { require.Equal(t, signals.TurnCompleted, first.result.(signals.TurnResult).Status) })
	w.run(next)
	require.Equal(t, []string{"m1.0.1", "m2.0.1", "m3.0.1", "m1.0.2"}, f.modelled())
	require.Equal(t, []string{"c1"}, f.tools)
}

// TestMessageCancelsWhatWaits: calls of the current turn, and of a turn that was set aside.
func TestMessageCancelsWhatWaits(t *testing.T) {
	for _, parked := range []bool{false, true} {
		w := newFixture(t)
		w.onWaiting = event.OnWaitingCancel
		w.model = askingFor(map[string]string{"m1": "c1"})
		w.then(func() { w.post("m1", "go") })
		if parked {
			w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
		}
		var out *answer
		w.then(func() { out = w.update(signals.UpdateTurn, says("m2", "stop")) })
		w.then(func() {
			require.Equal(t, signals.TurnCompleted, out.result.(signals.TurnResult).Status)
			require.Equal(t, signals.ThreadIdle, w.state().Status)
			w.decide("c1", event.DecisionApprove, "")
		})
		w.run(workflows.Input{})
		require.Equal(t, "m2", w.models[len(w.models)-1].ReplyTo)
		require.Empty(t, w.tools)
		require.Equal(t, event.DecisionDeny, stored[event.Approval](w.fakes, event.TypeApproval)[0].Decision)
		require.Equal(t, "conflict", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem)
	}
}
