package workflows

import (
	"encoding/json"
	"errors"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// handler handles a signal, an update or a query of the thread. Each concern declares its own in
// its file.
type handler struct {
	// set registers an update or a query handler.
	set func(workflow.Context) error

	// receive handles one signal from channel. It returns false if there is none.
	signal  string
	channel workflow.ReceiveChannel
	receive func(workflow.Context, workflow.ReceiveChannel) bool
}

// allHandlers returns the handlers of all concerns. Signals that arrived together are handled in
// this order.
func (t *conversation) allHandlers() []handler {
	return slices.Concat(
		restores{t}.handlers(), posts{t}.handlers(), approvals{t}.handlers(), clientCalls{t}.handlers(), inputs{t}.handlers(), controls{t}.handlers(),
		interceptions{t}.handlers(), tasks{t}.handlers(), children{t}.handlers(), forgets{t}.handlers(), views{t}.handlers(),
	)
}

// listen registers the queries and updates, and starts the coroutine that handles signals.
func (t *conversation) listen(ctx workflow.Context) error {
	for _, h := range t.allHandlers() {
		if h.set == nil {
			h.channel = workflow.GetSignalChannel(ctx, h.signal)
			t.signals = append(t.signals, h)
		} else if err := h.set(ctx); err != nil {
			return err
		}
	}
	workflow.GoNamed(ctx, "signals", func(ctx workflow.Context) {
		// Not a Selector: a waiting Selector takes a signal out of its channel before this
		// coroutine runs, where drain does not find it, and continue-as-new would lose it.
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		for workflow.Await(ctx, t.arrived) == nil {
			t.drain(ctx)
		}
	})
	return nil
}

// arrived reports whether there are signals that the thread has not handled yet.
func (t *conversation) arrived() bool {
	return slices.ContainsFunc(t.signals, func(h handler) bool { return h.channel.Len() > 0 })
}

// drain handles all signals that have arrived, including those that arrive while it handles others.
func (t *conversation) drain(ctx workflow.Context) {
	for again := true; again; {
		again = false
		for _, h := range t.signals {
			for h.receive(ctx, h.channel) {
				again = true
			}
		}
	}
}

// onSignal returns the handler of a signal. An invalid payload leaves an audit record, since the
// sender of a signal gets no response.
func onSignal[T any](t *conversation, name string, handle func(workflow.Context, string, T)) handler {
	return handler{signal: name, receive: func(ctx workflow.Context, c workflow.ReceiveChannel) bool {
		var raw converter.RawValue
		if !c.ReceiveAsync(&raw) {
			return false
		}
		if size := len(raw.Payload().GetData()); size > maxSignal {
			t.state.Reject(workflow.Now(ctx), name, nil, event.FieldErrorf("payload", "is %d bytes, must be at most %d; put large data elsewhere and refer to it", size, maxSignal))
			return true
		}
		var in exact[T]
		if err := errors.Join(converter.GetDefaultDataConverter().FromPayload(raw.Payload(), &in), in.problem); err != nil {
			why := redacted(ctx, &t.redactor, err.Error())
			t.state.Reject(workflow.Now(ctx), name, redacted(ctx, &t.redactor, string(raw.Payload().GetData())), errors.New(why))
			return true
		}
		handle(ctx, name, redacted(ctx, &t.redactor, in.value))
		return true
	}}
}

// onUpdate returns the handler of an update. It first handles the signals that were sent before the
// update, since the SDK runs update handlers at the start of a workflow task, before all other
// coroutines. A validator may change nothing, so an update that follows such signals is validated after them, when it has been accepted.
func onUpdate[A, R any](t *conversation, name, description string, check func(A) error, handle func(workflow.Context, A) (R, error)) handler {
	return handler{set: func(ctx workflow.Context) error {
		inOrder := func(ctx workflow.Context, arg exact[A]) (R, error) {
			t.accept(ctx)
			if t.arrived() {
				t.drain(ctx)
				if err := check(arg.value); err != nil {
					var none R
					return none, refuse(err)
				}
			}
			return handle(ctx, redacted(ctx, &t.redactor, arg.value))
		}
		validate := func(_ workflow.Context, arg exact[A]) error {
			switch {
			case arg.problem != nil:
				return refuse(arg.problem)
			case t.arrived():
				return nil
			}
			return refuse(check(arg.value))
		}
		return workflow.SetUpdateHandlerWithOptions(ctx, name, inOrder, workflow.UpdateHandlerOptions{Description: description, Validator: validate})
	}}
}

// onQuery returns the handler of a query.
func onQuery[R any](name, description string, answer func(workflow.Context) R) handler {
	return handler{set: func(ctx workflow.Context) error {
		return workflow.SetQueryHandlerWithOptions(ctx, name, func() (R, error) { return answer(ctx), nil }, workflow.QueryHandlerOptions{Description: description})
	}}
}

// views answers queries about the thread's state.
type views struct{ *conversation }

func (t views) handlers() []handler {
	return []handler{
		onQuery(signals.QueryState, "what the thread is doing", func(ctx workflow.Context) signals.State {
			v := t.state.View()
			v.HistoryEvents = workflow.GetInfo(ctx).GetCurrentHistoryLength()
			return v
		}),
	}
}

// refuse converts an error of the thread to the application error for an update's caller.
func refuse(err error) error {
	var known *temporal.ApplicationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, thread.ErrClosed):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ClosedType, nil)
	case errors.Is(err, thread.ErrFull):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.FullType, nil)
	case errors.Is(err, signals.ErrProcessed):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ProcessedType, nil)
	case errors.Is(err, signals.ErrEarly):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.EarlyType, nil)
	case errors.Is(err, signals.ErrConflict):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ConflictType, nil)
	case errors.Is(err, thread.ErrBusy):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.BusyType, nil)
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), signals.RefusedType, nil)
}

// exact is external input that must pass [event.DecodeJSON]. Invalid input sets problem instead of
// failing to decode, so an update is rejected, and a signal leaves an audit record, with the
// reason.
type exact[T any] struct {
	value   T
	problem error
}

func (in *exact[T]) UnmarshalJSON(data []byte) error {
	in.problem = event.DecodeJSON("", data, &in.value)
	return nil
}

func (in exact[T]) MarshalJSON() ([]byte, error) { return json.Marshal(in.value) }
