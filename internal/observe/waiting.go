package observe

import (
	"context"
	"log/slog"
	"time"
)

// Waiting returns how many requests for approval wait, and since when the oldest does.
type Waiting func(context.Context) (n int, oldest time.Time, err error)

// CountWaiting measures the requests for approval that wait in all threads, until ctx ends. It returns at once if this
// process is not to do so. The caller must call the result to wait for the end.
func (o *Observer) CountWaiting(ctx context.Context, ask Waiting, log *slog.Logger) (wait func()) {
	if o == nil || o.cfg.CountWaiting == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(o.cfg.CountWaiting)
		defer tick.Stop()
		for {
			n, oldest, err := ask(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Warn("counting the approvals that wait", "error", err)
			default:
				age := 0.0
				if n > 0 {
					age = max(time.Since(oldest).Seconds(), 0)
				}
				o.meters.approvals.Record(ctx, int64(n))
				o.meters.approvalAge.Record(ctx, age)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { <-ended }
}
