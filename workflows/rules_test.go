package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

func TestEventWakesAnAgent(t *testing.T) {
	w := newFixture(t)
	w.then(func() { w.publish(happens("e1", "file.changed", `{"path":"a.go"}`)) })
	w.then(func() {
		w.publish(happens("e1", "file.changed", `{"path":"b.go"}`))
		w.publish(happens("e2", "file.changed", `{"path":"c.go"}`))
	})
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice"}}})
	require.Equal(t, []string{"e1", "e2"}, w.heardOf(), "S3-10 S3-11 S3-18")
	in := w.models[0]
	require.Equal(t, "alice", in.Agent)
	require.Equal(t, "Process event: file.changed", in.Observe.Query, "S3-42")
	require.Equal(t, rule.FallbackPrompt, in.Instructions, "S3-27")
	require.Equal(t, "e1.0.1", in.MessageID)
	stored := stored[event.EnvEvent](w.fakes, event.TypeEnv)
	require.Len(t, stored, 2)
	require.JSONEq(t, `{"path":"a.go"}`, string(stored[0].Payload), "S3-09")
	require.Equal(t, "t1", stored[0].Metadata.TriggerSessionID)
	require.Equal(t, []string{"e1.0.1.final", "e2.0.1.final"}, w.idsOf(event.TypeFinal), "S1-23")
}

func TestUnmatchedEvent(t *testing.T) {
	none, err := rule.NewSet(rule.Config{WithoutDefaults: true})
	require.NoError(t, err)
	w := worldOf(t, newFakes(t), &workflows.Workflows{Rules: none})
	var turn *answer
	w.then(func() {
		turn = w.update(signals.UpdateTurn, signals.EnvPost(happens("e1", "file.changed", `1`)))
		w.post("e2", "still there?")
	})
	w.run(workflows.Input{})
	require.Equal(t, signals.TurnUnanswered, turn.result.(signals.TurnResult).Status, "S3-13 it is no error")
	require.True(t, w.has("e1.unmatched"))
	require.Len(t, w.models, 1)
	require.Equal(t, "e2", w.models[0].EventID)
}

func TestFunctionsHandleEventsInOrder(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Events: []string{"file.*"}, Priority: 20, Function: handling, Timeout: time.Minute})
	var running, most atomic.Int32
	w.function = func(_ context.Context, in step.Event) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if in.EventID == "e0" {
			w.publish(happens("e3", "file.changed", `3`))
		}
		return nil
	}
	w.then(func() {
		for i := range 3 {
			w.publish(happens(fmt.Sprintf("e%d", i), "file.changed", fmt.Sprint(i)))
		}
	})
	w.run(workflows.Input{})
	var order []string
	for _, in := range w.handled {
		order = append(order, in.EventID)
	}
	require.Equal(t, []string{"e0", "e1", "e2", "e3"}, order, "S3-11 S3-22")
	require.EqualValues(t, 1, most.Load(), "S3-12")
	require.Empty(t, w.models, "S3-19")
	in := w.handled[0]
	require.Equal(t, "file.*", in.Rule)
	require.Equal(t, time.Minute, in.Timeout)
	require.Contains(t, ids(in.Flush.Records), "e0")
}

func TestFunctionIsRetried(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Name: "f", Events: []string{"file.*"}, Priority: 20, Function: handling, Agent: &rule.Agent{}})
	w.function = func(context.Context, step.Event) error {
		if len(w.handled) < 3 {
			return failing("not yet")
		}
		return nil
	}
	began := w.Now()
	var took time.Duration
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		took = w.Now().Sub(began)
		return reply(in, "ok"), nil
	}
	w.then(func() { w.publish(happens("e1", "file.changed", `1`)) })
	w.run(workflows.Input{})
	require.Len(t, w.handled, 3)
	require.Equal(t, time.Minute+3*time.Second, took.Round(time.Second), "it waits 1 and 2 seconds, and then the agent comes")
	require.Equal(t, []string{"e1"}, w.heardOf())
	require.Empty(t, stored[event.Failure](w.fakes, event.TypeError))
}

func TestFunctionFailsForGood(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Name: "f", Events: []string{"file.*"}, Priority: 20, Function: handling})
	broken := true
	w.function = func(_ context.Context, in step.Event) error {
		if broken && in.EventID == "e1" {
			return notConfigured("disk full")
		}
		return nil
	}
	w.then(func() {
		w.publish(happens("e1", "file.changed", `1`))
		w.publish(happens("e2", "file.changed", `2`))
	})
	w.then(func() {
		require.Equal(t, "e2", w.handled[1].EventID, "S3-24 S3-A6 the events behind it are handled")
		require.Equal(t, "the function of rule f failed: disk full", w.state().Failed[0].Error, "S2-16")
		broken = false
		w.control(signals.ControlRetry)
	})
	w.then(func() {
		require.Len(t, w.handled, 3, "S2-17")
		require.Empty(t, w.state().Failed)
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1.error"}, w.idsOf(event.TypeError))
}

func TestInterruptWhileAFunctionRuns(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Name: "f", Events: []string{"file.*"}, Priority: 20, Function: handling, Agent: &rule.Agent{}})
	w.function = func(_ context.Context, in step.Event) error {
		if in.EventID != "e1" {
			return nil
		}
		w.control(signals.ControlInterrupt)
		_, err := w.cutOff()
		return err
	}
	var turn *answer
	w.then(func() {
		turn = w.update(signals.UpdateTurn, signals.EnvPost(happens("e1", "file.changed", `1`)))
		w.publish(happens("e2", "file.changed", `2`))
	})
	w.run(workflows.Input{})
	require.Equal(t, signals.TurnInterrupted, turn.result.(signals.TurnResult).Status)
	require.Equal(t, "e1", w.awaitNotices(1)[0].TraceID, "the function is told at once")
	require.Equal(t, []string{"e2"}, w.heardOf(), "the agent of the first is not woken")
	require.Empty(t, stored[event.Failure](w.fakes, event.TypeError))
}

func TestProcessorOfARule(t *testing.T) {
	sorter := hook.Processor{Name: "sorter", EventType: "anything.else", Process: noProcess, OnFailure: hook.FailClosed}
	set := &workflows.Workflows{
		Hooks: setOf(t, nil, sorter),
		Rules: rulesOf(t, rule.Rule{Name: "p", Events: []string{"file.*"}, Priority: 20, Processor: "sorter"},
			rule.Rule{Name: "q", Events: []string{"mail.*"}, Priority: 20, Processor: "none"}),
	}
	w := worldOf(t, newFakes(t), set)
	w.hook = func(in step.Hook, _ string) said {
		switch in.EventID {
		case "e1":
			return said{produced: []hook.Produced{hook.Message(event.CreatedByUser, "sorter", "sorted")}}
		case "e2":
			return said{failed: "it broke"}
		}
		return said{}
	}
	w.then(func() {
		for i := range 3 {
			w.publish(happens(fmt.Sprintf("e%d", i+1), "file.changed", `1`))
		}
		w.publish(happens("m1", "mail.came", `1`))
	})
	w.then(func() {
		failed := w.state().Failed
		require.Len(t, failed, 2)
		require.Contains(t, failed[0].Error, "sorter failed: it broke")
		require.Equal(t, `rule q names processor "none", which does not exist; register it, or change the rule, and retry the event`, failed[1].Error)
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1: overwritten", "e2: failed", "e3: passed"}, w.heard())
	require.Len(t, w.models, 1, "what it makes is processed in its place")
	require.Equal(t, "e1", w.models[0].TraceID)
}

// TestProcessorOfARuleWhileTheThreadMoves: the next run receives its decision.
func TestProcessorOfARuleWhileTheThreadMoves(t *testing.T) {
	set := &workflows.Workflows{
		Hooks: setOf(t, nil, hook.Processor{Name: "sorter", EventType: "anything.else", Process: noProcess}),
		Rules: rulesOf(t, rule.Rule{Name: "p", Events: []string{"file.*"}, Priority: 20, Processor: "sorter"}),
	}
	f := newFakes(t)
	w := worldOf(t, f, set)
	w.SetDetachedChildWait(false)
	blocked := make(chan struct{})
	f.hook = func(step.Hook, string) said {
		w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"})
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signals.SignalControl, signals.Control{Action: "dance"}) }, 2*time.Millisecond)
		<-blocked
		return said{}
	}
	w.then(func() { w.publish(happens("e1", "file.changed", `1`)) })
	next := w.leave(workflows.Input{})
	close(blocked)
	require.Equal(t, thread.HandlingProcessor, next.State.Turns.Current.Handling.Stage)
	require.Len(t, next.State.Turns.Current.Intercepting, 1)

	f.hook = nil
	w = worldOf(t, f, set)
	asked := box[struct{}](w, signals.HookWorkflowID("ns", "t1", "e1.rule"), step.SignalReport, nil)
	w.then(func() {
		require.NotEmpty(t, asked.all())
		w.SignalWorkflow(step.SignalHookDecided, step.HookDecided{EventID: "e1.rule", Decision: step.HookDecision{
			Outcome: event.OutcomeOverwritten, By: "sorter", Produced: []hook.Produced{hook.Message(event.CreatedByUser, "sorter", "sorted")},
			Hooks: []event.HookOutcome{outcome("sorter", event.OutcomeOverwritten, 1)},
		}})
	})
	w.run(next)
	require.Equal(t, []string{"e1: overwritten"}, f.heard())
	require.Len(t, f.models, 1)
	require.True(t, strings.HasSuffix(f.messages()[0], ": sorted"))
}

// TestRulesAreThoseOfTheMoment: a registered rule applies to the next event.
func TestRulesAreThoseOfTheMoment(t *testing.T) {
	set := rulesOf(t)
	w := worldOf(t, newFakes(t), &workflows.Workflows{Rules: set})
	w.then(func() { w.publish(happens("e1", "file.changed", `1`)) })
	w.then(func() {
		require.NoError(t, set.Register(rule.Rule{Events: []string{"file.*"}, Priority: 50, Function: handling}))
		w.publish(happens("e2", "file.changed", `2`))
	})
	w.run(workflows.Input{})
	require.Equal(t, []string{"e1"}, w.heardOf())
	require.Len(t, w.handled, 1, "S3-21")
	require.Equal(t, "e2", w.handled[0].EventID)
}

// TestLifecycleEvents: the application's rules handle them.
func TestLifecycleEvents(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Name: "life", Events: []string{"session.*"}, Priority: 60, Function: handling})
	w.then(func() { w.post("e1", "hello") })
	w.run(workflows.Input{Start: signals.Start{Title: "Plans"}})
	created := stored[event.EnvEvent](w.fakes, event.TypeEnv)
	require.Equal(t, event.TypeSessionCreated, created[0].Type, "S3-53")
	require.Equal(t, created[0].ID, w.handled[0].EventID)
	require.JSONEq(t, `{"sessionId":"t1","title":"Plans","agents":null}`, string(created[0].Payload))
}

// TestToolEvents: the application's rules handle the ends of tools.
func TestToolEvents(t *testing.T) {
	w := ruledWorld(t, newFakes(t), rule.Rule{Name: "tools", Events: []string{"tool.*"}, Priority: 60, Agent: &rule.Agent{Prompt: "Look."}})
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		return script(plain("c"+in.EventID[:2]))(ctx, in)
	}
	w.then(func() { w.post("e1", "go") })
	w.run(workflows.Input{})
	told := stored[event.EnvEvent](w.fakes, event.TypeEnv)
	require.Len(t, told, 1, "S3-57 what a handler of it does is not told in turn")
	require.Equal(t, event.TypeToolExecuted, told[0].Type)
	require.Equal(t, []string{told[0].ID}, w.heardOf())
	require.Len(t, w.tools, 2)
}
