package feed

import (
	"context"
	"time"
)

// deadline is the context of a wait until a time. The next wait has the same one as long as the time is the same: most pieces of a
// reply come before it.
type deadline struct {
	ctx, of context.Context
	at      time.Time
	cancel  context.CancelFunc
}

func (d *deadline) until(ctx context.Context, at time.Time) context.Context {
	if d.ctx == nil || d.of != ctx || !d.at.Equal(at) {
		d.end()
		d.of, d.at = ctx, at
		d.ctx, d.cancel = context.WithDeadline(ctx, at)
	}
	return d.ctx
}

func (d *deadline) end() {
	if d.cancel != nil {
		d.cancel()
	}
	*d = deadline{}
}
