package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/store"
)

// loadEvent loads the content of an event that only the store has.
func (a *Activities) loadEvent(ctx context.Context, step thread.LoadStep) (thread.LoadReply, error) {
	it, err := store.Content(ctx, a.cfg.Store, step.Thread, step.EventID)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnreadable):
		return thread.LoadReply{}, configError(fmt.Errorf("the content of event %s cannot be loaded: %w", step.EventID, err))
	case err != nil:
		return thread.LoadReply{}, temporal.NewApplicationErrorWithCause("The store could not be read; the step is retried.", thread.ErrTypeRetry, err)
	}
	return thread.LoadReply{Payload: it.Payload, Metadata: it.Metadata}, nil
}
