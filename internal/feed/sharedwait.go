package feed

import (
	"context"
	"time"
)

// sharedWait is the context of a wait until a time. The next wait has the same one as long as the time is the same: most pieces of a
// reply come before it.
type sharedWait struct {
	ctx, of context.Context
	at      time.Time
	cancel  context.CancelFunc
}

func (w *sharedWait) until(ctx context.Context, at time.Time) context.Context {
	if w.ctx == nil || w.of != ctx || !w.at.Equal(at) {
		w.end()
		w.of, w.at = ctx, at
		w.ctx, w.cancel = context.WithDeadline(ctx, at)
	}
	return w.ctx
}

func (w *sharedWait) end() {
	if w.cancel != nil {
		w.cancel()
	}
	*w = sharedWait{}
}
