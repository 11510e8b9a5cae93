package threadclient

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/signals"
)

// PendingTurn is the turn of an event that a thread has taken.
type PendingTurn struct {
	client   *Client
	threadID string
	post     signals.Post
	update   client.WorkflowUpdateHandle
}

// StartTurn posts an event like [Client.Turn], but returns as soon as the thread has
// taken it. The error says why it has not, as that of [Client.PostUpdate] does.
func (c *Client) StartTurn(ctx context.Context, threadID string, p signals.Post) (*PendingTurn, error) {
	if err := Prepare(threadID, &p); err != nil {
		return nil, err
	}
	update, err := sent(ctx, func() (client.WorkflowUpdateHandle, error) {
		return c.temporal.UpdateWorkflow(ctx, c.turnUpdate(threadID, p))
	})
	return c.taken(ctx, threadID, p, update, err)
}

// StartTurnOrOpen is [Client.StartTurn] for a thread that may not be there: then it is
// opened. A thread that has been closed gives ErrClosed.
func (c *Client) StartTurnOrOpen(ctx context.Context, threadID string, start signals.Start, p signals.Post) (*PendingTurn, error) {
	if err := errors.Join(Prepare(threadID, &p), signals.CheckStart(start)); err != nil {
		return nil, err
	}
	start.First = nil
	opts := c.startOptions(threadID, start, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
	opts.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	update, err := sent(ctx, func() (client.WorkflowUpdateHandle, error) {
		return c.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(opts, signals.ThreadWorkflow, start),
			UpdateOptions:          c.turnUpdate(threadID, p),
		})
	})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		return nil, fmt.Errorf("%s to thread %q: %w", signals.UpdateTurn, threadID, signals.ErrClosed)
	}
	return c.taken(ctx, threadID, p, update, err)
}

func (c *Client) turnUpdate(threadID string, p signals.Post) client.UpdateWorkflowOptions {
	return client.UpdateWorkflowOptions{
		WorkflowID:   signals.WorkflowID(c.namespace, threadID),
		UpdateName:   signals.UpdateTurn,
		Args:         []any{p},
		WaitForStage: client.WorkflowUpdateStageAccepted,
	}
}

// taken tells an update that was accepted from one that was refused.
func (c *Client) taken(ctx context.Context, threadID string, p signals.Post, update client.WorkflowUpdateHandle, err error) (*PendingTurn, error) {
	if err == nil {
		err = refusal(update)
	}
	if err != nil {
		return nil, c.explain(ctx, signals.UpdateTurn, threadID, err)
	}
	return &PendingTurn{client: c, threadID: threadID, post: p, update: update}, nil
}

// refusal returns the error with which an update has ended already. The handle does not
// say whether its outcome is known, but with a context that is over it does not ask the
// server for it either.
func refusal(update client.WorkflowUpdateHandle) error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	err := update.Get(over, nil)
	var pending *client.WorkflowUpdateServiceTimeoutOrCanceledError
	if errors.As(err, &pending) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// EventID is the id of the event.
func (t *PendingTurn) EventID() string { return t.post.ID }

// Result waits until the turn has ended, also across continue-as-new. It may be called
// again.
func (t *PendingTurn) Result(ctx context.Context) (signals.TurnResult, error) {
	var out signals.TurnResult
	err := t.client.explain(ctx, signals.UpdateTurn, t.threadID, t.update.Get(ctx, &out))
	if err == nil && out.Status == signals.TurnContinues {
		out, err = t.client.Turn(ctx, t.threadID, t.post)
	}
	if over := ctx.Err(); err != nil && over != nil {
		// Temporal's word for it is another.
		err = fmt.Errorf("waiting for the turn of event %q in thread %q: %w", t.post.ID, t.threadID, over)
	}
	return out, err
}
