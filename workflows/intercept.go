package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

var passed = thread.Decision{Outcome: event.Passed, Silent: true}

// unmatched is the decision on an event that no hook or processor matches.
var unmatched = thread.Decision{Outcome: event.Passed, Silent: true, Unmatched: true}

// hookHandlers take in the decisions of hook workflows that report by signal.
func (t *conversation) hookHandlers() []handler {
	return []handler{onSignal(t, signals.SignalHookDecided, t.hookDecided)}
}

func (t *conversation) hookDecided(ctx workflow.Context, name string, d thread.HookDecided) {
	if err := t.state.HookDecided(d); err != nil {
		t.state.Reject(workflow.Now(ctx), name, d, err)
	}
}

// specs are the hooks and processors that there are. They enter history when they have
// changed, so that what a worker registers tomorrow does not change what was decided
// today.
func (t *conversation) specs(ctx workflow.Context) []hook.Spec {
	read := func(workflow.Context) any { return t.hooks.Specs() }
	var specs []hook.Spec
	if err := workflow.MutableSideEffect(ctx, "hooks", read, equalJSON).Get(&specs); err != nil {
		panic(fmt.Sprintf("reading the hooks that history has: %v", err))
	}
	return specs
}

// equalJSON compares what a side effect was with what it is.
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

// intercept lets the hooks and processors that match an event decide on it, before it
// has any effect. It returns false when the turn has to stop first: it was interrupted,
// or the thread moves to a new run, which then hears the decision.
func (t *activeTurn) intercept(ctx workflow.Context, e thread.HookEvent) (thread.Decision, bool) {
	if _, asked := t.turn.HooksPending(e); asked {
		return t.resume(ctx, e)
	}
	matching := e.Processing(hook.Matching(t.specs(ctx), t.state.Subject(e)))
	switch {
	case len(matching) == 0:
		return unmatched, true
	case e.Event != nil && thread.Only(hook.KindInline, matching):
		return t.inline(ctx, e, matching), true
	}
	return t.askHooks(ctx, e, matching)
}

// decided is [conversation.intercept] for an event on which the step that made it may
// have asked inline hooks already.
func (t *activeTurn) decided(ctx workflow.Context, by *thread.Decision, e thread.HookEvent) (thread.Decision, bool) {
	if by != nil {
		return *by, true
	}
	return t.intercept(ctx, e)
}

// lastInline is the last decision of inline hooks that was more than a pass.
type lastInline struct {
	Key      string          `json:"key,omitempty"`
	Decision thread.Decision `json:"decision"`
}

// inline asks hooks within this workflow. Only what they change enters history: when
// it is replayed, whatever has no decision there was passed.
func (t *activeTurn) inline(ctx workflow.Context, e thread.HookEvent, specs []hook.Spec) thread.Decision {
	decide := func(workflow.Context) any {
		d := thread.Inline(t.hooks, specs, t.turn.Context(e), e.Event)
		if d.Outcome == event.Passed && d.Silent {
			return t.lastInline
		}
		return lastInline{e.Key, d}
	}
	// Not into lastInline: what a decision leaves out would stay as it was in the one before.
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

// askHooks starts a hook workflow for an event and waits for its decision.
func (t *activeTurn) askHooks(ctx workflow.Context, e thread.HookEvent, specs []hook.Spec) (thread.Decision, bool) {
	s := t.state
	t.flushIfOverloaded(ctx)
	defer t.step()()
	step := t.turn.HookStep(e, specs)
	t.turn.HooksStarted(e, specs...)
	t.show(ctx)
	defer t.show(ctx)
	// It goes on when the turn moves to a new run with the thread.
	own, cancel := workflow.NewDisconnectedContext(ctx)
	child := workflow.ExecuteChildWorkflow(hookOptions(own, s.Ref(), e, specs), signals.HookWorkflow, step)
	_ = workflow.Await(ctx, func() bool { return child.IsReady() || t.rollover(ctx) })
	left := !t.interrupted(ctx) && !child.IsReady() && t.requestReport(ctx, e, child)
	switch {
	case t.interrupted(ctx):
		cancel()
		t.turn.HooksFinished(e)
		return thread.Decision{}, false
	case left:
		return thread.Decision{}, false
	}
	var d thread.Decision
	err := child.Get(ctx, &d)
	t.turn.HooksFinished(e)
	if t.interrupted(ctx) {
		return thread.Decision{}, false
	}
	if err != nil {
		return lost(specs, err), true
	}
	s.Flushed(step.Flush)
	return d, true
}

// requestReport asks a hook workflow to report to the run that follows this one. It returns
// false if it has ended meanwhile.
func (t *activeTurn) requestReport(ctx workflow.Context, e thread.HookEvent, child workflow.ChildWorkflowFuture) bool {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return false
	}
	if err := child.SignalChildWorkflow(ctx, signals.SignalReport, nil).Get(ctx, nil); err != nil {
		return false
	}
	t.turn.ReportRequested(e)
	return !child.IsReady()
}

// resume waits for a decision that a run before this one has asked for.
func (t *activeTurn) resume(ctx workflow.Context, e thread.HookEvent) (thread.Decision, bool) {
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
		return thread.Decision{}, false
	case d != nil:
		t.turn.HooksFinished(e)
		return *d, true
	case gone != nil:
		asked := t.turn.PendingHooks(e, t.specs(ctx))
		t.turn.HooksFinished(e)
		return lost(asked, gone), true
	}
	return thread.Decision{}, false
}

// How often a thread that has moved looks whether a hook workflow is still there: one
// that was terminated does not report. The wait doubles from the first to the last.
const (
	firstLook = 10 * time.Second
	lastLook  = time.Hour
)

// awaitReport waits until a hook workflow has reported, or the thread has to move again.
// It fails when the workflow is gone.
func (t *activeTurn) awaitReport(ctx workflow.Context, id string, reported func() bool) error {
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		if err := workflow.SignalExternalWorkflow(ctx, id, "", signals.SignalReport, nil).Get(ctx, nil); err != nil {
			// What it has said before it ended counts.
			t.drain(ctx)
			return err
		}
		done, err := workflow.AwaitWithTimeout(ctx, wait, func() bool { return reported() || t.rollover(ctx) })
		if done || err != nil {
			return nil
		}
	}
}

// cancelOutstanding ends the sub-agents and the hook workflows that nobody waits for any more,
// because the turn was interrupted meanwhile. Hook workflows of this run have ended already.
func (t *activeTurn) cancelOutstanding(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.stopSubs(ctx)
	s := t.state
	for _, in := range t.turn.Intercepting {
		id := signals.HookWorkflowID(s.Namespace, s.ThreadID, in.EventID)
		// One that has ended needs no end.
		_ = workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil)
	}
}

// lost is the decision when a hook workflow has ended without one, as when somebody
// terminated it.
func lost(specs []hook.Spec, err error) thread.Decision {
	why := thread.Why("the hook workflow ended without a decision: " + reason(err))
	d := thread.Decision{Outcome: event.Passed}
	for _, spec := range specs {
		d.Hooks = append(d.Hooks, event.HookOutcome{Name: spec.Name, Outcome: event.HookFailed, Error: why})
		if spec.OnFailure == hook.Closed && d.Error == "" {
			d.Outcome, d.By, d.Error = event.HookFailed, spec.Name, fmt.Sprintf("hook %s failed: %s", spec.Name, why)
		}
	}
	return d
}

// reason is an error without what Temporal puts around it.
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

func childID(ref thread.Ref, e thread.HookEvent) string {
	return signals.HookWorkflowID(ref.Namespace, ref.ThreadID, e.Key)
}

func hookOptions(ctx workflow.Context, ref thread.Ref, e thread.HookEvent, specs []hook.Spec) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: childID(ref, e),
		// It outlives this run of the thread, and reports to the next.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     brief(fmt.Sprintf("%s · hooks: %s", about(e), thread.Names(specs))),
		StaticDetails:     fmt.Sprintf("Decides on event `%s` of thread `%s`.", e.ID, ref.ThreadID),
	})
}

// about names an event for people.
func about(e thread.HookEvent) string {
	switch {
	case e.Type == event.TypeMessage && e.Agent != "" && e.CreatedBy == event.Agent:
		return "message of " + e.Agent
	case e.Type == event.TypeMessage && e.CreatedBy == event.Tool && len(e.Tools) > 0:
		return "result of " + e.Tools[0]
	case e.Type == event.TypeMessage:
		return fmt.Sprintf("message of a %s", e.CreatedBy)
	case e.Agent != "":
		return e.Type + " of " + e.Agent
	}
	return e.Type
}
