package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/signals"
)

// controls handles requests to interrupt, close and change the thread.
type controls struct{ *conversation }

func (t controls) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalControl, t.control),
		{signal: signals.SignalWake, receive: func(_ workflow.Context, c workflow.ReceiveChannel) bool { return c.ReceiveAsync(nil) }},
		onUpdate(t.conversation, signals.UpdateThread, "change the thread's title, agents or metadata", t.state.ValidateChange, t.updateThread),
	}
}

func (t controls) control(ctx workflow.Context, name string, c signals.Control) {
	err := c.Validate()
	switch {
	case err != nil:
	case c.Action == signals.ControlInterrupt:
		err = t.interruptEvent(ctx, c)
	case c.Action == signals.ControlClose:
		if t.state.Closing == nil && !(c.IfIdle && !t.state.Resting()) {
			c.EventID = ""
			t.state.StartClosing(c)
			t.interrupt(c)
		}
	case c.Action == signals.ControlRetry:
		err = t.state.Retry(workflow.Now(ctx), c)
	}
	if err != nil {
		t.state.Reject(workflow.Now(ctx), name, c, err)
	}
}

// interruptEvent interrupts the turn of an event, or removes the event from the queue.
func (t *conversation) interruptEvent(ctx workflow.Context, c signals.Control) error {
	switch {
	case c.EventID == "" || t.state.Turns.InTurn(c.EventID):
		t.interruptTurn(ctx, c)
	case !t.state.CancelEvent(workflow.Now(ctx), c):
		return event.FieldErrorf("eventId", "event %q is neither processed nor queued", c.EventID)
	}
	return nil
}

// interruptTurn interrupts the current turn, if there is one, and removes the events derived from
// its event from the queue.
func (t *conversation) interruptTurn(ctx workflow.Context, c signals.Control) {
	t.interrupt(c)
	t.state.CancelDerived(workflow.Now(ctx), c)
}

// interrupt interrupts the turns that c names, and cancels the steps of the current one.
func (t *conversation) interrupt(c signals.Control) {
	if t.state.Turns.Interrupt(c) && t.stop != nil {
		t.stop()
	}
}

// updateThread changes the thread itself.
func (t controls) updateThread(ctx workflow.Context, c signals.ThreadChange) (signals.State, error) {
	s := t.state
	// The thread may have been closed since the validation.
	if err := s.ValidateChange(c); err != nil {
		return signals.State{}, refuse(err)
	}
	changed := s.Change(workflow.Now(ctx), c)
	if err := t.describe(ctx, c); err != nil {
		return signals.State{}, err
	}
	t.lifecycle(ctx, event.TypeSessionUpdated, changed)
	return s.View(), nil
}

// describe updates the memo and the search attributes of a changed thread.
func (t controls) describe(ctx workflow.Context, c signals.ThreadChange) error {
	memo := map[string]any{}
	if c.Title != "" {
		memo[signals.MemoTitle] = c.Title
	}
	if len(c.Agents)+len(c.AddAgents)+len(c.RemoveAgents) > 0 {
		memo[signals.MemoAgents] = t.state.Roster.Agents
		if err := workflow.UpsertTypedSearchAttributes(ctx, searchattr.Open(t.state.Namespace, t.state.Roster.Agents)...); err != nil {
			return err
		}
		// The new attributes say that the thread is open.
		t.state.Decisions.Unlist()
	}
	if len(memo) == 0 {
		return nil
	}
	return workflow.UpsertMemo(ctx, memo)
}
