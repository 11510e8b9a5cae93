package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// deliver posts the post of a schedule's run. It is idempotent.
func (a *Activities) deliver(ctx context.Context, d signals.Delivery) (signals.PostResult, error) {
	if a.cfg.Deliver == nil {
		return signals.PostResult{}, configError(errors.New("this worker does not deliver posts of schedules: activities.Config.Deliver is not set"))
	}
	if err := d.Post.Validate(d.ThreadID); err != nil {
		return signals.PostResult{}, undeliverable(err)
	}
	out, err := a.cfg.Deliver(ctx, d)
	return out, undeliverable(err)
}

// undeliverable makes errors non-retryable that a retry cannot fix. A thread that rejects a valid
// post is full, which a retry can fix.
func undeliverable(err error) error {
	switch {
	case errors.Is(err, signals.ErrThreadClosed):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ClosedType, err)
	case errors.Is(err, signals.ErrThreadErased):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.ErasedType, err)
	case errors.Is(err, signals.ErrThreadNotFound):
		return temporal.NewNonRetryableApplicationError(err.Error()+"; a schedule with open makes it", signals.NotFoundType, err)
	case errors.Is(err, event.ErrInvalid):
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.RefusedType, err)
	}
	return err
}
