package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/rule"
)

// rules returns the registered rules. They enter history when they change.
func (t *conversation) rules(ctx workflow.Context) []rule.Spec {
	read := func(workflow.Context) any { return t.ruleSet.Specs() }
	shown := workflow.MutableSideEffectOptions{Summary: "the registered rules"}
	var specs []rule.Spec
	if err := workflow.MutableSideEffectWithOptions(ctx, "rules", shown, read, equalJSON).Get(&specs); err != nil {
		panic(fmt.Sprintf("reading the rules that history has: %v", err))
	}
	return specs
}

// lifecycle publishes a change of the thread itself.
func (t *conversation) lifecycle(ctx workflow.Context, typ, recordID string) {
	t.state.Lifecycle(workflow.Now(ctx), typ, recordID, t.rules(ctx))
	t.log(ctx)
}

// log writes the thread's log lines to the worker's log.
func (t *conversation) log(ctx workflow.Context) {
	logger := workflow.GetLogger(ctx)
	for _, line := range t.state.Log.Take() {
		switch line.Level {
		case thread.LogError:
			logger.Error(line.Text, line.Args...)
		case thread.LogWarn:
			logger.Warn(line.Text, line.Args...)
		case thread.LogInfo:
			logger.Info(line.Text, line.Args...)
		}
	}
}

// handle runs the function or the processor of the rule that matches an environment event, before
// the rule's agent runs.
func (t *activeTurn) handle(ctx workflow.Context) {
	s := t.state
	h := t.turn.Handling
	if h == nil || t.interrupted(ctx) {
		return
	}
	switch h.Stage {
	case thread.HandlingFunction:
		t.flushIfOverloaded(ctx)
		input := t.turn.EventStep()
		end := t.step()
		name, what := step.ActivityHandleEvent, "rule "+h.Rule.Name
		if background := t.turn.Background(); background != "" {
			name, what = background, h.Rule.Name
		}
		err := workflow.ExecuteActivity(activity(ctx, what), name, input).Get(ctx, nil)
		end()
		ended := err == nil && input.Ends != ""
		if t.interrupted(ctx) && !ended {
			return
		}
		if err != nil {
			why, _ := explain(err)
			t.turn.FunctionFailed(workflow.Now(ctx), why)
			break
		}
		s.Outbox.Flushed(input.Flush)
		t.turn.FunctionDone(ended)
	case thread.HandlingProcessor:
		d, ok := t.byProcessor(ctx, h.Rule)
		if !ok {
			return
		}
		t.turn.ApplyProcessorDecision(workflow.Now(ctx), d)
	case thread.HandlingDone:
	}
	t.log(ctx)
}

// byProcessor runs the processor that a rule names, regardless of the types that it declares.
func (t *activeTurn) byProcessor(ctx workflow.Context, by rule.Spec) (step.HookDecision, bool) {
	e := t.turn.RuleEvent()
	if _, pending := t.turn.HooksPending(e); pending {
		return t.resume(ctx, e)
	}
	for _, spec := range t.specs(ctx) {
		if spec.Kind == hook.KindProcessor && spec.Name == by.Processor {
			// No default processing follows, so a failure always fails the event.
			spec.Filter, spec.OnFailure = hook.Filter{}, hook.FailClosed
			return t.runHooks(ctx, e, []hook.Spec{spec})
		}
	}
	return decisionForMissingProcessor(by), true
}

func decisionForMissingProcessor(by rule.Spec) step.HookDecision {
	return step.HookDecision{
		Outcome: event.OutcomeFailed, By: by.Name,
		Error: fmt.Sprintf("rule %s names processor %q, which does not exist; register it, or change the rule, and retry the event", by.Name, by.Processor),
	}
}
