package threadmilltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// User is the sender of messages and decisions for which the test names none.
const User = "ann"

// Open opens a thread. Saying something opens it too.
func (r *Runtime) Open(threadID string, start signals.Start) {
	r.t.Helper()
	r.threads.add(threadID)
	ctx, cancel := r.ctx()
	defer cancel()
	if err := r.Client().Open(ctx, threadID, start, nil); err != nil {
		r.t.Fatalf("opening thread %q: %v", threadID, err)
	}
}

// Say sends a message of [User] to a thread, opens the thread if necessary, and returns the turn. Use
// Send of the runtime for other senders and options.
func (r *Runtime) Say(threadID, content string) *threadmill.Turn {
	r.t.Helper()
	return r.SayAs(threadID, User, content)
}

// SayAs sends a message of a person. See [Runtime.Say].
func (r *Runtime) SayAs(threadID, sender, content string) *threadmill.Turn {
	r.t.Helper()
	r.threads.add(threadID)
	// The turn is followed until it ends or the test does, however long it waits for the test.
	turn, err := r.Send(r.t.Context(), event.NewMessage{ThreadID: threadID, SenderID: sender, Content: content}, threadmill.SendOptions{})
	if err != nil {
		r.fatal(threadID, "the message %q of %s was not accepted: %v", content, sender, err)
	}
	return turn
}

// Wait waits for the end of a turn, and returns its result. The test fails if the turn has failed.
func (r *Runtime) Wait(turn *threadmill.Turn) signals.TurnResult {
	r.t.Helper()
	out, err := r.wait(turn)
	if err != nil {
		r.fatal(turn.ThreadID(), "%v", err)
	}
	return out
}

// Fails waits for the end of a turn that must fail, and returns why it has.
func (r *Runtime) Fails(turn *threadmill.Turn) string {
	r.t.Helper()
	_, err := r.wait(turn)
	var failed *threadmill.TurnError
	switch {
	case errors.As(err, &failed):
		return failed.Reason
	case err != nil:
		r.fatal(turn.ThreadID(), "%v", err)
	}
	r.fatal(turn.ThreadID(), "the turn of event %q was to fail, but has not", turn.EventID())
	return ""
}

func (r *Runtime) wait(turn *threadmill.Turn) (signals.TurnResult, error) {
	ctx, cancel := r.ctx()
	defer cancel()
	out, err := turn.Wait(ctx)
	if ctx.Err() != nil && !errors.As(err, new(*threadmill.TurnError)) {
		err = fmt.Errorf("the turn of event %q has not ended", turn.EventID())
	}
	return out, err
}

// Ask says something, waits for the end of the turn, and returns the text of the reply. It is empty if
// nobody has replied.
func (r *Runtime) Ask(threadID, content string) string {
	r.t.Helper()
	out := r.Wait(r.Say(threadID, content))
	if out.Message == nil {
		return ""
	}
	return out.Message.Content
}

// Events waits for the end of a turn, and returns its events as viewers receive them.
func (r *Runtime) Events(turn *threadmill.Turn) []event.AgentEvent {
	r.t.Helper()
	if _, err := r.wait(turn); err != nil && !errors.As(err, new(*threadmill.TurnError)) {
		r.fatal(turn.ThreadID(), "%v", err)
	}
	var out []event.AgentEvent
	for e, err := range turn.Events() {
		if err != nil {
			r.fatal(turn.ThreadID(), "reading the events of %q: %v", turn.EventID(), err)
		}
		out = append(out, e)
	}
	return out
}

// Emit publishes an environment event to a thread, which exists, and returns the id of the event. The
// payload is any value with a JSON form. Wait for its effect with [Runtime.WaitIdle].
func (r *Runtime) Emit(threadID, typ string, payload any) string {
	r.t.Helper()
	r.threads.add(threadID)
	ctx, cancel := r.ctx()
	defer cancel()
	raw, err := json.Marshal(payload)
	if err != nil {
		r.fatal(threadID, "the payload of event %s has no JSON form: %v", typ, err)
	}
	out, err := r.Client().Publish(ctx, threadID, event.EnvEvent{Type: typ, Payload: raw}, threadclient.PublishOptions{})
	if err != nil {
		r.fatal(threadID, "event %s was not accepted: %v", typ, err)
	}
	return out.EventID
}

// WaitIdle waits until nothing of a thread runs, waits or is queued. Events that rules hold back for a
// time (debounce, throttle) and background tasks do not count.
func (r *Runtime) WaitIdle(threadID string) {
	r.t.Helper()
	r.until(threadID, "the thread to be idle", func(ctx context.Context) (bool, error) { return r.idle(ctx, threadID) })
}

// WaitForTasks waits until no background task of a thread runs, and the thread is idle: the agent has been told how they ended.
func (r *Runtime) WaitForTasks(threadID string) {
	r.t.Helper()
	r.until(threadID, "the background tasks to end", func(ctx context.Context) (bool, error) {
		// The event that tells the end of a task is in the queue once the task does not run.
		all, err := r.Client().Tasks(ctx, threadID)
		if err != nil || slices.ContainsFunc(all.Tasks, func(task event.Task) bool { return task.State == event.TaskRunning }) {
			return false, err
		}
		return r.idle(ctx, threadID)
	})
}

// WaitForHook waits until a hook that is a workflow decides on an event of a thread, and returns the id of its workflow, which the test can
// signal.
func (r *Runtime) WaitForHook(threadID, name string) (workflowID string) {
	r.t.Helper()
	r.until(threadID, fmt.Sprintf("the hook %q to be asked", name), func(ctx context.Context) (bool, error) {
		thread, err := r.world.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(r.Client().Namespace(), threadID), "")
		for _, hooks := range thread.GetPendingChildren() {
			if hooks.GetWorkflowTypeName() != signals.HookWorkflow {
				continue
			}
			of, failed := r.world.temporal.DescribeWorkflowExecution(ctx, hooks.GetWorkflowId(), hooks.GetRunId())
			err = errors.Join(err, failed)
			for _, one := range of.GetPendingChildren() {
				if one.GetWorkflowId() == hooks.GetWorkflowId()+"/"+name {
					workflowID = one.GetWorkflowId()
				}
			}
		}
		return workflowID != "", err
	})
	return workflowID
}

func (r *Runtime) idle(ctx context.Context, threadID string) (bool, error) {
	state, err := r.Client().State(ctx, threadID)
	return state.Status == signals.ThreadIdle && state.QueueLength == 0 && state.Turn == nil, err
}

// WaitForApproval waits until a call of the thread, or of one of its sub-agents, needs approval, and
// returns the first request. The test fails if the thread becomes idle instead.
func (r *Runtime) WaitForApproval(threadID string) event.ApprovalRequest {
	r.t.Helper()
	return r.WaitForApprovals(threadID, 1)[0]
}

// WaitForApprovals waits until at least n calls need approval, and returns the requests.
func (r *Runtime) WaitForApprovals(threadID string, n int) []event.ApprovalRequest {
	r.t.Helper()
	return r.waiting(threadID, "an approval request", func(a signals.Approvals) bool { return len(a.Approvals) >= n }).Approvals
}

// WaitForInput waits until a tool asks a person for input, and returns the request.
func (r *Runtime) WaitForInput(threadID string) event.InputRequest {
	r.t.Helper()
	return r.waiting(threadID, "a request for input", func(a signals.Approvals) bool { return len(a.Inputs) > 0 }).Inputs[0]
}

// WaitForClientCall waits until a call waits for a client that runs it: see tool.Client.
func (r *Runtime) WaitForClientCall(threadID string) event.ClientCall {
	r.t.Helper()
	return r.waiting(threadID, "a call for a client", func(a signals.Approvals) bool { return len(a.ClientCalls) > 0 }).ClientCalls[0]
}

// waiting waits until the thread waits for people or clients as it should, or is idle, which fails the
// test at once.
func (r *Runtime) waiting(threadID, what string, right func(signals.Approvals) bool) signals.Approvals {
	r.t.Helper()
	r.threads.add(threadID)
	var found signals.Approvals
	idle := false
	r.until(threadID, what, func(ctx context.Context) (bool, error) {
		var err error
		if idle, err = r.idle(ctx, threadID); err != nil {
			return false, err
		}
		if found, err = r.Client().Approvals(ctx, threadID); err != nil {
			return false, err
		}
		return right(found) || idle, nil
	})
	if !right(found) {
		r.fatal(threadID, "is idle without %s", what)
	}
	return found
}

// Approve approves a call once, as [User].
func (r *Runtime) Approve(threadID string, q event.ApprovalRequest) {
	r.t.Helper()
	r.Decide(threadID, q, signals.Decide{Decision: event.DecisionApprove})
}

// Deny denies a call for a reason, which the agent is told, as [User].
func (r *Runtime) Deny(threadID string, q event.ApprovalRequest, reason string) {
	r.t.Helper()
	r.Decide(threadID, q, signals.Decide{Decision: event.DecisionDeny, Reason: reason})
}

// Decide decides on a call as d says; the call is that of the request, and By is [User] by default.
// The test fails if the decision is not accepted: use Client().Decide for one that must be rejected.
func (r *Runtime) Decide(threadID string, q event.ApprovalRequest, d signals.Decide) {
	r.t.Helper()
	d.ToolCallID, d.Round, d.By = q.ToolCallID, q.Round, cmp.Or(d.By, User)
	ctx, cancel := r.ctx()
	defer cancel()
	out, err := r.Client().Decide(ctx, threadID, d)
	r.accepted(threadID, fmt.Sprintf("%s by %s on %s", d.Decision, d.By, q.ToolName), out.Result, err)
}

// Answer answers a request for input as [User], with an answer for each question by its id.
func (r *Runtime) Answer(threadID string, q event.InputRequest, answers map[string]event.InputAnswer) {
	r.t.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	out, err := r.Client().AnswerInput(ctx, threadID, signals.InputAnswers{ToolCallID: q.ToolCallID, Round: q.Round, Answers: answers, By: User})
	r.accepted(threadID, "the answer to "+q.ToolName, out, err)
}

// Return returns the output of a call that a client runs.
func (r *Runtime) Return(threadID string, call event.ClientCall, output string) {
	r.t.Helper()
	ctx, cancel := r.ctx()
	defer cancel()
	out, err := r.Client().ToolResult(ctx, threadID, signals.ToolResult{ToolCallID: call.ToolCallID, ToolName: call.ToolName, Output: output, By: User})
	r.accepted(threadID, "the result of "+call.ToolName, out, err)
}

func (r *Runtime) accepted(threadID, what string, out signals.DecideOutcome, err error) {
	r.t.Helper()
	if err == nil && out != signals.DecideAccepted {
		err = errors.New(string(out))
	}
	if err != nil {
		r.fatal(threadID, "%s was not accepted: %v", what, err)
	}
}
