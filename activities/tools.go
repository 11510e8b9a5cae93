package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// runTool runs one stored tool call and stores its result.
func (a *Activities) runTool(ctx context.Context, in step.Tool) (step.ToolReply, error) {
	return runStep(ctx, a, in.Thread, in.Local, in.ToolCallID, func(ctx context.Context) (step.ToolReply, error) { return a.oneToolCall(ctx, in) })
}

func (a *Activities) oneToolCall(ctx context.Context, in step.Tool) (step.ToolReply, error) {
	arrived, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush)
	if err != nil {
		return step.ToolReply{}, err
	}
	run := &toolRun{a: a, in: in, attempt: attemptOf(ctx, in), head: arrived.Head}
	reply, done, err := run.load(ctx, arrived)
	if done || err != nil {
		return reply, err
	}
	who, err := a.agentAt(ctx, in.Thread, in.Agent, arrived)
	if err != nil {
		if !errors.Is(err, agent.ErrUnknown) {
			return step.ToolReply{}, agentError(err)
		}
		return run.finish(ctx, store.ToolFailed, failure(err))
	}
	who = allowed(who, in.Tools)
	planner := a.planner(ctx, in.Thread, who, in.WorkingDirectory)
	t, ok := planner.tools.lookup(in.ToolName)
	if !ok {
		return run.finish(ctx, store.ToolFailed, failure(planner.tools.unknown(in.ToolName)))
	}
	run.def = t.Definition().WithDefaults()
	if in.Invalid {
		return run.finish(ctx, store.ToolFailed, run.invalidCall(ctx, planner))
	}
	run.dir = planner.dir
	if reply, lost, err := run.lost(ctx); lost || err != nil {
		return reply, err
	}
	switch found, err := run.recheck(ctx, planner); {
	case err != nil:
		return step.ToolReply{}, err
	case found.invalid:
		return run.finish(ctx, store.ToolFailed, run.invalidCall(ctx, planner))
	case found.refused != "":
		return run.finish(ctx, store.ToolDenied, tool.Result{Output: found.refused, IsError: true})
	case found.ask != nil: // its approval is no longer valid
		return step.ToolReply{ToolCallID: in.ToolCallID, Approval: found.ask}, nil
	}
	if err := run.edit(ctx); err != nil {
		return step.ToolReply{}, err
	}
	answers, again, err := run.input(ctx)
	switch {
	case err != nil:
		return step.ToolReply{}, err
	case again != nil:
		return run.ask(ctx, again)
	}
	if reply, done, err := run.start(ctx); done || err != nil {
		return reply, err
	}
	reply, err = run.call(ctx, t, answers)
	if err == nil && reply.Input == nil {
		reply.Took = a.took(run.started)
	}
	return reply, err
}

// attemptOf returns the number of a run of a tool. Temporal does not count the run as a local activity that an activity follows.
func attemptOf(ctx context.Context, in step.Tool) int {
	info := activity.GetInfo(ctx)
	if in.Repeated && !info.IsLocalActivity {
		return int(info.Attempt) + 1
	}
	return int(info.Attempt)
}

// invalidCall returns the result of a call that cannot run.
func (r *toolRun) invalidCall(ctx context.Context, p *planner) tool.Result {
	if _, _, err := p.draft(ctx, r.stored); err != nil {
		return failure(err)
	}
	return failure(fmt.Errorf("the tool %q was not ready when it was called; call it again", r.in.ToolName))
}

// toolRun is one run of a tool.
type toolRun struct {
	a       *Activities
	in      step.Tool
	attempt int
	def     tool.Definition
	stored  event.ToolCall
	started time.Time
	head    int64

	// edited are the arguments with which a person replaced the call's own. dir is the working
	// directory.
	edited string
	dir    string

	// background means that the call runs as a background task.
	background bool
}

// arguments returns the arguments for the tool.
func (r *toolRun) arguments() string {
	return cmp.Or(r.edited, r.stored.Function.Arguments)
}

func failure(err error) tool.Result {
	return tool.Result{Output: "Error: " + err.Error(), IsError: true}
}

// load reads the stored call, and its result if there is one.
func (r *toolRun) load(ctx context.Context, arrived store.Appended) (step.ToolReply, bool, error) {
	r.started = time.Now()
	resultID, inputID := recordid.Result(r.in.ToolCallID), r.inputRequestID()
	ids := []string{r.in.MessageID, resultID, inputID}
	if r.in.Edited {
		ids = append(ids, recordid.Interception(recordid.Calls(r.in.MessageID)))
	}
	// All that there is of a call follows its message.
	records, err := r.a.recent.RecordsByID(ctx, r.a.cfg.Store, r.in.Thread, arrived, r.in.MessageID, ids...)
	if err != nil {
		return step.ToolReply{}, false, readError(err)
	}
	var calls []event.ToolCall
	var result, input *event.Record
	for i, rec := range records {
		switch rec.ID {
		case resultID:
			result = &records[i]
			continue
		case inputID:
			input = &records[i]
			continue
		}
		if calls, err = edited(calls, rec); err != nil {
			return step.ToolReply{}, false, configError(fmt.Errorf("reading stored record %s: %w", rec.ID, err))
		}
	}
	for _, call := range calls {
		if call.ID == r.in.ToolCallID {
			r.stored = call
		}
	}
	switch {
	case result != nil:
		return r.resume(ctx, *result)
	case input != nil:
		reply, err := asked(*input)
		return reply, true, err
	}
	if r.stored.ID == "" {
		return step.ToolReply{}, false, configError(fmt.Errorf("tool call %s is not in message %s", r.in.ToolCallID, r.in.MessageID))
	}
	return step.ToolReply{}, false, nil
}

// resume returns the result of a call that already has one.
func (r *toolRun) resume(ctx context.Context, rec event.Record) (step.ToolReply, bool, error) {
	var m event.Message
	if err := json.Unmarshal(rec.Payload, &m); err != nil {
		return step.ToolReply{}, false, configError(fmt.Errorf("reading stored message %s: %w", rec.ID, err))
	}
	r.a.publish(ctx, r.in.Thread, stream.Entry{Stored: r.head})
	return r.reply(resultStatus(m.IsError), m), true, nil
}

// reply returns the result for the workflow.
func (r *toolRun) reply(status string, m event.Message) step.ToolReply {
	out := step.ToolReply{ToolCallID: r.in.ToolCallID, Status: status}
	var cut bool
	out.Arguments, cut = step.CarryText(r.arguments())
	out.Result, out.Truncated = step.CarryText(m.Content)
	out.Truncated = out.Truncated || cut
	if len(r.in.Inline) > 0 {
		d := step.Inline(r.a.cfg.Hooks, r.in.Inline, hook.Context{
			Namespace: r.in.Thread.Namespace, ThreadID: r.in.Thread.ThreadID, EventID: m.ID, TraceID: r.in.TraceID,
			ParentEventID: r.in.EventID, Agent: r.in.Agent,
		}, step.MessageEvent(m))
		out.Decision = &d
	}
	return out
}

func resultStatus(isError bool) string {
	if isError {
		return string(store.ToolFailed)
	}
	return string(store.ToolSucceeded)
}

// unknownText is the result of a call whose run was lost with its worker.
const unknownText = "Error: the worker was lost while the tool ran. The outcome is unknown: it may have taken effect. It was not run again."

// lost finishes a call that an earlier attempt started, if it must not run again.
func (r *toolRun) lost(ctx context.Context) (step.ToolReply, bool, error) {
	if r.attempt == 1 || r.def.Idempotent {
		return step.ToolReply{}, false, nil
	}
	log, err := r.a.cfg.Store.ToolLog(ctx, r.in.Thread, r.in.ToolCallID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && log.Status == store.ToolWaiting:
		return step.ToolReply{}, false, nil
	case err != nil:
		return step.ToolReply{}, false, readError(err)
	}
	reply, err := r.finish(ctx, store.ToolUnknown, tool.Result{Output: unknownText, IsError: true})
	return reply, true, err
}

// start stores the start of the tool, unless it is quick and so idempotent. If an earlier attempt
// started it and did not finish, only an idempotent tool continues.
func (r *toolRun) start(ctx context.Context) (step.ToolReply, bool, error) {
	if r.def.Quick {
		return step.ToolReply{}, false, nil
	}
	log := r.log(store.ToolStarted)
	done, err := r.a.append(ctx, r.in.Thread, store.Batch{ToolStart: &log}, step.Flush{})
	if err != nil {
		return step.ToolReply{}, false, err
	}
	r.head = done.Head
	if !done.Started && r.def.Idempotent && activity.GetInfo(ctx).IsLocalActivity {
		// Temporal counts the attempts of an activity, and not those of a workflow task.
		return step.ToolReply{}, true, temporal.NewApplicationError("The tool has been started before; an activity runs it again.", step.ErrTypeRetry)
	}
	if !done.Started && (!r.def.Idempotent || r.attempt > r.def.MaxAttempts) {
		reply, err := r.finish(ctx, store.ToolUnknown, tool.Result{Output: unknownText, IsError: true})
		return reply, true, err
	}
	return step.ToolReply{}, false, nil
}

func (r *toolRun) log(status store.ToolStatus) store.ToolLog {
	return store.ToolLog{
		ToolCallID: r.in.ToolCallID, ToolName: storable(r.in.ToolName), Agent: r.in.Agent, TraceID: r.in.TraceID,
		Input: asJSON(r.arguments()), Status: status, Attempt: r.attempt, StartedAt: r.started,
	}
}

// call runs the tool and stores its result.
func (r *toolRun) call(ctx context.Context, t tool.Tool, answers *tool.Input) (step.ToolReply, error) {
	running := r.a.begin(ctx, r.in.Thread, r.in.TraceID, r.def.Timeout)
	defer running.done()
	progress := r.progress(ctx)
	res, err := r.within(running.ctx, t, tool.Call{
		ID: r.in.ToolCallID, Arguments: r.arguments(), Namespace: r.in.Thread.Namespace, ThreadID: r.in.Thread.ThreadID,
		Agent: r.in.Agent, User: r.in.User, WorkingDirectory: r.dir, Attempt: r.attempt, Exec: event.NewExecutionContext(running.ctx, r.in.TraceID), OnProgress: progress.publish,
		Input: answers,
	})
	progress.stop()
	cause := context.Cause(running.ctx)
	need, asks := errors.AsType[*tool.InputRequired](err)
	switch {
	case asks && cause == nil:
		return r.ask(ctx, need)
	case err == nil && cause == nil, err == nil && !res.IsError:
		return r.finish(ctx, status(res), res)
	case errors.Is(cause, errInterrupted):
		return r.finish(ctx, store.ToolInterrupted, cutShort(res, step.InterruptedText))
	case errors.Is(cause, errTimeout):
		return r.finish(ctx, store.ToolFailed, cutShort(res, fmt.Sprintf("Error: the tool took longer than its limit of %s and was stopped.", r.def.Timeout)))
	case cause != nil && r.def.Idempotent:
		return step.ToolReply{}, temporal.NewApplicationErrorWithCause("The worker stopped while the tool ran; the step is retried.", step.ErrTypeRetry, cause)
	case cause != nil:
		return r.finish(ctx, store.ToolUnknown, cutShort(res, unknownText))
	case tool.IsRetryable(err) && r.def.Idempotent && r.attempt < r.def.MaxAttempts:
		return step.ToolReply{}, temporal.NewApplicationErrorWithCause(err.Error(), step.ErrTypeRetry, err)
	case errors.Is(err, tool.ErrPending):
		return r.finish(ctx, store.ToolFailed, failure(fmt.Errorf("%w, but this call does not run as a background task: declare the tool with tool.Background()", err)))
	case err != nil:
		return r.finish(ctx, store.ToolFailed, failure(err))
	}
	return r.finish(ctx, status(res), res)
}

// safely runs a tool. A tool that panics has failed; Temporal would retry it forever.
func (r *toolRun) safely(ctx context.Context, t tool.Tool, call tool.Call) (res tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.a.log.ErrorContext(ctx, "tool panicked", "thread", call.ThreadID, "agent", call.Agent, "event", r.in.EventID,
				"traceId", r.in.TraceID, "toolCall", call.ID, "attempt", call.Attempt, "stack", string(debug.Stack()))
			res, err = tool.Result{}, fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return r.a.cfg.CallTool(ctx, t, call)
}

// stopGrace is the time within which a cancelled tool or hook must return before it is abandoned.
const stopGrace = 30 * time.Second

// within runs a tool, and abandons it if it ignores cancellation, so that it does not block the
// thread.
func (r *toolRun) within(ctx context.Context, t tool.Tool, call tool.Call) (tool.Result, error) {
	res, err := runWithGrace(ctx, r.a.grace, func() (tool.Result, error) { return r.safely(ctx, t, call) })
	if errors.Is(err, errIgnoredCancel) {
		r.a.log.WarnContext(ctx, "tool ignores cancellation; its run is abandoned", "thread", call.ThreadID, "agent", call.Agent,
			"event", r.in.EventID, "traceId", r.in.TraceID, "toolCall", call.ID, "attempt", call.Attempt)
	}
	return redactedResult(r.a.cfg.Redact, res, err)
}

// storable makes a name that a model wrote valid for every store.
func storable(name string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
}

func status(res tool.Result) store.ToolStatus {
	if res.IsError {
		return store.ToolFailed
	}
	return store.ToolSucceeded
}

// cutShort returns the result of a stopped run: the reason and the output so far.
func cutShort(res tool.Result, why string) tool.Result {
	if res.Output != "" {
		why += "\n" + res.Output
	}
	return tool.Result{Output: why, IsError: true, Details: res.Details}
}

// finish stores the log and the message of the call's result, in one transaction.
func (r *toolRun) finish(ctx context.Context, status store.ToolStatus, res tool.Result) (step.ToolReply, error) {
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	log := r.log(status)
	if r.edited != "" {
		// The model sees only its own arguments.
		res.Output = step.EditedText(r.edited) + res.Output
	}
	res.Output = excerpt.Text(res.Output, tool.MaxResult)
	log.Output, log.FinishedAt = asJSON(res.Output), &now
	switch raw, err := json.Marshal(res.Details); {
	case err != nil:
		r.a.log.Warn("details of a tool's result are not valid JSON", "thread", r.in.Thread.ThreadID, "toolCall", r.in.ToolCallID, "error", err)
		res.Details = nil
	case len(raw) > tool.MaxResult:
		r.a.log.Warn("details of a tool's result are too large and are not stored", "thread", r.in.Thread.ThreadID, "toolCall", r.in.ToolCallID, "bytes", len(raw))
		res.Details = nil
	}
	id := recordid.Result(r.in.ToolCallID)
	m := event.Message{
		ID: id, ThreadID: r.in.Thread.ThreadID, SenderID: r.in.ToolName, SenderType: event.CreatedByTool, Role: event.RoleTool,
		Content: res.Output, ToolCallID: r.in.ToolCallID, ToolName: r.in.ToolName, IsError: res.IsError, AgentID: r.in.Agent,
		ReplyToMessageID: r.in.MessageID, Metadata: res.Details,
	}
	reply := r.reply(string(status), m)
	record := event.NewRecord(id, event.TypeMessage, r.in.TraceID, r.in.EventID, now, m).In(step.TurnEvent(r.in.Root, r.in.EventID))
	if r.in.Undecided || reply.Decision != nil && !reply.Decision.Silent {
		record = record.WithUndecided(event.TypeMessage)
	}
	_, err := r.a.append(ctx, r.in.Thread, store.Batch{Records: []event.Record{record}, ToolFinish: &log}, step.Flush{})
	return reply, err
}

// progress returns the recorder of a tool's progress. It shows nothing after the tool has returned.
func (r *toolRun) progress(ctx context.Context) *progress {
	exec := event.NewExecutionContext(ctx, r.in.TraceID)
	return &progress{run: r, ctx: ctx, shown: func(data any) (event.AgentEvent, error) {
		raw, err := json.Marshal(data)
		e := exec.AdaptToolEvent(event.ToolEvent{Type: event.ToolProgress, ToolName: r.in.ToolName, Data: raw})
		e.EventID, e.Agent, e.ToolCallID = step.TurnEvent(r.in.Root, r.in.EventID), r.in.Agent, r.in.ToolCallID
		return e, err
	}}
}

type progress struct {
	run *toolRun
	ctx context.Context

	// shown returns the event for viewers.
	shown func(data any) (event.AgentEvent, error)

	mu      sync.Mutex
	stopped bool
}

func (p *progress) publish(data any) {
	e, err := p.shown(p.run.a.cfg.Redact.Value(data))
	if err != nil {
		p.run.a.log.Warn("progress is not valid JSON", "toolCall", p.run.in.ToolCallID, "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.run.a.publish(p.ctx, p.run.in.Thread, stream.Entry{After: p.run.head, TraceID: p.run.in.TraceID, Event: &e})
	}
}

func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// asJSON returns unambiguous JSON unchanged, and any other text as a JSON string.
func asJSON(s string) json.RawMessage {
	if strictjson.Check([]byte(s)) == nil {
		return json.RawMessage(s)
	}
	raw, _ := json.Marshal(s)
	return raw
}
