package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// affect lets a queued message interrupt the turns in progress, or cancel their waiting calls, once
// hooks have passed it.
func (t *conversation) affect(ctx workflow.Context, q thread.Queued) {
	s := t.state
	matching := s.Turns.Ahead(q, t.specs(ctx))
	if len(matching) == 0 {
		t.takeEffect(ctx, q)
		return
	}
	turn := s.Turns.BeginAhead(workflow.Now(ctx), q)
	if turn.ItemEvent().Event != nil && thread.Only(hook.KindInline, matching) {
		t.decideAhead(ctx, turn)
	}
}

// takeEffect lets a message that hooks have passed affect the turns in progress.
func (t *conversation) takeEffect(ctx workflow.Context, q thread.Queued) {
	if c, ok := thread.InterruptBy(q); ok {
		t.interruptTurn(ctx, c)
	}
	t.state.Inbox.Supersede(workflow.Now(ctx), q)
}

// watchAhead runs the hook workflows of messages that take effect on turns in progress.
func (t *conversation) watchAhead(ctx workflow.Context) {
	workflow.GoNamed(ctx, "ahead", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		s := t.state
		for workflow.Await(ctx, func() bool { return !t.continuingAsNew && s.Turns.NextAhead() != nil }) == nil {
			turn := s.Turns.NextAhead()
			turn.AwaitAhead()
			t.pendingSends++
			workflow.GoNamed(ctx, "ahead "+turn.Item.ID, func(ctx workflow.Context) {
				defer func() { t.pendingSends-- }()
				t.awaitAhead(ctx, turn)
			})
		}
	})
}

// awaitAhead waits until hooks have decided on a message, the message has left the queue, or the
// thread continues as new.
func (t *conversation) awaitAhead(ctx workflow.Context, turn *thread.Turn) {
	deciding, stop := workflow.WithCancel(ctx)
	defer stop()
	decided := false
	workflow.GoNamed(ctx, "left "+turn.Item.ID, func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return decided || !turn.IsQueued() })
		if !decided {
			turn.Interrupt(signals.Control{Action: signals.ControlInterrupt, EventID: turn.Item.ID})
			stop()
		}
	})
	// The hooks may also report while a long step keeps the thread from continuing as new.
	for !t.decideAhead(deciding, turn) && turn.IsQueued() && !t.continuingAsNew {
		_ = workflow.Await(ctx, func() bool { return turn.ReportedAhead() || !turn.IsQueued() || t.continuingAsNew })
	}
	decided = true
	if !turn.IsQueued() {
		turn.GiveUpAhead()
	}
}

// decideAhead lets hooks decide on a message, and the message take effect if they pass it. It
// returns false if they have not decided.
func (t *conversation) decideAhead(ctx workflow.Context, turn *thread.Turn) bool {
	a := &activeTurn{t, turn}
	d, ok := a.intercept(ctx, turn.ItemEvent())
	if !ok {
		return false
	}
	q, effective := turn.DecidedAhead(workflow.Now(ctx), d)
	a.log(ctx)
	if effective {
		t.takeEffect(ctx, q)
	}
	return true
}
