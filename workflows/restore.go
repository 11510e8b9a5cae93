package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// restores handles what a repair tells the thread after the store or Temporal was restored from a
// backup.
type restores struct{ *conversation }

func (t restores) handlers() []handler {
	return []handler{onSignal(t.conversation, signals.SignalRestore, t.restore)}
}

// restore takes over what the store has and this workflow does not. Events are processed as if they had
// been posted again: steps find their results in the store.
func (t restores) restore(ctx workflow.Context, name string, r signals.Restore) {
	if err := r.Validate(); err != nil {
		t.state.Reject(workflow.Now(ctx), name, r, err)
		return
	}
	t.state.Restore(r)
	if len(r.Interrupts) > 0 {
		// The events to interrupt may have arrived together with this signal, whose handler is the first.
		t.drain(ctx)
	}
	for _, c := range r.Interrupts {
		// The turn may have ended since.
		if t.state.Turns.Awaits(c.EventID) {
			controls(t).control(ctx, name, c)
		}
	}
	for _, c := range r.Tasks {
		// A task that has ended ends once.
		if out := t.state.CompleteTask(workflow.Now(ctx), c); out.Result == signals.TaskAccepted {
			t.dismissTask(ctx, out.Task)
		}
	}
	for _, p := range r.Posts {
		posts(t).post(ctx, name, p)
	}
}

// inspect shows the state to the replay of a history, if this is one.
func inspect(ctx workflow.Context, s *thread.State) {
	if show, ok := ctx.Value(thread.Inspector{}).(func(*thread.State)); ok {
		show(s)
	}
}
