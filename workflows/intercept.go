package workflows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

var passed = step.HookDecision{Outcome: event.OutcomePassed, Silent: true}

// unmatched is the decision on an event that no hook or processor matches.
var unmatched = step.HookDecision{Outcome: event.OutcomePassed, Silent: true, Unmatched: true}

// interceptions handles the reports of hook workflows.
type interceptions struct{ *conversation }

func (t interceptions) handlers() []handler {
	return []handler{onSignal(t.conversation, step.SignalHookDecided, t.hookDecided)}
}

func (t interceptions) hookDecided(ctx workflow.Context, name string, d step.HookDecided) {
	if err := t.state.Turns.HookDecided(d); err != nil {
		t.state.Reject(workflow.Now(ctx), name, d, err)
	}
}

// registered is what a thread learns from its worker. It enters history when a run begins, and when the hooks change.
type registered struct {
	Hooks []hook.Spec `json:"hooks"`

	// Pace contains the quick steps of the thread's group, for a thread that has just begun.
	Pace []thread.Paced `json:"pace,omitempty"`
}

// UnmarshalJSON also decodes the list of hooks that the stored histories of version 0.1 have.
func (r *registered) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, &r.Hooks)
	}
	type plain registered // without this method
	return json.Unmarshal(data, (*plain)(r))
}

// sameHooks compares the recorded and the current value.
func sameHooks(a, b any) bool {
	x, _ := a.(registered)
	y, _ := b.(registered)
	return equalJSON(x.Hooks, y.Hooks)
}

// specs returns the registered hooks and processors. They enter history when they change, so a new
// registration does not change past decisions.
func (t *conversation) specs(ctx workflow.Context) []hook.Spec {
	read := func(workflow.Context) any {
		r := registered{Hooks: t.hooks.Specs()}
		if !t.inherited {
			r.Pace = t.paces.quick(t.group)
		}
		return r
	}
	if t.hooksShown == "" {
		t.hooksShown = brief("the registered hooks: " + cmp.Or(thread.Names(t.hooks.Specs()), "none"))
	}
	shown := workflow.MutableSideEffectOptions{Summary: t.hooksShown}
	var r registered
	if err := workflow.MutableSideEffectWithOptions(ctx, "hooks", shown, read, sameHooks).Get(&r); err != nil {
		panic(fmt.Sprintf("reading the hooks that history has: %v", err))
	}
	if !t.inherited {
		t.inherited = true
		t.state.Pace.Inherit(r.Pace)
	}
	return r.Hooks
}

// equalJSON compares the recorded and the current value of a side effect.
func equalJSON(a, b any) bool {
	x, errX := plain(a)
	y, errY := plain(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func plain(v any) (out any, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	return out, err
}

// intercept lets the hooks and processors that match an event decide on it before it takes effect.
// It returns false if the turn must stop first: it was interrupted, or the thread continues as new
// and the next run receives the decision.
func (t *activeTurn) intercept(ctx workflow.Context, e thread.HookEvent) (step.HookDecision, bool) {
	if _, pending := t.turn.HooksPending(e); pending {
		return t.resume(ctx, e)
	}
	matching := e.Processing(hook.Matching(t.specs(ctx), e.Subject(t.state.Namespace)))
	switch {
	case len(matching) == 0:
		return unmatched, true
	case e.Event != nil && thread.Only(hook.KindInline, matching):
		return t.inline(ctx, e, matching), true
	}
	return t.runHooks(ctx, e, matching)
}

// decided is [activeTurn.intercept] for an event that the activity's inline hooks may already have
// decided on.
func (t *activeTurn) decided(ctx workflow.Context, by *step.HookDecision, e thread.HookEvent) (step.HookDecision, bool) {
	if by != nil {
		return *by, true
	}
	return t.intercept(ctx, e)
}

// lastInline is the last decision of inline hooks that was more than a pass.
type lastInline struct {
	Key      string            `json:"key,omitempty"`
	Decision step.HookDecision `json:"decision"`
}

// inline runs inline hooks within this workflow. Only decisions other than a pass enter history: on
// replay, an event without a recorded decision was passed.
func (t *activeTurn) inline(ctx workflow.Context, e thread.HookEvent, specs []hook.Spec) step.HookDecision {
	decide := func(workflow.Context) any {
		d := step.Inline(t.hooks, specs, t.turn.Context(e), e.Event)
		if d.Outcome == event.OutcomePassed && d.Silent {
			return t.lastInline
		}
		return lastInline{e.Key, d}
	}
	// A new variable, since decoding into lastInline would keep fields that the decision omits.
	var last lastInline
	shown := workflow.MutableSideEffectOptions{Summary: brief(fmt.Sprintf("%s · inline hooks: %s", about(e), thread.Names(specs)))}
	if err := workflow.MutableSideEffectWithOptions(ctx, "inline", shown, decide, equalJSON).Get(&last); err != nil {
		panic(fmt.Sprintf("reading the decision that history has: %v", err))
	}
	t.lastInline = last
	if t.lastInline.Key == e.Key {
		return t.lastInline.Decision
	}
	return passed
}

// runHooks starts a hook workflow for an event and waits for its decision.
func (t *activeTurn) runHooks(ctx workflow.Context, e thread.HookEvent, specs []hook.Spec) (step.HookDecision, bool) {
	s := t.state
	t.flushIfOverloaded(ctx)
	defer t.step()()
	input := t.turn.HookStep(e, specs)
	t.turn.HooksStarted(e, specs...)
	t.show(ctx)
	defer t.show(ctx)
	// The hook workflow outlives this run of the thread.
	own, cancel := workflow.NewDisconnectedContext(ctx)
	child := workflow.ExecuteChildWorkflow(hookOptions(own, s.Ref(), e, specs), signals.HookWorkflow, input)
	_ = workflow.Await(ctx, func() bool { return child.IsReady() || t.rollover(ctx) })
	if input.WereQuick && !child.IsReady() {
		// A signal would have the hook workflow repeat a workflow task that ends with its decision, and with it the functions.
		_, _ = awaitFor(ctx, stopsWithin, "hooks were told to stop", child.IsReady)
	}
	left := !t.interrupted(ctx) && !child.IsReady() && t.requestReport(ctx, e, child)
	switch {
	case t.interrupted(ctx):
		cancel()
		t.turn.HooksFinished(e)
		return step.HookDecision{}, false
	case left:
		return step.HookDecision{}, false
	}
	var d step.HookDecision
	err := child.Get(ctx, &d)
	t.turn.HooksFinished(e)
	if t.interrupted(ctx) {
		return step.HookDecision{}, false
	}
	if err != nil {
		return decisionForLostHooks(specs, err), true
	}
	s.Outbox.Flushed(input.Flush)
	t.tookHooks(ctx, specs, d)
	return d, true
}

func (t *activeTurn) tookHooks(ctx workflow.Context, specs []hook.Spec, d step.HookDecision) {
	kind := thread.HooksKind(specs)
	t.state.Pace.Took(kind, d.Took)
	t.share(ctx, kind, d.Took)
}

// resume waits for a decision that an earlier workflow run requested.
func (t *activeTurn) resume(ctx workflow.Context, e thread.HookEvent) (step.HookDecision, bool) {
	s := t.state
	defer t.show(ctx)
	defer t.step()()
	id := childID(s.Ref(), e)
	gone := t.awaitReport(ctx, id, func() bool { d, _ := t.turn.HooksPending(e); return d != nil || t.turn.Interrupted != nil })
	switch d, _ := t.turn.HooksPending(e); {
	case t.interrupted(ctx):
		t.turn.HooksFinished(e)
		stopped, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		_ = workflow.RequestCancelExternalWorkflow(stopped, id, "").Get(stopped, nil)
		return step.HookDecision{}, false
	case d != nil:
		t.tookHooks(ctx, t.turn.PendingHooks(e, nil), *d)
		t.turn.HooksFinished(e)
		return *d, true
	case gone != nil:
		pending := t.turn.PendingHooks(e, t.specs(ctx))
		t.turn.HooksFinished(e)
		return decisionForLostHooks(pending, gone), true
	}
	return step.HookDecision{}, false
}

// cancelOutstanding cancels the sub-agents and hook workflows of earlier runs whose results are no
// longer needed, because the turn was interrupted. Hook workflows of this run have already ended.
func (t *activeTurn) cancelOutstanding(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.stopSubs(ctx)
	s := t.state
	for _, in := range t.turn.Intercepting {
		id := signals.HookWorkflowID(s.Namespace, s.ThreadID, in.EventID)
		// A failure means that the workflow has ended.
		_ = workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil)
	}
}

// decisionForLostHooks returns the decision for a hook workflow that ended without one, for example
// because it was terminated.
func decisionForLostHooks(specs []hook.Spec, err error) step.HookDecision {
	why := step.Why("the hook workflow ended without a decision: " + reason(err))
	d := step.HookDecision{Outcome: event.OutcomePassed}
	for _, spec := range specs {
		d.Hooks = append(d.Hooks, event.HookOutcome{Name: spec.Name, Outcome: event.OutcomeFailed, Error: why})
		if spec.OnFailure == hook.FailClosed && d.Error == "" {
			d.Outcome, d.By, d.Error = event.OutcomeFailed, spec.Name, fmt.Sprintf("hook %s failed: %s", spec.Name, why)
		}
	}
	return d
}

// reason returns an error without the layers that Temporal adds.
func reason(err error) string {
	var child *temporal.ChildWorkflowExecutionError
	if errors.As(err, &child) && child.Unwrap() != nil {
		err = child.Unwrap()
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	var terminated *temporal.TerminatedError
	switch {
	case errors.As(err, &unknown), errors.As(err, &terminated):
		return "it was terminated"
	case temporal.IsCanceledError(err):
		return "it was cancelled"
	}
	return err.Error()
}

func childID(ref step.Ref, e thread.HookEvent) string {
	return signals.HookWorkflowID(ref.Namespace, ref.ThreadID, e.Key)
}

func hookOptions(ctx workflow.Context, ref step.Ref, e thread.HookEvent, specs []hook.Spec) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: childID(ref, e),
		// The hook workflow outlives this run of the thread and reports to the next.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief(fmt.Sprintf("%s · hooks: %s", about(e), thread.Names(specs))),
		StaticDetails:     fmt.Sprintf("Decides on event `%s` of thread `%s`.", e.ID, ref.ThreadID),
	})
}

// about describes an event for people.
func about(e thread.HookEvent) string {
	switch {
	case e.Type == event.TypeMessage && e.Agent != "" && e.CreatedBy == event.CreatedByAgent:
		return "message of " + e.Agent
	case e.Type == event.TypeMessage && e.CreatedBy == event.CreatedByTool && len(e.Tools) > 0:
		return "result of " + e.Tools[0]
	case e.Type == event.TypeMessage:
		return fmt.Sprintf("message of a %s", e.CreatedBy)
	case e.Agent != "":
		return e.Type + " of " + e.Agent
	}
	return e.Type
}
