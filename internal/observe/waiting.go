package observe

import (
	"context"
	"log/slog"
	"time"

	"github.com/threadmill/threadmill/store"
)

// CountWaiting measures the requests for approval that wait in all threads of a namespace, until ctx ends. It returns at once if this
// process is not to do so. The caller must call the result to wait for the end.
func (o *Observer) CountWaiting(ctx context.Context, s store.Store, namespace string, log *slog.Logger) (wait func()) {
	if o == nil || o.cfg.CountWaiting == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(o.cfg.CountWaiting)
		defer tick.Stop()
		for {
			pending, err := s.PendingApprovals(ctx, namespace)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Warn("counting the approvals that wait", "error", err)
			default:
				age := 0.0
				if pending.Count > 0 {
					age = max(time.Since(pending.Oldest).Seconds(), 0)
				}
				o.meters.approvals.Record(ctx, int64(pending.Count))
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
