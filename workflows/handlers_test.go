package workflows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func rawPayload(encoding, data string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)})
}

func TestMalformedSignals(t *testing.T) {
	inputs := map[string]any{
		"no payload":          converter.NewRawValue(nil),
		"null":                nil,
		"text":                "hello",
		"a list":              []int{1, 2},
		"an empty object":     struct{}{},
		"not JSON":            rawPayload("json/plain", `{"id":`),
		"an unknown encoding": rawPayload("binary/strange", "\x00\xff"),
		"no encoding":         converter.NewRawValue(&commonpb.Payload{Data: []byte("{}")}),
		"wrong types":         map[string]any{"id": 7, "toolCallId": []int{}, "action": map[string]any{}},
		"very long":           strings.Repeat("x", 100_000),
	}
	for _, signal := range []string{signals.SignalPost, signals.SignalDecide, signals.SignalControl} {
		for name, input := range inputs {
			t.Run(signal+" "+name, func(t *testing.T) {
				w := newFixture(t)
				w.then(func() { w.SignalWorkflow(signal, input) })
				w.then(func() {
					rejected := stored[event.Rejected](w.fakes, event.TypeRejected)
					require.Len(t, rejected, 1, "an audit record is stored at once")
					require.Equal(t, signal, rejected[0].Signal)
					require.NotEmpty(t, rejected[0].Problem)
					require.LessOrEqual(t, len(rejected[0].Input), 1024)
					require.Equal(t, signals.ThreadIdle, w.state().Status)
				})
				w.then(func() { w.post("e1", "still there?") })
				w.run(workflows.Input{})
				require.Equal(t, []string{"e1: still there?", "e1.0.1: ok"}, w.messages(), "it changes nothing")
			})
		}
	}
}

func TestRefusedSignalsAreAudited(t *testing.T) {
	w := newFixture(t)
	w.then(func() {
		w.SignalWorkflow(signals.SignalPost, signals.Post{ID: "e1", Type: event.TypeToken, Payload: []byte(`{}`)})
		w.SignalWorkflow(signals.SignalControl, signals.Control{Action: "dance"})
		w.SignalWorkflow(signals.SignalControl, signals.Control{Action: signals.ControlRetry})
	})
	w.run(workflows.Input{})
	require.Len(t, stored[event.Rejected](w.fakes, event.TypeRejected), 3)
	require.Contains(t, stored[event.Rejected](w.fakes, event.TypeRejected)[0].Input, `"token"`)
	require.Empty(t, w.models)
}

func TestStartRefused(t *testing.T) {
	w := newFixture(t)
	w.ExecuteWorkflow(signals.ThreadWorkflow, workflows.Input{Start: signals.Start{Agents: []string{""}}})
	require.True(t, w.IsWorkflowCompleted())
	require.ErrorContains(t, w.GetWorkflowError(), "agents[0]")
	require.Empty(t, w.types(), "nothing is stored that no store takes")
}

func requireRefused(t *testing.T, typ string, err error) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, typ, app.Type())
}

func TestUpdateValidators(t *testing.T) {
	w := newFixture(t)
	w.onWaiting = event.OnWaitingHold
	w.model = script(asks("c1"))
	busy := says("e9", "x")
	busy.OnBusy = event.OnBusyReject
	refused := map[string]*answer{}
	w.then(func() {
		posted := w.update(signals.UpdatePost, says("e1", "go"))
		w.RegisterDelayedCallback(func() {
			require.NoError(t, posted.err)
			result := posted.result.(signals.PostResult)
			require.Positive(t, result.Room)
			require.Less(t, result.Room, 768<<10, "the event takes some")
			require.Equal(t, signals.PostResult{EventID: "e1", Status: signals.PostQueued, Room: result.Room}, result)
		}, 1)
	})
	w.then(func() {
		refused["no payload"] = w.update(signals.UpdatePost, signals.Post{ID: "e2"})
		refused["duplicate"] = w.update(signals.UpdatePost, says("e1", "go"))
		refused["conflict"] = w.update(signals.UpdatePost, says("e1", "go on"))
		refused["conflict in a turn"] = w.update(signals.UpdateTurn, says("e1", "go on"))
		refused["busy"] = w.update(signals.UpdatePost, busy)
		refused["turn without id"] = w.update(signals.UpdateTurn, says("", "x"))
		refused["turn of another thread"] = w.update(signals.UpdateTurn, signals.NewPost("e2", event.NewMessage{ThreadID: "t2", SenderID: "a", SenderType: event.CreatedByUser, Content: "x"}))
		refused["decide without by"] = w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove})
		refused["post of a list"] = w.update(signals.UpdatePost, []int{1})
		refused["decide of a text"] = w.update(signals.UpdateDecide, "approve")
	})
	w.then(func() {
		require.Zero(t, w.state().QueueLength)
		require.Len(t, w.approvals().Approvals, 1)
	})
	w.run(workflows.Input{})
	for name, a := range refused {
		require.Error(t, a.rejected, name)
		require.False(t, a.accepted, "%s: refused before it reaches history", name)
	}
	requireRefused(t, signals.RefusedType, refused["no payload"].rejected)
	requireRefused(t, signals.DuplicateType, refused["duplicate"].rejected)
	requireRefused(t, signals.ConflictType, refused["conflict"].rejected)
	requireRefused(t, signals.ConflictType, refused["conflict in a turn"].rejected)
	requireRefused(t, signals.BusyType, refused["busy"].rejected)
	requireRefused(t, signals.RefusedType, refused["turn without id"].rejected)
	requireRefused(t, signals.RefusedType, refused["turn of another thread"].rejected)
	requireRefused(t, signals.RefusedType, refused["decide without by"].rejected)
	require.Empty(t, stored[event.Rejected](w.fakes, event.TypeRejected), "the caller is told; no audit record")
}

func TestUpdateDecide(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	decide := func(d signals.Decide) *answer {
		d.By = "ann"
		return w.update(signals.UpdateDecide, d)
	}
	answers := map[signals.DecideOutcome]*answer{}
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		answers[signals.DecideNotPending] = decide(signals.Decide{ToolCallID: "c9", Decision: event.DecisionApprove})
	})
	w.then(func() {
		answers[signals.DecideMismatch] = decide(signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, ToolName: "note"})
	})
	w.then(func() {
		answers[signals.DecideAccepted] = decide(signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove})
	})
	w.then(func() {
		answers[signals.DecideAlreadyResolved] = decide(signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove})
	})
	w.then(func() {
		answers[signals.DecideConflict] = decide(signals.Decide{ToolCallID: "c1", Decision: event.DecisionDeny})
	})
	w.run(workflows.Input{})
	require.Len(t, answers, 5)
	for want, a := range answers {
		require.NoError(t, errors.Join(a.rejected, a.err))
		require.Equal(t, signals.DecideResult{Result: want}, a.result)
	}
	require.Equal(t, []string{"c1"}, w.tools, "S4-94")
}

func TestUpdateTurn(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	var first, again, late *answer
	w.then(func() { first = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.then(func() {
		require.True(t, first.accepted)
		require.False(t, first.done, "it waits for the end of the turn")
		again = w.update(signals.UpdateTurn, says("e1", "go"))
	})
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.then(func() { late = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.run(workflows.Input{})
	for _, a := range []*answer{first, again, late} {
		require.NoError(t, errors.Join(a.rejected, a.err))
		out := a.result.(signals.TurnResult)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, "done", out.Message.Content)
	}
	require.Len(t, w.models, 2, "the event was processed once")
}

func TestUpdateTurnOfForgottenEvent(t *testing.T) {
	const turns = 201 // one more than a thread remembers
	w := newFixture(t)
	w.then(func() {
		for i := range turns {
			w.post(fmt.Sprintf("e%d", i), "hello")
		}
	})
	var a *answer
	w.then(func() { a = w.update(signals.UpdateTurn, says("e0", "hello")) })
	w.run(workflows.Input{})
	requireRefused(t, signals.ProcessedType, a.rejected)
	require.Len(t, w.models, turns)
}

func TestUpdatesOfClosingThread(t *testing.T) {
	w := newFixture(t)
	w.model = script(asks("c1"))
	var running, queued, late *answer
	w.then(func() { running = w.update(signals.UpdateTurn, says("e1", "go")) })
	w.then(func() { queued = w.update(signals.UpdateTurn, says("e2", "waits")) })
	w.then(func() {
		w.control(signals.ControlClose)
		late = w.update(signals.UpdatePost, says("e3", "late"))
	})
	w.run(workflows.Input{})
	for _, a := range []*answer{running, queued} {
		require.NoError(t, a.err)
		require.Equal(t, signals.TurnInterrupted, a.result.(signals.TurnResult).Status, "nobody waits for ever")
	}
	requireRefused(t, signals.ClosedType, late.rejected)
}
