package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// runTask runs the tool of a background task. The result is stored in the log of the call that
// started it, so a retry finds it.
func (a *Activities) runTask(ctx context.Context, in step.Task) (step.TaskReply, error) {
	run := &toolRun{a: a, background: true, attempt: int(activity.GetInfo(ctx).Attempt), started: time.Now(), in: step.Tool{
		Run:        step.Run{Thread: in.Thread, Agent: in.Task.Agent, TraceID: in.Task.TraceID, EventID: in.EventID, MessageID: in.MessageID, Tools: in.Tools, WorkingDirectory: in.WorkingDirectory},
		ToolCallID: in.Task.ToolCallID,
		ToolName:   in.Task.Tool,
		User:       in.User,
		Edited:     in.Edited,
		DecisionID: in.DecisionID,
	}}
	t := &taskRun{toolRun: run, task: in.Task}
	if reply, done, err := t.before(ctx); done || err != nil {
		return reply, err
	}
	return t.run(ctx)
}

// taskRun is a tool run as a background task.
type taskRun struct {
	*toolRun
	task event.Task

	// begun means that an earlier attempt started the tool.
	begun bool
}

// before returns the result of the task if an earlier attempt stored it. Otherwise it loads the
// call, and determines whether an earlier attempt started the tool.
func (t *taskRun) before(ctx context.Context) (step.TaskReply, bool, error) {
	log, err := t.a.cfg.Store.ToolLog(ctx, t.in.Thread, t.in.ToolCallID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return step.TaskReply{}, false, readError(err)
	case log.FinishedAt != nil:
		return reported(log), true, nil
	default:
		t.begun = true
	}
	calls, err := t.a.callsOf(ctx, t.in.Thread, t.in.MessageID)
	if err != nil {
		return step.TaskReply{}, false, err
	}
	for _, call := range calls {
		if call.ID == t.in.ToolCallID {
			t.stored = call
			return step.TaskReply{}, false, t.edit(ctx)
		}
	}
	return step.TaskReply{}, false, configError(fmt.Errorf("tool call %s is not in message %s", t.in.ToolCallID, t.in.MessageID))
}

// reported returns the result of a task from its log.
func reported(log store.ToolLog) step.TaskReply {
	switch log.Status { //nolint:exhaustive // all others are failures
	case store.ToolPending:
		return step.TaskReply{Pending: true}
	case store.ToolSucceeded:
		return step.TaskReply{Result: carryResult(log.Output)}
	}
	var text string
	if json.Unmarshal(log.Output, &text) != nil {
		text = string(log.Output)
	}
	return step.TaskReply{Error: step.Why(text)}
}

// carryResult cuts the result of a task to the maximum size of a signal and an event.
func carryResult(output json.RawMessage) json.RawMessage {
	if len(output) <= maxTaskResult {
		return output
	}
	raw, _ := json.Marshal(map[string]any{
		"truncated": true, "bytes": len(output), "start": strings.ToValidUTF8(string(output[:maxTaskResult/4]), ""),
	})
	return raw
}

// maxTaskResult is the maximum size of a result in an event, in bytes. The log has all of it.
const maxTaskResult = signals.MaxPayload / 2

// run runs the tool.
func (t *taskRun) run(ctx context.Context) (step.TaskReply, error) {
	who, err := t.a.cfg.Agents.Agent(ctx, t.in.Thread.Namespace, t.in.Agent)
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return t.end(ctx, store.ToolFailed, failure(err))
	case err != nil:
		return step.TaskReply{}, agentError(err)
	}
	who = allowed(who, t.in.Tools)
	p := t.a.planner(ctx, t.in.Thread, who, t.in.WorkingDirectory)
	found, err := t.recheck(ctx, p)
	if err != nil {
		return step.TaskReply{}, err
	}
	t.stored = withArguments(t.stored, t.edited)
	switch {
	case found.invalid:
		return t.end(ctx, store.ToolFailed, t.invalidCall(ctx, p))
	case found.refused != "":
		return t.end(ctx, store.ToolDenied, tool.Result{Output: found.refused, IsError: true})
	}
	name, arguments, err := t.unwrap()
	if err != nil {
		return t.end(ctx, store.ToolFailed, failure(err))
	}
	todo, ok := p.tools.lookup(name)
	if !ok {
		return t.end(ctx, store.ToolFailed, failure(p.tools.unknown(name)))
	}
	t.stored.Function.Arguments = arguments
	t.def = todo.Definition().WithDefaults()
	if err := t.def.ValidateArguments(arguments); err != nil {
		return t.end(ctx, store.ToolFailed, failure(err))
	}
	if done, err := t.begin(ctx); done || err != nil {
		return step.TaskReply{Error: unknownText}, err
	}
	return t.work(ctx, todo)
}

// recheck checks the task before it starts, since it may have waited long for a worker. It requests
// no new approval, since the agent already has its result.
func (t *taskRun) recheck(ctx context.Context, p *planner) (rechecked, error) {
	t.dir = p.dir
	if t.begun {
		// The tool has already started.
		return rechecked{}, nil
	}
	found, err := t.toolRun.recheck(ctx, p)
	if found.ask != nil {
		found.refused = fmt.Sprintf(lapsedText, found.ask.Reason)
	}
	return found, err
}

// invalidCall returns the result of a task whose call no longer matches the agent's tools.
func (t *taskRun) invalidCall(ctx context.Context, p *planner) tool.Result {
	called, ok := p.tools.lookup(t.stored.Function.Name)
	if !ok {
		return failure(p.tools.unknown(t.stored.Function.Name))
	}
	t.def = called.Definition().WithDefaults()
	return t.toolRun.invalidCall(ctx, p)
}

// unwrap returns the tool that the call runs and its arguments: a call of the tool "task" names
// another tool, unless the application has a tool with that name.
func (t *taskRun) unwrap() (name, arguments string, err error) {
	f := t.stored.Function
	if f.Name != builtin.Task || f.Name == t.task.Tool {
		return f.Name, f.Arguments, nil
	}
	var in builtin.TaskArguments
	if err := json.Unmarshal([]byte(f.Arguments), &in); err != nil {
		return "", "", fmt.Errorf("reading the arguments of the task: %w", err)
	}
	if len(in.Arguments) == 0 {
		in.Arguments = json.RawMessage("{}")
	}
	return in.Tool, string(in.Arguments), nil
}

// begin stores the start of the tool. If an earlier attempt started it and did not finish, only an
// idempotent tool continues.
func (t *taskRun) begin(ctx context.Context) (done bool, err error) {
	log := t.log(store.ToolStarted)
	stored, err := t.a.append(ctx, t.in.Thread, store.Batch{ToolStart: &log}, step.Flush{})
	if err != nil {
		return false, err
	}
	t.head = stored.Head
	if stored.Started || t.def.Idempotent && t.attempt <= t.def.MaxAttempts {
		return false, nil
	}
	_, err = t.end(ctx, store.ToolUnknown, tool.Result{Output: unknownText, IsError: true})
	return true, err
}

func (t *taskRun) work(ctx context.Context, todo tool.Tool) (step.TaskReply, error) {
	running := t.a.begin(ctx, t.in.Thread, t.task.ID, t.def.Timeout)
	defer running.done()
	progress := &progress{run: t.toolRun, ctx: ctx, shown: t.task.Progress}
	res, err := t.within(running.ctx, todo, tool.Call{
		ID: t.in.ToolCallID, TaskID: t.task.ID, Arguments: t.stored.Function.Arguments, WorkingDirectory: t.dir, Namespace: t.in.Thread.Namespace,
		ThreadID: t.in.Thread.ThreadID, Agent: t.in.Agent, User: t.in.User, Attempt: t.attempt,
		Exec: event.NewExecutionContext(running.ctx, t.in.TraceID), OnProgress: progress.publish,
	})
	progress.stop()
	cause := context.Cause(running.ctx)
	switch {
	case errors.Is(err, tool.ErrPending):
		return t.end(ctx, store.ToolPending, tool.Result{})
	case err == nil && (cause == nil || !res.IsError):
		return t.end(ctx, status(res), res)
	case errors.Is(cause, errInterrupted):
		reply, err := t.end(ctx, store.ToolInterrupted, cutShort(res, "The task was cancelled."))
		// Not an error, which would be logged.
		reply.Cancelled = true
		return reply, err
	case errors.Is(cause, errTimeout):
		return t.end(ctx, store.ToolFailed, cutShort(res, fmt.Sprintf("Error: the tool took longer than its limit of %s and was stopped.", t.def.Timeout)))
	case cause != nil && t.def.Idempotent:
		return step.TaskReply{}, temporal.NewApplicationErrorWithCause("The worker stopped while the task ran; it is run again.", step.ErrTypeRetry, cause)
	case cause != nil:
		return t.end(ctx, store.ToolUnknown, cutShort(res, unknownText))
	case tool.IsRetryable(err) && t.def.Idempotent && t.attempt < t.def.MaxAttempts:
		return step.TaskReply{}, temporal.NewApplicationErrorWithCause(err.Error(), step.ErrTypeRetry, err)
	}
	return t.end(ctx, store.ToolFailed, failure(err))
}

// end stores the result of the task.
func (t *taskRun) end(ctx context.Context, status store.ToolStatus, res tool.Result) (step.TaskReply, error) {
	log, now := t.log(status), time.Now()
	log.Output, log.FinishedAt = asJSON(excerpt.Text(res.Output, tool.MaxResult)), &now
	ctx = context.WithoutCancel(ctx)
	if _, err := t.a.append(ctx, t.in.Thread, store.Batch{ToolFinish: &log}, step.Flush{}); err != nil {
		return step.TaskReply{}, err
	}
	// Another attempt may have been first; its result stands.
	log, err := t.a.cfg.Store.ToolLog(ctx, t.in.Thread, t.in.ToolCallID)
	if err != nil {
		return step.TaskReply{}, readError(err)
	}
	return reported(log), nil
}
