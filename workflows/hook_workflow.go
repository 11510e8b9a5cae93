package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
)

// hook runs the hooks and processors of one event, in order, until one of them settles it.
func (w *Workflows) hook(ctx workflow.Context, in step.Hook) (step.HookDecision, error) {
	ctx = w.context(ctx)
	h := &hookRun{redactor: redactor{r: w.Redact}, in: in, decision: step.HookDecision{Outcome: event.OutcomePassed, Took: step.TookUnknown}}
	for len(h.in.Hooks) > 0 && !h.settled() {
		h.show(ctx)
		var err error
		if h.in.Hooks[0].Kind == hook.KindWorkflow {
			err = h.workflow(ctx)
		} else {
			err = h.functions(ctx)
		}
		if err != nil {
			return step.HookDecision{}, err
		}
	}
	if h.changed {
		h.decision.Event = h.in.Event
	}
	h.in.Hooks = nil
	h.show(ctx)
	return h.decision, h.report(ctx)
}

// hookRun is a run of the hooks of one event.
type hookRun struct {
	redactor redactor

	in       step.Hook
	decision step.HookDecision
	changed  bool
	attempt  int

	holder
}

// show describes the hook run in Temporal's Web UI. It adds nothing to history.
func (h *hookRun) show(ctx workflow.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** `%s`: %s\n", h.in.EventType, h.in.EventID, h.decision.Outcome)
	for _, done := range h.decision.Hooks {
		fmt.Fprintf(&b, "\n- %s: %s %s", done.Name, done.Outcome, done.Error)
	}
	if len(h.in.Hooks) > 0 {
		next := h.in.Hooks[0]
		fmt.Fprintf(&b, "\n- %s: pending", next.Name)
		if next.Workflow != nil {
			fmt.Fprintf(&b, " (workflow `%s` on task queue `%s`)", next.Workflow.Type, next.Workflow.TaskQueue)
		}
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

func (h *hookRun) settled() bool {
	return h.decision.Outcome != event.OutcomePassed && h.decision.Outcome != event.OutcomeReplaced
}

// functions runs the next Go functions in one activity.
func (h *hookRun) functions(ctx workflow.Context) error {
	batch := h.next()
	reply, err := h.run(ctx, batch)
	if err != nil {
		return err
	}
	for i, done := range reply.Done {
		done.Attempts = 1
		if i == 0 {
			done.Attempts += h.attempt
		}
		h.apply(batch[i], done)
	}
	if len(reply.Done) > 0 {
		h.attempt = 0
	}
	h.decision.Responses, h.decision.Produced = reply.Responses, reply.Produced
	h.in.Hooks = h.in.Hooks[len(reply.Done):]
	if reply.Failed == "" {
		return nil
	}
	return h.failed(ctx, reply.Failed)
}

// next returns the next Go functions, as many as one activity can run within longestStep.
func (h *hookRun) next() []hook.Spec {
	var longest time.Duration
	for n, spec := range h.in.Hooks {
		longest += spec.Timeout
		if spec.Kind == hook.KindWorkflow || n > 0 && longest > longestStep-time.Hour {
			return h.in.Hooks[:n]
		}
	}
	return h.in.Hooks
}

// run runs functions. An empty batch only loads the event.
func (h *hookRun) run(ctx workflow.Context, batch []hook.Spec) (step.HookReply, error) {
	input := h.in
	input.Hooks, input.Attempt = batch, h.attempt+1
	summary := thread.Names(batch)
	if len(batch) == 0 {
		summary = "load the event"
	}
	var reply step.HookReply
	call := localStep{quick: h.in.WereQuick && h.attempt == 0, activity: step.ActivityRunHooks, summary: summary, shown: summary, reply: &reply, input: func(local step.Local) any {
		input.Local = local
		return input
	}}
	err := h.quickly(ctx, call, activity(ctx, summary))
	switch {
	case err != nil && ctx.Err() != nil:
		return reply, ctx.Err()
	case err == nil:
		if reply.Took == 0 || h.decision.Took != 0 && reply.Took > h.decision.Took {
			h.decision.Took = reply.Took
		}
		h.in.Flush = step.Flush{}
		h.in.Event = reply.Event
	}
	return reply, err
}

// apply records the outcome of a hook.
func (h *hookRun) apply(spec hook.Spec, done event.HookOutcome) {
	h.decision.Hooks = append(h.decision.Hooks, done)
	switch done.Outcome {
	case event.OutcomePassed:
		if spec.ReplaceDefault && h.handles(spec) {
			h.decision.NoDefault, h.decision.By = true, spec.Name
		}
	case event.OutcomeReplaced:
		h.changed = true
		h.decision.Outcome = event.OutcomeReplaced
	case event.OutcomeResponded, event.OutcomeOverwritten, event.OutcomeDropped:
		h.decision.Outcome, h.decision.By = done.Outcome, spec.Name
		h.changed = false
	case event.OutcomeFailed, event.OutcomeWithdrawn:
	}
}

// handles reports whether a processor handles the current event: earlier hooks may have replaced the
// event that it matched.
func (h *hookRun) handles(spec hook.Spec) bool {
	seen, err := event.Unmarshal(h.in.Event)
	return err == nil && spec.Takes(seen)
}

// failed retries the next hook, or continues as it declares for failures.
func (h *hookRun) failed(ctx workflow.Context, why string) error {
	spec := h.in.Hooks[0]
	why = step.Why(why)
	h.attempt++
	if h.attempt < spec.MaxAttempts {
		return sleep(ctx, backoff(h.attempt), "before hooks are run again")
	}
	done := event.HookOutcome{Name: spec.Name, Outcome: event.OutcomeFailed, Error: why, Attempts: h.attempt}
	h.decision.Hooks = append(h.decision.Hooks, done)
	h.in.Hooks, h.attempt = h.in.Hooks[1:], 0
	if spec.OnFailure == hook.FailClosed {
		kind := "hook"
		if spec.Kind == hook.KindProcessor {
			kind = "processor"
		}
		h.decision.Outcome, h.decision.By, h.changed = event.OutcomeFailed, spec.Name, false
		h.decision.Error = fmt.Sprintf("%s %s failed: %s", kind, spec.Name, why)
		if done.Attempts > 1 {
			h.decision.Error += fmt.Sprintf(" (gave up after %d attempts)", done.Attempts)
		}
	}
	return nil
}

// backoff returns the delay after a number of failures.
func backoff(failures int) time.Duration {
	wait := time.Second << min(failures-1, 5)
	return min(wait, 30*time.Second)
}

// workflow runs a custom hook workflow.
func (h *hookRun) workflow(ctx workflow.Context) error {
	if h.in.Event == nil || len(h.in.Flush.Records) > 0 || h.in.Flush.Row != nil {
		if _, err := h.run(ctx, nil); err != nil {
			return err
		}
	}
	spec := h.in.Hooks[0]
	request := hook.Request{Event: h.in.Event, Context: hook.Context{
		Hook: spec.Name, Namespace: h.in.Thread.Namespace, ThreadID: h.in.Thread.ThreadID, EventID: h.in.EventID,
		TraceID: h.in.TraceID, ParentEventID: h.in.ParentEventID, Agent: h.in.Agent, Attempt: h.attempt + 1,
	}}
	var verdict hook.Verdict
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          workflow.GetInfo(ctx).WorkflowExecution.ID + "/" + spec.Name,
		TaskQueue:           spec.Workflow.TaskQueue,
		WorkflowRunTimeout:  spec.Timeout,
		WaitForCancellation: true,
		StaticSummary:       brief(fmt.Sprintf("%s: hook %s", h.in.EventType, spec.Name)),
	})
	err := workflow.ExecuteChildWorkflow(child, spec.Workflow.Type, request).Get(ctx, &verdict)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return h.failed(ctx, redacted(ctx, &h.redactor, hookFailureReason(spec, err)))
	}
	seen, err := event.Unmarshal(h.in.Event)
	if err != nil {
		return h.failed(ctx, err.Error())
	}
	answer, err := redacted(ctx, &h.redactor, verdict).Read(seen)
	if err != nil {
		return h.failed(ctx, redacted(ctx, &h.redactor, err.Error()))
	}
	if answer.Event != nil {
		raw, err := json.Marshal(answer.Event)
		if err != nil {
			return h.failed(ctx, err.Error())
		}
		h.in.Event = raw
	}
	h.decision.Responses, h.decision.Produced = answer.Responses, answer.Produced
	h.apply(spec, event.HookOutcome{Name: spec.Name, Outcome: answer.Outcome, Attempts: h.attempt + 1})
	h.in.Hooks, h.attempt = h.in.Hooks[1:], 0
	return nil
}

// hookFailureReason returns the reason why a hook workflow has not decided, for people.
func hookFailureReason(spec hook.Spec, err error) string {
	var child *temporal.ChildWorkflowExecutionError
	if errors.As(err, &child) {
		if _, late := child.Unwrap().(*temporal.TimeoutError); late { //nolint:errorlint // further down it is that of an activity of its own
			return fmt.Sprintf("it took longer than its limit of %s (workflow %s on task queue %s: does a worker of it listen there?)",
				spec.Timeout, spec.Workflow.Type, spec.Workflow.TaskQueue)
		}
	}
	if errors.Is(err, converter.ErrUnableToDecode) {
		return "what it returned is no verdict, which is an object with event, responses, produced or drop: " + err.Error()
	}
	return reason(err)
}
