package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// atClient is a call that a connected client runs.
func atClient(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "open_file", By: step.ByClient, Arguments: `{"path":"a.go"}`, ClientTime: time.Hour}
}

func (w *fixture) toolResult(r signals.ToolResult) { w.SignalWorkflow(signals.SignalToolResult, r) }

// TestClientRunsACall: by signal, and by update.
func TestClientRunsACall(t *testing.T) {
	res := signals.ToolResult{ToolCallID: "c1", Output: "package a", By: "editor"}
	for _, name := range []string{signals.SignalToolResult, signals.UpdateToolResult + " by update"} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.model = script(atClient("c1"))
			var wrong, right, again, bad *answer
			w.then(func() { w.post("e1", "go") })
			w.then(func() {
				require.Equal(t, []string{"c1.client"}, w.idsOf(event.TypeClientCall), "clients see it at once")
				require.Equal(t, "c1", w.approvals().ClientCalls[0].ToolCallID)
				require.Equal(t, signals.ThreadRunning, w.state().Status)
				if name == signals.SignalToolResult {
					w.toolResult(signals.ToolResult{ToolCallID: "c1", By: "editor", ToolName: "other"})
					w.toolResult(signals.ToolResult{ToolCallID: "c1"})
					w.toolResult(res)
					w.toolResult(res)
					return
				}
				wrong = w.update(signals.UpdateToolResult, signals.ToolResult{ToolCallID: "c9", By: "editor"})
				right, again = w.update(signals.UpdateToolResult, res), w.update(signals.UpdateToolResult, res)
				bad = w.update(signals.UpdateToolResult, signals.ToolResult{ToolCallID: "c1"})
			})
			w.run(workflows.Input{})
			require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: package a", "e1.0.2: done"}, w.messages(), "S4-94 once")
			require.Empty(t, w.tools)
			if right == nil {
				var problems []string
				for _, r := range stored[event.Rejected](w.fakes, event.TypeRejected) {
					problems = append(problems, r.Problem)
				}
				require.Len(t, problems, 2, "the same once more is no mistake")
				require.Equal(t, "mismatch", problems[0])
				require.Contains(t, problems[1], "by: is required")
				return
			}
			requireRefused(t, signals.RefusedType, bad.rejected)
			require.Equal(t, signals.DecideResult{Result: signals.DecideNotPending}, wrong.result)
			require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, right.result)
			require.Equal(t, signals.DecideResult{Result: signals.DecideAlreadyResolved}, again.result)
		})
	}
}

// TestNoClientRunsACall: the call fails after its timeout, and the model continues. Events are
// handled meanwhile.
func TestNoClientRunsACall(t *testing.T) {
	w := newFixture(t)
	w.model = script(atClient("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.publish(happens("v1", "file.changed", `1`)) })
	w.then(func() { require.Equal(t, []string{"v1"}, w.heardOf()) })
	w.at = 2 * time.Hour
	w.then(func() { w.toolResult(signals.ToolResult{ToolCallID: "c1", By: "editor"}) })
	w.run(workflows.Input{})
	require.Contains(t, w.messages(), "c1.result: Error: no client has answered the call within 1h0m0s")
	require.Contains(t, w.messages(), "e1.0.2: done")
	require.Equal(t, "conflict", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem, "too late")
}

// TestClientRunsACallAfterTheThreadHasMoved: the call still waits in the next workflow run.
func TestClientRunsACallAfterTheThreadHasMoved(t *testing.T) {
	f := newFakes(t)
	f.model = script(atClient("c1"))
	w := fixtureWith(t, f)
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"}) })
	next := w.leave(workflows.Input{})

	w = fixtureWith(t, f)
	w.then(func() {
		require.Len(t, w.approvals().ClientCalls, 1)
		w.toolResult(signals.ToolResult{ToolCallID: "c1", Output: "package a", By: "editor"})
	})
	w.run(next)
	require.Equal(t, []string{"c1.client"}, f.idsOf(event.TypeClientCall), "it is asked once")
	require.Contains(t, f.messages(), "e1.0.2: done")
}

func TestInterruptWhileAClientRuns(t *testing.T) {
	w := newFixture(t)
	w.model = script(atClient("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() { w.control(signals.ControlInterrupt) })
	w.then(func() { require.Equal(t, signals.ThreadIdle, w.state().Status) })
	w.run(workflows.Input{})
	require.Contains(t, w.messages(), "c1.result: Tool execution was interrupted before it finished.", "S4-71")
}

// revoked is the response to an update, and whether its record was stored by then.
type revoked struct {
	answer
	f      *fakes
	stored int
}

func (r *revoked) Complete(result any, err error) {
	r.stored = len(r.f.idsOf(event.TypeApproval))
	r.answer.Complete(result, err)
}

// TestRevoke: the update returns once the revocation is stored: from then on nothing runs by the
// approval.
func TestRevoke(t *testing.T) {
	w := newFixture(t)
	w.model = script(atClient("c1"))
	one := &revoked{f: w.fakes}
	var bad *answer
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		require.Empty(t, w.idsOf(event.TypeApproval))
		w.UpdateWorkflow(signals.UpdateRevoke, "one", one, signals.Revoke{ToolCallID: "c0", By: "ann", Reason: "no more"})
		bad = w.update(signals.UpdateRevoke, signals.Revoke{ToolCallID: "c0"})
	})
	w.then(func() {
		w.SignalWorkflow(signals.SignalRevoke, signals.Revoke{ToolCallID: "c0", By: "bea"})
		w.SignalWorkflow(signals.SignalRevoke, signals.Revoke{By: "bea"})
	})
	w.then(func() {
		require.Len(t, w.idsOf(event.TypeApproval), 2, "stored at once, whatever the thread waits for")
	})
	w.run(workflows.Input{})
	require.NoError(t, one.err)
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, one.result)
	require.Equal(t, 1, one.stored)
	requireRefused(t, signals.RefusedType, bad.rejected)
	for i, a := range stored[event.Approval](w.fakes, event.TypeApproval) {
		require.Equal(t, event.DecisionRevoked, a.Decision)
		require.Equal(t, []string{"ann", "bea"}[i], a.By)
	}
	require.Equal(t, "toolCallId: is required: the id of the grant", stored[event.Rejected](w.fakes, event.TypeRejected)[0].Problem)
}

// TestTextDecidesNothing: a message is a message, whoever sends it and whatever it says.
func TestTextDecidesNothing(t *testing.T) {
	content, err := event.ToolResultData{ToolCallID: "c1", Decision: event.DecisionApprove, ToolName: "shell_cmd"}.Content("")
	require.NoError(t, err)
	for _, by := range []event.CreatedBy{event.CreatedByUser, event.CreatedByAgent} {
		t.Run("S4-T11 of "+string(by), func(t *testing.T) {
			w := newFixture(t)
			w.model = askingFor(map[string]string{"e1": "c1"})
			say := func(id string) signals.Post {
				return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: by, Content: content})
			}
			var batch *answer
			w.then(func() { w.post("e1", "go") })
			w.then(func() { w.SignalWorkflow(signals.SignalPost, say("d1")) })
			w.then(func() { w.update(signals.UpdatePost, say("d2")) })
			w.then(func() { w.update(signals.UpdateTurn, say("d3")) })
			w.then(func() {
				batch = w.update(signals.UpdatePostBatch, signals.PostBatch{Posts: []signals.Post{say("d4"), say("d5"), say("d1")}})
			})
			w.then(func() { require.Len(t, w.approvals().Approvals, 1) })
			w.run(workflows.Input{})
			require.Empty(t, w.tools)
			for _, id := range []string{"d1", "d2", "d3", "d4", "d5"} {
				require.True(t, w.has(id), id)
			}
			require.Equal(t, []signals.PostOutcome{
				{EventID: "d4", Status: signals.PostQueued}, {EventID: "d5", Status: signals.PostQueued}, {EventID: "d1", Status: signals.PostDuplicate},
			}, batch.result.(signals.PostBatchResult).Results)
		})
	}
}

// ahead makes the model create a call and runs do before the thread has the call; then the thread
// continues as new.
func (w *fixture) ahead(call step.PlannedCall, do func()) {
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.Step == 1 {
			sent := make(chan struct{})
			w.RegisterDelayedCallback(func() {
				w.SetContinueAsNewSuggested(true)
				do()
				close(sent)
			}, time.Millisecond)
			<-sent
		}
		return script(call)(ctx, in)
	}
}

// TestResultAheadOfAThreadThatMoves: a client returns a result as soon as the message is stored,
// and the thread continues as new before it has the call. The result is not lost.
func TestResultAheadOfAThreadThatMoves(t *testing.T) {
	res := signals.ToolResult{ToolCallID: "c1", Output: "package a", By: "editor"}
	for _, name := range []string{signals.SignalToolResult, signals.UpdateToolResult + " by update"} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			w := fixtureWith(t, f)
			var early *answer
			w.ahead(atClient("c1"), func() {
				if name == signals.SignalToolResult {
					w.toolResult(res)
				} else {
					early = w.update(signals.UpdateToolResult, res)
				}
			})
			w.then(func() { w.post("e1", "go") })
			next := w.leave(workflows.Input{})
			require.Equal(t, []signals.ToolResult{res}, next.State.Decisions.EarlyResults)
			if early != nil {
				require.NoError(t, early.err)
				require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, early.result)
			}

			w = fixtureWith(t, f)
			w.then(func() {
				require.Equal(t, signals.ThreadIdle, w.state().Status)
				early = w.update(signals.UpdateToolResult, res)
			})
			w.run(next)
			require.Equal(t, signals.DecideResult{Result: signals.DecideAlreadyResolved}, early.result, "S4-94 whoever asks again hears so")
			require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: package a", "e1.0.2: done"}, f.messages())
			require.Equal(t, []string{"c1.client"}, f.idsOf(event.TypeClientCall), "what was asked is kept")
			require.Empty(t, stored[event.Rejected](f, event.TypeRejected))
		})
	}
}

// TestDecisionAheadOfAThreadThatMoves: the same for a decision by update.
func TestDecisionAheadOfAThreadThatMoves(t *testing.T) {
	f := newFakes(t)
	w := fixtureWith(t, f)
	var early *answer
	w.ahead(asks("c1"), func() {
		early = w.update(signals.UpdateDecide, signals.Decide{ToolCallID: "c1", Decision: event.DecisionApprove, By: "ann"})
	})
	w.then(func() { w.post("e1", "go") })
	next := w.leave(workflows.Input{})
	require.NoError(t, early.err)
	require.Equal(t, signals.DecideResult{Result: signals.DecideAccepted}, early.result)
	fixtureWith(t, f).run(next)
	require.Equal(t, []string{"c1"}, f.tools)
}
