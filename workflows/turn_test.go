package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func TestPlainTurn(t *testing.T) {
	w := newFixture(t)
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadIdle, s.Status)
		require.Equal(t, 2, s.Usage.InputTokens+s.Usage.OutputTokens)
		require.Equal(t, []string{"status", "message", "message", "final", "turn_ended"}, w.types(), "S0-38 S0-28")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e1.0.1: ok"}, w.messages())
	require.Equal(t, step.Ref{Namespace: "ns", ThreadID: "t1"}, w.models[0].Thread)
	require.Equal(t, []string{"status", "message", "message", "final", "turn_ended", "status"}, w.types())
}

func TestFirstEvent(t *testing.T) {
	w := newFixture(t)
	first := says("e1", "hello")
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice"}, Title: "A title", First: &first}})
	require.Equal(t, []string{"e1: hello", "e1.0.1: ok"}, w.messages())
	require.Equal(t, "alice", w.models[0].Agent)
}

func TestOneAtATimeInOrder(t *testing.T) {
	w := newFixture(t)
	w.then(func() {
		for _, id := range []string{"e1", "e2", "e3"} {
			w.post(id, id)
		}
		w.post("e2", "again")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: e1", "e1.0.1: ok", "e2: e2", "e2.0.1: ok", "e3: e3", "e3.0.1: ok"}, w.messages(), "S0-T6, and duplicates are ignored")
}

func TestToolBatch(t *testing.T) {
	w := newFixture(t)
	w.model = script(plain("c1"), quick("c2"), plain("c3"))
	var together sync.WaitGroup
	together.Add(2)
	w.tool = func(_ context.Context, in step.Tool) (step.ToolReply, error) {
		if in.ToolCallID != "c2" {
			// Each waits until both run.
			together.Done()
			together.Wait()
		}
		return step.ToolReply{}, nil
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.ElementsMatch(t, []string{"c1", "c2", "c3"}, w.tools, "S2-12 in parallel, each once")
	require.Len(t, w.models, 2, "S2-13 the model is called once for the batch")
	require.Equal(t, "e1.0.2: done", w.messages()[5])
}

func TestQuickToolThatFailsRunsAsActivity(t *testing.T) {
	w := newFixture(t)
	w.model = script(quick("c1"))
	local := 0
	w.tool = func(ctx context.Context, _ step.Tool) (step.ToolReply, error) {
		if isLocal(ctx) {
			local++
			return step.ToolReply{}, temporal.NewNonRetryableApplicationError("not here", "x", nil)
		}
		return step.ToolReply{}, nil
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Equal(t, 1, local)
	require.Equal(t, []string{"c1", "c1"}, w.tools)
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: ran", "e1.0.2: done"}, w.messages())
}

func TestToolRunLostForGood(t *testing.T) {
	w := newFixture(t)
	w.model = script(plain("c1"))
	w.tool = func(context.Context, step.Tool) (step.ToolReply, error) {
		return step.ToolReply{}, temporal.NewNonRetryableApplicationError("no such call", step.ErrTypeConfig, nil)
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: Error: no such call", "e1.0.2: done"}, w.messages(), "S4-72 the model sees the failure and goes on")
}

func TestModelFailure(t *testing.T) {
	w := newFixture(t)
	fail := true
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if fail {
			return step.ModelReply{}, temporal.NewNonRetryableApplicationError("openai answered 401: bad key", step.ErrTypeModel, nil)
		}
		return reply(in, "fine"), nil
	}
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {
		s := w.state()
		require.Equal(t, signals.ThreadIdle, s.Status)
		require.Len(t, s.Failed, 1, "S2-16")
		require.Equal(t, "openai answered 401: bad key", s.Failed[0].Error)
		failures := stored[event.Failure](w.fakes, event.TypeError)
		require.Equal(t, []event.Failure{{EventID: "e1", MessageID: "e1.0.1", Error: "openai answered 401: bad key", Retryable: true}}, failures)
		fail = false
		w.post("e2", "still there?")
	})
	w.then(func() { w.control(signals.ControlRetry) })
	w.then(func() { require.Empty(t, w.state().Failed, "S2-17") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e2: still there?", "e2.0.1: fine", "e1~1.0.1: fine"}, w.messages(), "the thread stays usable, and the failed event can be retried")
}

func TestModelIsRetried(t *testing.T) {
	w := newFixture(t)
	failures := 0
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if failures++; failures < 4 {
			return step.ModelReply{}, errors.New("503")
		}
		return reply(in, "at last"), nil
	}
	w.then(func() { w.post("e1", "hello") })
	w.then(func() {})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e1.0.1: at last"}, w.messages())
	require.Empty(t, stored[event.Failure](w.fakes, event.TypeError))
}

func TestStepLimit(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		return reply(in, "", plain(in.MessageID+"-call")), nil
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	require.Len(t, w.models, 5)
	require.Len(t, w.tools, 5)
	require.Contains(t, w.messages()[len(w.messages())-1], "limits.maxSteps")
}

// TestSteerAtStepLimit: a message that no agent would answer in this turn waits for its own turn,
// and no hook runs for a call that is not made.
func TestSteerAtStepLimit(t *testing.T) {
	f := newFakes(t)
	w := hookedWorld(t, f, setOf(t, []hook.Hook{function("watch", event.TypeLLMCall)}))
	w.onWaiting = event.OnWaitingHold
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "e2" {
			return reply(in, "I shall"), nil
		}
		return reply(in, "", asks(in.MessageID+"-call")), nil
	}
	w.then(func() { w.post("e1", "go") })
	for i := range 5 {
		if i == 4 {
			w.then(func() {
				p := says("e2", "mind the gap")
				p.OnBusy = event.OnBusySteer
				w.SignalWorkflow(signals.SignalPost, p)
			})
		}
		w.then(func() { w.decide(fmt.Sprintf("e1.0.%d-call", i+1), event.DecisionApprove, "") })
	}
	w.run(workflows.Input{})
	require.Equal(t, "e2.0.1: I shall", w.messages()[len(w.messages())-1])
	require.Len(t, w.models, 6)
	asked := []string{}
	for _, in := range f.asked {
		asked = append(asked, in.EventID)
	}
	require.Equal(t, []string{"e1.0.1.llm", "e1.0.2.llm", "e1.0.3.llm", "e1.0.4.llm", "e1.0.5.llm", "e2.0.1.llm"}, asked)
}

func TestInterruptWhileModelRuns(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID != "e1" {
			return reply(in, "ok"), nil
		}
		w.control(signals.ControlInterrupt)
		return w.cutOff()
	}
	var turn *answer
	w.then(func() { turn = w.update(signals.UpdateTurn, says("e1", "hello")) })
	w.then(func() {
		require.Equal(t, signals.TurnResult{EventID: "e1", Status: signals.TurnInterrupted, Error: "test", LastRecord: "e1.turn_ended"}, turn.result)
		require.Equal(t, signals.ThreadIdle, w.state().Status)
		w.post("e2", "go on")
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e2: go on", "e2.0.1: ok"}, w.messages())
	require.Equal(t, []step.Notify{{Thread: step.Ref{Namespace: "ns", ThreadID: "t1"}, TraceID: "e1", Reason: "test"}}, w.awaitNotices(1), "the running step is told at once")
	require.Len(t, stored[event.Final](w.fakes, event.TypeFinal), 2, "S1-37 each turn ends with a terminal record")
}

func TestInterruptByMessage(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID != "e1" {
			return reply(in, "ok"), nil
		}
		w.post("e2", "can wait")
		p := says("e3", "stop, do this")
		p.OnBusy = event.OnBusyInterrupt
		w.SignalWorkflow(signals.SignalPost, p)
		return w.cutOff()
	}
	w.then(func() { w.post("e1", "hello") })
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: hello", "e3: stop, do this", "e3.0.1: ok", "e2: can wait", "e2.0.1: ok"}, w.messages())
}

func TestSteer(t *testing.T) {
	w := newFixture(t)
	w.onWaiting = event.OnWaitingHold
	w.model = script(asks("c1"))
	w.then(func() { w.post("e1", "go") })
	w.then(func() {
		p := says("e2", "and mind the gap")
		p.OnBusy = event.OnBusySteer
		w.SignalWorkflow(signals.SignalPost, p)
	})
	w.then(func() { w.decide("c1", event.DecisionApprove, "") })
	w.run(workflows.Input{})
	require.Len(t, w.models, 2)
	require.Equal(t, "e2", w.models[1].ReplyTo)
	require.Equal(t, []string{"e1: go", "e1.0.1: ", "c1.result: ran", "e2: and mind the gap", "e1.0.2: done"}, w.messages())
}

func TestSeveralAgents(t *testing.T) {
	w := newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Agent == "alice" {
			return reply(in, "@bob you know this"), nil
		}
		return reply(in, "I do"), nil
	}
	w.then(func() { w.post("e1", "@alice who knows?") })
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice", "bob"}}})
	require.Equal(t, []string{"e1: @alice who knows?", "e1.0.1: @bob you know this", "e1.1.1: I do"}, w.messages())
	require.Equal(t, "e1.0.1", w.models[1].ReplyTo)
}

func TestUnansweredEventIsStored(t *testing.T) {
	w := newFixture(t)
	w.then(func() {
		w.SignalWorkflow(signals.SignalPost, signals.Post{ID: "f1", Type: "file.changed", Payload: []byte(`{"path":"a"}`)})
	})
	w.then(func() {
		require.Equal(t, []string{"status", "file.changed", "status", "turn_ended"}, w.types(), "without waiting for what comes next")
	})
	w.run(workflows.Input{})
	require.Empty(t, w.models, "S0-26")
}
