package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/threadmill/threadmill/event"
)

// MaxEvent is the maximum size of an event that a hook returns, and of all its responses or
// produced events together, in bytes of JSON.
const MaxEvent = 256 << 10

// PanicError is the error of a hook or processor that panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("it panicked: %v", e.Value) }

// RunInline runs an inline hook.
func (h Hook) RunInline(c Context, e event.Event) (Answer, error) {
	return redacted(h.redact)(call(e, func(e event.Event) (Result, error) { return h.Inline(c, e) }))
}

// Run runs a hook that is a Go function, inline or not.
func (h Hook) Run(ctx context.Context, e event.Event, deps Deps) (Answer, error) {
	if h.Inline != nil {
		return h.RunInline(deps.Context, e)
	}
	ctx = WithDeps(ctx, deps)
	return redacted(h.redact)(call(e, func(e event.Event) (Result, error) { return h.Func(ctx, e) }))
}

// call calls a hook with a copy of the event, which the hook may change.
func call(seen event.Event, f func(event.Event) (Result, error)) (out Answer, err error) {
	defer caught(&err)
	given, err := clone(seen)
	if err != nil {
		return Answer{}, err
	}
	result, err := f(given)
	if err != nil {
		return Answer{}, err
	}
	return result.answer(seen)
}

func clone(e event.Event) (event.Event, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("copying the event: %w", err)
	}
	return event.Unmarshal(raw)
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, string(debug.Stack())}
	}
}

// Run runs a processor.
func (p Processor) Run(ctx context.Context, e event.Event, deps Deps) (Answer, error) {
	return redacted(p.redact)(p.run(ctx, e, deps))
}

// redacted returns the function that redacts an answer.
func redacted(redact func(Answer, error) (Answer, error)) func(Answer, error) (Answer, error) {
	if redact != nil {
		return redact
	}
	return func(a Answer, err error) (Answer, error) { return a, err }
}

func (p Processor) run(ctx context.Context, e event.Event, deps Deps) (out Answer, err error) {
	defer caught(&err)
	if e, err = clone(e); err != nil {
		return Answer{}, err
	}
	if p.ShouldProcess != nil {
		wanted, err := p.ShouldProcess(ctx, e, deps)
		if err != nil || !wanted {
			return Answer{Outcome: event.OutcomePassed}, err
		}
	}
	events, err := p.Process(ctx, e, deps)
	if err != nil || len(events) == 0 {
		return Answer{Outcome: event.OutcomePassed}, err
	}
	return produced(e, events)
}
