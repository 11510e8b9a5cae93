package hook

import (
	"slices"

	"github.com/threadmill/threadmill/event"
)

// Result is what a [Func] or [InlineFunc] decides on an event, made by [Pass], [Replace], [Respond],
// [Drop] or [Produce]. The zero value lets the event pass unchanged.
type Result struct {
	event   event.Event
	verdict Verdict
	invalid error
}

// Pass lets the event pass unchanged. A function gets a copy of the event: changing it has no effect
// unless [Replace] returns it.
func Pass() Result { return Result{} }

// Replace lets e pass instead of the event. An e that equals the event lets it pass unchanged; nil is a
// failure of the hook.
func Replace(e event.Event) Result {
	if e == nil {
		return Result{invalid: event.FieldErrorf("event", "is nil: return hook.Pass() to let the event pass, or hook.Drop() to drop it")}
	}
	return Result{event: e}
}

// Respond answers the event and skips its default processing. Responses are queued in order; none is a
// failure of the hook.
func Respond(responses ...Response) Result {
	if len(responses) == 0 {
		return Result{invalid: event.FieldErrorf("responses", "is empty: return hook.Pass() to let the event pass, or hook.Drop() to drop it")}
	}
	return Result{verdict: Verdict{Responses: slices.Clone(responses)}}
}

// Drop drops the event: nothing follows from it, but its record remains.
func Drop() Result { return Result{verdict: Verdict{Drop: true}} }

// Produce queues events instead of the event, as a [Processor] does. None is a failure of the hook.
func Produce(events ...Produced) Result {
	if len(events) == 0 {
		return Result{invalid: event.FieldErrorf("produced", "is empty: return hook.Pass() to let the event pass, or hook.Drop() to drop it")}
	}
	return Result{verdict: Verdict{Produced: slices.Clone(events)}}
}

// answer validates the result of a function that saw an event.
func (r Result) answer(seen event.Event) (Answer, error) {
	if r.invalid != nil {
		return Answer{}, r.invalid
	}
	return r.verdict.answer(seen, r.event)
}
