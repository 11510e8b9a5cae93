package threadclient

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/signals"
)

// PendingTurn is the turn of an event that a thread has accepted.
type PendingTurn struct {
	client   *Client
	threadID string
	post     signals.Post

	// update is nil if the event is only posted, while the caller waits for a free update.
	update client.WorkflowUpdateHandle
	slot   *turnSlot
}

// StartTurn posts an event like [Client.Turn], but returns when the thread has accepted it. The
// error is that of [Client.Post].
func (c *Client) StartTurn(ctx context.Context, threadID string, p signals.Post) (*PendingTurn, error) {
	return c.startTurn(ctx, threadID, nil, p)
}

// StartTurnOrOpen is [Client.StartTurn] for a thread that it opens if it does not exist. For a
// closed thread, the error wraps [signals.ErrThreadClosed].
func (c *Client) StartTurnOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) (*PendingTurn, error) {
	if err := start.Validate(); err != nil {
		return nil, err
	}
	start.First = nil
	return c.startTurn(ctx, threadID, &start, p)
}

func (c *Client) startTurn(ctx context.Context, threadID string, open *signals.Start, p signals.Post) (*PendingTurn, error) {
	if err := Prepare(threadID, &p); err != nil {
		return nil, err
	}
	traced(ctx, &p)
	t := &PendingTurn{client: c, threadID: threadID, post: p, slot: c.posts.takeTurn(threadID)}
	// The caller may never ask for the result.
	context.AfterFunc(ctx, t.slot.leave)
	var err error
	if t.slot.direct() {
		c.hurry(ctx, threadID, p)
		opts := c.updateOptions(threadID, signals.UpdateTurn, p)
		opts.WaitForStage = client.WorkflowUpdateStageAccepted
		t.update, err = c.startUpdate(ctx, threadID, opts, open)
		if err == nil {
			err = refusal(t.update)
		}
		err = c.explain(ctx, signals.UpdateTurn, threadID, c.withReason(ctx, threadID, err))
	} else {
		_, err = c.posts.submit(ctx, threadID, p, open)
	}
	if err != nil {
		t.slot.leave()
		return nil, uncertain(threadID, p.ID, err)
	}
	return t, nil
}

// refusal returns the error with which an update has already ended. The handle does not tell
// whether its outcome is known, but with a cancelled context it does not ask the server.
func refusal(update client.WorkflowUpdateHandle) error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	err := update.Get(over, nil)
	if is[*client.WorkflowUpdateServiceTimeoutOrCanceledError](err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// EventID returns the id of the event.
func (t *PendingTurn) EventID() string { return t.post.ID }

// Result waits for the end of the turn, even across continue-as-new. It may be called repeatedly.
func (t *PendingTurn) Result(ctx context.Context) (signals.TurnResult, error) {
	defer t.slot.leave()
	var out signals.TurnResult
	var err error
	if t.update != nil {
		err = t.client.explain(ctx, signals.UpdateTurn, t.threadID, t.update.Get(ctx, &out))
	} else {
		err = t.slot.wait(ctx)
	}
	if err == nil && (t.update == nil || out.Status == signals.TurnContinues) {
		out, err = t.client.await(ctx, t.threadID, t.post)
	}
	if over := ctx.Err(); err != nil && over != nil {
		// Temporal has another error for it.
		err = fmt.Errorf("waiting for the turn of event %q in thread %q: %w", t.post.ID, t.threadID, over)
	}
	return out, err
}
