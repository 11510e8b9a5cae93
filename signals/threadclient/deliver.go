package threadclient

import (
	"context"
	"errors"

	"github.com/threadmill/threadmill/signals"
)

// Deliver posts the delivery of a schedule's run, in any namespace. It is idempotent. Use it as
// activities.Config.Deliver.
func (c *Client) Deliver(ctx context.Context, d signals.Delivery) (signals.PostResult, error) {
	if err := signals.ValidateID("namespace", d.Namespace); err != nil {
		return signals.PostResult{}, err
	}
	in := newClient(&conn{c.temporal, d.Namespace, c.taskQueue, c.stepQueues, c.redact, c.erased, c.known, c.urgent, c.answerWithin}, c.posts.lanes)
	out, err := in.Post(ctx, d.ThreadID, d.Post)
	if !d.Open || !errors.Is(err, signals.ErrThreadNotFound) && !errors.Is(err, signals.ErrThreadClosed) {
		return out, err
	}
	// The thread does not exist, or its workflow failed and can be started again.
	return in.PostOrOpen(ctx, d.ThreadID, signals.Start{Agents: d.Agents, Title: d.Title}, d.Post)
}
