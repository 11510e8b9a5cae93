package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// loadEvent loads the content of an event that only the store has.
func (a *Activities) loadEvent(ctx context.Context, input step.Load) (step.LoadReply, error) {
	it, err := transcript.Content(ctx, a.cfg.Store, input.Thread, input.EventID)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, transcript.ErrUnreadable):
		return step.LoadReply{}, configError(fmt.Errorf("the content of event %s cannot be loaded: %w", input.EventID, err))
	case err != nil:
		return step.LoadReply{}, temporal.NewApplicationErrorWithCause("The store could not be read; the step is retried.", step.ErrTypeRetry, err)
	}
	return step.LoadReply{Payload: it.Payload, Metadata: it.Metadata}, nil
}
