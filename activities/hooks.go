package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// runHooks runs hooks and processors that are Go functions for one event, in order, until one
// settles it or fails. It first stores the workflow's records, since hooks read the event from the
// store.
func (a *Activities) runHooks(ctx context.Context, in step.Hook) (step.HookReply, error) {
	id := "hooks/" + activity.GetInfo(ctx).WorkflowExecution.RunID
	if len(in.Hooks) > 0 {
		id += "/" + in.Hooks[0].Name
	}
	return runStep(ctx, a, in.Thread, in.Local, id, func(ctx context.Context) (step.HookReply, error) {
		// What arrives for the thread need not wait for the workflow task of the hook workflow.
		return a.oneHookBatch(context.WithValue(ctx, localStepKey{}, nil), in)
	})
}

func (a *Activities) oneHookBatch(ctx context.Context, in step.Hook) (step.HookReply, error) {
	began := time.Now()
	if len(in.Flush.Records) > 0 || in.Flush.Row != nil {
		if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
			return step.HookReply{}, err
		}
	}
	seen, err := a.seen(ctx, in)
	if err != nil {
		return step.HookReply{}, err
	}
	h := &hookBatch{a: a, in: in, seen: seen}
	if len(in.Hooks) > 0 {
		if err := h.askAll(ctx); err != nil {
			return step.HookReply{}, err
		}
	}
	h.reply.Event, err = json.Marshal(h.seen)
	if err != nil {
		return step.HookReply{}, configError(fmt.Errorf("encoding event %s: %w", in.EventID, err))
	}
	h.reply.Took = a.took(began)
	return h.reply, nil
}

// seen returns the event for the hooks: the one in the input, or the record.
func (a *Activities) seen(ctx context.Context, in step.Hook) (event.Event, error) {
	if len(in.Event) > 0 {
		e, err := event.Unmarshal(in.Event)
		if err != nil {
			return nil, configError(err)
		}
		return e, nil
	}
	if in.Replaced {
		return a.envEvent(ctx, in.Thread, in.EventID)
	}
	records, err := a.cfg.Store.RecordsByID(ctx, in.Thread, in.EventID)
	if err != nil {
		return nil, readError(err)
	}
	if len(records) == 0 {
		return nil, configError(fmt.Errorf("event %s is not in the store", in.EventID))
	}
	e, err := eventOf(in.Thread, records[0])
	if err != nil {
		return nil, configError(fmt.Errorf("reading record %s: %w", in.EventID, err))
	}
	return e, nil
}

// eventOf returns the event of a record.
func eventOf(ref step.Ref, r event.Record) (event.Event, error) {
	switch r.Type {
	case event.TypeMessage:
		var m event.Message
		if err := json.Unmarshal(r.Payload, &m); err != nil {
			return nil, err
		}
		m.ThreadID = ref.ThreadID
		return step.MessageEvent(m), nil
	case event.TypeToolCall:
		return event.Unmarshal(r.Payload)
	case event.TypeEnv:
		var e event.EnvEvent
		err := json.Unmarshal(r.Payload, &e)
		return e, err
	}
	return event.CustomEvent{Type: r.Type, ThreadID: ref.ThreadID, Payload: r.Payload}, nil
}

// hookBatch is a run of hooks for one event.
type hookBatch struct {
	a     *Activities
	in    step.Hook
	seen  event.Event
	reply step.HookReply
}

func (h *hookBatch) askAll(ctx context.Context) error {
	deps, err := h.a.deps(ctx, h.in)
	if err != nil {
		return err
	}
	var longest time.Duration
	for _, spec := range h.in.Hooks {
		// Exceeds the limits of the hooks, whose time starts later.
		longest += limit(spec) + 2*h.a.grace
	}
	running := h.a.begin(ctx, h.in.Thread, h.in.TraceID, longest)
	defer running.done()
	for i, spec := range h.in.Hooks {
		if !spec.Takes(h.seen) {
			// An earlier hook replaced the event, so the processor does not apply.
			h.reply.Done = append(h.reply.Done, event.HookOutcome{Name: spec.Name, Outcome: event.OutcomePassed})
			continue
		}
		deps.Context.Hook, deps.Context.Attempt = spec.Name, 1
		if i == 0 {
			deps.Context.Attempt = max(h.in.Attempt, 1)
		}
		answer, err := h.ask(running.ctx, spec, deps)
		if cause := context.Cause(running.ctx); cause != nil && !errors.Is(cause, errTimeout) {
			return temporal.NewApplicationErrorWithCause("The hooks were stopped before they had decided; they are retried.", step.ErrTypeStopped, cause)
		}
		if err != nil {
			h.reply.Failed = step.Why(err.Error())
			h.log(ctx, spec, deps, err)
			return nil
		}
		h.reply.Done = append(h.reply.Done, event.HookOutcome{Name: spec.Name, Outcome: answer.Outcome})
		if answer.Event != nil {
			h.seen = answer.Event
		}
		h.reply.Responses, h.reply.Produced = answer.Responses, answer.Produced
		if answer.Settles() {
			return nil
		}
	}
	return nil
}

// ask runs one hook or processor within its timeout.
func (h *hookBatch) ask(ctx context.Context, spec hook.Spec, deps hook.Deps) (hook.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit(spec), errTimeout)
	defer cancel()
	call, ok := h.a.asker(spec.Name)
	if !ok {
		return hook.Answer{}, step.ErrUnregistered
	}
	answer, err := runWithGrace(ctx, h.a.grace, func() (hook.Answer, error) { return call(ctx, h.seen, deps) })
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		err = fmt.Errorf("it took longer than its limit of %s", limit(spec))
	}
	return answer, err
}

// limit returns the timeout of one attempt. Inline hooks, which run here together with others, have
// the default.
func limit(spec hook.Spec) time.Duration {
	if spec.Timeout == 0 {
		return hook.DefaultTimeout
	}
	return spec.Timeout
}

// asker returns a hook or processor by name.
func (a *Activities) asker(name string) (func(context.Context, event.Event, hook.Deps) (hook.Answer, error), bool) {
	if h, ok := a.cfg.Hooks.Hook(name); ok && h.Workflow == nil {
		return h.Run, true
	}
	p, ok := a.cfg.Hooks.Processor(name)
	return p.Run, ok
}

func (h *hookBatch) log(ctx context.Context, spec hook.Spec, deps hook.Deps, err error) {
	args := []any{
		"thread", h.in.Thread.ThreadID, "event", h.in.EventID, "traceId", h.in.TraceID, "hook", spec.Name,
		"attempt", deps.Context.Attempt, "error", err,
	}
	var panicked *hook.PanicError
	if errors.As(err, &panicked) {
		args = append(args, "stack", panicked.Stack)
	}
	h.a.log.WarnContext(ctx, "hook failed", args...)
}

// deps returns the dependencies of hooks.
func (a *Activities) deps(ctx context.Context, in step.Hook) (hook.Deps, error) {
	key := in.Thread
	row, err := a.cfg.Store.Thread(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return hook.Deps{}, readError(err)
	}
	return hook.Deps{
		Store:  reader{a.cfg.Store, key},
		Thread: hook.Thread{Namespace: key.Namespace, ID: key.ThreadID, Title: row.Title, Agents: row.Agents, Metadata: row.Metadata},
		Context: hook.Context{
			Namespace: key.Namespace, ThreadID: key.ThreadID, EventID: in.EventID, TraceID: in.TraceID,
			ParentEventID: in.ParentEventID, Agent: in.Agent,
		},
	}, nil
}

// reader reads one thread for hooks.
type reader struct {
	store store.Store
	key   store.Key
}

// defaultMessages is the default number of messages for a hook.
const defaultMessages = 200

func (r reader) Messages(ctx context.Context, limit int) ([]event.Message, error) {
	if limit == 0 {
		limit = defaultMessages
	}
	newest, err := transcript.Messages(ctx, r.store, r.key, store.Query{Limit: limit, Newest: true})
	if err != nil {
		return nil, err
	}
	out := make([]event.Message, 0, len(newest))
	for _, m := range slices.Backward(newest) {
		if !m.Hidden || len(m.ToolCalls) > 0 {
			out = append(out, m.Message)
		}
	}
	return out, nil
}

func (r reader) Records(ctx context.Context, after int64, limit int, types ...string) ([]event.Record, error) {
	return r.store.Records(ctx, r.key, store.Query{After: after, Limit: limit, Types: types})
}

func (r reader) RecordsByID(ctx context.Context, ids ...string) ([]event.Record, error) {
	return r.store.RecordsByID(ctx, r.key, ids...)
}
