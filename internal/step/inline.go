package step

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// Inline runs inline hooks on an event, in order. It is deterministic.
func Inline(hooks *hook.Set, specs []hook.Spec, c hook.Context, seen event.Event) HookDecision {
	d := HookDecision{Outcome: event.OutcomePassed, Silent: true}
	for _, spec := range specs {
		c.Hook, c.Attempt = spec.Name, 1
		h, ok := hooks.Hook(spec.Name)
		var answer hook.Answer
		err := ErrUnregistered
		if ok && h.Inline != nil {
			answer, err = h.RunInline(c, seen)
		}
		done := event.HookOutcome{Name: spec.Name, Outcome: answer.Outcome}
		if err != nil {
			done.Outcome, done.Error = event.OutcomeFailed, Why(err.Error())
			d.Silent = false
		}
		d.Hooks = append(d.Hooks, done)
		switch {
		case err != nil && spec.OnFailure == hook.FailClosed:
			return refused(d, spec, done.Error)
		case err != nil:
		case answer.Outcome == event.OutcomeReplaced:
			raw, err := json.Marshal(answer.Event)
			if err != nil {
				panic("step: event has no JSON form: " + err.Error()) // it was unmarshalled from JSON
			}
			d.Outcome, d.Event, d.Silent, seen = event.OutcomeReplaced, raw, false, answer.Event
		case answer.Settles():
			d.Outcome, d.By, d.Event, d.Silent = answer.Outcome, spec.Name, nil, false
			d.Responses, d.Produced = answer.Responses, answer.Produced
			return d
		}
	}
	return d
}

// ErrUnregistered is the failure of a hook that is registered on another worker but not on this
// one.
var ErrUnregistered = errors.New("this worker does not have it; register it, or retry the event once it is gone everywhere")

func refused(d HookDecision, spec hook.Spec, why string) HookDecision {
	d.Outcome, d.By, d.Event = event.OutcomeFailed, spec.Name, nil
	d.Error = fmt.Sprintf("hook %s failed: %s", spec.Name, why)
	return d
}
